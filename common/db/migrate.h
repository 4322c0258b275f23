/* db/migrate.h - bring a database to the schema this library needs. Knows no AMQP. */
#ifndef RELMQ_DB_MIGRATE_H
#define RELMQ_DB_MIGRATE_H

#include "db/session.h"

/** Version that this library was built for: the number of the last file in common/schema. */
int relmq__schema_newest(void);

/**
 * Apply what is missing, under a named lock of this database (two callers at once take
 * turns), each migration repeatable after a crash in its middle.
 * @param[out] from,to versions before and after
 * @retval RELMQ_ESCHEMA the database is newer than this library (nothing was changed)
 */
RELMQ_CHECK relmq_code relmq__migrate(relmq__db *db, int *from, int *to, relmq_error *err);

/**
 * RELMQ_OK when the database has this library's version; RELMQ_ESCHEMA with
 * RELMQ_F_FATAL and one line that says what to do when it has none, an older or a newer one.
 */
RELMQ_CHECK relmq_code relmq__schema_check(relmq__db *db, relmq_error *err);

#endif
