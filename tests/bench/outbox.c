/* outbox.c - see outbox.h. */
#include "outbox.h"

#include <stdio.h>

#include "base/buf.h"
#include "base/uuid.h"

enum { STATEMENT_ROWS = 500, BULK_ROWS = 10000, LOOK_MS = 10 };

int64_t bench_top_id(bench *b)
{
	return bench_number(b, "SELECT MAX(id) FROM message_outbox");
}

static void add_row(relmq__buf *sql, uint64_t n, bool hot_key)
{
	char id[RELMQ__UUID_SIZE];
	char key[16] = "hot";
	char body[BENCH_BODY];
	if (relmq__uuid7(id) != 0)
		bench_die("no random bytes");
	if (!hot_key)
		bench_key(key, n);
	bench_body(body, n);
	relmq__buf_addf(sql, "%s('%s','%s','" BENCH_QUEUE "',",
	    sql->data[sql->len - 1] == ')' ? "," : "", id, key);
	relmq__sql_bytes(sql, body, sizeof(body));
	relmq__buf_adds(sql, ")");
}

void bench_fill(bench *b, int64_t rows, bool hot_key)
{
	relmq_error err;
	relmq__buf sql = { 0 };
	for (int64_t n = 0; n < rows;) {
		relmq__buf_reset(&sql);
		relmq__buf_adds(&sql,
		    "INSERT INTO message_outbox (msg_id, business_key, routing_key, payload)"
		    " VALUES ");
		for (int i = 0; i < STATEMENT_ROWS && n < rows; i++)
			add_row(&sql, (uint64_t) ++n, hot_key);
		if (sql.failed || relmq__db_exec(&b->db, sql.data, sql.len, NULL, &err) != RELMQ_OK)
			bench_die(
			    "filling the outbox: %s", sql.failed ? "out of memory" : err.text);
	}
	relmq__buf_free(&sql);
}

#define DIGITS                                                                         \
	"(SELECT 0 AS d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3"      \
	" UNION ALL SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7" \
	" UNION ALL SELECT 8 UNION ALL SELECT 9)"

void bench_bulk(
    bench *b, int64_t rows, const char *key, const char *status, const char *next_retry_at)
{
	for (int64_t left = rows; left > 0; left -= BULK_ROWS)
		bench_sql(b,
		    "INSERT INTO message_outbox"
		    " (business_key, routing_key, payload, status, next_retry_at)"
		    " SELECT %s, '" BENCH_QUEUE "', REPEAT('x', %d), %s, %s FROM"
		    " (SELECT e.d * 1000 + f.d * 100 + g.d * 10 + h.d AS n FROM " DIGITS
		    " e, " DIGITS " f, " DIGITS " g, " DIGITS " h) numbers WHERE n < %lld",
		    key, BENCH_BODY, status, next_retry_at, (long long) left);
}

bool bench_is_sent(bench *b, int64_t above)
{
	char sql[128];
	(void) snprintf(sql, sizeof(sql),
	    "SELECT id FROM message_outbox WHERE id > %lld ORDER BY id DESC LIMIT 1",
	    (long long) above);
	return bench_number(b, sql) == 0;
}

void bench_await_sent(bench *b, pid_t pid, int64_t above)
{
	do {
		bench_pause_ms(LOOK_MS);
		bench_check_alive(pid, "relmq-publisher");
	} while (!bench_is_sent(b, above));
}

void bench_drain(bench *b, const char *what, int64_t above, int64_t rows, bench_drained *sum)
{
	bench_span span;
	bench_fresh_queue(b, false);
	bench_wait_quiet(b);
	bench_begin(b, &span, 0);
	pid_t pid = bench_start(b, "relmq-publisher");
	bench_await_sent(b, pid, above);
	bench_end(b, &span, pid, what, rows);
	int64_t kib = bench_peak_kib(pid);
	bench_stop(pid, "relmq-publisher");
	sum->seconds += span.seconds;
	for (int i = 0; i < 3; i++)
		sum->us[i] += (double) span.cpu_us[i] / (double) rows;
	sum->peak_kib = kib > sum->peak_kib ? kib : sum->peak_kib;
}
