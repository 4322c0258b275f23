/* consumer/outlet.c - the outlet thread: publishes what failed to the ladder or to parking,
 * with confirms, and only then lets intake ack it. Knows no database.
 *
 * An unconfirmed publish is made again, as long as the delivery's channel lives: a crash or
 * a lost confirm leaves at most one more copy with the same id and attempt, never none. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "base/outage.h"
#include "consumer/engine.h"
#include "dlx/ladder.h"

enum { WINDOW = 100, WINDOW_BYTES = 8 << 20, CONFIRM_TIMEOUT_MS = 30000, IDLE_MS = 200 };

typedef struct outlet {
	relmq__engine *engine;
	relmq__sender sender;
	relmq__outage broker;     /* the connection                                   */
	relmq__outage refusals;   /* a full or missing tier: wait before trying again */
	relmq_delivery **waiting; /* ring, in order */
	size_t head, count, room;
} outlet;

static void put_back(outlet *o, relmq_delivery *d)
{
	if (o->count == o->room) /* room for all deliveries that can be out */
		abort();
	o->waiting[(o->head + o->count++) % o->room] = d;
}

static relmq_delivery *take(outlet *o)
{
	if (o->count == 0)
		return NULL;
	relmq_delivery *d = o->waiting[o->head];
	o->head = (o->head + 1) % o->room;
	o->count--;
	return d;
}

static bool goes_to_parking(const outlet *o, const relmq_delivery *d)
{
	const relmq__engine_queue *q = &o->engine->queues[d->queue_index];
	return d->verdict == RELMQ_REJECT || q->dlx->tier_count == 0 ||
	    (int64_t) d->attempt >= q->settings->max_attempts;
}

static void count_forwarded(outlet *o, const relmq_delivery *d)
{
	if (!goes_to_parking(o, d)) {
		o->engine->stats.retried++;
		return;
	}
	o->engine->stats.parked++;
	LOG_WARN("outlet", "queue %s: message %s is parked after attempt %u: %s", d->queue,
	    relmq_delivery_id(d), d->attempt, d->reason);
}

static void on_outcome(void *arg, relmq__item *item, relmq__outcome outcome)
{
	outlet *o = arg;
	relmq_delivery *d = (relmq_delivery *) item;
	if (outcome == RELMQ__CONFIRMED) {
		RELMQ_FAIL_POINT("consumer.forwarded");
		count_forwarded(o, d);
		if (relmq__outage_wait_ms(&o->refusals) == 0) /* else of the same window */
			relmq__outage_over(&o->refusals);
		relmq__engine_finish(o->engine, d);
		relmq__engine_tell_intake(o->engine);
		return;
	}
	if (outcome == RELMQ__REFUSED) {
		relmq_error err = { RELMQ_EBROKER, RELMQ_F_RETRY, RELMQ_FROM_AMQP, item->code, "",
			"" };
		(void) snprintf(err.text, sizeof(err.text), "%.*s refused message %.64s: %.80s",
		    (int) item->routing_key.len, (const char *) item->routing_key.bytes,
		    relmq_delivery_id(d), item->reason);
		if (relmq__outage_wait_ms(&o->refusals) == 0) /* a window's refusals are one */
			relmq__outage_failed(&o->refusals, &err);
	}
	put_back(o, d);
}

/* The message becomes what it will be in its next queue; once, it may be sent again. */
static bool address(outlet *o, relmq_delivery *d)
{
	const relmq__engine_queue *q = &o->engine->queues[d->queue_index];
	if (d->item.props != NULL)
		return true;
	bool ok = goes_to_parking(o, d)
	    ? relmq__ladder_to_parking(d->msg, d->queue, d->attempt, d->reason)
	    : relmq__ladder_to_tier(d->msg, q->dlx, d->attempt, d->reason);
	if (!ok)
		return false;
	d->item.exchange = d->msg->exchange;
	d->item.routing_key = d->msg->routing_key;
	d->item.body = d->msg->body;
	d->item.props = &d->msg->props;
	return true;
}

static void drop(outlet *o, relmq_delivery *d)
{
	d->dropped = true;
	o->engine->stats.dropped++;
	relmq__engine_finish(o->engine, d);
	relmq__engine_tell_intake(o->engine);
}

static void accept_new(outlet *o)
{
	for (relmq_delivery *d; (d = relmq__queue_pop(o->engine->to_outlet)) != NULL;)
		put_back(o, d);
}

/* Nothing can be published now: no connection, an alarm, or a ladder that refuses. */
static bool stuck(const outlet *o)
{
	return !relmq__sender_is_open(&o->sender) || o->sender.blocked ||
	    relmq__outage_wait_ms(&o->refusals) > 0;
}

