/* publisher/outbox.c - the writer behind relmq/outbox.h: one INSERT inside the caller's
 * transaction, on the caller's connection. It must not know sessions of our own, and it
 * must not depend on how the caller's is set up: character set, sql_mode and time zone
 * are anybody's. So byte strings are bound as bytes, and what is text is ASCII. */
#include <relmq/outbox.h>

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/uuid.h"
#include "db/session.h"
#include "publisher/outbox_json.h"

enum {
	SHORT_MAX = 255,      /* AMQP short string                                           */
	BODY_MAX = 512 << 20, /* RabbitMQ's own upper bound for max_message_size             */
	IDENTIFIER_MAX = 64,  /* MySQL's, for a database and for a table                     */
	PARAMETERS = 10
};

static const int64_t delay_max_ms = INT64_C(10) * 365 * 86400 * 1000;

struct relmq_outbox {
	MYSQL *db; /* the caller's */
	char *sql;
	MYSQL_STMT *stmt;         /* NULL until first use                      */
	unsigned long connection; /* mysql_thread_id() that `stmt` was made on */
	relmq__buf headers, properties;
};

/* --- open and close ---------------------------------------------------------------- */

/* Letters, digits and '_', then perhaps '.' and once more the same. */
static bool name_ok(const char *name)
{
	static const char plain[] =
	    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
	size_t first = strspn(name, plain);
	if (first == 0 || first > IDENTIFIER_MAX)
		return false;
	if (name[first] == '\0')
		return true;
	size_t second = name[first] == '.' ? strspn(name + first + 1, plain) : 0;
	return second > 0 && second <= IDENTIFIER_MAX && name[first + 1 + second] == '\0';
}

static char *insert_statement(const char *table)
{
	static const char fmt[] =
	    "INSERT INTO `%.*s%s%s` (msg_id, business_key, exchange, routing_key, type, "
	    "content_type,"
	    " headers, properties, payload, next_retry_at)"
	    " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, NOW(6) + INTERVAL ? MICROSECOND)";
	char *sql = NULL;
	int first = (int) strcspn(table, ".");
	bool qualified = table[first] == '.';
	int n = asprintf(
	    &sql, fmt, first, table, qualified ? "`.`" : "", qualified ? table + first + 1 : "");
	return n >= 0 ? sql : NULL;
}

relmq_code relmq_outbox_open(relmq_outbox **out, MYSQL *db, const char *table, relmq_error *err)
{
	if (out == NULL)
		return relmq__fail(err, RELMQ_EINVAL, 0, "outbox: `out` is NULL");
	*out = NULL;
	if (db == NULL)
		return relmq__fail(err, RELMQ_EINVAL, 0, "outbox: `db` is NULL");
	if (table == NULL)
		table = "message_outbox";
	if (!name_ok(table))
		return relmq__fail(err, RELMQ_EINVAL, 0,
		    "outbox: table must be letters, digits and '_', at most %d, with one '.' after "
		    "a "
		    "database",
		    IDENTIFIER_MAX);
	relmq_outbox *ob = calloc(1, sizeof(*ob));
	if (ob == NULL)
		return relmq__fail_nomem(err);
	ob->db = db;
	ob->sql = insert_statement(table);
	if (ob->sql == NULL) {
		relmq_outbox_close(ob);
		return relmq__fail_nomem(err);
	}
	*out = ob;
	return RELMQ_OK;
}

static void forget_statement(relmq_outbox *ob)
{
	if (ob->stmt != NULL)
		(void) mysql_stmt_close(ob->stmt);
	ob->stmt = NULL;
}

void relmq_outbox_close(relmq_outbox *ob)
{
	if (ob == NULL)
		return;
	forget_statement(ob);
	relmq__buf_free(&ob->headers);
	relmq__buf_free(&ob->properties);
	free(ob->sql);
	free(ob);
}

/* --- what a message may be --------------------------------------------------------- */

/* A caller compiled with an older header hands over a shorter struct: the rest is
 * default. One with a newer header may, as long as it asks for nothing we do not know. */
static relmq_code copy_known(relmq_msg *out, const relmq_msg *msg, relmq_error *err)
{
	*out = (relmq_msg) RELMQ_MSG_INIT;
	size_t size = msg->struct_size;
	if (size < offsetof(relmq_msg, content_type) || size % _Alignof(relmq_msg) != 0)
		return relmq__fail(
		    err, RELMQ_EINVAL, 0, "message: struct_size: start from RELMQ_MSG_INIT");
	for (size_t i = sizeof(*out); i < size; i++)
		if (((const char *) msg)[i] != 0)
			return relmq__fail(err, RELMQ_EINVAL, 0,
			    "message: a member is set that this version of the library does not "
			    "know");
	memcpy(out, msg, size < sizeof(*out) ? size : sizeof(*out));
	return RELMQ_OK;
}

