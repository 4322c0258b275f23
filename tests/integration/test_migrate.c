/* test_migrate.c - schema migration on a real server: repeated, concurrent, interrupted,
 * and refused. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "db/migrate.h"
#include "db/schema.h"

enum { LOCK_WAIT_S = 5, CALLERS = 4 };

static relmq__mysql_settings settings;
static char database[64];
static relmq_error err;

static char *env(const char *name, char *otherwise)
{
	char *value = getenv(name);
	return value != NULL ? value : otherwise;
}

/* A database of its own a test, in a character set that nothing must depend on. */
static void create_database(void)
{
	relmq__db db;
	settings = (relmq__mysql_settings){
		.host = env("RELMQ_MYSQL_HOST", "127.0.0.1"),
		.port = strtol(env("RELMQ_MYSQL_PORT", "3306"), NULL, 10),
		.user = env("RELMQ_MYSQL_USER", "relmq"),
		.password = env("RELMQ_MYSQL_PASSWORD", ""),
		.connect_timeout_ms = 5000,
		.read_timeout_ms = 20000,
		.write_timeout_ms = 20000,
	};
	(void) snprintf(database, sizeof(database), "relmq_t_%d_migrate", (int) getpid());
	cr_assert_eq(relmq__db_open(&db, &settings, LOCK_WAIT_S, &err), RELMQ_OK, "%s", err.text);
	cr_assert_eq(relmq__db_execf(&db, NULL, &err, "DROP DATABASE IF EXISTS %s", database),
	    RELMQ_OK, "%s", err.text);
	cr_assert_eq(
	    relmq__db_execf(&db, NULL, &err, "CREATE DATABASE %s CHARACTER SET latin1", database),
	    RELMQ_OK, "%s", err.text);
	relmq__db_close(&db);
	settings.database = database;
}

static void drop_database(void)
{
	relmq__db db;
	settings.database = NULL;
	if (relmq__db_open(&db, &settings, LOCK_WAIT_S, &err) != RELMQ_OK)
		return;
	cr_expect_eq(relmq__db_execf(&db, NULL, &err, "DROP DATABASE IF EXISTS %s", database),
	    RELMQ_OK, "%s", err.text);
	relmq__db_close(&db);
}

TestSuite(migrate, .init = create_database, .fini = drop_database, .timeout = 60);

static void open_session(relmq__db *db)
{
	cr_assert_eq(relmq__db_open(db, &settings, LOCK_WAIT_S, &err), RELMQ_OK, "%s", err.text);
}

static void run(relmq__db *db, const char *sql)
{
	cr_assert_eq(
	    relmq__db_exec(db, sql, strlen(sql), NULL, &err), RELMQ_OK, "%s: %s", sql, err.text);
}

static int64_t number(relmq__db *db, const char *sql)
{
	int64_t n = 0;
	cr_assert_eq(relmq__db_number(db, sql, -1, &n, &err), RELMQ_OK, "%s: %s", sql, err.text);
	return n;
}

static void expect_whole(relmq__db *db)
{
	cr_expect_eq(relmq__schema_check(db, &err), RELMQ_OK, "%s", err.text);
	cr_expect_eq(number(db,
	                 "SELECT COUNT(*) FROM information_schema.tables"
	                 " WHERE table_schema = DATABASE()"),
	    8);
	cr_expect_eq(number(db, "SELECT COUNT(*) FROM outbox_lease WHERE expires_at < NOW(6)"), 16);
	cr_expect_eq(number(db, "SELECT COUNT(*) FROM relmq_schema"), relmq__schema_newest());
	cr_expect_eq(number(db, "SELECT COUNT(*) FROM message_outbox_text"), 0);
}

Test(migrate, runs_once_and_then_has_nothing_to_do)
{
	relmq__db db;
	int from = -1;
	int to = -1;
	open_session(&db);
	cr_assert_eq(relmq__migrate(&db, &from, &to, &err), RELMQ_OK, "%s", err.text);
	cr_expect_eq(from, 0);
	cr_expect_eq(to, relmq__schema_newest());
	expect_whole(&db);
	cr_assert_eq(relmq__migrate(&db, &from, &to, &err), RELMQ_OK, "%s", err.text);
	cr_expect_eq(from, relmq__schema_newest());
	cr_expect_eq(to, relmq__schema_newest());
	expect_whole(&db);
	relmq__db_close(&db);
}

typedef struct caller {
	pthread_t thread;
	relmq_code code;
	relmq_error err;
	int from, to;
} caller;

static void *migrate_as_one_of_many(void *arg)
{
	caller *c = arg;
	relmq__db db;
	c->code = relmq__db_open(&db, &settings, LOCK_WAIT_S, &c->err);
	if (c->code == RELMQ_OK)
		c->code = relmq__migrate(&db, &c->from, &c->to, &c->err);
	relmq__db_close(&db);
	return NULL;
}

Test(migrate, callers_at_once_take_turns)
{
	caller callers[CALLERS] = { 0 };
	int found_nothing = 0;
	for (int i = 0; i < CALLERS; i++)
		cr_assert_eq(
		    pthread_create(&callers[i].thread, NULL, migrate_as_one_of_many, &callers[i]),
		    0);
	for (int i = 0; i < CALLERS; i++) {
		(void) pthread_join(callers[i].thread, NULL);
		cr_expect_eq(callers[i].code, RELMQ_OK, "%s", callers[i].err.text);
		cr_expect_eq(callers[i].to, relmq__schema_newest());
		found_nothing += callers[i].from == 0;
	}
	cr_expect_eq(found_nothing, 1, "the migration ran %d times", found_nothing);
	relmq__db db;
	open_session(&db);
	expect_whole(&db);
	relmq__db_close(&db);
}

