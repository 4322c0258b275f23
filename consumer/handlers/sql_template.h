/* handlers/sql_template.h - a SQL statement with named parameters, cut into parts once,
 * at start. Knows no message and no database: who renders says what a parameter is worth.
 *
 *   :msg_id  :business_key  :type  :attempt  :queue
 *   :header.NAME                     NAME of letters, digits, "_" and "-"
 *   :payload                         the whole body
 *   :payload.path.to[0].field        see json_path.h; also :payload[0] and :payload."a b"
 */
#ifndef RELMQ_HANDLERS_SQL_TEMPLATE_H
#define RELMQ_HANDLERS_SQL_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>

#include <relmq/error.h>

#include "base/buf.h"
#include "consumer/handlers/json_path.h"

typedef enum relmq__sql_part_kind {
	RELMQ__SQL_TEXT = 0,
	RELMQ__SQL_MSG_ID,
	RELMQ__SQL_BUSINESS_KEY,
	RELMQ__SQL_TYPE,
	RELMQ__SQL_ATTEMPT,
	RELMQ__SQL_QUEUE,
	RELMQ__SQL_HEADER,
	RELMQ__SQL_PAYLOAD,
	RELMQ__SQL_PAYLOAD_PATH
} relmq__sql_part_kind;

typedef struct relmq__sql_part {
	relmq__sql_part_kind kind;
	const char *text; /* TEXT: SQL, `len` bytes of it */
	size_t len;
	char *header;            /* HEADER: its name                  */
	relmq__json_step *steps; /* PAYLOAD_PATH: step_count of them  */
	size_t step_count;
} relmq__sql_part;

typedef struct relmq__sql_template {
	char *sql;
	relmq__sql_part *parts;
	size_t count, capacity;
	bool reads_json; /* some parameter is a PAYLOAD_PATH */
	/* The parts of the one tuple of an INSERT that may have many (sql_insert.h): before
	 * them stands what comes once, behind them what ends it. Both 0: no such statement. */
	size_t tuple_from, tuple_to;
} relmq__sql_template;

/** RELMQ_ECONFIG: an unknown parameter, a quote without end, several statements in one,
 *  one that would end the transaction. On failure nothing is left to free. */
RELMQ_CHECK relmq_code relmq__sql_template_parse(
    relmq__sql_template *t, const char *sql, relmq_error *err);
void relmq__sql_template_free(relmq__sql_template *t);

/** Appends the literal that a parameter stands for. */
typedef void (*relmq__sql_value_fn)(relmq__buf *out, const relmq__sql_part *param, void *arg);

/** Append parts [from, to). */
void relmq__sql_template_render(const relmq__sql_template *t, size_t from, size_t to,
    relmq__buf *out, relmq__sql_value_fn value, void *arg);

#endif
