/* admin/outbox_rows.c - finds the rows that a person asks for. See outbox.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/outbox.h"
#include "base/error.h"
#include "base/utf8.h"

enum {
	PAGE_ROWS = 500, /* in one statement                            */
	DEPTH_MIN = 25,  /* ids of one range: few at first, then more   */
	DEPTH_MAX = 400,
	SHARDS = RELMQ__SHARDS,
	RANGES_MAX = SHARDS * RELMQ__OUTBOX_STATES
};

const char *const relmq__outbox_states[RELMQ__OUTBOX_STATES] = { "pending", "sent", "failed",
	"abandoned", "scheduled" };

/* --- by filter ---------------------------------------------------------------------- */

typedef struct walk { /* up the ids */
	const relmq__outbox_filter *filter;
	const char *columns;
	uint64_t after; /* all ids up to here were seen */
	size_t depth;
	bool more, enough;
	uint64_t *ids; /* what comes next */
	size_t count;
	relmq__buf *sql;
} walk;

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
static void add_range(const walk *w, unsigned state, int shard, int number)
{
	const relmq__outbox_filter *f = w->filter;
	relmq__buf *sql = w->sql;
	relmq__buf_addf(sql,
	    "%s(SELECT id, %d FROM message_outbox FORCE INDEX (ready) WHERE status = %u AND shard = ",
	    number > 0 ? " UNION ALL " : "", number, state);
	if (by_hash(f)) {
		add_key_hash(sql, f);
		relmq__buf_addf(sql, " MOD %d AND key_hash = ", SHARDS);
		add_key_hash(sql, f);
	} else {
		relmq__buf_addf(sql, "%d", shard);
	}
	relmq__buf_addf(sql, " AND id > %llu", (unsigned long long) w->after);
	if (f->up_to != 0)
		relmq__buf_addf(sql, " AND id <= %llu", (unsigned long long) f->up_to);
	relmq__buf_addf(sql, " ORDER BY id LIMIT %zu)", w->depth);
}

static void build_ranges(const walk *w)
{
	int number = 0;
	relmq__buf_reset(w->sql);
	for (unsigned state = 0; state < RELMQ__OUTBOX_STATES; state++)
		for (int shard = 0; shard < (by_hash(w->filter) ? 1 : SHARDS); shard++)
			if ((w->filter->states & 1U << state) != 0)
				add_range(w, state, shard, number++);
}

static int by_value(const void *a, const void *b)
{
	const uint64_t *x = a;
	const uint64_t *y = b;
	return *x < *y ? -1 : *x > *y;
}

/* Where a range was cut, more of it may follow: up to the lowest such place we know all ids. */
static void keep_known(walk *w, const size_t *read, const uint64_t *last)
{
	uint64_t end = UINT64_MAX;
	size_t kept = 0;
	for (int i = 0; i < RANGES_MAX; i++)
		if (read[i] == w->depth && last[i] < end)
			end = last[i];
	for (size_t i = 0; i < w->count; i++)
		if (w->ids[i] <= end)
			w->ids[kept++] = w->ids[i];
	w->count = kept;
	w->more = end != UINT64_MAX;
	w->after = end;
	if (kept > 0)
		qsort(w->ids, kept, sizeof(w->ids[0]), by_value);
}

static relmq_code read_ids(walk *w, relmq__db *db, relmq_error *err)
{
	MYSQL_RES *res = NULL;
	size_t read[RANGES_MAX] = { 0 };
	uint64_t last[RANGES_MAX] = { 0 };
	build_ranges(w);
	w->count = 0;
	if (w->sql->failed)
		return relmq__fail_nomem(err);
	relmq_code code = relmq__db_query(db, w->sql->data, w->sql->len, &res, err);
	for (MYSQL_ROW row; code == RELMQ_OK && (row = mysql_fetch_row(res)) != NULL;) {
		unsigned long range = strtoul(row[1], NULL, 10) % RANGES_MAX;
		uint64_t id = strtoull(row[0], NULL, 10);
		read[range]++;
		last[range] = id > last[range] ? id : last[range];
		if (w->count < (size_t) RANGES_MAX * DEPTH_MAX)
			w->ids[w->count++] = id;
	}
	mysql_free_result(res);
	if (code == RELMQ_OK)
		keep_known(w, read, last);
	return code;
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

static void build_rows(const walk *w, size_t from, size_t n)
{
	relmq__buf_reset(w->sql);
	relmq__buf_addf(w->sql, "SELECT %s FROM JSON_TABLE('[", w->columns);
	for (size_t i = from; i < from + n; i++)
		relmq__buf_addf(
		    w->sql, "%s%llu", i > from ? "," : "", (unsigned long long) w->ids[i]);
	relmq__buf_adds(w->sql,
	    "]', '$[*]' COLUMNS (id BIGINT UNSIGNED PATH '$')) j"
	    " STRAIGHT_JOIN message_outbox o ON o.id = j.id");
	add_states(w->sql, w->filter->states);
	add_equal(w->sql, "business_key", w->filter->key);
	add_equal(w->sql, "exchange", w->filter->exchange);
	add_equal(w->sql, "routing_key", w->filter->routing_key);
	relmq__buf_adds(w->sql, " ORDER BY o.id");
}

/* `n` of the ids: those rows that pass, and are still what they were. */
static relmq_code read_rows(walk *w, relmq__db *db, size_t from, size_t n, relmq__outbox_row_fn fn,
    void *arg, relmq_error *err)
{
	MYSQL_RES *res = NULL;
	build_rows(w, from, n);
	if (w->sql->failed)
		return relmq__fail_nomem(err);
	relmq_code code = relmq__db_query(db, w->sql->data, w->sql->len, &res, err);
	for (MYSQL_ROW row; code == RELMQ_OK && (row = mysql_fetch_row(res)) != NULL;) {
		if (!fn(arg, row, mysql_fetch_lengths(res))) {
			w->enough = true;
			break;
		}
	}
	mysql_free_result(res);
	return code;
}

relmq_code relmq__outbox_each(relmq__db *db, const relmq__outbox_filter *filter,
    const char *columns, relmq__outbox_row_fn fn, void *arg, relmq_error *err)
{
	relmq__buf sql = { 0 };
	walk w = { .filter = filter, .columns = columns, .sql = &sql, .depth = DEPTH_MIN };
	relmq_code code = RELMQ_OK;
	w.ids = malloc(sizeof(w.ids[0]) * RANGES_MAX * DEPTH_MAX);
	if (w.ids == NULL)
		return relmq__fail_nomem(err);
	do {
		code = read_ids(&w, db, err);
		for (size_t at = 0; code == RELMQ_OK && !w.enough && at < w.count;
		     at += PAGE_ROWS) {
			size_t left = w.count - at;
			code = read_rows(
			    &w, db, at, left < PAGE_ROWS ? left : PAGE_ROWS, fn, arg, err);
		}
		w.depth = w.depth * 2 < DEPTH_MAX ? w.depth * 2 : DEPTH_MAX;
	} while (code == RELMQ_OK && w.more && !w.enough);
	free(w.ids);
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
