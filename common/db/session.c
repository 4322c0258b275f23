/* db/session.c - see session.h. */
#include "db/session.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "db/tls.h"

/* --- errors ------------------------------------------------------------------------ */

/* Numbers below 2000 and from 3000 are the server's, those between the client's. What is
 * not here is RELMQ__DB_PERMANENT. 1153, a packet too large, is: it stays too large. */
static const struct {
	unsigned number;
	relmq__db_class class;
} known_errors[] = {
	{ 1020, RELMQ__DB_RETRY_TX },  /* record changed since last read: snapshot conflict   */
	{ 1180, RELMQ__DB_RETRY_TX },  /* error during COMMIT                                 */
	{ 1205, RELMQ__DB_RETRY_TX },  /* lock wait timeout                                   */
	{ 1213, RELMQ__DB_RETRY_TX },  /* deadlock                                            */
	{ 1317, RELMQ__DB_RETRY_TX },  /* query interrupted: KILL QUERY                       */
	{ 1614, RELMQ__DB_RETRY_TX },  /* XA deadlock                                         */
	{ 1689, RELMQ__DB_RETRY_TX },  /* wait on a lock was aborted                          */
	{ 3101, RELMQ__DB_RETRY_TX },  /* group replication rolled back at COMMIT             */
	{ 3572, RELMQ__DB_RETRY_TX },  /* NOWAIT                                              */
	{ 1043, RELMQ__DB_RECONNECT }, /* bad handshake                                       */
	{ 1053, RELMQ__DB_RECONNECT }, /* server shutdown in progress                         */
	{ 1080, RELMQ__DB_RECONNECT }, /* forcing close of thread                             */
	{ 1152, RELMQ__DB_RECONNECT }, /* aborted connection                                  */
	{ 1184, RELMQ__DB_RECONNECT }, /* new aborting connection                             */
	{ 1835, RELMQ__DB_RECONNECT }, /* malformed packet                                    */
	{ 1927, RELMQ__DB_RECONNECT }, /* connection was killed (MariaDB)                     */
	{ 2002, RELMQ__DB_RECONNECT }, /* cannot connect: socket                              */
	{ 2003, RELMQ__DB_RECONNECT }, /* cannot connect: TCP                                 */
	{ 2004, RELMQ__DB_RECONNECT }, /* cannot create TCP socket                            */
	{ 2005, RELMQ__DB_RECONNECT }, /* unknown host: name service may come back            */
	{ 2006, RELMQ__DB_RECONNECT }, /* gone away                                           */
	{ 2012, RELMQ__DB_RECONNECT }, /* handshake                                           */
	{ 2013, RELMQ__DB_RECONNECT }, /* lost connection                                     */
	{ 2014, RELMQ__DB_RECONNECT }, /* out of sync: this connection cannot be used again   */
	{ 2026, RELMQ__DB_RECONNECT }, /* TLS                                                 */
	{ 2027, RELMQ__DB_RECONNECT }, /* malformed packet                                    */
	{ 2055, RELMQ__DB_RECONNECT }, /* lost connection, with the system's number           */
	{ 3169, RELMQ__DB_RECONNECT }, /* session was killed (MySQL)                          */
	{ 4031, RELMQ__DB_RECONNECT }, /* idle for too long (MySQL; see relmq__db_fail)       */
	{ 1021, RELMQ__DB_BACK_OFF },  /* disk full                                           */
	{ 1026, RELMQ__DB_BACK_OFF },  /* error writing file                                  */
	{ 1030, RELMQ__DB_BACK_OFF },  /* error from the storage engine: no space, mostly     */
	{ 1037, RELMQ__DB_BACK_OFF },  /* out of memory                                       */
	{ 1038, RELMQ__DB_BACK_OFF },  /* out of sort memory                                  */
	{ 1040, RELMQ__DB_BACK_OFF },  /* too many connections                                */
	{ 1041, RELMQ__DB_BACK_OFF },  /* out of resources                                    */
	{ 1042, RELMQ__DB_BACK_OFF },  /* server cannot resolve our host name                 */
	{ 1114, RELMQ__DB_BACK_OFF },  /* table is full: disk or temporary space              */
	{ 1129, RELMQ__DB_BACK_OFF },  /* host is blocked                                     */
	{ 1135, RELMQ__DB_BACK_OFF },  /* cannot create a thread                              */
	{ 1203, RELMQ__DB_BACK_OFF },  /* too many connections of this user                   */
	{ 1206, RELMQ__DB_BACK_OFF },  /* lock table is full                                  */
	{ 1226, RELMQ__DB_BACK_OFF },  /* quota of this user                                  */
	{ 1637, RELMQ__DB_BACK_OFF },  /* too many transactions                               */
	{ 1969, RELMQ__DB_BACK_OFF },  /* statement time-out (MariaDB)                        */
	{ 2008, RELMQ__DB_BACK_OFF },  /* client out of memory                                */
	{ 3024, RELMQ__DB_BACK_OFF },  /* statement time-out (MySQL)                          */
	{ 1047, RELMQ__DB_FAIL_OVER }, /* Galera: node is not ready                           */
	{ 1290, RELMQ__DB_FAIL_OVER }, /* --read-only                                         */
	{ 1792, RELMQ__DB_FAIL_OVER }, /* read-only transaction                               */
	{ 1836, RELMQ__DB_FAIL_OVER }, /* read-only mode                                      */
	{ 3032, RELMQ__DB_FAIL_OVER }, /* offline mode                                        */
	{ 3100, RELMQ__DB_FAIL_OVER }, /* group replication refuses the transaction           */
};

