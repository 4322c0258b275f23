/* mq/topology.h - ask for queues and declare them, on an open connection. */
#ifndef RELMQ_MQ_TOPOLOGY_H
#define RELMQ_MQ_TOPOLOGY_H

#include "mq/connection.h"

typedef struct relmq__queue_info {
	uint32_t ready; /* messages ready for delivery */
	uint32_t consumers;
} relmq__queue_info;

/**
 * Passive declare. After a refusal the channel is open again.
 * @retval RELMQ_EBROKER native 404: no such queue; 403: no permission; 405: somebody's exclusive queue
 */
RELMQ_CHECK relmq_code relmq__queue_inspect(
    relmq__conn *c, const char *queue, relmq__queue_info *info, relmq_error *err);

/**
 * Declare a durable queue with `args`. Harmless when it exists with the same arguments.
 * @retval RELMQ_EBROKER native 406: it exists with other arguments (the text names which)
 */
RELMQ_CHECK relmq_code relmq__queue_declare(
    relmq__conn *c, const char *queue, amqp_table_t args, relmq_error *err);

#endif
