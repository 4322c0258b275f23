/* consumer/intake.c - intake: owns the AMQP connection that consumes. Takes deliveries,
 * hands each to the worker of its lane, acks what comes back finished. Manual acks only;
 * never requeues; to stop or to pause it closes the channel and never cancels, because a
 * cancel hands the next consumer later messages first. Knows no database. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "base/outage.h"
#include "consumer/acks.h"
#include "consumer/engine.h"
#include "dlx/ladder.h"
#include "mq/dispatcher.h"

enum {
	BUDGET = 512,  /* frames read before acks get their turn */
	TICK_MS = 100, /* heartbeats, single acks, stop          */
	ACK_TICK_MS = 5,
	PROVEN_MS = 1000 /* a channel that lived so long ends an outage */
};

typedef struct intake {
	relmq__engine *engine;
	relmq__conn conn;
	relmq__dispatcher dispatcher;
	relmq__acks acks;
	relmq__outage outage;
	int64_t opened_ms;
	uint64_t fed;       /* workers that have got something and were not woken: a bit each */
	size_t out;         /* deliveries with workers and outlet, of any generation */
	relmq_error broken; /* why the channel cannot be used any more */
	bool is_broken;
	uint64_t generation; /* counts openings; the engine's copy is 0 between them */
} intake;

/* --- what the broker says ------------------------------------------------------------------ */

static void broke(intake *in, int code, const char *what, const char *text)
{
	if (in->is_broken)
		return;
	in->is_broken = true;
	(void) relmq__fail_from(&in->broken, RELMQ_EBROKER, RELMQ_F_RETRY, RELMQ_FROM_AMQP, code,
	    "rabbitmq %.80s %s: %d %s", in->conn.hosts.text, what, code, text);
}

static void on_channel_closed(void *arg, int code, amqp_bytes_t text)
{
	char reason[128];
	broke(arg, code, "closed the channel", relmq__bytes_text(text, reason, sizeof(reason)));
}

static void on_cancelled(void *arg, amqp_bytes_t consumer_tag)
{
	char tag[128];
	broke(arg, AMQP_NOT_FOUND, "cancelled the consumer (queue deleted or moved)",
	    relmq__bytes_text(consumer_tag, tag, sizeof(tag)));
}

/* Consumer tags are ours: "N:queue", N the index. */
static bool queue_of(const intake *in, amqp_bytes_t consumer_tag, unsigned *index)
{
	char tag[16];
	char *end;
	unsigned long n = strtoul(relmq__bytes_text(consumer_tag, tag, sizeof(tag)), &end, 10);
	*index = (unsigned) n;
	return end != tag && n < in->engine->queue_count;
}

static void hand_over(intake *in, relmq_delivery *d)
{
	relmq__engine *e = in->engine;
	relmq__worker *w = &e->workers[relmq__delivery_lane(d) % e->worker_count];
	in->out++;
	e->stats.received++;
	in->fed |= UINT64_C(1) << w->index;
	if (!relmq__queue_put(w->in, d)) /* room for all that can be out */
		abort();
}

/* One wake-up a worker for all that came at once: batches form by themselves. */
static void tell_workers(intake *in)
{
	for (size_t i = 0; in->fed != 0; i++, in->fed >>= 1)
		if ((in->fed & 1) != 0)
			relmq__queue_wake(in->engine->workers[i].in);
}

static void on_deliver(
    void *arg, relmq__msg *msg, amqp_bytes_t consumer_tag, uint64_t tag, bool redelivered)
{
	intake *in = arg;
	unsigned index;
	relmq_delivery *d = relmq__delivery_new(msg);
	if (d == NULL || !queue_of(in, consumer_tag, &index) ||
	    !relmq__acks_delivered(&in->acks, tag) || in->out >= in->engine->room) {
		relmq__delivery_free(d);
		broke(
		    in, 0, "sent", d == NULL ? "more than memory holds" : "what was not asked for");
		return;
	}
	if (atomic_load(&in->engine->draining)) { /* it goes back when the channel closes */
		relmq__delivery_free(d);
		return;
	}
	d->queue_index = index;
	d->queue = in->engine->queues[index].settings->queue;
	d->consumer = in->engine->queues[index].consumer;
	d->generation = in->generation;
	d->tag = tag;
	d->redelivered = redelivered;
	hand_over(in, d);
}

static const relmq__events intake_events = {
	.deliver = on_deliver,
	.cancelled = on_cancelled,
	.channel_closed = on_channel_closed,
};