/* Its channel is gone, or we are to end and it could not go: the broker gives the message to
 * somebody anew. */
static void drop_stale(outlet *o)
{
	uint64_t generation = atomic_load(&o->engine->generation);
	if (atomic_load(&o->engine->draining) && stuck(o))
		generation = 0; /* of no delivery */
	for (size_t n = o->count; n > 0; n--) {
		relmq_delivery *d = take(o);
		if (d->generation != generation)
			drop(o, d);
		else
			put_back(o, d);
	}
}

static relmq_code publish(outlet *o, relmq_error *err)
{
	relmq_code code = RELMQ_OK;
	size_t n = o->count; /* each at most once a turn: a refusal puts it back */
	while (code == RELMQ_OK && n-- > 0 && relmq__sender_ready(&o->sender) &&
	    relmq__outage_wait_ms(&o->refusals) == 0) {
		relmq_delivery *d = take(o);
		if (d == NULL)
			break; /* put back and dropped meanwhile */
		if (address(o, d))
			code = relmq__sender_publish(&o->sender, &d->item, err);
		else
			put_back(o, d);
	}
	return code;
}

static relmq_code turn(outlet *o, relmq_error *err)
{
	if (!relmq__sender_is_open(&o->sender)) {
		if (relmq__outage_wait_ms(&o->broker) > 0)
			return RELMQ_OK;
		relmq_code code = relmq__sender_open(
		    &o->sender, &o->engine->settings->rabbitmq, "relmq-consumer outlet", err);
		if (code != RELMQ_OK)
			return code;
		relmq__outage_over(&o->broker);
	}
	relmq_code code = relmq__sender_pump(&o->sender, err);
	return code == RELMQ_OK ? publish(o, err) : code;
}

static void rest(outlet *o)
{
	struct pollfd fds[2] = {
		{ .fd = relmq__queue_fd(o->engine->to_outlet), .events = POLLIN },
		{ .fd = relmq__conn_fd(&o->sender.conn), .events = POLLIN },
	};
	int64_t wait = relmq__sender_is_open(&o->sender) ? relmq__sender_sleep_ms(&o->sender)
	                                                 : relmq__outage_wait_ms(&o->broker);
	if (o->count > 0 && relmq__outage_wait_ms(&o->refusals) < wait)
		wait = relmq__outage_wait_ms(&o->refusals);
	/* Those that wait for room in the window are helped by the socket alone. */
	if (o->count > 0 && wait == 0 && !relmq__sender_ready(&o->sender))
		wait = IDLE_MS;
	(void) poll(fds, 2, wait < IDLE_MS ? (int) wait : IDLE_MS);
	relmq__queue_clear_wake(o->engine->to_outlet);
}

static bool init(outlet *o, relmq__engine *e)
{
	memset(o, 0, sizeof(*o));
	o->engine = e;
	o->broker = (relmq__outage) RELMQ__OUTAGE_INIT("outlet", "rabbitmq");
	o->broker.where = o->sender.conn.hosts.text;
	o->refusals = (relmq__outage) RELMQ__OUTAGE_INIT("outlet", "the ladder");
	o->room = e->room;
	o->waiting = calloc(o->room, sizeof(relmq_delivery *));
	o->sender.max_count = WINDOW;
	o->sender.max_bytes = WINDOW_BYTES;
	o->sender.confirm_timeout_ms = CONFIRM_TIMEOUT_MS;
	o->sender.outcome = on_outcome;
	o->sender.arg = o;
	o->sender.subject = "outlet";
	return o->waiting != NULL && relmq__sender_init(&o->sender);
}

void *relmq__outlet_main(void *arg)
{
	relmq__engine *e = arg;
	outlet o;
	relmq_error err = { RELMQ_ENOMEM, RELMQ_F_FATAL, RELMQ_FROM_LIB, 0, "", "out of memory" };
	if (!init(&o, e)) {
		relmq__engine_fail(e, &err);
		return NULL;
	}
	while (!atomic_load(&e->quit)) {
		accept_new(&o);
		drop_stale(&o);
		if (turn(&o, &err) != RELMQ_OK) {
			relmq__sender_lost(&o.sender);
			relmq__outage_failed(&o.broker, &err);
		}
		rest(&o);
	}
	relmq__sender_lost(&o.sender); /* nothing is in flight unless we ran out of time */
	accept_new(&o);
	for (relmq_delivery *d; (d = take(&o)) != NULL;)
		drop(&o, d);
	relmq__sender_free(&o.sender);
	free(o.waiting);
	return NULL;
}
