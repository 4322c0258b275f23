/* latency.c - how long it takes from a commit to the effect, at a steady pace: transactions
 * that write a message by relmq/outbox.h, relmq-publisher, relmq-consumer with an sql handler.
 * With --confirm: to the broker's confirm, without a consumer.
 *
 * A message's time begins right before its COMMIT is sent and ends with NOW(6) of the statement
 * that is its effect: the writer's COMMIT is inside, in place of the effect's own, which no
 * clock of the database shows. A confirm is timed on its way from the broker to the relay, by a
 * tap between them: the row itself tells only when it was settled, which waits for company.
 * All of it is one machine's clock. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <relmq/outbox.h>

#include "base/clock.h"
#include "bench.h"
#include "mq/topology.h"
#include "tap.h"

enum {
	RATE_DEFAULT = 500,
	RATE_MAX = 10000,
	SECONDS_DEFAULT = 20,
	SECONDS_MAX = 3600,
	READY_MS = 30000,
	ARRIVE_MS = 30000,
	LOCK_WAIT_S = 10
};

typedef struct sample {
	int64_t committing_us, committed_us; /* of the wall clock */
	int64_t end_us;                      /* of the effect, or of the confirm; 0: none */
} sample;

/* What the tap saw. Read by main only after the tap's end, but for the count. */
typedef struct confirms {
	sample *samples;
	uint64_t count;
	int64_t doubled;
	_Atomic int64_t seen;
} confirms;

static bool ready(bench *b, relmq__conn *mq, bool consumer)
{
	relmq_error err;
	relmq__queue_info info = { 0 };
	if (relmq__queue_inspect(mq, BENCH_QUEUE, &info, &err) != RELMQ_OK)
		bench_die("%s", err.text);
	return (!consumer || info.consumers > 0) &&
	    bench_number(b, "SELECT COUNT(*) FROM outbox_lease WHERE expires_at > NOW(6)") ==
	    RELMQ__SHARDS;
}

static void await_ready(bench *b, bool consumer)
{
	relmq__conn mq;
	int64_t end = relmq__now_ms() + READY_MS;
	bench_connect(b, &mq, "bench");
	while (!ready(b, &mq, consumer)) {
		if (relmq__now_ms() > end)
			bench_die("the programs are not ready: see their logs");
		bench_pause_ms(20);
	}
	relmq__conn_close(&mq, true);
}

static void write_one(bench *b, relmq_outbox *outbox, uint64_t n, sample *s)
{
	relmq_error err;
	char body[BENCH_BODY];
	char key[16];
	relmq_msg m = RELMQ_MSG_INIT;
	bench_body(body, n);
	bench_key(key, n);
	m.routing_key = BENCH_QUEUE;
	m.business_key = key;
	m.body = body;
	m.body_len = sizeof(body);
	bench_sql(b, "START TRANSACTION");
	if (relmq_outbox_add(outbox, &m, NULL, &err) != RELMQ_OK)
		bench_die("%s", err.text);
	s->committing_us = bench_wall_us();
	bench_sql(b, "COMMIT");
	s->committed_us = bench_wall_us();
}

/* At fixed moments, whatever the one before took. */
static void write_all(bench *b, sample *samples, int64_t count, int64_t rate)
{
	relmq_error err;
	relmq_outbox *outbox = NULL;
	if (relmq_outbox_open(&outbox, b->db.mysql, NULL, &err) != RELMQ_OK)
		bench_die("%s", err.text);
	int64_t began = relmq__now_us();
	for (int64_t i = 0; i < count; i++) {
		int64_t due = began + i * 1000000 / rate;
		struct timespec at = { due / 1000000, due % 1000000 * 1000 };
		(void) clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
		write_one(b, outbox, (uint64_t) i, &samples[i]);
	}
	bench_say("%lld transactions in %.2f s", (long long) count,
	    (double) (relmq__now_us() - began) / 1e6);
	relmq_outbox_close(outbox);
}

static void await_effects(bench *b, int64_t count)
{
	int64_t end = relmq__now_ms() + ARRIVE_MS;
	while (
	    bench_number(b, "SELECT COUNT(*) FROM bench_effect") < count && relmq__now_ms() < end)
		bench_pause_ms(50);
}

