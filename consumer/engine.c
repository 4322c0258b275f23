/* consumer/engine.c - see engine.h: starting the threads, ending them, and the few things
 * that they share. */
#include "consumer/engine.h"

#include <signal.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/log.h"
#include "base/sigpipe.h"

enum { PREFETCH_MAX = 2000, ROOM_FACTOR = 2 };

bool relmq__engine_stale(const relmq__engine *e, const relmq_delivery *d)
{
	return atomic_load(&e->draining) || d->generation != atomic_load(&e->generation);
}

void relmq__engine_finish(relmq__engine *e, relmq_delivery *d)
{
	if (!relmq__queue_put(e->finished, d)) /* room for all deliveries that can be out */
		abort();
}

void relmq__engine_tell_intake(relmq__engine *e)
{
	relmq__queue_wake(e->finished);
}

void relmq__engine_fail(relmq__engine *e, const relmq_error *err)
{
	if (!atomic_exchange(&e->fatal, true))
		e->fatal_error = *err;
	relmq__engine_stop(e);
}

void relmq__engine_stop(relmq__engine *e)
{
	atomic_store(&e->stop, true);
	relmq__queue *queue = atomic_load(&e->to_wake);
	if (queue != NULL) /* else run has not begun, and looks at `stop` before it sleeps */
		relmq__queue_wake(queue);
}

static size_t prefetch_of(const relmq__consumer_settings *s)
{
	size_t wanted =
	    s->prefetch != 0 ? (size_t) s->prefetch : (size_t) (2 * s->workers * s->batch_max);
	return wanted < PREFETCH_MAX ? wanted : PREFETCH_MAX;
}

static bool make_queues(relmq__engine *e)
{
	e->prefetch = prefetch_of(&e->settings->consumer);
	e->room = e->prefetch * e->queue_count * ROOM_FACTOR;
	e->to_outlet = relmq__queue_new(e->room);
	if (e->finished == NULL)
		e->finished = relmq__queue_new(e->room);
	atomic_store(&e->to_wake, e->finished);
	e->workers = calloc((size_t) e->settings->consumer.workers, sizeof(*e->workers));
	if (e->to_outlet == NULL || e->finished == NULL || e->workers == NULL)
		return false;
	for (size_t i = 0; i < (size_t) e->settings->consumer.workers; i++) {
		e->workers[i].engine = e;
		e->workers[i].index = (unsigned) i;
		e->workers[i].in = relmq__queue_new(e->room);
		if (e->workers[i].in == NULL)
			return false;
	}
	return true;
}

/* Our threads take no signals: they belong to the application's. */
static bool start_threads(relmq__engine *e)
{
	sigset_t all, old;
	(void) sigfillset(&all);
	(void) pthread_sigmask(SIG_SETMASK, &all, &old);
	bool ok = pthread_create(&e->outlet_thread, NULL, relmq__outlet_main, e) == 0;
	while (ok && e->worker_count < (size_t) e->settings->consumer.workers) {
		relmq__worker *w = &e->workers[e->worker_count];
		ok = pthread_create(&w->thread, NULL, relmq__worker_main, w) == 0;
		if (ok)
			e->worker_count++;
	}
	(void) pthread_sigmask(SIG_SETMASK, &old, NULL);
	return ok;
}

static void join_threads(relmq__engine *e)
{
	atomic_store(&e->quit, true);
	for (size_t i = 0; i < e->worker_count; i++)
		relmq__queue_wake(e->workers[i].in);
	relmq__queue_wake(e->to_outlet);
	for (size_t i = 0; i < e->worker_count; i++)
		(void) pthread_join(e->workers[i].thread, NULL);
	(void) pthread_join(e->outlet_thread, NULL);
}

/* All but `finished`: a stop may still be waking it. */
static void free_queues(relmq__engine *e)
{
	for (relmq_delivery *d; e->finished != NULL && (d = relmq__queue_pop(e->finished)) != NULL;)
		relmq__delivery_free(d);
	relmq__queue_free(e->to_outlet);
	for (size_t i = 0; e->workers != NULL && i < (size_t) e->settings->consumer.workers; i++)
		relmq__queue_free(e->workers[i].in);
	free(e->workers);
	e->to_outlet = NULL;
	e->workers = NULL;
	e->worker_count = 0;
}

static void log_totals(const relmq__engine *e)
{
	LOG_INFO("consumer",
	    "stopped: %llu received, %llu effects, %llu duplicates, %llu retried, %llu parked, "
	    "%llu dropped",
	    (unsigned long long) e->stats.received, (unsigned long long) e->stats.effects,
	    (unsigned long long) e->stats.duplicates, (unsigned long long) e->stats.retried,
	    (unsigned long long) e->stats.parked, (unsigned long long) e->stats.dropped);
}

relmq_code relmq__engine_run(relmq__engine *e, relmq_error *err)
{
	if (!make_queues(e)) {
		free_queues(e);
		return relmq__fail_nomem(err);
	}
	relmq__sigpipe sigpipe;
	relmq__sigpipe_hold(&sigpipe); /* of the calling thread, which is intake */
	relmq_code code = start_threads(e) ? relmq__intake_run(e, err) : relmq__fail_nomem(err);
	relmq__sigpipe_release(&sigpipe);
	log_totals(e);
	if (code == RELMQ_ETIMEDOUT)
		return code; /* handlers still run: their memory stays */
	join_threads(e);
	free_queues(e);
	if (atomic_load(&e->fatal)) {
		if (err != NULL)
			*err = e->fatal_error;
		return e->fatal_error.code;
	}
	return code;
}

bool relmq__engine_free(relmq__engine *e)
{
	if (e->worker_count > 0)
		return false;
	relmq__queue_free(e->finished);
	e->finished = NULL;
	return true;
}
