/* publisher/purge.c - see purge.h.
 *
 * A shard is walked from its lowest SENT id, which is nearly the oldest: rows are sent nearly in
 * the order of their ids. A row that was sent late (it failed for a day, or a person retried it) is
 * young among old ones: it is passed over, and only many young rows together end the walk.
 * Those would hide what lies behind; so one more page is looked at, at a place drawn by lot, and
 * the walk goes on from there if it has old rows. No index has the time of sending, and none is worth
 * its cost to every row for this. */
#include "publisher/purge.h"

#include <stdlib.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"

enum {
	PAGE_ROWS = 100,  /* store can do nothing else while they are deleted     */
	YOUNG_ROWS = 500, /* so many in a row end the walk                        */
	PACE_MS = 20,     /* between two pages at least ...                       */
	BUSY_FACTOR = 9,  /* ... and, beside work, this times what one cost;      */
	IDLE_FACTOR = 1,  /* without any, as much as it cost                      */
	ROUND_MS = 60000, /* between two rounds at most; less when the retention  */
	ROUND_PARTS = 10, /* is short: a row stays a tenth longer, about          */
	ROUND_MIN_MS = 100
};

typedef struct page {
	size_t rows, old;
	uint64_t last; /* highest id */
} page;

void relmq__purge_free(relmq__purge *p)
{
	relmq__buf_free(&p->sql);
	relmq__buf_free(&p->ids);
}

static int64_t retention_us(const relmq__publisher_settings *s)
{
	return s->sent_retention_ms * 1000;
}

/* Ids from the covering index, times from the rows; a plain read that locks nothing. */
static relmq_code look(relmq__purge *p, relmq__db *db, const relmq__publisher_settings *s,
    page *seen, relmq_error *err)
{
	MYSQL_RES *res = NULL;
	*seen = (page){ 0 };
	relmq__buf_reset(&p->ids);
	relmq__buf_reset(&p->sql);
	relmq__buf_addf(&p->sql,
	    "SELECT id, updated_at < NOW(6) - INTERVAL %lld MICROSECOND FROM message_outbox"
	    " FORCE INDEX (ready) WHERE status = 1 AND shard = %u AND id > %llu ORDER BY id LIMIT %d",
	    (long long) retention_us(s), p->shard, (unsigned long long) p->after, PAGE_ROWS);
	if (p->sql.failed)
		return relmq__fail_nomem(err);
	relmq_code code = relmq__db_query(db, p->sql.data, p->sql.len, &res, err);
	for (MYSQL_ROW row; code == RELMQ_OK && (row = mysql_fetch_row(res)) != NULL;) {
		seen->rows++;
		seen->last = strtoull(row[0], NULL, 10);
		if (row[1][0] != '1')
			continue;
		relmq__buf_addf(&p->ids, "%s%s", seen->old > 0 ? "," : "", row[0]);
		seen->old++;
	}
	mysql_free_result(res);
	return code;
}

/* Old SENT rows among `ids`; what else one of them has become meanwhile is left alone. */
static void add_old_rows(relmq__purge *p, const relmq__publisher_settings *s)
{
	relmq__buf_addf(&p->sql,
	    " FROM JSON_TABLE('[%s]', '$[*]' COLUMNS (id BIGINT UNSIGNED PATH '$')) j"
	    " STRAIGHT_JOIN message_outbox o ON o.id = j.id AND o.status = 1"
	    " AND o.updated_at < NOW(6) - INTERVAL %lld MICROSECOND",
	    p->ids.data, (long long) retention_us(s));
	if (p->ids.failed)
		p->sql.failed = true;
}

/* Those that nobody has locked, into `ids`. */
static relmq_code lock_free_ones(relmq__purge *p, relmq__db *db, const relmq__publisher_settings *s,
    size_t *count, relmq_error *err)
{
	MYSQL_RES *res = NULL;
	relmq__buf_reset(&p->sql);
	relmq__buf_adds(&p->sql, "SELECT o.id");
	add_old_rows(p, s);
	relmq__buf_adds(&p->sql, " FOR UPDATE SKIP LOCKED");
	if (p->sql.failed)
		return relmq__fail_nomem(err);
	relmq_code code = relmq__db_query(db, p->sql.data, p->sql.len, &res, err);
	relmq__buf_reset(&p->ids);
	*count = 0;
	for (MYSQL_ROW row; code == RELMQ_OK && (row = mysql_fetch_row(res)) != NULL;)
		relmq__buf_addf(&p->ids, "%s%s", (*count)++ > 0 ? "," : "", row[0]);
	mysql_free_result(res);
	return code;
}

static relmq_code delete_ids(
    relmq__purge *p, relmq__db *db, const relmq__publisher_settings *s, relmq_error *err)
{
	relmq__buf_reset(&p->sql);
	relmq__buf_adds(&p->sql, "DELETE o");
	add_old_rows(p, s);
	if (p->sql.failed)
		return relmq__fail_nomem(err);
	return relmq__db_exec(db, p->sql.data, p->sql.len, NULL, err);
}

