/* crowd.c - rows that are not to be sent, in the way of those that are: what they do to the
 * relay's rate, and what looking past them costs the database.
 *
 * plain: the table holds nothing but what is sent. crowded: 2 million SENT and 1 million
 * scheduled rows too. held: 400,000 rows of one key behind its FAILED row, all of them in front.
 * snapshot: a reader keeps a snapshot open, as a dump does, while as many rows are sent: their
 * remains stay in the indexes, and for a minute the relay polls past them. */
#include <stdio.h>

#include "outbox.h"

enum {
	PERCENT_DEFAULT = 100,
	ROWS = 100000,
	SENT_ROWS = 2000000,
	SCHEDULED_ROWS = 1000000,
	HELD_ROWS = 400000,
	SNAPSHOT_S = 60,
	QUIET_S = 10,
	LOCK_WAIT_S = 10
};

typedef struct polls { /* percent of a core, while nothing is to be sent */
	double relay, database;
} polls;

static int64_t scaled(int64_t rows, int64_t percent)
{
	int64_t n = rows * percent / 100;
	return n > 0 ? n : 1;
}

static void send_rows(bench *b, const char *what, bench_drained *sum)
{
	for (int round = 0; round < BENCH_ROUNDS; round++) {
		int64_t above = bench_top_id(b);
		bench_fill(b, ROWS, false);
		bench_drain(b, what, above, ROWS, sum);
	}
}

static void fill_crowd(bench *b, int64_t percent)
{
	bench_empty_tables(b);
	bench_bulk(b, scaled(SENT_ROWS, percent), "CONCAT('key-', n MOD 1000)", "1", "NULL");
	bench_bulk(b, scaled(SCHEDULED_ROWS, percent), "CONCAT('key-', n MOD 1000)", "4",
	    "NOW(6) + INTERVAL 30 + n MOD 300 DAY");
}

static void fill_held(bench *b, int64_t percent)
{
	bench_empty_tables(b);
	bench_sql(b,
	    "INSERT INTO message_outbox (business_key, routing_key, payload, status,"
	    " retry_count, next_retry_at)"
	    " VALUES ('held', '" BENCH_QUEUE "', 'x', 2, 1, NOW(6) + INTERVAL 1 DAY)");
	bench_bulk(b, scaled(HELD_ROWS, percent), "'held'", "0", "NULL");
}

/* What a relay with nothing to do costs. */
static polls watch(bench *b, relmq__db *other, pid_t pid, int64_t seconds)
{
	bench_span span;
	relmq_error err;
	bench_begin(b, &span, pid);
	for (int64_t i = 0; i < seconds; i++) {
		bench_pause_ms(1000);
		bench_check_alive(pid, "relmq-publisher");
		/* The server drops sessions that say nothing. */
		(void) bench_number(b, "SELECT 1");
		if (relmq__db_execf(other, NULL, &err, "DO 1") != RELMQ_OK)
			bench_die("%s", err.text);
	}
	bench_measure(b, &span, pid);
	return (polls){ (double) span.cpu_us[0] / 1e4 / span.seconds,
		(double) span.cpu_us[1] / 1e4 / span.seconds };
}

static void begin_snapshot(bench *b, relmq__db *other)
{
	relmq_error err;
	if (relmq__db_open(other, &b->settings.mysql, LOCK_WAIT_S, &err) != RELMQ_OK ||
	    relmq__db_execf(other, NULL, &err,
	        "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ") != RELMQ_OK ||
	    relmq__db_execf(other, NULL, &err, "START TRANSACTION WITH CONSISTENT SNAPSHOT") !=
	        RELMQ_OK)
		bench_die("%s", err.text);
}

static void run_snapshot(bench *b, int64_t percent, double *per_s, polls *quiet, polls *snapshot)
{
	relmq__db other;
	bench_span span;
	int64_t rows = scaled(HELD_ROWS, percent);
	bench_empty_tables(b);
	bench_fresh_queue(b, false);
	bench_wait_quiet(b);
	begin_snapshot(b, &other);
	pid_t pid = bench_start(b, "relmq-publisher");
	*quiet = watch(b, &other, pid, QUIET_S);
	bench_begin(b, &span, pid);
	bench_fill(b, rows, false);
	bench_await_sent(b, pid, 0);
	bench_end(b, &span, pid, "written and sent under a snapshot", rows);
	*per_s = (double) rows / span.seconds;
	*snapshot = watch(b, &other, pid, scaled(SNAPSHOT_S, percent));
	bench_stop(pid, "relmq-publisher");
	relmq__db_close(&other);
}

int main(int argc, char **argv)
{
	bench b;
	bench_drained plain = { 0 }, crowded = { 0 }, held = { 0 };
	double snapshot_per_s;
	polls quiet, snapshot;
	int64_t percent = bench_operand(argc, argv, 1, PERCENT_DEFAULT, PERCENT_DEFAULT);
	bench_open(&b);
	send_rows(&b, "plain", &plain);
	fill_crowd(&b, percent);
	send_rows(&b, "crowded", &crowded);
	fill_held(&b, percent);
	send_rows(&b, "held", &held);
	run_snapshot(&b, percent, &snapshot_per_s, &quiet, &snapshot);
	bench_close(&b);
	bench_say("database us a row: plain %.1f, crowded %.1f, held %.1f",
	    plain.us[1] / BENCH_ROUNDS, crowded.us[1] / BENCH_ROUNDS, held.us[1] / BENCH_ROUNDS);
	double rows = (double) ROWS * BENCH_ROUNDS;
	(void) printf("{\"plain_per_s\":%.0f,\"crowded_per_s\":%.0f,\"crowded_ratio\":%.3f,"
	              "\"held_per_s\":%.0f,\"held_ratio\":%.3f,\"snapshot_per_s\":%.0f,"
	              "\"polls_database_percent\":%.2f,\"polls_snapshot_database_percent\":%.2f,"
	              "\"rss_kib\":%lld}\n",
	    rows / plain.seconds, rows / crowded.seconds, plain.seconds / crowded.seconds,
	    rows / held.seconds, plain.seconds / held.seconds, snapshot_per_s, quiet.database,
	    snapshot.database, (long long) held.peak_kib);
	return 0;
}