relmq__db_class relmq__db_classify(unsigned error_number)
{
	if (error_number == 0)
		return RELMQ__DB_OK;
	if (error_number >= 1155 && error_number <= 1161)
		return RELMQ__DB_RECONNECT; /* the net's, each in its own way */
	for (size_t i = 0; i < sizeof(known_errors) / sizeof(known_errors[0]); i++)
		if (known_errors[i].number == error_number)
			return known_errors[i].class;
	return RELMQ__DB_PERMANENT;
}

bool relmq__db_is_outage(relmq__db_class c)
{
	return c == RELMQ__DB_RECONNECT || c == RELMQ__DB_BACK_OFF || c == RELMQ__DB_FAIL_OVER;
}

/* Server texts quote the statement, line ends included. */
static void make_one_line(char *text)
{
	for (; *text != '\0'; text++)
		if ((unsigned char) *text < 0x20 || *text == 0x7f)
			*text = ' ';
}

static relmq_code fail_as(relmq__db *db, unsigned number, const char *state, const char *doing,
    const char *text, relmq_error *err)
{
	db->class = relmq__db_classify(number);
	if (number == 4031 && db->is_mariadb)
		db->class = RELMQ__DB_PERMANENT; /* there: a trigger that does not exist */
	if (db->class == RELMQ__DB_FAIL_OVER)
		relmq__hosts_leave(&db->hosts);
	unsigned flags = db->class == RELMQ__DB_PERMANENT ? 0 : RELMQ_F_RETRY | RELMQ_F_TX_LOST;
	(void) relmq__fail_from(err, RELMQ_EDB, flags, RELMQ_FROM_MYSQL, (int) number,
	    "%s: error %u: %s", doing, number, text);
	if (err != NULL) {
		(void) snprintf(err->sqlstate, sizeof(err->sqlstate), "%s", state);
		make_one_line(err->text);
	}
	return RELMQ_EDB;
}

static relmq_code fail_last(relmq__db *db, const char *doing, relmq_error *err)
{
	if (db->mysql == NULL)
		return fail_as(db, 2006, "HY000", doing, "not connected", err);
	unsigned number = mysql_errno(db->mysql);
	if (number == 0) /* a result that could not be allocated, at worst */
		return fail_as(db, 2008, "HY000", doing, "no result", err);
	return fail_as(db, number, mysql_sqlstate(db->mysql), doing, mysql_error(db->mysql), err);
}

/* What is a server's trouble and not a statement's says which server it was. */
relmq_code relmq__db_fail(relmq__db *db, const char *doing, relmq_error *err)
{
	char at[128];
	unsigned number = db->mysql != NULL ? mysql_errno(db->mysql) : 0;
	if (db->hosts.text[0] == '\0' || !relmq__db_is_outage(relmq__db_classify(number)))
		return fail_last(db, doing, err);
	(void) snprintf(at, sizeof(at), "%.64s: %.60s", db->hosts.text, doing);
	return fail_last(db, at, err);
}

/* --- open and close ---------------------------------------------------------------- */

static pthread_once_t library_once = PTHREAD_ONCE_INIT;
static int library_failed;

/* mysql_init() would do it at its first call, but not safely in two threads at once. */
static void start_library(void)
{
	library_failed = mysql_library_init(0, NULL, NULL);
}

static bool given(const char *text)
{
	return text != NULL && text[0] != '\0';
}

