/* consumer/unit.h - run deliveries inside transactions: claim, handler, COMMIT. This is
 * where exactly once is made; it knows a database session and nothing of AMQP or threads. */
#ifndef RELMQ_CONSUMER_UNIT_H
#define RELMQ_CONSUMER_UNIT_H

#include "consumer/engine.h"

typedef struct relmq__unit {
	relmq__db *db;
	relmq__buf sql;     /* the inbox's statements */
	relmq__buf scratch; /* the handler's          */
	const relmq__engine_queue *queue;
	int64_t batch_time_ms;
	const atomic_bool *draining;
	unsigned doubt; /* batches that still ask which ids are known before they claim */
} relmq__unit;

/**
 * One transaction for as many of `ds[0..n)` (one queue, none redelivered, distinct ids) as
 * it suits. Sets verdict or duplicate of the first `*ran`, all of them committed.
 * *ran == 0: something failed, everything was rolled back: run ds[0] alone.
 * RELMQ_EDB: an outage or a conflict of transactions; nothing happened.
 */
RELMQ_CHECK relmq_code relmq__unit_batch(
    relmq__unit *u, relmq_delivery **ds, size_t n, size_t *ran, relmq_error *err);

/**
 * One delivery in a transaction of its own. Sets verdict (DONE is committed, RETRY and
 * REJECT are rolled back and have a reason) or duplicate.
 * RELMQ_EDB: as above; the same delivery is run again, on a new session if need be.
 */
RELMQ_CHECK relmq_code relmq__unit_single(relmq__unit *u, relmq_delivery *d, relmq_error *err);

#endif
