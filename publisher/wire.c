/* publisher/wire.c - the wire thread: owns the AMQP connection, publishes what store
 * hands over, and hands every row back with exactly one outcome. Knows no database. */
#include <assert.h>
#include <poll.h>
#include <string.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "base/outage.h"
#include "base/rate.h"
#include "publisher/relay.h"

enum { BURST = 64, IDLE_MS = 200 };

typedef struct wire {
	relmq__relay *relay;
	relmq__sender sender;
	relmq__outage outage;
	relmq__rate rate;
	bool throttled; /* the last burst ended at the rate limit */
	bool confirmed; /* something, since the connection was opened */
	bool barren;    /* the last one broke over our rows and had confirmed none: to be
	                 * connected proves nothing, and the outage is not over with that */
	/* taken from the queue and not yet published */
	relmq__row *pending[BURST];
	size_t pending_at, pending_count;
	bool gave; /* something back, and store has not been woken for it */
} wire;

static void give_back(wire *w, relmq__row *row, relmq__outcome outcome)
{
	row->outcome = outcome;
	/* The queue has room for all rows that store hands out. */
	bool pushed = relmq__queue_put(w->relay->to_store, row);
	assert(pushed);
	(void) pushed;
	w->gave = true;
}

/* One wake-up for all that a turn brought: a confirm of the broker is for hundreds. */
static void tell_store(wire *w)
{
	if (w->gave)
		relmq__queue_wake(w->relay->to_store);
	w->gave = false;
}

static void on_outcome(void *arg, relmq__item *item, relmq__outcome outcome)
{
	wire *w = arg;
	if (outcome == RELMQ__CONFIRMED) {
		RELMQ_FAIL_POINT("publisher.confirmed");
		w->confirmed = true;
		if (w->outage.down)
			relmq__outage_over(&w->outage);
	}
	give_back(w, (relmq__row *) item, outcome);
}

static relmq__row *next_pending(wire *w)
{
	if (w->pending_at == w->pending_count) {
		w->pending_at = 0;
		w->pending_count =
		    relmq__queue_pop_many(w->relay->to_wire, (void **) w->pending, BURST);
	}
	return w->pending_at < w->pending_count ? w->pending[w->pending_at++] : NULL;
}

/* What was not published goes back unsent; store decides anew what comes first. */
static void return_pending(wire *w)
{
	for (relmq__row *row; (row = next_pending(w)) != NULL;)
		give_back(w, row, RELMQ__UNKNOWN);
}

/* What others may want to know of us. */
static void show(wire *w)
{
	relmq__relay_stats *stats = &w->relay->stats;
	bool was_blocked = atomic_exchange(&stats->blocked, w->sender.blocked) != 0;
	atomic_store(&stats->published, w->sender.sent);
	atomic_store(&stats->in_flight, w->sender.window.count);
	atomic_store(&stats->broker_up, relmq__sender_is_open(&w->sender));
	if (was_blocked && !w->sender.blocked)
		relmq__queue_wake(w->relay->to_store); /* it had stopped reading */
}

static void lost(wire *w, const relmq_error *err)
{
	atomic_store(&w->relay->wire_up, false);
	relmq__sender_lost(&w->sender);
	return_pending(w);
	show(w);
	relmq__outage_failed(&w->outage, err);
	relmq__queue_wake(w->relay->to_store);
}

static void connect_if_due(wire *w)
{
	relmq_error err;
	if (relmq__outage_wait_ms(&w->outage) > 0)
		return;
	if (relmq__sender_open(
	        &w->sender, &w->relay->settings->rabbitmq, "relmq-publisher", &err) != RELMQ_OK) {
		lost(w, &err);
		return;
	}
	w->confirmed = false;
	if (!w->barren) {
		relmq__outage_over(&w->outage);
		LOG_INFO("wire", "connected to rabbitmq %s", w->sender.conn.hosts.text);
	}
	atomic_store(&w->relay->wire_up, true);
	relmq__queue_wake(w->relay->to_store);
}

static bool lease_over(const wire *w)
{
	return relmq__now_ms() >= atomic_load(&w->relay->lease.stop_ms);
}