static unsigned whole_seconds(int64_t ms)
{
	return ms <= 0 ? 1 : (unsigned) ((ms + 999) / 1000);
}

/* MYSQL_OPT_RECONNECT is left alone: off is the default, and naming it prints a warning
 * with newer Oracle clients. */
static void set_options(MYSQL *mysql, const relmq__mysql_settings *s)
{
	unsigned connect_s = whole_seconds(s->connect_timeout_ms);
	unsigned read_s = whole_seconds(s->read_timeout_ms);
	unsigned write_s = whole_seconds(s->write_timeout_ms);
	unsigned protocol = given(s->socket) ? MYSQL_PROTOCOL_SOCKET : MYSQL_PROTOCOL_TCP;
	unsigned local_infile = 0; /* a server may ask for any file otherwise */
	unsigned long packet = 1UL << 30;
	(void) mysql_options(mysql, MYSQL_OPT_CONNECT_TIMEOUT, &connect_s);
	(void) mysql_options(mysql, MYSQL_OPT_READ_TIMEOUT, &read_s);
	(void) mysql_options(mysql, MYSQL_OPT_WRITE_TIMEOUT, &write_s);
	(void) mysql_options(mysql, MYSQL_OPT_PROTOCOL, &protocol);
	(void) mysql_options(mysql, MYSQL_OPT_LOCAL_INFILE, &local_infile);
	(void) mysql_options(mysql, MYSQL_OPT_MAX_ALLOWED_PACKET, &packet);
	(void) mysql_options(mysql, MYSQL_SET_CHARSET_NAME, "utf8mb4");
#if !defined(MARIADB_BASE_VERSION) && !defined(LIBMARIADB)
	/* caching_sha2_password without TLS: MariaDB's client fetches the server's key by
	 * itself, Oracle's only when told. And a time-out of its is tried again. */
	bool get_key = true;
	unsigned tries = 1;
	(void) mysql_options(mysql, MYSQL_OPT_GET_SERVER_PUBLIC_KEY, &get_key);
	(void) mysql_options(mysql, MYSQL_OPT_RETRY_COUNT, &tries);
#endif
}

/* The server drops a session that says nothing for this long, and with it the locks of a
 * host that died. A living client may wait for its own reads, and be idle a while. */
static unsigned idle_seconds(const relmq__mysql_settings *s)
{
	unsigned read_s = whole_seconds(s->read_timeout_ms);
	return read_s < 30 ? 60 : 2 * read_s;
}

static relmq_code set_session(
    relmq__db *db, unsigned lock_wait_s, const char *doing, relmq_error *err)
{
	/* A statement of its own: the variable has two names. */
	static const char isolation[] = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";
	char sql[512];
	unsigned lock_s = lock_wait_s > 0 ? lock_wait_s : 1;
	/* NAMES again: a server may be told to ignore what the client asked for. */
	int n = snprintf(sql, sizeof(sql),
	    "SET NAMES utf8mb4, SESSION autocommit = 1, SESSION time_zone = '+00:00',"
	    " SESSION sql_mode = "
	    "'STRICT_TRANS_TABLES,STRICT_ALL_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,"
	    "ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION',"
	    " SESSION wait_timeout = %u, SESSION innodb_lock_wait_timeout = %u,"
	    " SESSION lock_wait_timeout = %u",
	    idle_seconds(db->settings), lock_s, lock_s);
	if (mysql_real_query(db->mysql, sql, (unsigned long) n) != 0 ||
	    mysql_real_query(db->mysql, isolation, sizeof(isolation) - 1) != 0)
		return fail_last(db, doing, err);
	return RELMQ_OK;
}

/* A replica is to be left even if this account could write there. */
static relmq_code refuse_read_only(relmq__db *db, const char *doing, relmq_error *err)
{
	int64_t read_only = 0;
	/* Text in newer versions of MariaDB, where it has more values than two. */
	static const char sql[] =
	    "SELECT CONCAT(@@read_only) NOT IN ('0', 'OFF') OR @@innodb_read_only";
	relmq_code code = relmq__db_number(db, sql, 0, &read_only, err);
	if (code != RELMQ_OK || read_only == 0)
		return code;
	return fail_as(db, 1836, "HY000", doing, "the server is read-only", err);
}

