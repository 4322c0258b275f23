/* support/testwriter.c - see testwriter.h. */
#include "support/testwriter.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "db/migrate.h"

relmq__mysql_settings settings;
char database[64];
relmq__db db;
MYSQL *app;
relmq_outbox *outbox;
relmq_error err;

static char *variable(const char *name, char *otherwise)
{
	char *value = getenv(name);
	return value != NULL ? value : otherwise;
}

static void create_database(void)
{
	settings = (relmq__mysql_settings){
		.host = variable("RELMQ_MYSQL_HOST", "127.0.0.1"),
		.port = strtol(variable("RELMQ_MYSQL_PORT", "3306"), NULL, 10),
		.user = variable("RELMQ_MYSQL_USER", "relmq"),
		.password = variable("RELMQ_MYSQL_PASSWORD", ""),
		.connect_timeout_ms = 5000,
		.read_timeout_ms = 20000,
		.write_timeout_ms = 20000,
	};
	int from = 0;
	int to = 0;
	(void) snprintf(database, sizeof(database), "relmq_t_%d_writer", (int) getpid());
	cr_assert_eq(relmq__db_open(&db, &settings, 5, &err), RELMQ_OK, "%s", err.text);
	settings.database = database;
	cr_assert_eq(
	    relmq__db_execf(&db, NULL, &err, "DROP DATABASE IF EXISTS %s", database), RELMQ_OK);
	cr_assert_eq(
	    relmq__db_execf(&db, NULL, &err, "CREATE DATABASE %s CHARACTER SET latin1", database),
	    RELMQ_OK, "%s", err.text);
	cr_assert_eq(relmq__db_execf(&db, NULL, &err, "USE %s", database), RELMQ_OK);
	cr_assert_eq(relmq__migrate(&db, &from, &to, &err), RELMQ_OK, "%s", err.text);
	cr_assert_eq(relmq__db_execf(&db, NULL, &err, "CREATE TABLE business (n INT)"), RELMQ_OK);
}

void app_connect(void)
{
	cr_assert_not_null(mysql_real_connect(app, settings.host, settings.user, settings.password,
	                       database, (unsigned) settings.port, NULL, 0),
	    "%s", mysql_error(app));
}

void writer_open(void)
{
	unsigned tcp = MYSQL_PROTOCOL_TCP;
	create_database();
	app = mysql_init(NULL);
	(void) mysql_options(app, MYSQL_OPT_PROTOCOL, &tcp);
	app_connect();
	cr_assert_eq(relmq_outbox_open(&outbox, app, NULL, &err), RELMQ_OK, "%s", err.text);
}

void writer_close(void)
{
	relmq_outbox_close(outbox);
	mysql_close(app);
	cr_expect_eq(relmq__db_execf(&db, NULL, &err, "DROP DATABASE %s", database), RELMQ_OK, "%s",
	    err.text);
	relmq__db_close(&db);
}

void app_run(const char *sql)
{
	cr_assert_eq(mysql_query(app, sql), 0, "%s: %s", sql, mysql_error(app));
}

void app_refused(const char *sql)
{
	cr_expect_neq(mysql_query(app, sql), 0, "was accepted: %s", sql);
}

int64_t number(const char *sql)
{
	int64_t n = 0;
	cr_assert_eq(relmq__db_number(&db, sql, -1, &n, &err), RELMQ_OK, "%s: %s", sql, err.text);
	return n;
}

int64_t rows(void)
{
	return number("SELECT COUNT(*) FROM message_outbox");
}

/* First column of the first row, as the bytes that the server has. */
void expect_bytes(const char *sql, const void *expected, size_t n)
{
	MYSQL_RES *res = NULL;
	cr_assert_eq(relmq__db_query(&db, sql, strlen(sql), &res, &err), RELMQ_OK, "%s", err.text);
	MYSQL_ROW row = mysql_fetch_row(res);
	cr_assert_not_null(row, "%s", sql);
	cr_assert_not_null(row[0], "%s", sql);
	cr_expect_eq(mysql_fetch_lengths(res)[0], n, "%s: %lu bytes, not %zu", sql,
	    mysql_fetch_lengths(res)[0], n);
	cr_expect_eq(memcmp(row[0], expected, n), 0, "%s: %.*s", sql, 60, row[0]);
	mysql_free_result(res);
}

void expect_text(const char *sql, const char *expected)
{
	expect_bytes(sql, expected, strlen(expected));
}

relmq_msg message(const char *body)
{
	relmq_msg m = RELMQ_MSG_INIT;
	m.routing_key = "order.placed";
	m.body = body;
	m.body_len = strlen(body);
	return m;
}

void add(const relmq_msg *m, char id[RELMQ_ID_SIZE])
{
	cr_assert_eq(relmq_outbox_add(outbox, m, id, &err), RELMQ_OK, "%s", err.text);
}

void expect_refused(const relmq_msg *m, relmq_code code)
{
	relmq_code got = relmq_outbox_add(outbox, m, NULL, &err);
	cr_expect_eq(
	    got, code, "%s, not %s: %s", relmq_code_name(got), relmq_code_name(code), err.text);
	cr_expect_eq(err.code, code);
	cr_expect_eq(err.flags & RELMQ_F_TX_LOST, 0);
}