/* --- opening and closing ---------------------------------------------------------------------- */

static relmq_code consume_queue(intake *in, unsigned index, relmq_error *err)
{
	char tag[RELMQ__QUEUE_NAME_SIZE + 16];
	const relmq__engine_queue *q = &in->engine->queues[index];
	relmq_code code = relmq__ladder_check(&in->conn, q->dlx, err);
	if (code != RELMQ_OK)
		return code;
	(void) snprintf(tag, sizeof(tag), "%u:%.200s", index, q->settings->queue);
	relmq__conn_begin(&in->conn);
	bool ok = amqp_basic_consume(in->conn.state, RELMQ__CHANNEL,
	              amqp_cstring_bytes(q->settings->queue), amqp_cstring_bytes(tag), 0, 0, 0,
	              amqp_empty_table) != NULL;
	relmq__conn_end(&in->conn);
	return ok ? RELMQ_OK
	          : relmq__conn_fail_reply(
	                &in->conn, amqp_get_rpc_reply(in->conn.state), "basic.consume", err);
}

/* Per consumer, not per channel (global): quorum queues refuse the latter. */
static relmq_code set_prefetch(intake *in, relmq_error *err)
{
	relmq__conn_begin(&in->conn);
	bool ok = amqp_basic_qos(in->conn.state, RELMQ__CHANNEL, 0, (uint16_t) in->engine->prefetch,
	              0) != NULL;
	relmq__conn_end(&in->conn);
	return ok ? RELMQ_OK
	          : relmq__conn_fail_reply(
	                &in->conn, amqp_get_rpc_reply(in->conn.state), "basic.qos", err);
}

/* All ladders are looked at before the first consume: a refusal closes the channel, and
 * with it what was already being delivered. */
static relmq_code open_all(intake *in, relmq_error *err)
{
	relmq_code code = relmq__conn_open(
	    &in->conn, &in->engine->settings->rabbitmq, "relmq-consumer intake", err);
	for (size_t i = 0; i < in->engine->queue_count && code == RELMQ_OK; i++)
		code = relmq__ladder_check(&in->conn, in->engine->queues[i].dlx, err);
	if (code == RELMQ_OK)
		code = set_prefetch(in, err);
	relmq__dispatcher_reset(&in->dispatcher);
	relmq__acks_reset(&in->acks);
	in->is_broken = false;
	in->generation++;
	atomic_store(&in->engine->generation, in->generation);
	for (unsigned i = 0; i < in->engine->queue_count && code == RELMQ_OK; i++)
		code = consume_queue(in, i, err);
	return code;
}

static void wake_others(relmq__engine *e)
{
	for (size_t i = 0; i < e->worker_count; i++)
		relmq__queue_wake(e->workers[i].in);
	relmq__queue_wake(e->to_outlet);
}

static void lost(intake *in, const relmq_error *err)
{
	atomic_store(
	    &in->engine->generation, 0); /* before anybody can think that an ack would count */
	relmq__conn_close(&in->conn, false);
	relmq__dispatcher_reset(&in->dispatcher);
	relmq__outage_failed(&in->outage, err);
	wake_others(in->engine);
}

/* With the database away nothing could be finished; and what an earlier channel left must
 * be gone, or more would be out than there is room for. */
static bool may_open(const intake *in)
{
	const relmq__engine *e = in->engine;
	return relmq__outage_wait_ms(&in->outage) == 0 && !atomic_load(&e->draining) &&
	    atomic_load(&e->workers_up) == e->worker_count &&
	    in->out + e->prefetch * e->queue_count <= e->room;
}

static void open_if_due(intake *in)
{
	relmq_error err;
	if (!may_open(in))
		return;
	if (open_all(in, &err) != RELMQ_OK) {
		lost(in, &err);
		return;
	}
	in->opened_ms = relmq__now_ms();
	if (in->outage.down)
		return; /* to be connected proves nothing: see proven() */
	LOG_INFO("intake", "consuming %zu queue(s) on rabbitmq %s, prefetch %zu",
	    in->engine->queue_count, in->conn.hosts.text, in->engine->prefetch);
}

/* --- acks ------------------------------------------------------------------------------------ */

static void collect(intake *in)
{
	void *items[256];
	size_t n;
	while ((n = relmq__queue_pop_many(
	            in->engine->finished, items, sizeof(items) / sizeof(items[0]))) > 0) {
		for (size_t i = 0; i < n; i++) {
			relmq_delivery *d = items[i];
			in->out--;
			if (!d->dropped && d->generation == atomic_load(&in->engine->generation))
				relmq__acks_done(&in->acks, d->tag, relmq__now_ms());
			relmq__delivery_free(d);
		}
	}
}

