/* publisher/envelope.h - from the columns of a row to an AMQP message. No I/O. */
#ifndef RELMQ_PUBLISHER_ENVELOPE_H
#define RELMQ_PUBLISHER_ENVELOPE_H

#include <stdbool.h>

#include "publisher/row.h"

/* Columns as the database gave them; data NULL means SQL NULL. Borrowed. */
typedef struct relmq__column {
	const char *data;
	size_t len;
} relmq__column;

typedef struct relmq__row_columns {
	relmq__column msg_id, business_key, exchange, routing_key, type, content_type, headers,
	    properties, payload;
	uint64_t created_us; /* microseconds since 1970, the database's clock */
} relmq__row_columns;

/**
 * Fill row->msg and row->item. False: AMQP cannot carry the row, and row->item.reason says
 * why (the row is refused for good), or memory ran out (reason is empty).
 */
bool relmq__envelope(relmq__row *row, const relmq__row_columns *columns);

#endif