Test(migrate, refuses_a_newer_schema_with_one_line)
{
	relmq__db db;
	int from = 0;
	int to = 0;
	open_session(&db);
	cr_assert_eq(relmq__migrate(&db, &from, &to, &err), RELMQ_OK, "%s", err.text);
	run(&db, "INSERT INTO relmq_schema (version) VALUES (99)");
	cr_expect_eq(relmq__migrate(&db, &from, &to, &err), RELMQ_ESCHEMA);
	cr_expect_eq(from, 99);
	cr_expect_eq(to, 99);
	cr_expect_eq(err.flags, RELMQ_F_FATAL);
	cr_expect(strstr(err.text, database) != NULL && strstr(err.text, "version 99") != NULL &&
	        strstr(err.text, "install a newer relmq") != NULL,
	    "%s", err.text);
	cr_expect(strchr(err.text, '\n') == NULL);
	cr_expect_eq(relmq__schema_check(&db, &err), RELMQ_ESCHEMA);
	cr_expect_eq(err.flags, RELMQ_F_FATAL);
	cr_expect_eq(number(&db, "SELECT COUNT(*) FROM relmq_schema"), relmq__schema_newest() + 1);
	relmq__db_close(&db);
}

Test(migrate, a_missing_schema_says_what_to_do)
{
	relmq__db db;
	char expected[160];
	open_session(&db);
	cr_expect_eq(relmq__schema_check(&db, &err), RELMQ_ESCHEMA);
	cr_expect_eq(err.flags, RELMQ_F_FATAL);
	(void) snprintf(expected, sizeof(expected),
	    "database %s has no relmq schema: run `relmq migrate`", database);
	cr_expect_str_eq(err.text, expected);
	relmq__db_close(&db);
}

/* Run the first `count` steps of all migrations, as a process that died then has: statements,
 * and behind those of each migration the row that says it was applied. `*version` is the last
 * one applied; false when there are not more steps than that. */
static bool run_first(relmq__db *db, int count, int *version)
{
	*version = 0;
	for (int m = 0; m < relmq__migration_count; m++) {
		const char *at = relmq__migrations[m].sql;
		for (const char *end; (end = strstr(at, ";\n")) != NULL; at = end + 2) {
			if (count-- == 0)
				return true;
			cr_assert_eq(relmq__db_exec(db, at, (size_t) (end - at), NULL, &err),
			    RELMQ_OK, "%s", err.text);
		}
		if (count-- == 0)
			return true;
		*version = relmq__migrations[m].version;
		cr_assert_eq(relmq__db_execf(db, NULL, &err,
		                 "INSERT INTO relmq_schema (version) VALUES (%d)", *version),
		    RELMQ_OK, "%s", err.text);
	}
	return false;
}

Test(migrate, a_crash_after_any_statement_is_mended_by_the_next_run)
{
	relmq__db db;
	open_session(&db);
	int count = 0;
	int version = 0;
	while (run_first(&db, count, &version)) {
		int from = -1;
		int to = -1;
		cr_expect_eq(relmq__schema_check(&db, &err), RELMQ_ESCHEMA, "after %d", count);
		cr_expect(strstr(err.text, "relmq migrate") != NULL, "%s", err.text);
		cr_assert_eq(relmq__migrate(&db, &from, &to, &err), RELMQ_OK, "after %d: %s", count,
		    err.text);
		cr_expect_eq(from, version);
		cr_expect_eq(to, relmq__schema_newest());
		expect_whole(&db);
		cr_assert_eq(
		    relmq__db_execf(&db, NULL, &err, "DROP DATABASE %s", database), RELMQ_OK);
		cr_assert_eq(
		    relmq__db_execf(&db, NULL, &err, "CREATE DATABASE %s", database), RELMQ_OK);
		cr_assert_eq(relmq__db_execf(&db, NULL, &err, "USE %s", database), RELMQ_OK);
		count++;
	}
	cr_expect_gt(count, 8);
	relmq__db_close(&db);
}

Test(migrate, running_it_again_leaves_what_is_there)
{
	relmq__db db;
	int from = 0;
	int to = 0;
	open_session(&db);
	cr_assert_eq(relmq__migrate(&db, &from, &to, &err), RELMQ_OK, "%s", err.text);
	run(&db, "INSERT INTO message_outbox (routing_key, payload) VALUES ('k', 'p')");
	run(&db, "UPDATE outbox_lease SET owner = 'me', epoch = 7 WHERE shard = 3");
	run(&db, "DELETE FROM relmq_schema");
	cr_assert_eq(relmq__migrate(&db, &from, &to, &err), RELMQ_OK, "%s", err.text);
	cr_expect_eq(number(&db, "SELECT COUNT(*) FROM message_outbox"), 1);
	cr_expect_eq(number(&db, "SELECT epoch FROM outbox_lease WHERE owner = 'me'"), 7);
	relmq__db_close(&db);
}
