/* publisher/relay.c - see relay.h. */
#include "publisher/relay.h"

#include <signal.h>

#include "base/error.h"
#include "base/log.h"
#include "base/sigpipe.h"

/* Signals belong to the thread that called run: a wire in poll() has no use for them. */
static int start_wire(relmq__relay *r, pthread_t *wire)
{
	sigset_t all, old;
	(void) sigfillset(&all);
	(void) pthread_sigmask(SIG_SETMASK, &all, &old);
	int rc = pthread_create(wire, NULL, relmq__wire_main, r);
	(void) pthread_sigmask(SIG_SETMASK, &old, NULL);
	return rc;
}

static void log_totals(relmq__relay *r)
{
	relmq_publisher_stats s;
	relmq__stats_read(&r->stats, &s);
	LOG_INFO("relay",
	    "stopped: %llu read, %llu confirmed, %llu refused, %llu abandoned, %llu in doubt",
	    (unsigned long long) s.read, (unsigned long long) s.confirmed,
	    (unsigned long long) (s.refused_nack + s.refused_returned + s.refused_channel +
	        s.refused_local),
	    (unsigned long long) s.abandoned, (unsigned long long) s.in_doubt);
}

relmq_code relmq__relay_run(relmq__relay *r, const relmq__settings *settings, relmq_error *err)
{
	pthread_t wire;
	size_t room = (size_t) settings->publisher.window * RELMQ__READ_AHEAD;
	r->settings = settings;
	relmq__stats_init(&r->stats);
	relmq__lease_init(&r->lease, settings->publisher.lease_ms);
	r->to_wire = relmq__queue_new(room);
	r->to_store = relmq__queue_new(room);
	atomic_store(&r->to_wake, r->to_store);
	if (r->to_wire == NULL || r->to_store == NULL || start_wire(r, &wire) != 0)
		return relmq__fail_nomem(err);
	relmq__sigpipe sigpipe;
	relmq__sigpipe_hold(&sigpipe); /* of the calling thread, which is store */
	relmq_code code = relmq__store_run(r, wire, err);
	relmq__sigpipe_release(&sigpipe);
	log_totals(r);
	return code;
}

void relmq__relay_stop(relmq__relay *r)
{
	atomic_store(&r->stop, true);
	relmq__queue *queue = atomic_load(&r->to_wake);
	if (queue != NULL) /* else run has not begun, and looks at `stop` before it sleeps */
		relmq__queue_wake(queue);
}

void relmq__relay_free(relmq__relay *r)
{
	relmq__queue_free(r->to_wire);
	relmq__queue_free(r->to_store);
	r->to_wire = r->to_store = NULL;
}
