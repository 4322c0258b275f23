/* publisher/relay.h - the relay: two threads, store and wire, joined by two bounded queues.
 * The public face is in publisher.c. */
#ifndef RELMQ_PUBLISHER_RELAY_H
#define RELMQ_PUBLISHER_RELAY_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/queue.h"
#include "base/settings.h"
#include "publisher/lease.h"
#include "publisher/row.h"
#include "publisher/stats.h"

/* Rows handed out at once: the window in flight, and as much read ahead. */
enum { RELMQ__READ_AHEAD = 2 };

typedef struct relmq__relay {
	const relmq__settings *settings;
	relmq__queue *to_wire;           /* relmq__row *, store -> wire */
	relmq__queue *to_store;          /* relmq__row *, wire -> store */
	_Atomic(relmq__queue *) to_wake; /* to_store once it is there: for who stops us */
	relmq__lease lease;              /* store's, but for the atomic stop_ms */
	atomic_bool stop;                /* asked to drain and return */
	atomic_bool wire_up;             /* store hands out nothing while the broker is away */
	atomic_bool wire_quit;           /* store is done: wire returns what it has and ends */
	relmq__relay_stats stats;
} relmq__relay;

/** Run until relmq__relay_stop(). The calling thread is store. Returns an error only when
 *  it is fatal (schema missing or newer), or when draining took longer than shutdown_timeout. */
RELMQ_CHECK relmq_code relmq__relay_run(
    relmq__relay *r, const relmq__settings *settings, relmq_error *err);
/** Any thread; async-signal-safe; may come before run, and until free. */
void relmq__relay_stop(relmq__relay *r);
/** After run. */
void relmq__relay_free(relmq__relay *r);

/** The wire thread's main; arg is the relay. */
void *relmq__wire_main(void *arg);
/** The store loop, on the calling thread. */
RELMQ_CHECK relmq_code relmq__store_run(relmq__relay *r, pthread_t wire, relmq_error *err);

#endif
