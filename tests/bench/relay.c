/* relay.c - how fast relmq-publisher empties an outbox, beside a bare confirmed publisher that
 * sends as many messages of the same kind with the same window to the same kind of queue.
 *
 * The relay's time runs from the start of its process until the outbox is empty. Bare and
 * relay take turns; the rates and the ratio are those of all rounds together. On request also
 * without an order, all rows of one key, several relays together, and the row-at-a-time design
 * (the last three with what rows they can get through in a like time). */
#include <stdio.h>
#include <unistd.h>

#include "baseline.h"
#include "mq/topology.h"
#include "outbox.h"

enum {
	ROWS_DEFAULT = 100000,
	ROWS_MAX = 10000000,
	RELAYS_MAX = 16,
	HOT_PART = 10,      /* of the rows */
	BASELINE_PART = 50, /* of the rows */
	READY_MS = 60000,
	ARRIVE_MS = 5000
};

static int64_t part(int64_t rows, int64_t of)
{
	return rows < of ? 1 : rows / of;
}

static double run_bare(bench *b, int64_t rows)
{
	bench_span span;
	bench_fresh_queue(b, false);
	bench_wait_quiet(b);
	bench_begin(b, &span, getpid());
	bench_publish(b, rows);
	bench_end(b, &span, getpid(), "bare", rows);
	return span.seconds;
}

static void run_relay(bench *b, const char *what, int64_t rows, bool hot_key, bench_drained *sum)
{
	bench_empty_tables(b);
	bench_fill(b, rows, hot_key);
	bench_drain(b, what, 0, rows, sum);
}

static double run_baseline(bench *b, int64_t rows)
{
	bench_span span;
	bench_empty_tables(b);
	bench_fill(b, rows, false);
	bench_fresh_queue(b, false);
	bench_wait_quiet(b);
	bench_begin(b, &span, getpid());
	bench_baseline(b, rows);
	bench_end(b, &span, getpid(), "row at a time", rows);
	return span.seconds;
}

static void await_shares(bench *b, int64_t relays)
{
	char sql[256];
	(void) snprintf(sql, sizeof(sql),
	    "SELECT COUNT(*) = %lld AND SUM(shards) = %d AND MAX(shards) <= %lld FROM"
	    " (SELECT COUNT(*) AS shards FROM outbox_lease WHERE expires_at > NOW(6)"
	    " GROUP BY owner) owners",
	    (long long) relays, RELMQ__SHARDS, (long long) (RELMQ__SHARDS + relays - 1) / relays);
	for (int waited = 0; bench_number(b, sql) != 1; waited += 100) {
		if (waited >= READY_MS)
			bench_die("the relays do not come to fair shares: see their log");
		bench_pause_ms(100);
	}
}

/* What is in the queue beyond one message a row. */
static int64_t count_doubled(bench *b, int64_t rows)
{
	for (int waited = 0; bench_queue_depth(b) < rows && waited < ARRIVE_MS; waited += 50)
		bench_pause_ms(50);
	bench_wait_quiet(b);
	return (int64_t) bench_queue_depth(b) - rows;
}

/* They share the shards before the first row is committed; all rows at one moment. */
static double run_relays(bench *b, int64_t rows, int64_t relays, int64_t *doubled)
{
	bench_span span;
	pid_t pids[RELAYS_MAX];
	int64_t own_us = 0;
	bench_empty_tables(b);
	bench_fresh_queue(b, false);
	for (int64_t i = 0; i < relays; i++)
		pids[i] = bench_start(b, "relmq-publisher");
	await_shares(b, relays);
	bench_sql(b, "START TRANSACTION");
	bench_fill(b, rows, false);
	for (int64_t i = 0; i < relays; i++)
		own_us -= bench_cpu_us(pids[i]);
	bench_begin(b, &span, pids[0]);
	bench_sql(b, "COMMIT");
	bench_await_sent(b, pids[0], 0);
	bench_end(b, &span, pids[0], "relays together, the first one", rows);
	for (int64_t i = 0; i < relays; i++)
		own_us += bench_cpu_us(pids[i]);
	bench_say("all %lld relays themselves: %.1f us a message", (long long) relays,
	    (double) own_us / (double) rows);
	for (int64_t i = 0; i < relays; i++)
		bench_stop(pids[i], "relmq-publisher");
	*doubled += count_doubled(b, rows);
	return span.seconds;
}

typedef struct asked {
	int64_t rows, relays;
	bool baseline, hot_key, none;
} asked;

typedef struct sums {
	bench_drained relay, none, hot;
	double bare, relays, baseline;
	int64_t doubled;
} sums;

static void run_round(bench *b, const asked *a, sums *s)
{
	s->bare += run_bare(b, a->rows);
	run_relay(b, "relay", a->rows, false, &s->relay);
	if (a->none) {
		bench_configure(b, "\"ordering\":\"none\"", 0);
		run_relay(b, "relay without order", a->rows, false, &s->none);
		bench_configure(b, "", 0);
	}
	if (a->hot_key)
		run_relay(b, "relay, one hot key", part(a->rows, HOT_PART), true, &s->hot);
	if (a->relays > 0)
		s->relays += run_relays(b, a->rows, a->relays, &s->doubled);
	if (a->baseline)
		s->baseline += run_baseline(b, part(a->rows, BASELINE_PART));
}

static double rate(int64_t rows, double seconds)
{
	return (double) rows * BENCH_ROUNDS / seconds;
}

static void report(const asked *a, const sums *s)
{
	double relay = rate(a->rows, s->relay.seconds);
	(void) printf("{\"bare_per_s\":%.0f,\"relay_per_s\":%.0f,\"ratio\":%.3f,\"rss_kib\":%lld",
	    rate(a->rows, s->bare), relay, s->bare / s->relay.seconds,
	    (long long) s->relay.peak_kib);
	(void) printf(",\"relay_us\":%.1f,\"database_us\":%.1f,\"broker_us\":%.1f",
	    s->relay.us[0] / BENCH_ROUNDS, s->relay.us[1] / BENCH_ROUNDS,
	    s->relay.us[2] / BENCH_ROUNDS);
	if (a->none)
		(void) printf(",\"none_per_s\":%.0f", rate(a->rows, s->none.seconds));
	if (a->hot_key)
		(void) printf(
		    ",\"hot_key_per_s\":%.0f", rate(part(a->rows, HOT_PART), s->hot.seconds));
	if (a->relays > 0)
		(void) printf(",\"relays\":%lld,\"relays_per_s\":%.0f,\"doubled\":%lld",
		    (long long) a->relays, rate(a->rows, s->relays), (long long) s->doubled);
	if (a->baseline) {
		double baseline = rate(part(a->rows, BASELINE_PART), s->baseline);
		(void) printf(
		    ",\"baseline_per_s\":%.0f,\"times\":%.1f", baseline, relay / baseline);
	}
	(void) printf("}\n");
}

int main(int argc, char **argv)
{
	bench b;
	sums s = { 0 };
	asked a = {
		.baseline = bench_flag(&argc, argv, "--baseline"),
		.hot_key = bench_flag(&argc, argv, "--hot-key"),
		.none = bench_flag(&argc, argv, "--none"),
		.relays = bench_option(&argc, argv, "--relays", 0, RELAYS_MAX),
	};
	a.rows = bench_operand(argc, argv, 1, ROWS_DEFAULT, ROWS_MAX);
	bench_open(&b);
	for (int round = 0; round < BENCH_ROUNDS; round++)
		run_round(&b, &a, &s);
	bench_close(&b);
	report(&a, &s);
	return s.doubled == 0 ? 0 : 1;
}
