/* admin/outbox_list.c - `relmq outbox list`: a table for people, or one JSON object a line. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "admin/outbox.h"
#include "base/cell.h"
#include "base/program.h"
#include "publisher/row.h"

enum { DEFAULT_LIMIT = 100 };

static const char columns[] =
    "o.id, o.msg_id, o.status, o.retry_count, TIMESTAMPDIFF(SECOND, NOW(6), o.next_retry_at),"
    " TIMESTAMPDIFF(SECOND, o.created_at, NOW(6)), o.business_key, o.exchange, o.routing_key,"
    " o.last_error, DATE_FORMAT(o.next_retry_at, '%Y-%m-%dT%H:%i:%s.%fZ'),"
    " DATE_FORMAT(o.created_at, '%Y-%m-%dT%H:%i:%s.%fZ')";
enum { ID, MSG_ID, STATUS, ATTEMPTS, WAIT, AGE, KEY, EXCHANGE, RKEY, ERROR, NEXT_AT, CREATED_AT };

typedef struct listing {
	const relmq__outbox_request *request;
	int64_t limit, count;
	bool more, nomem;
	relmq__buf line;
} listing;

/* The columns of text; the last one ends the line and is not filled up. */
static const struct {
	const char *title;
	int column, width;
} layout[] = {
	{ "ID", ID, 8 },
	{ "MSG_ID", MSG_ID, 36 },
	{ "STATE", STATUS, 9 },
	{ "ATTEMPTS", ATTEMPTS, 8 },
	{ "NEXT", WAIT, 5 },
	{ "AGE", AGE, 5 },
	{ "KEY", KEY, 16 },
	{ "EXCHANGE", EXCHANGE, 12 },
	{ "ROUTING KEY", RKEY, 20 },
	{ "LAST ERROR", ERROR, 60 },
};
enum { CELLS = sizeof(layout) / sizeof(layout[0]) };

static void print_heading(void)
{
	for (int i = 0; i < CELLS; i++) {
		int width = i + 1 < CELLS ? layout[i].width : (int) strlen(layout[i].title);
		relmq__cell_print(stdout, layout[i].title, strlen(layout[i].title), width);
		(void) printf(i + 1 < CELLS ? "  " : "\n");
	}
}

/* What a cell says; a time is told from now on. */
static const char *cell(MYSQL_ROW row, int column, char age[RELMQ__AGE_SIZE])
{
	if (column == STATUS)
		return relmq__outbox_states[strtoul(row[STATUS], NULL, 10) % RELMQ__OUTBOX_STATES];
	if (row[column] == NULL)
		return column == WAIT ? "-" : "";
	int64_t s = strtoll(row[column], NULL, 10);
	if (column == WAIT && s <= 0)
		return "due";
	if (column != WAIT && column != AGE)
		return row[column];
	relmq__age_text(s > 0 ? s : 0, age); /* a writer may date its row ahead */
	return age;
}

static void print_row(MYSQL_ROW row, const unsigned long *lengths)
{
	char age[RELMQ__AGE_SIZE];
	for (int i = 0; i < CELLS; i++) {
		int column = layout[i].column;
		const char *text = cell(row, column, age);
		size_t len = text == row[column] ? lengths[column] : strlen(text);
		int width = layout[i].width;
		if (column == ID && len > (size_t) width)
			width = (int) len; /* what a person needs whole */
		relmq__cell_print(stdout, text, len, width);
		(void) printf(i + 1 < CELLS ? "  " : "\n");
	}
}

static void add_text(
    relmq__buf *b, const char *name, MYSQL_ROW row, const unsigned long *lengths, int column)
{
	relmq__buf_addf(b, ",\"%s\":", name);
	relmq__outbox_add_bytes(b, row[column], row[column] != NULL ? lengths[column] : 0);
}

static void print_json(listing *l, MYSQL_ROW row, const unsigned long *lengths)
{
	relmq__buf *b = &l->line;
	char unused[RELMQ__AGE_SIZE];
	relmq__buf_reset(b);
	relmq__buf_addf(b, "{\"id\":%s", row[ID]);
	add_text(b, "msg_id", row, lengths, MSG_ID);
	relmq__buf_addf(
	    b, ",\"state\":\"%s\",\"attempts\":%s", cell(row, STATUS, unused), row[ATTEMPTS]);
	add_text(b, "next_attempt_at", row, lengths, NEXT_AT);
	add_text(b, "created_at", row, lengths, CREATED_AT);
	relmq__buf_addf(b, ",\"age_s\":%s", row[AGE]);
	add_text(b, "key", row, lengths, KEY);
	add_text(b, "exchange", row, lengths, EXCHANGE);
	add_text(b, "routing_key", row, lengths, RKEY);
	add_text(b, "last_error", row, lengths, ERROR);
	relmq__buf_adds(b, "}\n");
	if (b->failed)
		l->nomem = true;
	else
		(void) fwrite(b->data, 1, b->len, stdout);
}

static bool list_one(void *arg, MYSQL_ROW row, const unsigned long *lengths)
{
	listing *l = arg;
	l->more = l->count == l->limit;
	if (l->more)
		return false;
	if (l->count++ == 0 && !l->request->json)
		print_heading();
	if (l->request->json)
		print_json(l, row, lengths);
	else
		print_row(row, lengths);
	return !l->nomem;
}

int relmq__outbox_list(relmq__db *db, const relmq__outbox_request *r)
{
	relmq_error err = RELMQ_ERROR_INIT;
	listing l = { .request = r, .limit = r->limit != 0 ? r->limit : DEFAULT_LIMIT };
	relmq__outbox_filter filter = r->filter;
	if (filter.states == 0)
		filter.states = 1U << RELMQ__FAILED | 1U << RELMQ__ABANDONED;
	relmq_code code = relmq__outbox_each(db, &filter, columns, list_one, &l, &err);
	relmq__buf_free(&l.line);
	if (code != RELMQ_OK)
		return relmq__program_fail("outbox list: %s", err.text);
	if (l.nomem)
		return relmq__program_fail("outbox list: out of memory");
	if (!r->json)
		(void) printf("%" PRId64 " row(s)%s\n", l.count,
		    l.more ? ", and there are more: --limit N shows more" : "");
	return RELMQ__EXIT_OK;
}
