/* db/migrate.c - see migrate.h. */
#include "db/migrate.h"

#include <string.h>

#include "base/error.h"
#include "db/schema.h"

enum {
	LOCK_WAIT_S = 60,
	ERROR_NO_SUCH_TABLE = 1146,
	ERROR_DUPLICATE_COLUMN = 1060,
	ERROR_DUPLICATE_KEY_NAME = 1061
};

/* Names of locks are the whole server's and at most 64 characters; a database's name
 * alone may be as long. */
#define LOCK_NAME "CONCAT('relmq.migrate.', LEFT(SHA2(DATABASE(), 256), 32))"

int relmq__schema_newest(void)
{
	return relmq__migrations[relmq__migration_count - 1].version;
}

/* 0 when there is no schema, or one whose first migration did not come to its end. */
static relmq_code read_version(relmq__db *db, int *version, bool *table_missing, relmq_error *err)
{
	int64_t number = 0;
	relmq_error failure = RELMQ_ERROR_INIT;
	relmq_code code =
	    relmq__db_number(db, "SELECT MAX(version) FROM relmq_schema", 0, &number, &failure);
	*table_missing = code == RELMQ_EDB && failure.native == ERROR_NO_SUCH_TABLE;
	*version = (int) number;
	if (code == RELMQ_OK || *table_missing)
		return RELMQ_OK;
	if (err != NULL)
		*err = failure;
	return code;
}

static relmq_code refuse_newer(const relmq__db *db, int version, relmq_error *err)
{
	return relmq__fail(err, RELMQ_ESCHEMA, RELMQ_F_FATAL,
	    "database %s has relmq schema version %d, newer than this program's %d: "
	    "install a newer relmq",
	    db->settings->database, version, relmq__schema_newest());
}

/* Short waits in a row: one long one could outlast the read time-out of the session. */
static relmq_code take_lock(relmq__db *db, relmq_error *err)
{
	for (int waited_s = 0; waited_s < LOCK_WAIT_S; waited_s++) {
		int64_t mine = 0;
		relmq_code code =
		    relmq__db_number(db, "SELECT GET_LOCK(" LOCK_NAME ", 1)", 0, &mine, err);
		if (code != RELMQ_OK || mine == 1)
			return code;
	}
	return relmq__fail(err, RELMQ_ETIMEDOUT, RELMQ_F_RETRY,
	    "database %s: another migration has been running for %d s: look at it, or try again",
	    db->settings->database, LOCK_WAIT_S);
}

/* A failure means a lost connection, and then the server has released it. */
static void release_lock(relmq__db *db)
{
	int64_t released = 0;
	relmq__db_class class = db->class;
	relmq_code ignored =
	    relmq__db_number(db, "SELECT RELEASE_LOCK(" LOCK_NAME ")", 0, &released, NULL);
	(void) ignored;
	db->class = class; /* of the migration, if that failed */
}

/* DDL commits by itself: a migration that was cut short runs again from its beginning, and a
 * column or a key that it added then is there. CREATE TABLE knows IF NOT EXISTS; ALTER TABLE
 * knows it on one of the two servers only. */
static bool is_there_already(const relmq__db *db)
{
	unsigned number = mysql_errno(db->mysql);
	return number == ERROR_DUPLICATE_COLUMN || number == ERROR_DUPLICATE_KEY_NAME;
}

static relmq_code apply(relmq__db *db, const relmq__migration *m, relmq_error *err)
{
	relmq_code code = RELMQ_OK;
	const char *at = m->sql;
	for (const char *end; code == RELMQ_OK && (end = strstr(at, ";\n")) != NULL; at = end + 2) {
		code = relmq__db_exec(db, at, (size_t) (end - at), NULL, err);
		if (code == RELMQ_EDB && is_there_already(db))
			code = RELMQ_OK;
	}
	if (code == RELMQ_OK)
		code = relmq__db_execf(
		    db, NULL, err, "INSERT INTO relmq_schema (version) VALUES (%d)", m->version);
	return code;
}

static relmq_code migrate_locked(relmq__db *db, int *from, int *to, relmq_error *err)
{
	bool table_missing = false;
	relmq_code code = read_version(db, from, &table_missing, err);
	*to = *from;
	if (code == RELMQ_OK && *from > relmq__schema_newest())
		return refuse_newer(db, *from, err);
	for (int i = 0; code == RELMQ_OK && i < relmq__migration_count; i++) {
		if (relmq__migrations[i].version <= *from)
			continue;
		code = apply(db, &relmq__migrations[i], err);
		if (code == RELMQ_OK)
			*to = relmq__migrations[i].version;
	}
	return code;
}

relmq_code relmq__migrate(relmq__db *db, int *from, int *to, relmq_error *err)
{
	relmq_code code = take_lock(db, err);
	if (code != RELMQ_OK)
		return code;
	code = migrate_locked(db, from, to, err);
	release_lock(db);
	return code;
}

relmq_code relmq__schema_check(relmq__db *db, relmq_error *err)
{
	int version = 0;
	bool table_missing = false;
	relmq_code code = read_version(db, &version, &table_missing, err);
	if (code != RELMQ_OK || version == relmq__schema_newest())
		return code;
	if (table_missing)
		return relmq__fail(err, RELMQ_ESCHEMA, RELMQ_F_FATAL,
		    "database %s has no relmq schema: run `relmq migrate`", db->settings->database);
	if (version > relmq__schema_newest())
		return refuse_newer(db, version, err);
	return relmq__fail(err, RELMQ_ESCHEMA, RELMQ_F_FATAL,
	    "database %s has relmq schema version %d and this program needs %d: run `relmq "
	    "migrate`",
	    db->settings->database, version, relmq__schema_newest());
}