static relmq_code purge_page(
    relmq__purge *p, relmq__db *db, const relmq__publisher_settings *s, relmq_error *err)
{
	relmq_error ignored;
	size_t count = 0;
	relmq_code code = relmq__db_execf(db, NULL, err, "START TRANSACTION");
	if (code == RELMQ_OK)
		code = lock_free_ones(p, db, s, &count, err);
	if (code == RELMQ_OK && count > 0)
		code = delete_ids(p, db, s, err);
	if (code == RELMQ_OK)
		return relmq__db_execf(db, NULL, err, "COMMIT");
	relmq__db_class class = db->class;
	if (relmq__db_execf(db, NULL, &ignored, "ROLLBACK") == RELMQ_OK)
		db->class = class;
	return code;
}

/* Behind a page of young rows: anywhere up to the end. */
static relmq_code draw_a_place(relmq__purge *p, relmq__db *db, relmq_error *err)
{
	int64_t end = 0;
	char sql[96];
	(void) snprintf(sql, sizeof(sql),
	    "SELECT MAX(id) FROM message_outbox WHERE status = 1 AND shard = %u", p->shard);
	relmq_code code = relmq__db_number(db, sql, 0, &end, err);
	if (code == RELMQ_OK && (uint64_t) end > p->after)
		p->after += relmq__random_below((uint64_t) end - p->after);
	return code;
}

static void begin_shard(relmq__purge *p, unsigned shard)
{
	p->shard = shard;
	p->after = 0;
	p->young = 0;
	p->probed = false;
}

static void leave_shard(relmq__purge *p)
{
	p->walked |= 1U << p->shard;
	begin_shard(p, 0);
}

static relmq_code step(
    relmq__purge *p, relmq__db *db, const relmq__publisher_settings *s, relmq_error *err)
{
	page seen;
	relmq_code code = look(p, db, s, &seen, err);
	if (code == RELMQ_OK && seen.old > 0)
		code = purge_page(p, db, s, err);
	if (code != RELMQ_OK)
		return code;
	p->young = seen.old > 0 ? 0 : p->young + seen.rows;
	p->after = seen.last;
	if (seen.rows < PAGE_ROWS || (p->young >= YOUNG_ROWS && p->probed)) {
		leave_shard(p);
	} else if (p->young >= YOUNG_ROWS) {
		p->young = YOUNG_ROWS - PAGE_ROWS; /* one page there */
		p->probed = true;
		code = draw_a_place(p, db, err);
	}
	return code;
}

/* A lock, a deadlock, a missing privilege: the relay has better things to do than to fail. */
static relmq_code bear(relmq__purge *p, const relmq__db *db, relmq_code code, relmq_error *err)
{
	if (code != RELMQ_EDB || relmq__db_is_outage(db->class))
		return code;
	if (db->class == RELMQ__DB_PERMANENT && !p->refused)
		LOG_WARN("store", "SENT rows are not purged: %s", err->text);
	p->refused = p->refused || db->class == RELMQ__DB_PERMANENT;
	leave_shard(p);
	return RELMQ_OK;
}

static int64_t round_pause_ms(const relmq__publisher_settings *s)
{
	int64_t ms = s->sent_retention_ms / ROUND_PARTS;
	return ms < ROUND_MIN_MS ? ROUND_MIN_MS : ms > ROUND_MS ? ROUND_MS : ms;
}

static bool is_left(const relmq__purge *p, const relmq__lease *lease, unsigned shard)
{
	return lease->shards[shard].held && (p->walked & 1U << shard) == 0;
}

/* Stay where we are, or begin another that is ours; a lease may come and go in mid-round. */
static bool find_shard(relmq__purge *p, const relmq__lease *lease)
{
	if (is_left(p, lease, p->shard))
		return true;
	for (unsigned i = 0; i < RELMQ__SHARDS; i++) {
		if (!is_left(p, lease, i))
			continue;
		begin_shard(p, i);
		return true;
	}
	return false;
}

relmq_code relmq__purge_tick(relmq__purge *p, relmq__db *db, const relmq__lease *lease,
    const relmq__publisher_settings *s, bool idle, relmq_error *err)
{
	int64_t began_ms = relmq__now_ms();
	if (!s->keep_sent || s->sent_retention_ms == 0 || began_ms < p->next_ms)
		return RELMQ_OK;
	if (!find_shard(p, lease)) { /* every one of ours was walked, or we have none yet */
		p->next_ms = began_ms + (p->walked != 0 ? round_pause_ms(s) : PACE_MS);
		p->walked = 0;
		return RELMQ_OK;
	}
	relmq_code code = step(p, db, s, err);
	if (code != RELMQ_OK)
		code = bear(p, db, code, err);
	int64_t now = relmq__now_ms();
	int64_t pause = (now - began_ms) * (idle ? IDLE_FACTOR : BUSY_FACTOR);
	p->next_ms = now + (pause > PACE_MS ? pause : PACE_MS);
	return code;
}