/* Whom to try, and what an error says of it. */
static void pick_server(relmq__db *db, const relmq__mysql_settings *s, char *doing, size_t size)
{
	const relmq__servers servers = { s->hosts, s->host_count, s->host, s->port };
	if (given(s->socket)) {
		(void) snprintf(db->hosts.text, sizeof(db->hosts.text), "%s", s->socket);
	} else {
		/* From the first: they are no equals, as a rule one of them is writable. */
		relmq__hosts_pick(&db->hosts, &servers, false);
	}
	bool named = s->tls.enabled && s->tls.verify;
	(void) snprintf(doing, size, "connect to %.80s as %.40s%s%.40s%s", db->hosts.text, s->user,
	    named ? " (TLS, certificate for " : "", named ? db->hosts.name : "", named ? ")" : "");
}

static relmq_code connect_session(
    relmq__db *db, unsigned lock_wait_s, bool to_write, const char *doing, relmq_error *err)
{
	const relmq__mysql_settings *s = db->settings;
	bool by_socket = given(s->socket);
	set_options(db->mysql, s);
	relmq__db_set_tls(db->mysql, &s->tls);
	bool bounded;
	if (!relmq__db_connect(db->mysql, s, by_socket ? NULL : db->hosts.name,
	        by_socket ? 0 : (unsigned) db->hosts.port, &bounded)) {
		if (!bounded)
			return fail_last(db, doing, err);
		return fail_as(
		    db, 2013, "HY000", doing, "no TLS handshake within connect_timeout", err);
	}
	if (!relmq__db_tls_kept(db->mysql, &s->tls))
		return fail_as(db, 2026, "HY000", doing, "the server does not offer TLS", err);
	db->is_mariadb = strstr(mysql_get_server_info(db->mysql), "MariaDB") != NULL;
	relmq_code code = set_session(db, lock_wait_s, doing, err);
	return code == RELMQ_OK && to_write ? refuse_read_only(db, doing, err) : code;
}

static relmq_code open_next(relmq__db *db, const relmq__mysql_settings *s, unsigned lock_wait_s,
    bool to_write, relmq_error *err)
{
	char doing[200];
	*db = (relmq__db){ .settings = s, .hosts = db->hosts };
	pick_server(db, s, doing, sizeof(doing));
	(void) pthread_once(&library_once, start_library);
	db->mysql = library_failed == 0 ? mysql_init(NULL) : NULL;
	if (db->mysql == NULL) {
		db->class = RELMQ__DB_BACK_OFF;
		return relmq__fail_nomem(err);
	}
	relmq_code code = connect_session(db, lock_wait_s, to_write, doing, err);
	if (code == RELMQ_OK)
		return RELMQ_OK;
	if (db->class == RELMQ__DB_PERMANENT && err != NULL)
		err->flags |=
		    RELMQ_F_FATAL; /* password, database name, plugin: somebody must act */
	relmq__hosts_leave(&db->hosts);
	relmq__db_close(db);
	return code;
}

relmq_code relmq__db_open(
    relmq__db *db, const relmq__mysql_settings *s, unsigned lock_wait_s, relmq_error *err)
{
	return open_next(db, s, lock_wait_s, true, err);
}

static relmq_code try_each(relmq__db *db, const relmq__mysql_settings *s, unsigned lock_wait_s,
    bool to_write, bool *read_only, relmq_error *err)
{
	size_t left = s->host_count > 0 ? s->host_count : 1;
	relmq_code code = open_next(db, s, lock_wait_s, to_write, err);
	while (code != RELMQ_OK) {
		*read_only = *read_only || db->class == RELMQ__DB_FAIL_OVER;
		if (--left == 0)
			break;
		LOG_WARN("database", "%s; trying the next server", err->text);
		code = open_next(db, s, lock_wait_s, to_write, err);
	}
	return code;
}

relmq_code relmq__db_open_any(relmq__db *db, const relmq__mysql_settings *s, unsigned lock_wait_s,
    bool to_write, relmq_error *err)
{
	relmq_error last;
	bool read_only = false;
	*db = (relmq__db){ .settings = s };
	relmq_code code = try_each(db, s, lock_wait_s, true, &read_only, &last);
	if (code != RELMQ_OK && read_only && !to_write)
		code = try_each(db, s, lock_wait_s, false, &read_only, &last);
	if (code != RELMQ_OK && err != NULL)
		*err = last;
	return code;
}

void relmq__db_close(relmq__db *db)
{
	if (db->mysql != NULL)
		mysql_close(db->mysql);
	db->mysql = NULL;
}

/* --- statements -------------------------------------------------------------------- */

