/* handlers/sql_value.h - what a named parameter is worth for one message, as a literal.
 *
 * Types are kept: text is quoted, numbers stand as they were written, true and false are
 * TRUE and FALSE, null and what is missing are NULL, arrays and objects are their JSON
 * text. */
#ifndef RELMQ_HANDLERS_SQL_VALUE_H
#define RELMQ_HANDLERS_SQL_VALUE_H

#include <relmq/consumer.h>

#include "base/buf.h"
#include "consumer/handlers/sql_template.h"

typedef struct relmq__sql_source {
	MYSQL *mysql;      /* knows how its server wants text escaped          */
	relmq_delivery *d; /* its payload has passed the JSON check, if needed */
	relmq__buf text;   /* scratch for strings with escapes; the caller frees */
} relmq__sql_source;

/** A relmq__sql_value_fn; `source` is a relmq__sql_source. A failure is in out->failed. */
void relmq__sql_value(relmq__buf *out, const relmq__sql_part *param, void *source);

#endif
