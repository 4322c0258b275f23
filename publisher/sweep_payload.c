/* publisher/sweep_payload.c - see sweep_payload.h.
 *
 * Small payloads come many in a statement; a large one is left out there (its length
 * comes instead) and read by itself, so that one page never holds more than the room. */
#include "publisher/sweep_payload.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "publisher/envelope.h"

enum {
	PAGE_ROWS = 500,
	SMALL_BYTES = 16384,         /* payloads up to this come in pages                */
	HEADERS_MAX_BYTES = 1 << 20, /* longer ones are cut here and refused by the frame size */
};

typedef struct page {
	relmq__candidate *c;
	size_t n;
	size_t used, room;
	bool any; /* something was handed out: the room counts from now on */
	relmq__take_fn fn;
	void *arg;
	bool nomem;
} page;

enum {
	COL_ID,
	COL_RETRY,
	COL_MSG_ID,
	COL_KEY,
	COL_EXCHANGE,
	COL_RKEY,
	COL_TYPE,
	COL_CTYPE,
	COL_HEADERS,
	COL_PROPS,
	COL_CREATED,
	COL_LENGTH,
	COL_PAYLOAD
};

static void build(relmq__buf *sql, const relmq__candidate *c, size_t n, bool small_only)
{
	relmq__buf_reset(sql);
	relmq__buf_addf(sql,
	    "SELECT o.id, o.retry_count, o.msg_id, o.business_key, o.exchange, o.routing_key, "
	    "o.type,"
	    " o.content_type, LEFT(o.headers, %d), LEFT(o.properties, %d),"
	    " CAST(UNIX_TIMESTAMP(o.created_at) * 1000000 AS UNSIGNED), OCTET_LENGTH(o.payload), ",
	    HEADERS_MAX_BYTES, HEADERS_MAX_BYTES);
	if (small_only)
		relmq__buf_addf(
		    sql, "CASE WHEN OCTET_LENGTH(o.payload) <= %d THEN o.payload END", SMALL_BYTES);
	else
		relmq__buf_adds(sql, "o.payload");
	relmq__buf_adds(sql, " FROM JSON_TABLE('[");
	for (size_t i = 0; i < n; i++)
		relmq__buf_addf(sql, "%s[%llu,%u]", i > 0 ? "," : "", (unsigned long long) c[i].id,
		    (unsigned) c[i].status);
	relmq__buf_adds(sql,
	    "]', '$[*]' COLUMNS (id BIGINT UNSIGNED PATH '$[0]', st INT PATH '$[1]')) j"
	    " STRAIGHT_JOIN message_outbox o ON o.id = j.id AND o.status = j.st");
}

static relmq__column column(MYSQL_ROW row, const unsigned long *lengths, int i)
{
	relmq__column c = { row[i], row[i] != NULL ? lengths[i] : 0 };
	return c;
}

static int compare_id(const void *id, const void *candidate)
{
	uint64_t want = *(const uint64_t *) id;
	uint64_t have = ((const relmq__candidate *) candidate)->id;
	return want < have ? -1 : want > have ? 1 : 0;
}

static void take(page *p, MYSQL_ROW row, const unsigned long *len)
{
	uint64_t id = strtoull(row[COL_ID], NULL, 10);
	relmq__candidate *c = bsearch(&id, p->c, p->n, sizeof(*c), compare_id); /* chosen by id */
	if (c == NULL || row[COL_PAYLOAD] == NULL)
		return;
	if (p->any && p->used + len[COL_PAYLOAD] > p->room)
		return;
	relmq__row *r = relmq__row_new();
	if (r == NULL) {
		p->nomem = true;
		return;
	}
	relmq__row_columns columns = {
		.msg_id = column(row, len, COL_MSG_ID),
		.business_key = column(row, len, COL_KEY),
		.exchange = column(row, len, COL_EXCHANGE),
		.routing_key = column(row, len, COL_RKEY),
		.type = column(row, len, COL_TYPE),
		.content_type = column(row, len, COL_CTYPE),
		.headers = column(row, len, COL_HEADERS),
		.properties = column(row, len, COL_PROPS),
		.payload = column(row, len, COL_PAYLOAD),
		.created_us = strtoull(row[COL_CREATED], NULL, 10),
	};
	r->id = c->id;
	r->epoch = c->epoch;
	r->key_hash = c->key_hash;
	r->shard = c->shard;
	r->status = c->status;
	r->created_us = columns.created_us;
	r->retry_count = (uint32_t) strtoul(row[COL_RETRY], NULL, 10);
	r->outcome = RELMQ__UNKNOWN;
	if (!relmq__envelope(r, &columns)) {
		if (r->item.reason[0] == '\0') {
			p->nomem = true;
			relmq__row_free(r);
			return;
		}
		r->outcome = RELMQ__REFUSED;
		r->item.permanent = true;
	}
	c->offered = true;
	c->handed = p->fn(p->arg, r);
	if (!c->handed) {
		relmq__row_free(r);
		return;
	}
	p->used += len[COL_PAYLOAD];
	p->any = true;
}

static relmq_code read_page(
    relmq__db *db, relmq__buf *sql, page *p, bool small_only, relmq_error *err)
{
	MYSQL_RES *res;
	build(sql, p->c, p->n, small_only);
	if (sql->failed)
		return relmq__fail_nomem(err);
	relmq_code code = relmq__db_stream(db, sql->data, sql->len, &res, err);
	if (code != RELMQ_OK)
		return code;
	for (MYSQL_ROW row; (row = mysql_fetch_row(res)) != NULL;)
		take(p, row, mysql_fetch_lengths(res));
	code = relmq__db_end(db, res, err);
	return code == RELMQ_OK && p->nomem ? relmq__fail_nomem(err) : code;
}

/* One by one, in a page of one row: the large ones that the page left out. */
static relmq_code read_large(relmq__db *db, relmq__buf *sql, page *p, relmq_error *err)
{
	relmq_code code = RELMQ_OK;
	for (size_t i = 0; i < p->n && code == RELMQ_OK && (!p->any || p->used < p->room); i++) {
		if (p->c[i].offered)
			continue;
		page one = *p;
		one.c = &p->c[i];
		one.n = 1;
		code = read_page(db, sql, &one, false, err);
		p->used = one.used;
		p->any = one.any;
	}
	return code;
}

relmq_code relmq__sweep_payloads(relmq__db *db, relmq__buf *sql, relmq__candidate *c, size_t n,
    size_t room, size_t row_bytes, relmq__take_fn fn, void *arg, relmq_error *err)
{
	relmq_code code = RELMQ_OK;
	page p = { .room = room, .fn = fn, .arg = arg };
	for (size_t at = 0; at < n && code == RELMQ_OK && (!p.any || p.used < room); at += p.n) {
		size_t fit = (room - p.used) / row_bytes + 1;
		p.c = c + at;
		p.n = n - at < PAGE_ROWS ? n - at : PAGE_ROWS;
		p.n = p.n < fit ? p.n : fit;
		code = read_page(db, sql, &p, true, err);
		if (code == RELMQ_OK)
			code = read_large(db, sql, &p, err);
	}
	return code;
}
