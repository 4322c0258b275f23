/* db/schema.h - the numbered migrations, compiled in from common/schema. */
#ifndef RELMQ_DB_SCHEMA_H
#define RELMQ_DB_SCHEMA_H

typedef struct relmq__migration {
	int version;
	const char *name; /* file name */
	const char *sql;  /* statements, each ended by ";\n" */
} relmq__migration;

extern const relmq__migration relmq__migrations[]; /* ascending */
extern const int relmq__migration_count;

#endif
