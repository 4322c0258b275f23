/* consumer/worker.c - a worker thread: takes what waits in its lane, runs it, passes it on.
 * Owns one database session. Knows no AMQP. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/hash.h"
#include "base/idset.h"
#include "base/log.h"
#include "base/outage.h"
#include "consumer/inbox.h"
#include "consumer/unit.h"
#include "db/migrate.h"

enum {
	IDLE_MS = 200,
	LOCK_WAIT_S = 10,
	CONFLICTS_MAX = 10 /* deadlocks and lock waits in a row before a message is laid aside */
};

typedef struct worker {
	relmq__engine *engine;
	relmq__worker *self;
	relmq__db db;
	relmq__unit unit;
	relmq__outage outage;  /* no session can be had                         */
	relmq__outage trouble; /* there is one, and it refuses or dies at work  */
	relmq__idset ids;      /* ids of the batch being formed, hashed */
	bool up;
	bool inbox_seen;
	unsigned conflicts;
	size_t singles;        /* so many more are run alone: a batch of theirs failed */
	relmq_delivery **held; /* taken from the queue, in order */
	size_t at, count, batch_max;
} worker;

static void set_up(worker *w, bool up)
{
	if (w->up == up)
		return;
	w->up = up;
	if (up)
		atomic_fetch_add(&w->engine->workers_up, 1);
	else
		atomic_fetch_sub(&w->engine->workers_up, 1);
	relmq__queue_wake(w->engine->finished); /* intake consumes only when all are up */
}

static bool open_session(worker *w)
{
	relmq_error err;
	if (w->db.mysql != NULL)
		return true;
	set_up(w, false);
	if (relmq__outage_wait_ms(&w->outage) > 0 || atomic_load(&w->engine->fatal))
		return false;
	relmq_code code = relmq__db_open(&w->db, &w->engine->settings->mysql, LOCK_WAIT_S, &err);
	if (code == RELMQ_OK)
		code = relmq__schema_check(&w->db, &err);
	if (code == RELMQ_OK && !w->inbox_seen) /* later its loss is an outage */
		code = relmq__inbox_check(&w->db, &err);
	if (code == RELMQ_OK) {
		w->inbox_seen = true;
		relmq__outage_over(&w->outage);
		set_up(w, true);
		return true;
	}
	relmq__db_close(&w->db);
	if (code == RELMQ_ESCHEMA && (err.flags & RELMQ_F_FATAL) != 0)
		relmq__engine_fail(w->engine, &err);
	else
		relmq__outage_failed(&w->outage, &err);
	return false;
}

/* --- passing on ------------------------------------------------------------------------- */

static void drop(worker *w, relmq_delivery *d)
{
	d->dropped = true;
	w->engine->stats.dropped++;
	relmq__engine_finish(w->engine, d);
}

static void to_outlet(worker *w, relmq_delivery *d)
{
	/* It has room for all deliveries that can be out. */
	if (!relmq__queue_push(w->engine->to_outlet, d))
		abort();
}

static void pass_on(worker *w, relmq_delivery *d)
{
	if (d->duplicate || d->verdict == RELMQ_DONE) {
		if (d->duplicate)
			w->engine->stats.duplicates++;
		else
			w->engine->stats.effects++;
		relmq__engine_finish(w->engine, d);
		return;
	}
	RELMQ_FAIL_POINT("consumer.refused");
	to_outlet(w, d);
}

/* --- running ----------------------------------------------------------------------------- */

/* A unit failed without a fault of its messages: they stay where they are. That the server
 * takes a new session does not end the trouble; only a unit that goes through does. */
static void recover(worker *w, const relmq_error *err)
{
	if (w->db.class == RELMQ__DB_RETRY_TX) {
		w->conflicts++;
		relmq__queue_wait(w->self->in, (int) relmq__jitter_ms(5 * (int64_t) w->conflicts));
		return;
	}
	relmq__outage_failed(&w->trouble, err);
	relmq__db_close(&w->db);
	set_up(w, false);
}

static void went_through(worker *w)
{
	w->conflicts = 0;
	relmq__outage_over(&w->trouble);
}

/* Not an outage and not the handler's verdict: it is in everybody's way. */
static void lay_aside(worker *w, relmq_delivery *d, const char *why)
{
	relmq_delivery_reason(d, "%s", why);
	d->verdict = RELMQ_RETRY;
	pass_on(w, d);
}

static void run_single(worker *w)
{
	relmq_error err;
	relmq_delivery *d = w->held[w->at];
	relmq_code code = relmq__unit_single(&w->unit, d, &err);
	if (code == RELMQ_OK) {
		went_through(w);
		w->at++;
		pass_on(w, d);
		return;
	}
	/* A refusal of one of our own statements is the database's trouble, whatever its class:
	 * a dropped table must not send every message to parking. */
	bool conflict = code == RELMQ_EDB && w->db.class == RELMQ__DB_RETRY_TX;
	if (code == RELMQ_EDB && (!conflict || w->conflicts < CONFLICTS_MAX)) {
		recover(w, &err);
		return;
	}
	w->conflicts = 0;
	w->at++;
	lay_aside(w, d, err.text);
}

