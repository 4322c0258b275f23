/* consumer/engine.h - the consumer's threads and what joins them.
 *
 *   intake   the thread that called run: AMQP connection 1, deliveries and acks
 *   workers  each a database session; a lane (business key) always goes to the same one
 *   outlet   AMQP connection 2, publishes to ladder and parking: a connection that an
 *            alarm blocks delivers no acks, so this must not be intake's
 *
 *   intake -> worker[lane] -> intake (DONE: ack)
 *                          -> outlet -> intake (RETRY, REJECT: ack after the confirm)
 *
 * A delivery belongs to one opening of intake's channel (its generation). When that ends,
 * what was not started is dropped, and a verdict that comes later acks nothing. */
#ifndef RELMQ_CONSUMER_ENGINE_H
#define RELMQ_CONSUMER_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/queue.h"
#include "base/settings.h"
#include "consumer/delivery.h"
#include "consumer/handler.h"

typedef struct relmq__engine_queue {
	const relmq__consumer_queue *settings;
	const relmq__dlx_queue *dlx;
	const char *consumer; /* name in message_inbox */
	relmq__handler *handler;
} relmq__engine_queue;

typedef struct relmq__engine_stats {
	_Atomic uint64_t received, effects, duplicates, retried, parked, dropped;
} relmq__engine_stats;

typedef struct relmq__engine relmq__engine;

typedef struct relmq__worker {
	relmq__engine *engine;
	unsigned index;
	pthread_t thread;
	relmq__queue *in; /* relmq_delivery *, from intake */
} relmq__worker;

struct relmq__engine {
	const relmq__settings *settings;
	relmq__engine_queue *queues;
	size_t queue_count;
	size_t prefetch; /* a queue                                                 */
	size_t room;     /* deliveries that can be out with workers and outlet      */
	relmq__worker *workers;
	size_t worker_count;
	pthread_t outlet_thread;
	relmq__queue *to_outlet;         /* relmq_delivery *, from workers */
	relmq__queue *finished;          /* relmq_delivery *, to intake    */
	_Atomic(relmq__queue *) to_wake; /* that, once it is there: for who stops us */
	_Atomic uint64_t generation;     /* of intake's channel; 0: none open              */
	_Atomic unsigned workers_up;     /* with a database session                        */
	atomic_bool stop;                /* asked to drain                                       */
	atomic_bool draining;            /* workers finish what runs and drop what waits         */
	atomic_bool quit;                /* threads end                                          */
	atomic_bool fatal;               /* nothing helps but a person: fatal_error says what    */
	relmq_error fatal_error;
	relmq__engine_stats stats;
};

/** Run until relmq__engine_stop(). settings, queues and queue_count are set; the rest is zero.
 *  After RELMQ_ETIMEDOUT threads still run handlers: the process must end, nothing may be freed. */
RELMQ_CHECK relmq_code relmq__engine_run(relmq__engine *e, relmq_error *err);
/** Any thread; async-signal-safe; may come before run, and until free. */
void relmq__engine_stop(relmq__engine *e);
/** After run. False: handlers outlived it and still use the engine, which must stay where it is. */
bool relmq__engine_free(relmq__engine *e);

/** Nobody waits for this delivery any more: its channel is gone, or we are stopping. */
bool relmq__engine_stale(const relmq__engine *e, const relmq_delivery *d);
/** Back to intake, to be acked unless `dropped`; it looks when it is told. */
void relmq__engine_finish(relmq__engine *e, relmq_delivery *d);
void relmq__engine_tell_intake(relmq__engine *e);
/** A worker found something that no retry helps: the schema. Stops the engine. */
void relmq__engine_fail(relmq__engine *e, const relmq_error *err);

void *relmq__worker_main(void *arg); /* relmq__worker * */
void *relmq__outlet_main(void *arg); /* relmq__engine * */
RELMQ_CHECK relmq_code relmq__intake_run(relmq__engine *e, relmq_error *err);

#endif