static relmq_code send_acks(intake *in, bool all, relmq_error *err)
{
	uint64_t tag;
	bool multiple;
	while (relmq__acks_next(&in->acks, relmq__now_ms(), all, &tag, &multiple)) {
		RELMQ_FAIL_POINT("consumer.before_ack");
		relmq__conn_begin(&in->conn);
		int rc = amqp_basic_ack(in->conn.state, RELMQ__CHANNEL, tag, multiple);
		relmq__conn_end(&in->conn);
		if (rc != AMQP_STATUS_OK)
			return relmq__conn_fail_status(&in->conn, rc, "basic.ack", err);
	}
	return RELMQ_OK;
}

/* --- the loop ---------------------------------------------------------------------------------- */

static relmq_code turn(intake *in, relmq_error *err)
{
	relmq_code code = relmq__dispatch(&in->dispatcher, BUDGET, err);
	tell_workers(in);
	if (code == RELMQ_OK && in->is_broken) {
		*err = in->broken;
		code = RELMQ_EBROKER;
	}
	collect(in);
	return code == RELMQ_OK ? send_acks(in, false, err) : code;
}

static void rest(intake *in)
{
	struct pollfd fds[2] = {
		{ .fd = relmq__queue_fd(in->engine->finished), .events = POLLIN },
		{ .fd = relmq__conn_fd(&in->conn), .events = POLLIN },
	};
	int timeout = TICK_MS;
	if (in->conn.state != NULL && relmq__conn_has_buffered(&in->conn))
		timeout = 0;
	else if (in->acks.ready > 0)
		timeout = ACK_TICK_MS;
	(void) poll(fds, 2, timeout);
	relmq__queue_clear_wake(in->engine->finished);
}

static void close_politely(intake *in)
{
	relmq_error err;
	if (in->conn.state == NULL)
		return;
	if (send_acks(in, true, &err) != RELMQ_OK) {
		lost(in, &err);
		return;
	}
	/* The broker handles the acks before the close: they came first on the same channel. */
	atomic_store(&in->engine->generation, 0);
	relmq__conn_close(&in->conn, true);
	relmq__dispatcher_reset(&in->dispatcher);
}

/* What breaks right after each opening must not be opened again at full speed. */
static void proven(intake *in)
{
	if (in->outage.down && relmq__now_ms() - in->opened_ms >= PROVEN_MS)
		relmq__outage_over(&in->outage);
}

static relmq_code loop(intake *in, relmq_error *err)
{
	relmq__engine *e = in->engine;
	int64_t stop_by = 0;
	for (;;) {
		if (stop_by == 0 && atomic_load(&e->stop)) {
			LOG_INFO("intake", "stopping: %zu deliveries out", in->out);
			stop_by = relmq__now_ms() + e->settings->consumer.shutdown_timeout_ms;
			atomic_store(&e->draining, true);
			wake_others(e);
		}
		collect(in);
		if (stop_by != 0 && in->out == 0)
			break;
		if (stop_by != 0 && relmq__now_ms() >= stop_by)
			return relmq__fail(err, RELMQ_ETIMEDOUT, 0,
			    "%zu deliveries were not finished within shutdown_timeout; they are "
			    "delivered again",
			    in->out);
		if (in->conn.state == NULL)
			open_if_due(in);
		if (in->conn.state != NULL && turn(in, err) != RELMQ_OK)
			lost(in, err);
		else if (in->conn.state != NULL)
			proven(in);
		rest(in);
	}
	close_politely(in);
	return RELMQ_OK;
}

relmq_code relmq__intake_run(relmq__engine *e, relmq_error *err)
{
	intake in;
	memset(&in, 0, sizeof(in));
	in.engine = e;
	in.conn.settings = &e->settings->rabbitmq;
	in.outage = (relmq__outage) RELMQ__OUTAGE_INIT("intake", "rabbitmq");
	in.outage.where = in.conn.hosts.text;
	relmq__dispatcher_init(&in.dispatcher, &in.conn, &intake_events, &in);
	if (!relmq__acks_init(&in.acks, e->prefetch, e->queue_count))
		return relmq__fail_nomem(err);
	relmq_code code = loop(&in, err);
	relmq__conn_close(&in.conn, false);
	relmq__dispatcher_reset(&in.dispatcher);
	relmq__acks_free(&in.acks);
	return code;
}
