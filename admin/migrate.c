/* admin/migrate.c - `relmq migrate`. */
#include <stdio.h>

#include "admin/admin.h"
#include "base/program.h"
#include "db/migrate.h"

enum { LOCK_WAIT_S = 10 }; /* for a table that somebody's open transaction has looked at */

int relmq__admin_migrate(const relmq__settings *s, int argc, char **argv)
{
	relmq__db db;
	relmq_error err = RELMQ_ERROR_INIT;
	int from = 0;
	int to = 0;
	if (argc > 0)
		return relmq__program_misuse("migrate takes no operand: %s", argv[0]);
	relmq_code code = relmq__db_open_any(&db, &s->mysql, LOCK_WAIT_S, true, &err);
	if (code == RELMQ_OK)
		code = relmq__migrate(&db, &from, &to, &err);
	relmq__db_close(&db);
	if (code != RELMQ_OK)
		return relmq__program_fail("migrate: %s", err.text);
	if (from == to)
		(void) printf("schema: already at %d\n", to);
	else
		(void) printf("schema: version %d -> %d\n", from, to);
	return RELMQ__EXIT_OK;
}