static relmq_code check_short(
    const char *name, const char **text, const char *otherwise, size_t least, relmq_error *err)
{
	if (*text == NULL)
		*text = otherwise;
	size_t n = *text != NULL ? strnlen(*text, SHORT_MAX + 1) : 0;
	if (n < least)
		return relmq__fail(err, RELMQ_EINVAL, 0, "message: %s must not be empty", name);
	if (n > SHORT_MAX)
		return relmq__fail(
		    err, RELMQ_ETOOBIG, 0, "message: %s is longer than %d bytes", name, SHORT_MAX);
	return RELMQ_OK;
}

static relmq_code check_message(relmq_msg *m, relmq_error *err)
{
	relmq_code code = check_short("routing_key", &m->routing_key, NULL, 1, err);
	if (code == RELMQ_OK)
		code = check_short("exchange", &m->exchange, "", 0, err);
	if (code == RELMQ_OK)
		code = check_short(
		    "content_type", &m->content_type, "application/octet-stream", 0, err);
	if (code == RELMQ_OK)
		code = check_short("business_key", &m->business_key, "", 0, err);
	if (code == RELMQ_OK)
		code = check_short("type", &m->type, "", 0, err);
	if (code == RELMQ_OK && m->message_id != NULL)
		code = check_short("message_id", &m->message_id, NULL, 1, err);
	if (code != RELMQ_OK)
		return code;
	if (m->body == NULL && m->body_len > 0)
		return relmq__fail(
		    err, RELMQ_EINVAL, 0, "message: body is NULL and body_len is not 0");
	if (m->body_len > BODY_MAX)
		return relmq__fail(
		    err, RELMQ_ETOOBIG, 0, "message: body is longer than %d bytes", BODY_MAX);
	if (m->headers == NULL && m->header_count > 0)
		return relmq__fail(
		    err, RELMQ_EINVAL, 0, "message: headers is NULL and header_count is not 0");
	if (m->delay_ms < 0 || m->delay_ms > delay_max_ms)
		return relmq__fail(
		    err, RELMQ_EINVAL, 0, "message: delay_ms must be 0 to ten years");
	return RELMQ_OK;
}

/* --- the INSERT -------------------------------------------------------------------- */

/* The server reports both with every answer. */
static bool transaction_open(const MYSQL *db)
{
	return (db->server_status & SERVER_STATUS_IN_TRANS) != 0 ||
	    (db->server_status & SERVER_STATUS_AUTOCOMMIT) == 0;
}

static relmq_code fail_no_transaction(relmq_error *err)
{
	return relmq__fail(err, RELMQ_ENOTX, 0,
	    "outbox: no transaction is open on this connection, so the message would not belong to "
	    "one");
}

static relmq_code fail_db(unsigned number, const char *state, const char *text, relmq_error *err)
{
	unsigned retry = relmq__db_classify(number) != RELMQ__DB_PERMANENT ? RELMQ_F_RETRY : 0;
	(void) relmq__fail_from(err, RELMQ_EDB, RELMQ_F_TX_LOST | retry, RELMQ_FROM_MYSQL,
	    (int) number, "outbox: %s", text);
	if (err != NULL)
		(void) snprintf(err->sqlstate, sizeof(err->sqlstate), "%s", state);
	return RELMQ_EDB;
}

static relmq_code fail_stmt(relmq_outbox *ob, relmq_error *err)
{
	return fail_db(mysql_stmt_errno(ob->stmt), mysql_stmt_sqlstate(ob->stmt),
	    mysql_stmt_error(ob->stmt), err);
}

/* An error carries no state: after one, the client's idea of the transaction is old. A
 * deadlock has ended it, and an INSERT now would be a transaction of its own. */
static relmq_code check_transaction(MYSQL *db, relmq_error *err)
{
	unsigned last = mysql_errno(db);
	if (last == 1213 || last == 1020 || last == 1614 || last == 1180 || last == 3101)
		return fail_db(last, mysql_sqlstate(db),
		    "an earlier error has ended the transaction: roll back", err);
	if (last != 0 && mysql_ping(db) != 0)
		return fail_db(mysql_errno(db), mysql_sqlstate(db), mysql_error(db), err);
	return transaction_open(db) ? RELMQ_OK : fail_no_transaction(err);
}

/* The statement lives on the server's side of one connection. Where that was replaced it
 * is made anew; where it was replaced while we made it (a client that reconnects by
 * itself), the caller's transaction died with the old one. */