/* What a statement is about, without the values in it: those may be anybody's secrets. */
static const char *summary(const char *sql, size_t len, char *out, size_t size)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_.` ";
	size_t n = 0;
	while (n < len && n + 1 < size && sql[n] != '\0' && strchr(plain, sql[n]) != NULL)
		n++;
	while (n > 0 && sql[n - 1] == ' ')
		n--;
	(void) snprintf(out, size, "%.*s", (int) n, sql);
	return n > 0 ? out : "statement";
}

static relmq_code fail_statement(relmq__db *db, const char *sql, size_t len, relmq_error *err)
{
	char doing[64];
	return relmq__db_fail(db, summary(sql, len, doing, sizeof(doing)), err);
}

static relmq_code send_statement(relmq__db *db, const char *sql, size_t len, relmq_error *err)
{
	if (db->mysql == NULL || mysql_real_query(db->mysql, sql, (unsigned long) len) != 0)
		return fail_statement(db, sql, len, err);
	return RELMQ_OK;
}

/* Every answer is read, wanted or not (a CALL has several): what stays unread would be
 * taken for the answer to the next statement. */
relmq_code relmq__db_exec(
    relmq__db *db, const char *sql, size_t len, uint64_t *affected, relmq_error *err)
{
	uint64_t rows = 0;
	relmq_code code = send_statement(db, sql, len, err);
	for (int more = 0; code == RELMQ_OK && more == 0;) {
		MYSQL_RES *res = mysql_store_result(db->mysql);
		if (res == NULL && mysql_field_count(db->mysql) > 0)
			return fail_statement(db, sql, len, err);
		if (res == NULL)
			rows = (uint64_t) mysql_affected_rows(db->mysql);
		mysql_free_result(res);
		more = mysql_next_result(db->mysql);
		if (more > 0)
			code = fail_statement(db, sql, len, err);
	}
	if (code == RELMQ_OK && affected != NULL)
		*affected = rows;
	return code;
}

relmq_code relmq__db_execf(
    relmq__db *db, uint64_t *affected, relmq_error *err, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	char *sql = NULL;
	int n = vasprintf(&sql, fmt, args);
	va_end(args);
	if (n < 0)
		return relmq__fail_nomem(err);
	relmq_code code = relmq__db_exec(db, sql, (size_t) n, affected, err);
	free(sql);
	return code;
}

relmq_code relmq__db_query(
    relmq__db *db, const char *sql, size_t len, MYSQL_RES **out, relmq_error *err)
{
	relmq_code code = send_statement(db, sql, len, err);
	*out = code == RELMQ_OK ? mysql_store_result(db->mysql) : NULL;
	if (code == RELMQ_OK && *out == NULL)
		return fail_statement(db, sql, len, err);
	return code;
}

relmq_code relmq__db_stream(
    relmq__db *db, const char *sql, size_t len, MYSQL_RES **out, relmq_error *err)
{
	relmq_code code = send_statement(db, sql, len, err);
	*out = code == RELMQ_OK ? mysql_use_result(db->mysql) : NULL;
	if (code == RELMQ_OK && *out == NULL)
		return fail_statement(db, sql, len, err);
	return code;
}

relmq_code relmq__db_end(relmq__db *db, MYSQL_RES *res, relmq_error *err)
{
	if (res == NULL)
		return RELMQ_OK;
	while (mysql_errno(db->mysql) == 0 && mysql_fetch_row(res) != NULL) {
	}
	relmq_code code =
	    mysql_errno(db->mysql) != 0 ? relmq__db_fail(db, "read rows", err) : RELMQ_OK;
	mysql_free_result(res);
	return code;
}

relmq_code relmq__db_number(
    relmq__db *db, const char *sql, int64_t otherwise, int64_t *out, relmq_error *err)
{
	MYSQL_RES *res = NULL;
	relmq_code code = relmq__db_query(db, sql, strlen(sql), &res, err);
	if (code != RELMQ_OK)
		return code;
	MYSQL_ROW row = mysql_fetch_row(res);
	*out = row != NULL && row[0] != NULL ? strtoll(row[0], NULL, 10) : otherwise;
	mysql_free_result(res);
	return RELMQ_OK;
}

/* --- literals ---------------------------------------------------------------------- */

void relmq__sql_bytes(relmq__buf *b, const void *bytes, size_t n)
{
	relmq__buf_adds(b, "X'");
	relmq__buf_add_hex(b, bytes, n);
	relmq__buf_adds(b, "'");
}

void relmq__sql_text(relmq__buf *b, const char *utf8, size_t n)
{
	relmq__buf_adds(b, "_utf8mb4 ");
	relmq__sql_bytes(b, utf8, n);
}
