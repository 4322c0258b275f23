/* admin/outbox_rows.c - finds the rows that a person asks for. See outbox.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/outbox.h"
#include "base/error.h"
#include "base/utf8.h"

enum { PAGE_ROWS = 500, SHARDS = RELMQ__SHARDS };

const char *const relmq__outbox_states[RELMQ__OUTBOX_STATES] = { "pending", "sent", "failed",
	"abandoned", "scheduled" };

/* --- by filter ---------------------------------------------------------------------- */

static bool by_hash(const relmq__outbox_filter *f)
{
	return f->key != NULL && f->key[0] != '\0'; /* without a key the hash is the msg_id's */
}

static void add_key_hash(relmq__buf *sql, const relmq__outbox_filter *f)
{
	relmq__buf_adds(sql, "CRC32(");
	relmq__sql_bytes(sql, f->key, strlen(f->key));
	relmq__buf_adds(sql, ")");
}

/* The lowest ids of one state in one shard, from the covering index alone. */
static void add_range(
    relmq__buf *sql, const relmq__outbox_filter *f, unsigned state, int shard, uint64_t after)
{
	relmq__buf_addf(sql,
	    " UNION ALL (SELECT id FROM message_outbox FORCE INDEX (ready) WHERE status = %u"
	    " AND shard = ",
	    state);
	if (by_hash(f)) {
		add_key_hash(sql, f);
		relmq__buf_addf(sql, " MOD %d AND key_hash = ", SHARDS);
		add_key_hash(sql, f);
	} else {
		relmq__buf_addf(sql, "%d", shard);
	}
	relmq__buf_addf(sql, " AND id > %llu", (unsigned long long) after);
	if (f->up_to != 0)
		relmq__buf_addf(sql, " AND id <= %llu", (unsigned long long) f->up_to);
	relmq__buf_addf(sql, " ORDER BY id LIMIT %d)", PAGE_ROWS);
}

static void add_equal(relmq__buf *sql, const char *column, const char *value)
{
	if (value == NULL)
		return;
	relmq__buf_addf(sql, " AND o.%s = ", column);
	relmq__sql_bytes(sql, value, strlen(value));
}

static void add_states(relmq__buf *sql, unsigned states)
{
	const char *before = " AND o.status IN (";
	for (unsigned i = 0; i < RELMQ__OUTBOX_STATES; i++) {
		if ((states & 1U << i) == 0)
			continue;
		relmq__buf_addf(sql, "%s%u", before, i);
		before = ",";
	}
	relmq__buf_adds(sql, ")");
}

/* The next ids, and beside each the row if it passes: one that does not still moves us on. */
static void build_page(
    relmq__buf *sql, const relmq__outbox_filter *f, const char *columns, uint64_t after)
{
	relmq__buf_reset(sql);
	relmq__buf_addf(sql,
	    "SELECT page.id, o.id IS NOT NULL, %s FROM (SELECT id FROM"
	    " ((SELECT id FROM message_outbox WHERE id = 0)",
	    columns);
	for (unsigned state = 0; state < RELMQ__OUTBOX_STATES; state++)
		for (int shard = 0; shard < (by_hash(f) ? 1 : SHARDS); shard++)
			if ((f->states & 1U << state) != 0)
				add_range(sql, f, state, shard, after);
	relmq__buf_addf(sql,
	    ") AS ranges ORDER BY id LIMIT %d) AS page LEFT JOIN message_outbox o ON o.id = page.id",
	    PAGE_ROWS);
	add_states(sql, f->states);
	add_equal(sql, "business_key", f->key);
	add_equal(sql, "exchange", f->exchange);
	add_equal(sql, "routing_key", f->routing_key);
	relmq__buf_adds(sql, " ORDER BY page.id");
}

static relmq_code read_page(relmq__db *db, const relmq__buf *sql, relmq__outbox_row_fn fn,
    void *arg, uint64_t *after, bool *more, relmq_error *err)
{
	enum { BEFORE = 2 }; /* columns of our own */
	MYSQL_RES *res = NULL;
	if (sql->failed)
		return relmq__fail_nomem(err);
	relmq_code code = relmq__db_query(db, sql->data, sql->len, &res, err);
	if (code != RELMQ_OK)
		return code;
	*more = mysql_num_rows(res) == PAGE_ROWS;
	for (MYSQL_ROW row; (row = mysql_fetch_row(res)) != NULL;) {
		*after = strtoull(row[0], NULL, 10);
		if (row[1][0] == '1' && !fn(arg, row + BEFORE, mysql_fetch_lengths(res) + BEFORE)) {
			*more = false;
			break;
		}
	}
	mysql_free_result(res);
	return RELMQ_OK;
}

relmq_code relmq__outbox_each(relmq__db *db, const relmq__outbox_filter *filter,
    const char *columns, relmq__outbox_row_fn fn, void *arg, relmq_error *err)
{
	relmq__buf sql = { 0 };
	uint64_t after = 0;
	bool more = true;
	relmq_code code = RELMQ_OK;
	while (code == RELMQ_OK && more) {
		build_page(&sql, filter, columns, after);
		code = read_page(db, &sql, fn, arg, &after, &more, err);
	}
	relmq__buf_free(&sql);
	return code;
}

/* --- by name ------------------------------------------------------------------------ */

relmq_code relmq__outbox_named(relmq__db *db, const relmq__outbox_ref *ref, const char *columns,
    int limit, MYSQL_RES **out, relmq_error *err)
{
	relmq__buf sql = { 0 };
	*out = NULL;
	relmq__buf_addf(&sql, "SELECT %s FROM message_outbox o WHERE ", columns);
	if (ref->msg_id != NULL) {
		relmq__buf_adds(&sql, "o.msg_id = ");
		relmq__sql_bytes(&sql, ref->msg_id, strlen(ref->msg_id));
	} else {
		relmq__buf_addf(&sql, "o.id = %llu", (unsigned long long) ref->id);
	}
	relmq__buf_addf(&sql, " ORDER BY o.id LIMIT %d", limit);
	relmq_code code =
	    sql.failed ? relmq__fail_nomem(err) : relmq__db_query(db, sql.data, sql.len, out, err);
	relmq__buf_free(&sql);
	return code;
}

void relmq__outbox_name(const relmq__outbox_ref *ref, char *out, size_t size)
{
	if (ref->msg_id != NULL)
		(void) snprintf(out, size, "row with msg_id %s", ref->msg_id);
	else
		(void) snprintf(out, size, "row %llu", (unsigned long long) ref->id);
}

void relmq__outbox_add_bytes(relmq__buf *b, const char *bytes, size_t n)
{
	if (bytes == NULL) {
		relmq__buf_adds(b, "null");
	} else if (relmq__utf8_ok(bytes, n)) {
		relmq__buf_add_json(b, bytes, n);
	} else {
		relmq__buf_adds(b, "\"0x");
		relmq__buf_add_hex(b, bytes, n);
		relmq__buf_adds(b, "\"");
	}
}