/* How many from `at` on can share a transaction: one queue, none redelivered, no id twice. */
static size_t batch_size(worker *w)
{
	size_t n = 0;
	const relmq_delivery *first = w->held[w->at];
	relmq__idset_clear(&w->ids);
	for (; w->at + n < w->count; n++) {
		const relmq_delivery *d = w->held[w->at + n];
		amqp_bytes_t id = relmq__delivery_id_bytes(d);
		uint64_t hash = relmq__hash(id.bytes, id.len);
		if (d->queue_index != first->queue_index || d->redelivered || id.len == 0 ||
		    relmq__engine_stale(w->engine, d) || relmq__idset_has(&w->ids, hash) ||
		    !relmq__idset_add(&w->ids, hash))
			break;
	}
	return n;
}

static void run_batch(worker *w, size_t n)
{
	relmq_error err;
	size_t ran = 0;
	relmq_code code = relmq__unit_batch(&w->unit, w->held + w->at, n, &ran, &err);
	for (size_t i = 0; i < ran; i++)
		pass_on(w, w->held[w->at + i]);
	w->at += ran;
	if (ran > 0)
		went_through(w);
	if (code == RELMQ_EDB &&
	    (w->db.class != RELMQ__DB_RETRY_TX || w->conflicts < CONFLICTS_MAX))
		recover(w, &err);
	else if (ran == 0)
		w->singles = n; /* one is bad: each alone, so that it costs the others only time */
}

static void run_next(worker *w)
{
	relmq_delivery *d = w->held[w->at];
	if (relmq__engine_stale(w->engine, d)) {
		w->at++;
		drop(w, d);
		return;
	}
	if (!open_session(w) || relmq__outage_wait_ms(&w->trouble) > 0)
		return;
	w->unit.queue = &w->engine->queues[d->queue_index];
	if (relmq__delivery_id_bytes(d).len == 0) {
		w->at++;
		relmq_delivery_reason(d, "the message has no message_id");
		d->verdict = RELMQ_REJECT;
		pass_on(w, d);
		return;
	}
	size_t n = w->singles == 0 ? batch_size(w) : 1;
	if (w->singles > 0)
		w->singles--;
	if (n > 1)
		run_batch(w, n);
	else
		run_single(w);
}

/* --- the thread ---------------------------------------------------------------------------- */

static bool init(worker *w, relmq__worker *self)
{
	const relmq__consumer_settings *s = &self->engine->settings->consumer;
	memset(w, 0, sizeof(*w));
	w->engine = self->engine;
	w->self = self;
	w->outage = (relmq__outage) RELMQ__OUTAGE_INIT("worker", "the database");
	w->trouble = (relmq__outage) RELMQ__OUTAGE_INIT("worker", "work on messages");
	w->outage.where = w->trouble.where = w->db.hosts.text;
	w->unit.db = &w->db;
	w->unit.batch_time_ms = s->batch_time_ms;
	w->unit.draining = &w->engine->draining;
	w->batch_max = (size_t) s->batch_max;
	w->held = calloc(w->batch_max, sizeof(relmq_delivery *));
	return w->held != NULL && relmq__idset_init(&w->ids, w->batch_max);
}

static void fini(worker *w)
{
	set_up(w, false);
	free(w->held);
	relmq__idset_free(&w->ids);
	relmq__buf_free(&w->unit.sql);
	relmq__buf_free(&w->unit.scratch);
	relmq__db_close(&w->db);
	mysql_thread_end(); /* what the client library keeps a thread */
}

static void rest(worker *w)
{
	int64_t wait = IDLE_MS;
	int64_t outage = relmq__outage_wait_ms(w->db.mysql == NULL ? &w->outage : &w->trouble);
	bool waiting = w->db.mysql == NULL || w->at < w->count;
	if (waiting && outage < wait && !atomic_load(&w->engine->fatal))
		wait = outage;
	relmq__queue_wait(w->self->in, (int) wait);
}

void *relmq__worker_main(void *arg)
{
	worker w;
	if (!init(&w, arg)) {
		relmq_error err = { RELMQ_ENOMEM, RELMQ_F_FATAL, RELMQ_FROM_LIB, 0, "",
			"out of memory" };
		relmq__engine_fail(((relmq__worker *) arg)->engine, &err);
		return NULL;
	}
	while (!atomic_load(&w.engine->quit)) {
		(void) open_session(&w);
		if (w.at == w.count) {
			w.at = 0;
			w.count = relmq__queue_pop_many(w.self->in, (void **) w.held, w.batch_max);
		}
		if (w.at < w.count) {
			run_next(&w);
			relmq__engine_tell_intake(w.engine);
		}
		if (w.at == w.count || w.db.mysql == NULL || relmq__outage_wait_ms(&w.trouble) > 0)
			rest(&w);
	}
	for (; w.at < w.count; w.at++)
		drop(&w, w.held[w.at]);
	relmq__engine_tell_intake(w.engine);
	fini(&w);
	return NULL;
}
