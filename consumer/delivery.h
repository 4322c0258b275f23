/* consumer/delivery.h - one message on its way through the consumer, whole and in our
 * own memory: rabbitmq-c's buffers are gone by the time a worker looks. One thread owns
 * it at a time; the queues hand it over: intake, worker, (outlet,) intake. */
#ifndef RELMQ_CONSUMER_DELIVERY_H
#define RELMQ_CONSUMER_DELIVERY_H

#include <stdbool.h>
#include <stdint.h>

#include <relmq/consumer.h>

#include "mq/message.h"
#include "mq/sender.h"

enum { RELMQ__REASON_MAX = 1024 };

struct relmq_delivery {
	relmq__item item;     /* first: what outlet publishes, when it comes to that */
	relmq__msg *msg;      /* owned: properties, headers, body                    */
	const char *queue;    /* borrowed from the queue's settings                  */
	const char *consumer; /* borrowed: the name in message_inbox                 */
	unsigned queue_index;
	uint64_t generation; /* of the channel it came by                            */
	uint64_t tag;
	bool redelivered;
	bool dropped;     /* not ours any more, or not started: never acked     */
	bool duplicate;   /* already DONE: acked, no handler ran                */
	unsigned attempt; /* from the header x-relmq-attempt; 1 when absent     */
	unsigned starts;  /* starts of it that message_inbox has recorded       */
	relmq_verdict verdict;
	char *header_text; /* scratch of relmq_delivery_header                       */
	char reason[RELMQ__REASON_MAX + 1];
};

/** Takes `msg`; NULL: out of memory (and `msg` is freed). */
relmq_delivery *relmq__delivery_new(relmq__msg *msg);
void relmq__delivery_free(relmq_delivery *d); /* NULL is a no-op */

/** The id, 1..255 bytes, or empty when the message has none. */
amqp_bytes_t relmq__delivery_id_bytes(const relmq_delivery *d);
/** What keeps its order: the business key, else the id. */
uint64_t relmq__delivery_lane(const relmq_delivery *d);

#endif
