/* publisher/relay.c - see relay.h. */
#include "publisher/relay.h"

#include <signal.h>

#include "base/error.h"
#include "base/log.h"

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
	LOG_INFO("relay",
	    "stopped: %llu read, %llu confirmed, %llu refused, %llu abandoned, %llu in doubt",
	    (unsigned long long) r->stats.read, (unsigned long long) r->stats.confirmed,
	    (unsigned long long) r->stats.refused, (unsigned long long) r->stats.abandoned,
	    (unsigned long long) r->stats.unknown);
}

relmq_code relmq__relay_run(relmq__relay *r, const relmq__settings *settings, relmq_error *err)
{
	pthread_t wire;
	size_t room = (size_t) settings->publisher.window * RELMQ__READ_AHEAD;
	r->settings = settings;
	relmq__lease_init(&r->lease, settings->publisher.lease_ms);
	relmq__queue *to_wire = relmq__queue_new(room);
	relmq__queue *to_store = relmq__queue_new(room);
	relmq_code code = RELMQ_OK;
	r->to_wire = to_wire;
	r->to_store = to_store;
	if (to_wire == NULL || to_store == NULL || start_wire(r, &wire) != 0)
		code = relmq__fail_nomem(err);
	else
		code = relmq__store_run(r, wire, err);
	log_totals(r);
	/* A stop that comes from now on finds no queue to wake. */
	r->to_wire = r->to_store = NULL;
	relmq__queue_free(to_wire);
	relmq__queue_free(to_store);
	return code;
}

void relmq__relay_stop(relmq__relay *r)
{
	atomic_store(&r->stop, true);
	if (r->to_store != NULL)
		relmq__queue_wake(r->to_store);
}
