/* publisher/settle.c - see settle.h. */
#include "publisher/settle.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/error.h"

static unsigned long long epoch_of(const relmq__lease *lease, const relmq__row *row)
{
	return (unsigned long long) relmq__lease_epoch(lease, row->shard, row->epoch);
}

/* The rows as (id, epoch) pairs, joined to the table by primary key and to their lease. */
static void join_rows(relmq__buf *sql, const relmq__lease *lease, relmq__row *const *rows, size_t n)
{
	relmq__buf_adds(sql, "JSON_TABLE('[");
	for (size_t i = 0; i < n; i++)
		relmq__buf_addf(sql, "%s[%llu,%llu]", i > 0 ? "," : "",
		    (unsigned long long) rows[i]->id, epoch_of(lease, rows[i]));
	relmq__buf_adds(sql,
	    "]', '$[*]' COLUMNS (id BIGINT UNSIGNED PATH '$[0]', epoch BIGINT UNSIGNED PATH "
	    "'$[1]')) j"
	    " STRAIGHT_JOIN message_outbox o ON o.id = j.id"
	    " STRAIGHT_JOIN outbox_lease l ON l.shard = o.shard AND l.epoch = j.epoch");
}

static relmq_code run(relmq__db *db, relmq__buf *sql, uint64_t *settled, relmq_error *err)
{
	if (sql->failed)
		return relmq__fail_nomem(err);
	return relmq__db_exec(db, sql->data, sql->len, settled, err);
}

relmq_code relmq__settle_confirmed(relmq__db *db, const relmq__lease *lease, relmq__buf *sql,
    relmq__row *const *rows, size_t n, bool keep_sent, uint64_t *settled, relmq_error *err)
{
	relmq__buf_reset(sql);
	relmq__buf_adds(sql, keep_sent ? "UPDATE " : "DELETE o FROM ");
	join_rows(sql, lease, rows, n);
	if (keep_sent)
		relmq__buf_adds(
		    sql, " SET o.status = 1, o.next_retry_at = NULL, o.last_error = NULL");
	relmq__buf_addf(sql, " WHERE l.owner = '%s'", lease->owner);
	return run(db, sql, settled, err);
}

bool relmq__settle_abandons(const relmq__row *row, const relmq__publisher_settings *settings)
{
	return row->item.permanent || (int64_t) row->retry_count + 1 >= settings->max_attempts;
}

static int64_t delay_us(const relmq__row *row, const relmq__publisher_settings *s)
{
	size_t step =
	    row->retry_count < s->retry_delay_count ? row->retry_count : s->retry_delay_count - 1;
	return relmq__jitter_ms(s->retry_delays_ms[step]) * 1000;
}

static void add_refused(relmq__buf *json, const relmq__lease *lease, const relmq__row *row,
    const relmq__publisher_settings *settings)
{
	bool abandon = relmq__settle_abandons(row, settings);
	relmq__buf_addf(json, "[%llu,%llu,%u,%u,%d,%lld,", (unsigned long long) row->id,
	    epoch_of(lease, row), (unsigned) row->status, (unsigned) row->retry_count,
	    abandon ? RELMQ__ABANDONED : RELMQ__FAILED,
	    abandon ? 0LL : (long long) delay_us(row, settings));
	relmq__buf_add_json(json, row->item.reason, strlen(row->item.reason));
	relmq__buf_add(json, "]", 1);
}

relmq_code relmq__settle_refused(relmq__db *db, const relmq__lease *lease, relmq__buf *sql,
    relmq__row *const *rows, size_t n, const relmq__publisher_settings *settings, uint64_t *settled,
    relmq_error *err)
{
	relmq__buf json = { 0 };
	relmq__buf_add(&json, "[", 1);
	for (size_t i = 0; i < n; i++) {
		if (i > 0)
			relmq__buf_add(&json, ",", 1);
		add_refused(&json, lease, rows[i], settings);
	}
	relmq__buf_add(&json, "]", 1);
	relmq__buf_reset(sql);
	relmq__buf_adds(sql, "UPDATE JSON_TABLE(");
	relmq__sql_text(sql, json.data, json.len);
	relmq__buf_addf(sql,
	    ", '$[*]' COLUMNS (id BIGINT UNSIGNED PATH '$[0]', epoch BIGINT UNSIGNED PATH '$[1]',"
	    " was INT PATH '$[2]', tries INT UNSIGNED PATH '$[3]', becomes INT PATH '$[4]',"
	    " delay BIGINT PATH '$[5]', why VARCHAR(1024) CHARACTER SET utf8mb4 PATH '$[6]')) j"
	    /* Guarded by what was read: a row that a person has meanwhile retried or skipped stays. */
	    " STRAIGHT_JOIN message_outbox o ON o.id = j.id AND o.status = j.was AND o.retry_count "
	    "= j.tries"
	    " STRAIGHT_JOIN outbox_lease l ON l.shard = o.shard AND l.epoch = j.epoch"
	    " SET o.status = j.becomes, o.retry_count = o.retry_count + 1, o.last_error = j.why,"
	    " o.next_retry_at = CASE WHEN j.becomes = %d THEN NOW(6) + INTERVAL j.delay "
	    "MICROSECOND END"
	    " WHERE l.owner = '%s'",
	    RELMQ__FAILED, lease->owner);
	if (json.failed)
		sql->failed = true;
	relmq__buf_free(&json);
	return run(db, sql, settled, err);
}

/* --- what others have locked --------------------------------------------------------- */

/* Mark the rows whose id is in the answer. */
static relmq_code mark(relmq__db *db, const relmq__buf *sql, relmq__row *const *rows, size_t n,
    bool *marked, relmq_error *err)
{
	MYSQL_RES *res = NULL;
	memset(marked, 0, n * sizeof(*marked));
	if (sql->failed)
		return relmq__fail_nomem(err);
	relmq_code code = relmq__db_query(db, sql->data, sql->len, &res, err);
	for (MYSQL_ROW row; code == RELMQ_OK && (row = mysql_fetch_row(res)) != NULL;) {
		uint64_t id = strtoull(row[0], NULL, 10);
		for (size_t i = 0; i < n; i++)
			if (rows[i]->id == id)
				marked[i] = true;
	}
	mysql_free_result(res);
	return code;
}

static void build_look(relmq__buf *sql, relmq__row *const *rows, size_t n, const char *end)
{
	relmq__buf_reset(sql);
	relmq__buf_adds(sql, "SELECT o.id FROM JSON_TABLE('[");
	for (size_t i = 0; i < n; i++)
		relmq__buf_addf(sql, "%s%llu", i > 0 ? "," : "", (unsigned long long) rows[i]->id);
	relmq__buf_addf(sql,
	    "]', '$[*]' COLUMNS (id BIGINT UNSIGNED PATH '$')) j"
	    " STRAIGHT_JOIN message_outbox o ON o.id = j.id%s",
	    end);
}

relmq_code relmq__settle_look(relmq__db *db, relmq__buf *sql, relmq__row *const *rows, size_t n,
    bool *locked, relmq_error *err)
{
	bool ours[RELMQ__SETTLE_MAX];
	assert(n <= RELMQ__SETTLE_MAX);
	build_look(sql, rows, n, " FOR UPDATE SKIP LOCKED");
	relmq_code code = mark(db, sql, rows, n, ours, err);
	if (code != RELMQ_OK)
		return code;
	build_look(sql, rows, n, ""); /* a plain read: it waits for nobody either */
	code = mark(db, sql, rows, n, locked, err);
	for (size_t i = 0; code == RELMQ_OK && i < n; i++)
		locked[i] = locked[i] && !ours[i];
	return code;
}
