/* db/session.h - one MySQL or MariaDB connection with the settings that every part
 * of relmq relies on: utf8mb4, time zone UTC, READ COMMITTED, strict mode, bounded
 * waits, no silent reconnect, autocommit on. Knows no table and no AMQP.
 *
 * OWNERSHIP one thread owns a session. BLOCKING every call is bounded by the
 * connect, read and write time-outs of the settings. */
#ifndef RELMQ_DB_SESSION_H
#define RELMQ_DB_SESSION_H

#include <mysql.h>
#include <stdbool.h>
#include <stdint.h>

#include <relmq/error.h>

#include "base/buf.h"
#include "base/hosts.h"
#include "base/settings.h"

/* What to do next, decided by the server's or client's error number, never by text. */
typedef enum relmq__db_class {
	RELMQ__DB_OK = 0,
	RELMQ__DB_RETRY_TX,  /* deadlock, lock wait, snapshot conflict: run the unit again */
	RELMQ__DB_RECONNECT, /* connection gone, or killed: new connection, then again      */
	RELMQ__DB_BACK_OFF,  /* server refuses for now: too many connections, disk full ... */
	RELMQ__DB_FAIL_OVER, /* read-only, not ready: leave this server for the next one    */
	RELMQ__DB_PERMANENT  /* the statement itself is wrong                               */
} relmq__db_class;

/** 4031 is two errors; here it is MySQL's (idle for too long). relmq__db_fail() knows the server. */
relmq__db_class relmq__db_classify(unsigned error_number);
/** True for every class that is an outage: nobody's fault, no attempt is charged. */
bool relmq__db_is_outage(relmq__db_class c);

typedef struct relmq__db {
	MYSQL *mysql; /* NULL while closed */
	const relmq__mysql_settings *settings;
	relmq__hosts hosts;    /* zero at first; kept from one opening to the next */
	bool is_mariadb;       /* the server, not the client library */
	relmq__db_class class; /* of the last failure on this session */
} relmq__db;

/**
 * Connect and set the session up. On failure everything is closed again, the class
 * is set, and `err` says host, port and reason (wrong password, unreachable, unknown
 * database, certificate: one line each, no secret), with RELMQ_F_FATAL when the class is
 * permanent. `lock_wait_s` bounds row and metadata lock waits of this session; keep it below
 * the read time-out. The server drops the session after a minute (or two read time-outs) of
 * silence.
 *
 * One server is tried. Where the settings list several, the first one comes first, and a server
 * is left for the next at the next opening if it could not be had or is (or became) read-only.
 * A session that was lost otherwise is opened on the same server again: of a list with one
 * writable server it is the one that was found.
 */
RELMQ_CHECK relmq_code relmq__db_open(
    relmq__db *db, const relmq__mysql_settings *settings, unsigned lock_wait_s, relmq_error *err);
/**
 * For a tool that runs once: every server of the list in turn, from the first. A writable one,
 * or, unless `to_write`, any if there is none. `db` may be anything.
 */
RELMQ_CHECK relmq_code relmq__db_open_any(relmq__db *db, const relmq__mysql_settings *settings,
    unsigned lock_wait_s, bool to_write, relmq_error *err);
void relmq__db_close(relmq__db *db); /* idempotent */

/** One statement without a result. `affected` may be NULL. */
RELMQ_CHECK relmq_code relmq__db_exec(
    relmq__db *db, const char *sql, size_t len, uint64_t *affected, relmq_error *err);
RELMQ_CHECK relmq_code relmq__db_execf(relmq__db *db, uint64_t *affected, relmq_error *err,
    const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/** One statement with a result, stored on the client. Free with mysql_free_result(). */
RELMQ_CHECK relmq_code relmq__db_query(
    relmq__db *db, const char *sql, size_t len, MYSQL_RES **out, relmq_error *err);
/** The same, row by row from the wire (mysql_use_result): read to the end, then
 *  relmq__db_end(), which reports a connection that died on the way. */
RELMQ_CHECK relmq_code relmq__db_stream(
    relmq__db *db, const char *sql, size_t len, MYSQL_RES **out, relmq_error *err);
RELMQ_CHECK relmq_code relmq__db_end(relmq__db *db, MYSQL_RES *res, relmq_error *err);
/** First column of the first row as a number; `otherwise` when there is no row or it is NULL. */
RELMQ_CHECK relmq_code relmq__db_number(
    relmq__db *db, const char *sql, int64_t otherwise, int64_t *out, relmq_error *err);

/** Translate the connection's last error: fills `err` (RELMQ_EDB, native, sqlstate, one line of
 *  text; RELMQ_F_RETRY and RELMQ_F_TX_LOST unless permanent) and db->class. */
relmq_code relmq__db_fail(relmq__db *db, const char *doing, relmq_error *err);

/** SQL literals that no sql_mode and no character set can break. */
void relmq__sql_bytes(relmq__buf *b, const void *bytes, size_t n); /* X'..' : binary string */
void relmq__sql_text(relmq__buf *b, const char *utf8, size_t n);   /* _utf8mb4 X'..'        */

#endif
