/* handlers/sql.c - the `sql` kind: statements with named parameters, run in the inbox
 * transaction: an effect, once, without code. */
#include <stdint.h>
#include <stdlib.h>

#include "base/error.h"
#include "consumer/delivery.h"
#include "consumer/handler.h"
#include "consumer/handlers/json_text.h"
#include "consumer/handlers/sql_template.h"
#include "consumer/handlers/sql_value.h"

/* A batch's statement ends with the tuple that reaches this: a longer one is no faster,
 * and every server takes a packet of this size by default. */
enum { STATEMENT_BYTES = 1 << 20 };

typedef struct sql_handler {
	relmq__handler base;
	relmq__sql_template *statements;
	size_t count;
	bool reads_json; /* some statement does */
} sql_handler;

/* --- one statement ----------------------------------------------------------------- */

/* A server drops the connection of a client whose statement is too large. That looks like
 * an outage, and the message would come back for ever: so ask before. */
static relmq_code check_size(relmq__db *db, size_t len, relmq_error *err)
{
	enum { HEAD_ROOM = 64 };
	int64_t max = INT64_MAX;
	if (len <= STATEMENT_BYTES)
		return RELMQ_OK;
	relmq_code code = relmq__db_number(db, "SELECT @@max_allowed_packet", INT64_MAX, &max, err);
	if (code != RELMQ_OK || (uint64_t) len + HEAD_ROOM <= (uint64_t) max)
		return code;
	return relmq__fail(err, RELMQ_ETOOBIG, 0,
	    "%zu bytes of SQL do not fit into the server's max_allowed_packet of %lld", len,
	    (long long) max);
}

static relmq_code execute(relmq__db *db, const relmq__buf *sql, relmq_error *err)
{
	if (sql->failed)
		return relmq__fail_nomem(err);
	relmq_code code = check_size(db, sql->len, err);
	return code == RELMQ_OK ? relmq__db_exec(db, sql->data, sql->len, NULL, err) : code;
}

static relmq_verdict failed(relmq_delivery *d, size_t number, const relmq_error *err)
{
	if (err->native != 0)
		relmq_delivery_reason(d, "statement %zu: (%d) %s", number, err->native, err->text);
	else
		relmq_delivery_reason(d, "statement %zu: %s", number, err->text);
	return err->code == RELMQ_ETOOBIG ? RELMQ_REJECT : RELMQ_RETRY;
}

static bool check_payload(const sql_handler *h, relmq_delivery *d)
{
	char why[96];
	if (!h->reads_json ||
	    relmq__json_check(d->msg->body.bytes, d->msg->body.len, why, sizeof(why)))
		return true;
	relmq_delivery_reason(d, "payload is not JSON: %s", why);
	return false;
}

/* --- the operations ---------------------------------------------------------------- */

static relmq_verdict run(
    relmq__handler *base, relmq_delivery *d, relmq__db *db, relmq__buf *scratch)
{
	const sql_handler *h = (const sql_handler *) base;
	relmq__sql_source source = { .mysql = db->mysql, .d = d };
	relmq_error err = RELMQ_ERROR_INIT;
	relmq_verdict verdict = RELMQ_DONE;
	if (!check_payload(h, d))
		return RELMQ_REJECT;
	for (size_t i = 0; i < h->count && verdict == RELMQ_DONE; i++) {
		const relmq__sql_template *t = &h->statements[i];
		relmq__buf_reset(scratch);
		relmq__sql_template_render(t, 0, t->count, scratch, relmq__sql_value, &source);
		if (execute(db, scratch, &err) != RELMQ_OK)
			verdict = failed(d, i + 1, &err);
	}
	relmq__buf_free(&source.text);
	return verdict;
}

/* One statement for as many of `ds` as go into it; returns how many. */
static size_t render_batch(const relmq__sql_template *t, relmq_delivery **ds, size_t n,
    relmq__sql_source *source, relmq__buf *sql)
{
	size_t i = 0;
	relmq__buf_reset(sql);
	relmq__sql_template_render(t, 0, t->tuple_from, sql, relmq__sql_value, source);
	do {
		source->d = ds[i];
		if (i > 0)
			relmq__buf_add(sql, ",", 1);
		relmq__sql_template_render(
		    t, t->tuple_from, t->tuple_to, sql, relmq__sql_value, source);
	} while (++i < n && sql->len < STATEMENT_BYTES && !sql->failed);
	relmq__sql_template_render(t, t->tuple_to, t->count, sql, relmq__sql_value, source);
	return i;
}

static relmq_verdict run_batch(
    relmq__handler *base, relmq_delivery **ds, size_t n, relmq__db *db, relmq__buf *scratch)
{
	const sql_handler *h = (const sql_handler *) base;
	relmq__sql_source source = { .mysql = db->mysql };
	relmq_code code = RELMQ_OK;
	for (size_t i = 0; i < n; i++)
		if (!check_payload(h, ds[i]))
			return RELMQ_RETRY;
	for (size_t i = 0; i < n && code == RELMQ_OK;) {
		i += render_batch(&h->statements[0], ds + i, n - i, &source, scratch);
		code = execute(db, scratch, NULL);
	}
	relmq__buf_free(&source.text);
	return code == RELMQ_OK ? RELMQ_DONE : RELMQ_RETRY;
}

/* --- open and close ---------------------------------------------------------------- */

static void close_sql(relmq__handler *base)
{
	sql_handler *h = (sql_handler *) base;
	for (size_t i = 0; i < h->count; i++)
		relmq__sql_template_free(&h->statements[i]);
	free(h->statements);
	free(h);
}

static relmq_code add_statement(sql_handler *h, const char *sql, relmq_error *err)
{
	relmq_error why = RELMQ_ERROR_INIT;
	relmq__sql_template *t = &h->statements[h->count];
	relmq_code code = relmq__sql_template_parse(t, sql, &why);
	if (code != RELMQ_OK)
		return relmq__fail(
		    err, code, why.flags, "statement %zu: %s", h->count + 1, why.text);
	h->count++;
	h->reads_json = h->reads_json || t->reads_json;
	return RELMQ_OK;
}

static sql_handler *new_handler(size_t count)
{
	sql_handler *h = calloc(1, sizeof(*h));
	if (h != NULL)
		h->statements = calloc(count, sizeof(*h->statements));
	if (h != NULL && h->statements == NULL) {
		free(h);
		h = NULL;
	}
	return h;
}

relmq_code relmq__handler_sql_open(
    relmq__handler **out, char *const *statements, size_t count, relmq_error *err)
{
	static const relmq__handler_ops singly = { run, NULL, close_sql };
	static const relmq__handler_ops in_batches = { run, run_batch, close_sql };
	if (count == 0)
		return relmq__fail(
		    err, RELMQ_ECONFIG, RELMQ_F_FATAL, "a sql handler needs a statement");
	sql_handler *h = new_handler(count);
	if (h == NULL)
		return relmq__fail_nomem(err);
	for (size_t i = 0; i < count; i++) {
		relmq_code code = add_statement(h, statements[i], err);
		if (code != RELMQ_OK) {
			close_sql(&h->base);
			return code;
		}
	}
	h->base.ops = count == 1 && h->statements[0].tuple_to > 0 ? &in_batches : &singly;
	*out = &h->base;
	return RELMQ_OK;
}
