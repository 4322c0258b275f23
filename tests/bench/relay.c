/* relay.c - how fast relmq-publisher empties an outbox, beside a bare confirmed publisher that
 * sends as many messages of the same kind with the same window to the same kind of queue.
 *
 * The relay's time runs from the start of its process until the outbox is empty. Bare and
 * relay take turns; the rates and the ratio are those of all rounds together. */
#include <stdio.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/uuid.h"
#include "bench.h"

enum { ROWS_DEFAULT = 100000, ROWS_MAX = 10000000, STATEMENT_ROWS = 500, LOOK_MS = 10 };

static void add_row(relmq__buf *sql, uint64_t n)
{
	char id[RELMQ__UUID_SIZE];
	char key[16];
	char body[BENCH_BODY];
	if (relmq__uuid7(id) != 0)
		bench_die("no random bytes");
	bench_key(key, n);
	bench_body(body, n);
	relmq__buf_addf(sql, "%s('%s','%s','" BENCH_QUEUE "',",
	    sql->data[sql->len - 1] == ')' ? "," : "", id, key);
	relmq__sql_bytes(sql, body, sizeof(body));
	relmq__buf_adds(sql, ")");
}

static void fill(bench *b, int64_t rows)
{
	relmq_error err;
	relmq__buf sql = { 0 };
	for (int64_t n = 0; n < rows;) {
		relmq__buf_reset(&sql);
		relmq__buf_adds(&sql,
		    "INSERT INTO message_outbox (msg_id, business_key, routing_key, payload)"
		    " VALUES ");
		for (int i = 0; i < STATEMENT_ROWS && n < rows; i++)
			add_row(&sql, (uint64_t) ++n);
		if (sql.failed || relmq__db_exec(&b->db, sql.data, sql.len, NULL, &err) != RELMQ_OK)
			bench_die(
			    "filling the outbox: %s", sql.failed ? "out of memory" : err.text);
	}
	relmq__buf_free(&sql);
}

/* The highest row is there until the very end: looking at it costs one index entry. */
static bool is_empty(bench *b)
{
	return bench_number(b, "SELECT id FROM message_outbox ORDER BY id DESC LIMIT 1") == 0;
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

static double run_relay(bench *b, int64_t rows, int64_t *peak_kib)
{
	bench_span span;
	bench_fresh_queue(b, false);
	bench_wait_quiet(b);
	bench_begin(b, &span, 0);
	pid_t pid = bench_start(b, "relmq-publisher");
	do {
		bench_pause_ms(LOOK_MS);
		bench_check_alive(pid, "relmq-publisher");
	} while (!is_empty(b));
	bench_end(b, &span, pid, "relay", rows);
	int64_t kib = bench_peak_kib(pid);
	*peak_kib = kib > *peak_kib ? kib : *peak_kib;
	bench_stop(pid, "relmq-publisher");
	return span.seconds;
}

int main(int argc, char **argv)
{
	bench b;
	double bare = 0, relay = 0;
	int64_t peak_kib = 0;
	int64_t rows = bench_operand(argc, argv, 1, ROWS_DEFAULT, ROWS_MAX);
	bench_open(&b);
	for (int round = 0; round < BENCH_ROUNDS; round++) {
		bench_empty_tables(&b);
		fill(&b, rows);
		bare += run_bare(&b, rows);
		relay += run_relay(&b, rows, &peak_kib);
	}
	bench_close(&b);
	double sent = (double) rows * BENCH_ROUNDS;
	(void) printf(
	    "{\"bare_per_s\":%.0f,\"relay_per_s\":%.0f,\"ratio\":%.3f,\"rss_kib\":%lld}\n",
	    sent / bare, sent / relay, bare / relay, (long long) peak_kib);
	return 0;
}