static relmq_code publish_burst(wire *w, bool *more, relmq_error *err)
{
	*more = w->throttled = false;
	for (int n = 0; n < BURST && relmq__sender_ready(&w->sender); n++) {
		relmq__row *row = next_pending(w);
		if (row == NULL)
			return RELMQ_OK;
		if (!relmq__rate_take(&w->rate, relmq__now_us())) {
			w->pending_at--;
			w->throttled = true;
			return RELMQ_OK;
		}
		if (lease_over(w)) { /* even if store hangs */
			give_back(w, row, RELMQ__UNKNOWN);
			continue;
		}
		relmq_code code = relmq__sender_publish(&w->sender, &row->item, err);
		if (code != RELMQ_OK)
			return code;
		RELMQ_FAIL_POINT("publisher.sent");
	}
	*more = relmq__sender_ready(&w->sender);
	return RELMQ_OK;
}

/* Reading before and between bursts: up to rabbitmq-c 0.13 a send can hang once nothing
 * was received for two heartbeats. */
static relmq_code turn(wire *w, relmq_error *err)
{
	bool more = true;
	while (more) {
		size_t careful = w->sender.careful;
		relmq_code code = relmq__sender_pump(&w->sender, err);
		if (code != RELMQ_OK)
			return code;
		/* The suspects must come before what was read behind them. */
		if (w->sender.careful > careful)
			return_pending(w);
		/* To stop, what is in flight is waited for, and what was not sent need not be. */
		if (atomic_load(&w->relay->stop))
			return_pending(w);
		tell_store(w);
		relmq__conn_cork(&w->sender.conn, true);
		code = publish_burst(w, &more, err);
		relmq__conn_cork(&w->sender.conn, false);
		if (code != RELMQ_OK)
			return code;
	}
	return RELMQ_OK;
}

static int rate_wait_ms(const wire *w, int most)
{
	int64_t ms = relmq__rate_wait_us(&w->rate, relmq__now_us()) / 1000 + 1;
	return ms < most ? (int) ms : most;
}

static void rest(wire *w)
{
	struct pollfd fds[2] = {
		{ .fd = relmq__queue_fd(w->relay->to_wire), .events = POLLIN },
		{ .fd = relmq__conn_fd(&w->sender.conn), .events = POLLIN },
	};
	int timeout = IDLE_MS;
	tell_store(w);
	show(w);
	if (relmq__sender_is_open(&w->sender)) {
		timeout = relmq__sender_sleep_ms(&w->sender);
		if (!relmq__sender_ready(&w->sender) || w->throttled)
			fds[0].fd = -1; /* a full window is left by confirms only */
		if (w->throttled)
			timeout = rate_wait_ms(w, timeout);
	} else {
		int64_t due = relmq__outage_wait_ms(&w->outage);
		timeout = due < IDLE_MS ? (int) due : IDLE_MS;
	}
	(void) poll(fds, 2, timeout);
	if ((fds[0].revents & POLLIN) != 0)
		relmq__queue_clear_wake(w->relay->to_wire);
}

static bool init(wire *w, relmq__relay *r)
{
	const relmq__publisher_settings *p = &r->settings->publisher;
	memset(w, 0, sizeof(*w));
	w->relay = r;
	w->rate.per_s = p->rate_limit;
	w->outage = (relmq__outage) RELMQ__OUTAGE_INIT("wire", "rabbitmq");
	w->outage.where = w->sender.conn.hosts.text;
	w->sender.max_count = (size_t) p->window;
	w->sender.max_bytes = (size_t) p->window_bytes;
	w->sender.max_body = (size_t) p->max_message_bytes;
	w->sender.confirm_timeout_ms = p->confirm_timeout_ms;
	w->sender.outcome = on_outcome;
	w->sender.arg = w;
	w->sender.subject = "wire";
	return relmq__sender_init(&w->sender);
}

void *relmq__wire_main(void *arg)
{
	relmq__relay *r = arg;
	wire w;
	relmq_error err;
	if (!init(&w, r)) {
		LOG_ERROR("wire", "out of memory");
		relmq__relay_stop(r);
		return NULL;
	}
	while (!atomic_load(&r->wire_quit)) {
		if (!relmq__sender_is_open(&w.sender)) {
			return_pending(&w); /* handed over while the connection broke */
			connect_if_due(&w);
		}
		if (relmq__sender_is_open(&w.sender) && turn(&w, &err) != RELMQ_OK) {
			w.barren = w.sender.window.count > 0 && !w.confirmed;
			lost(&w, &err);
		}
		rest(&w);
	}
	if (w.sender.window.count == 0)
		relmq__sender_close(&w.sender);
	else
		relmq__sender_lost(&w.sender); /* what is in flight is in doubt: it goes again */
	return_pending(&w);
	show(&w);
	relmq__sender_free(&w.sender);
	return NULL;
}