/* Returns how many effects came for a message that had one. */
static int64_t read_effects(bench *b, sample *samples, int64_t count)
{
	static const char sql[] = "SELECT n, CAST(UNIX_TIMESTAMP(at) * 1000000 AS UNSIGNED)"
	                          " FROM bench_effect";
	relmq_error err;
	MYSQL_RES *res;
	int64_t again = 0;
	if (relmq__db_query(&b->db, sql, sizeof(sql) - 1, &res, &err) != RELMQ_OK)
		bench_die("%s", err.text);
	for (MYSQL_ROW row; (row = mysql_fetch_row(res)) != NULL;) {
		int64_t n = strtoll(row[0], NULL, 10);
		if (n >= count)
			bench_die("an effect of no message: %lld", (long long) n);
		again += samples[n].end_us != 0;
		samples[n].end_us = strtoll(row[1], NULL, 10);
	}
	mysql_free_result(res);
	return again;
}

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *) a;
	int64_t y = *(const int64_t *) b;
	return x < y ? -1 : x > y;
}

static double percentile_ms(const int64_t *sorted_us, int64_t count, int percent)
{
	int64_t rank = (count - 1) * percent / 100;
	return count > 0 ? (double) sorted_us[rank] / 1000 : 0;
}

static int report(const sample *samples, int64_t count, int64_t doubled)
{
	int64_t *took = calloc((size_t) count, sizeof(*took));
	int64_t *commit = calloc((size_t) count, sizeof(*commit));
	int64_t n = 0;
	if (took == NULL || commit == NULL)
		bench_die("out of memory");
	for (int64_t i = 0; i < count; i++) {
		if (samples[i].end_us == 0)
			continue;
		commit[n] = samples[i].committed_us - samples[i].committing_us;
		took[n++] = samples[i].end_us - samples[i].committing_us;
	}
	qsort(took, (size_t) n, sizeof(*took), by_value);
	qsort(commit, (size_t) n, sizeof(*commit), by_value);
	bench_say("of that the writer's COMMIT: median %.2f ms, 99th percentile %.2f ms; slowest"
	          " message %.2f ms; what came twice: %lld",
	    percentile_ms(commit, n, 50), percentile_ms(commit, n, 99), percentile_ms(took, n, 100),
	    (long long) doubled);
	(void) printf("{\"p50_ms\":%.2f,\"p99_ms\":%.2f,\"lost\":%lld}\n",
	    percentile_ms(took, n, 50), percentile_ms(took, n, 99), (long long) (count - n));
	free(took);
	free(commit);
	return n == count && doubled == 0 ? 0 : 1;
}

static void on_confirm(void *arg, uint64_t n, int64_t wall_us)
{
	confirms *c = arg;
	if (n >= c->count)
		bench_die("a confirm of no message: %llu", (unsigned long long) n);
	c->doubled += c->samples[n].end_us != 0;
	c->samples[n].end_us = wall_us;
	c->seen++;
}

static int64_t to_effect(bench *b, sample *samples, int64_t count, int64_t rate)
{
	bench_span span;
	bench_fresh_queue(b, true);
	pid_t publisher = bench_start(b, "relmq-publisher");
	pid_t consumer = bench_start(b, "relmq-consumer");
	await_ready(b, true);
	bench_begin(b, &span, publisher);
	write_all(b, samples, count, rate);
	await_effects(b, count);
	bench_end(b, &span, publisher, "publisher", count);
	bench_stop(publisher, "relmq-publisher");
	bench_stop(consumer, "relmq-consumer");
	return read_effects(b, samples, count);
}

static int64_t to_confirm(bench *b, sample *samples, int64_t count, int64_t rate)
{
	bench_span span;
	confirms c = { .samples = samples, .count = (uint64_t) count };
	bench_fresh_queue(b, false);
	bench_tap *tap = bench_tap_open(b, c.count, on_confirm, &c);
	bench_configure(b, "", bench_tap_port(tap));
	pid_t publisher = bench_start(b, "relmq-publisher");
	await_ready(b, false);
	bench_begin(b, &span, publisher);
	write_all(b, samples, count, rate);
	int64_t end = relmq__now_ms() + ARRIVE_MS;
	while (c.seen < count && relmq__now_ms() < end)
		bench_pause_ms(50);
	bench_end(b, &span, publisher, "publisher", count);
	bench_stop(publisher, "relmq-publisher");
	bench_tap_close(tap);
	return c.doubled;
}

int main(int argc, char **argv)
{
	bench b;
	bool confirm = bench_flag(&argc, argv, "--confirm");
	int64_t rate = bench_operand(argc, argv, 1, RATE_DEFAULT, RATE_MAX);
	int64_t count = rate * bench_operand(argc, argv, 2, SECONDS_DEFAULT, SECONDS_MAX);
	sample *samples = calloc((size_t) count, sizeof(*samples));
	if (samples == NULL)
		bench_die("out of memory");
	bench_open(&b);
	int64_t doubled = (confirm ? to_confirm : to_effect)(&b, samples, count, rate);
	bench_close(&b);
	int status = report(samples, count, doubled);
	free(samples);
	return status;
}