static relmq_code prepare(relmq_outbox *ob, relmq_error *err)
{
	unsigned long connection = mysql_thread_id(ob->db);
	if (ob->stmt != NULL && ob->connection == connection)
		return RELMQ_OK;
	forget_statement(ob);
	ob->stmt = mysql_stmt_init(ob->db);
	if (ob->stmt == NULL)
		return relmq__fail_nomem(err);
	relmq_code code = RELMQ_OK;
	if (mysql_stmt_prepare(ob->stmt, ob->sql, (unsigned long) strlen(ob->sql)) != 0)
		code = fail_stmt(ob, err);
	else if (mysql_thread_id(ob->db) != connection)
		code = fail_db(
		    2013, "08S01", "the connection was replaced, its transaction is lost", err);
	else if (!transaction_open(ob->db))
		code = fail_no_transaction(err);
	ob->connection = connection;
	if (code != RELMQ_OK)
		forget_statement(ob);
	return code;
}

static void bind_bytes(MYSQL_BIND *b, const void *bytes, size_t n)
{
	b->buffer_type = MYSQL_TYPE_BLOB;
	b->buffer = (void *) bytes; /* MYSQL_BIND serves both ways; a parameter is only read */
	b->buffer_length = (unsigned long) n;
}

/* MySQL makes no JSON of bytes. None is NULL. */
static void bind_json(MYSQL_BIND *b, const relmq__buf *text)
{
	bind_bytes(b, text->data, text->len);
	b->buffer_type = text->len > 0 ? MYSQL_TYPE_STRING : MYSQL_TYPE_NULL;
}

static bool bind_all(relmq_outbox *ob, const relmq_msg *m, const char *id, int64_t *delay_us)
{
	MYSQL_BIND b[PARAMETERS];
	memset(b, 0, sizeof(b));
	bind_bytes(&b[0], id, strlen(id));
	bind_bytes(&b[1], m->business_key, strlen(m->business_key));
	bind_bytes(&b[2], m->exchange, strlen(m->exchange));
	bind_bytes(&b[3], m->routing_key, strlen(m->routing_key));
	bind_bytes(&b[4], m->type, strlen(m->type));
	bind_bytes(&b[5], m->content_type, strlen(m->content_type));
	bind_json(&b[6], &ob->headers);
	bind_json(&b[7], &ob->properties);
	bind_bytes(&b[8], m->body != NULL ? m->body : "", m->body_len);
	b[9].buffer_type = m->delay_ms > 0 ? MYSQL_TYPE_LONGLONG : MYSQL_TYPE_NULL;
	b[9].buffer = delay_us;
	return mysql_stmt_bind_param(ob->stmt, b) == 0;
}

/* The server or the client has dropped the statement and kept the connection, and with
 * it the transaction: mysql_reset_connection(), mysql_change_user(). */
static bool only_statement_lost(relmq_outbox *ob)
{
	unsigned number = mysql_stmt_errno(ob->stmt);
	if (number == 1243 || number == 2056) /* unknown statement; statement closed */
		return true;
	return number == 2013 && relmq__db_classify(mysql_errno(ob->db)) != RELMQ__DB_RECONNECT;
}

static relmq_code insert(relmq_outbox *ob, const relmq_msg *m, const char *id, relmq_error *err)
{
	int64_t delay_us = m->delay_ms * 1000;
	for (bool again = false;; again = true) {
		relmq_code code = prepare(ob, err);
		if (code != RELMQ_OK)
			return code;
		if (bind_all(ob, m, id, &delay_us) && mysql_stmt_execute(ob->stmt) == 0)
			return RELMQ_OK;
		bool lost = only_statement_lost(ob);
		code = fail_stmt(ob, err);
		forget_statement(ob); /* cheap, and no state of a failure is carried over */
		if (!lost || again)
			return code;
	}
}

relmq_code relmq_outbox_add(
    relmq_outbox *ob, const relmq_msg *msg, char id[RELMQ_ID_SIZE], relmq_error *err)
{
	if (ob == NULL || msg == NULL)
		return relmq__fail(err, RELMQ_EINVAL, 0, "outbox: writer or message is NULL");
	relmq_msg m;
	char made[RELMQ__UUID_SIZE];
	relmq_code code = copy_known(&m, msg, err);
	if (code == RELMQ_OK)
		code = check_message(&m, err);
	if (code == RELMQ_OK)
		code = relmq__outbox_headers(&ob->headers, &m, err);
	if (code == RELMQ_OK)
		code = relmq__outbox_properties(&ob->properties, &m, err);
	if (code == RELMQ_OK)
		code = check_transaction(ob->db, err);
	if (code != RELMQ_OK)
		return code;
	if (m.message_id == NULL) {
		if (relmq__uuid7(made) != 0)
			return relmq__fail_from(err, RELMQ_EINTERNAL, RELMQ_F_RETRY, RELMQ_FROM_OS,
			    errno, "outbox: no random bytes for a message id");
		m.message_id = made;
	}
	code = insert(ob, &m, m.message_id, err);
	if (code == RELMQ_OK && id != NULL)
		memcpy(id, m.message_id, strlen(m.message_id) + 1);
	return code;
}
