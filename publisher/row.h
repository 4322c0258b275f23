/* publisher/row.h - one row of message_outbox on its way: read by store, published by
 * wire, settled by store. One thread owns it at a time; the queues hand it over. */
#ifndef RELMQ_PUBLISHER_ROW_H
#define RELMQ_PUBLISHER_ROW_H

#include <stdint.h>

#include "mq/message.h"
#include "mq/sender.h"

/* contract v1 */
typedef enum relmq__row_status {
	RELMQ__PENDING = 0,
	RELMQ__SENT = 1,
	RELMQ__FAILED = 2,
	RELMQ__ABANDONED = 3,
	RELMQ__SCHEDULED = 4
} relmq__row_status;

typedef struct relmq__row {
	relmq__item item; /* first: the sender's callback gets it back */
	relmq__msg *msg;  /* owns all bytes of the item                */
	uint64_t id;
	uint64_t epoch;      /* of the shard's lease when it was read      */
	uint64_t created_us; /* since 1970, the database's clock           */
	uint32_t key_hash;
	uint32_t retry_count; /* as read */
	uint8_t shard;
	uint8_t status; /* as read */
	relmq__outcome outcome;
} relmq__row;

relmq__row *relmq__row_new(void); /* NULL: out of memory */
void relmq__row_free(relmq__row *row);

#endif
