/* mq/sender.c - see sender.h. */
#include "mq/sender.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/log.h"

enum {
	PUMP_BUDGET = 4096, /* frames a pump reads at most before the owner gets its turn */
	SLEEP_MAX_MS = 250, /* heartbeats and time-outs are looked at this often          */
	CAREFUL_FACTOR = 4, /* outcomes to wait for the suspects: others may come between */
	OTHERS_MAX = 128,   /* so many in a row, and no suspect is to be expected        */
	FRAME_OVERHEAD = 8, /* bytes of a frame that are not payload                      */
	SHORTSTR_MAX = 255
};

static uint64_t hash_of(amqp_bytes_t id)
{
	return relmq__hash(id.bytes, id.len);
}

/* The owner decides what comes next, and may have read other things ahead: an outcome of
 * theirs clears no suspect. But suspects may never come back, or much later (what is held
 * elsewhere), so there is a bound on all, and a lower one on others without a suspect among them. */
static void clear_suspect(relmq__sender *s, const relmq__item *item, relmq__outcome outcome)
{
	uint64_t hash = hash_of(item->props->message_id);
	s->careful--;
	s->others = relmq__idset_has(&s->suspects, hash) ? 0 : s->others + 1;
	if (outcome != RELMQ__UNKNOWN)
		relmq__idset_remove(&s->suspects, hash);
	if (s->suspects.count == 0 || s->others >= OTHERS_MAX)
		s->careful = 0;
}

static void suspect_all(relmq__sender *s)
{
	uint64_t tag = 0;
	relmq__idset_clear(&s->suspects);
	for (relmq__item *item; (item = relmq__window_next(&s->window, &tag)) != NULL;)
		if (!item->returned &&
		    !relmq__idset_add(&s->suspects, hash_of(item->props->message_id)))
			break; /* no memory: fewer suspects, and perhaps a second round */
}

static void finish(relmq__sender *s, relmq__item *item, relmq__outcome outcome)
{
	s->bytes -= item->body.len;
	if (s->careful > 0)
		clear_suspect(s, item, outcome);
	s->outcome(s->arg, item, outcome);
}

static void on_settled(void *arg, void *slot, bool ack)
{
	relmq__sender *s = arg;
	relmq__item *item = slot;
	/* A return precedes the ack and wins over it: the broker confirms what it threw away. */
	if (item->returned) {
		finish(s, item, RELMQ__REFUSED);
	} else if (ack) {
		s->answered_ms = relmq__now_ms();
		finish(s, item, RELMQ__CONFIRMED);
	} else {
		item->refusal = RELMQ__REFUSED_NACK;
		(void) snprintf(item->reason, sizeof(item->reason),
		    "nack: a queue refused it (full with reject-publish, or unavailable)");
		finish(s, item, RELMQ__REFUSED);
	}
}

static void on_confirm(void *arg, uint64_t tag, bool multiple, bool ack)
{
	relmq__sender *s = arg;
	relmq__window_settle(&s->window, tag, multiple, ack, on_settled, s);
}

static bool same(amqp_bytes_t a, amqp_bytes_t b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.bytes, b.bytes, a.len) == 0);
}

/* A return carries no tag: it is matched by id and destination, oldest first, which is
 * the order in which the broker returns. */
static void on_returned(void *arg, int code, amqp_bytes_t text, const relmq__msg *msg)
{
	relmq__sender *s = arg;
	char reason[160];
	uint64_t tag = 0;
	for (relmq__item *item; (item = relmq__window_next(&s->window, &tag)) != NULL;) {
		if (item->returned || !same(item->props->message_id, msg->props.message_id) ||
		    !same(item->exchange, msg->exchange) ||
		    !same(item->routing_key, msg->routing_key))
			continue;
		item->returned = true;
		item->refusal = RELMQ__REFUSED_RETURNED;
		item->code = code;
		(void) snprintf(item->reason, sizeof(item->reason), "returned: %d %s", code,
		    relmq__bytes_text(text, reason, sizeof(reason)));
		return;
	}
	LOG_WARN(s->subject, "a message was returned that is not in flight: %d %s", code,
	    relmq__bytes_text(text, reason, sizeof(reason)));
}

static void on_blocked(void *arg, bool blocked, amqp_bytes_t reason)
{
	relmq__sender *s = arg;
	char text[128];
	s->blocked = blocked;
	s->clock_from_ms = relmq__now_ms();
	if (blocked)
		LOG_WARN(s->subject, "rabbitmq blocks publishers (%s): waiting, nothing is charged",
		    relmq__bytes_text(reason, text, sizeof(text)));
	else
		LOG_INFO(s->subject, "rabbitmq accepts messages again");
}

/* Everything in flight is in doubt, but for what was already returned. */
static void orphan(relmq__sender *s)
{
	uint64_t tag = 0;
	relmq__window old = s->window;
	for (relmq__item *item; (item = relmq__window_next(&old, &tag)) != NULL;)
		finish(s, item, item->returned ? RELMQ__REFUSED : RELMQ__UNKNOWN);
	relmq__window_reset(&s->window);
}

/* A hard error names no message. With one in flight it was that one; else all are handed
 * back, and go one at a time until each has had its outcome. */
static void lay_blame(relmq__sender *s, int code, const char *text)
{
	uint64_t tag = 0;
	if (s->window.count > 1) {
		size_t suspects = s->window.count;
		LOG_WARN(s->subject,
		    "rabbitmq closed the channel (%d %s) with %zu messages in flight:"
		    " sending them one at a time to find which it was",
		    code, text, suspects);
		suspect_all(s);
		orphan(s);
		s->careful = suspects * CAREFUL_FACTOR;
		s->others = 0;
		return;
	}
	relmq__item *item = relmq__window_next(&s->window, &tag);
	if (item != NULL && !item->returned) {
		item->code = code;
		item->refusal = RELMQ__REFUSED_CHANNEL;
		item->returned = true; /* refused, by the same way as a return */
		(void) snprintf(
		    item->reason, sizeof(item->reason), "channel closed: %d %.200s", code, text);
	}
	orphan(s);
}

/* Codes that speak of the connection, the user or the broker, not of a message. */
static bool is_outage(int code)
{
	return code == AMQP_ACCESS_REFUSED || code == AMQP_CONNECTION_FORCED ||
	    code == AMQP_NOT_ALLOWED || code == AMQP_INTERNAL_ERROR || code == AMQP_RESOURCE_ERROR;
}

static void on_channel_closed(void *arg, int code, amqp_bytes_t text)
{
	relmq__sender *s = arg;
	s->channel_dead = true;
	s->closed_code = code;
	(void) relmq__bytes_text(text, s->closed_text, sizeof(s->closed_text));
	/* Now: the connection may go the same way before the channel has been revived. */
	if (!is_outage(code))
		lay_blame(s, code, s->closed_text);
}

static void on_connection_closed(void *arg, int code, amqp_bytes_t text)
{
	relmq__sender *s = arg;
	char reason[160];
	if (!is_outage(code))
		lay_blame(s, code, relmq__bytes_text(text, reason, sizeof(reason)));
}

static const relmq__events sender_events = {
	.confirm = on_confirm,
	.returned = on_returned,
	.channel_closed = on_channel_closed,
	.connection_closed = on_connection_closed,
	.blocked = on_blocked,
};

bool relmq__sender_init(relmq__sender *s)
{
	memset(&s->conn, 0, sizeof(s->conn));
	s->bytes = 0;
	s->sent = 0;
	s->answered_ms = 0;
	s->careful = 0;
	s->blocked = s->channel_dead = false;
	relmq__dispatcher_init(&s->dispatcher, &s->conn, &sender_events, s);
	bool ok = relmq__idset_init(&s->suspects, 64);
	return relmq__window_init(&s->window, s->max_count) && ok;
}

void relmq__sender_free(relmq__sender *s)
{
	relmq__sender_lost(s);
	relmq__window_free(&s->window);
	relmq__idset_free(&s->suspects);
}

static relmq_code start_confirms(relmq__sender *s, relmq_error *err)
{
	relmq__conn_begin(&s->conn);
	bool selected = amqp_confirm_select(s->conn.state, RELMQ__CHANNEL) != NULL;
	relmq__conn_end(&s->conn);
	if (!selected)
		return relmq__conn_fail_reply(
		    &s->conn, amqp_get_rpc_reply(s->conn.state), "confirm.select", err);
	relmq__window_reset(&s->window);
	s->channel_dead = false;
	s->clock_from_ms = relmq__now_ms();
	return RELMQ_OK;
}

relmq_code relmq__sender_open(
    relmq__sender *s, const relmq__rabbitmq_settings *settings, const char *name, relmq_error *err)
{
	relmq_code code = relmq__conn_open(&s->conn, settings, name, err);
	s->blocked = false;
	if (code == RELMQ_OK)
		code = start_confirms(s, err);
	if (code != RELMQ_OK)
		relmq__sender_lost(s);
	return code;
}

bool relmq__sender_is_open(const relmq__sender *s)
{
	return s->conn.state != NULL;
}

bool relmq__sender_ready(const relmq__sender *s)
{
	if (s->conn.state == NULL || s->blocked || s->channel_dead ||
	    relmq__window_full(&s->window))
		return false;
	if (s->careful > 0)
		return s->window.count == 0;
	return s->window.count < s->max_count && (s->bytes < s->max_bytes || s->window.count == 0);
}

/* What the broker would punish by closing the channel, or what would break the frame
 * stream: rabbitmq-c notices a header table over the frame size only after the method
 * frame is on the wire. */
static bool refuse_locally(relmq__sender *s, relmq__item *item)
{
	size_t header = relmq__props_size(item->props);
	size_t frame = (size_t) amqp_get_frame_max(s->conn.state) - FRAME_OVERHEAD;
	if (item->exchange.len > SHORTSTR_MAX || item->routing_key.len > SHORTSTR_MAX)
		(void) snprintf(
		    item->reason, sizeof(item->reason), "exchange or routing key over 255 bytes");
	else if (header > frame)
		(void) snprintf(item->reason, sizeof(item->reason),
		    "headers take %zu bytes, a frame carries %zu", header, frame);
	else if (s->max_body != 0 && item->body.len > s->max_body)
		(void) snprintf(item->reason, sizeof(item->reason),
		    "body of %zu bytes is over max_message_bytes (%zu)", item->body.len,
		    s->max_body);
	else
		return false;
	item->permanent = true;
	return true;
}

/* A body whose length is a multiple of the frame's payload leaves its last frame with
 * MSG_MORE (rabbitmq-c, all versions): the kernel would hold it back for 200 ms. Setting
 * TCP_NODELAY pushes what is held. */
static void push_corked(relmq__sender *s, const relmq__item *item)
{
	size_t part = (size_t) amqp_get_frame_max(s->conn.state) - FRAME_OVERHEAD;
	int on = 1;
	if (item->body.len > 0 && item->body.len % part == 0)
		(void) setsockopt(
		    relmq__conn_fd(&s->conn), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

relmq_code relmq__sender_publish(relmq__sender *s, relmq__item *item, relmq_error *err)
{
	item->returned = item->permanent = item->overdue = false;
	item->code = 0;
	item->refusal = RELMQ__REFUSED_LOCAL;
	item->reason[0] = '\0';
	item->sent_ms = relmq__now_ms();
	s->bytes += item->body.len;
	if (refuse_locally(s, item)) {
		finish(s, item, RELMQ__REFUSED);
		return RELMQ_OK;
	}
	/* In the window before the first byte leaves: whatever happens to the send, the
	 * item has its outcome through the one way. */
	(void) relmq__window_add(&s->window, item);
	s->sent++;
	relmq__conn_begin(&s->conn);
	int rc = amqp_basic_publish(s->conn.state, RELMQ__CHANNEL, item->exchange,
	    item->routing_key, 1, 0, item->props, item->body);
	relmq__conn_end(&s->conn);
	if (rc != AMQP_STATUS_OK)
		return relmq__conn_fail_status(&s->conn, rc, "publish", err);
	push_corked(s, item);
	return RELMQ_OK;
}

static relmq_code revive_channel(relmq__sender *s, relmq_error *err)
{
	if (is_outage(s->closed_code))
		return relmq__fail_from(err, RELMQ_EBROKER, RELMQ_F_RETRY, RELMQ_FROM_AMQP,
		    s->closed_code, "rabbitmq %.80s closed the channel: %d %s", s->conn.hosts.text,
		    s->closed_code, s->closed_text);
	relmq_code code = relmq__conn_reopen_channel(&s->conn, err);
	return code == RELMQ_OK ? start_confirms(s, err) : code;
}

/* Where the broker has confirmed something after this one was sent, it does not stand still: it
 * is the queue of this one that gives no answer, neither ack nor nack, as a quorum queue without
 * its majority. (One that freezes between two confirms looks so, too.) */
static void mark_overdue(relmq__sender *s)
{
	uint64_t tag = 0;
	int64_t before_ms = relmq__now_ms() - s->confirm_timeout_ms;
	for (relmq__item *item; (item = relmq__window_next(&s->window, &tag)) != NULL;)
		item->overdue = item->sent_ms <= before_ms && item->sent_ms <= s->answered_ms;
}

static relmq_code check_overdue(relmq__sender *s, relmq_error *err)
{
	uint64_t tag = 0;
	const relmq__item *oldest = relmq__window_next(&s->window, &tag);
	if (oldest == NULL || s->blocked)
		return RELMQ_OK;
	int64_t from = oldest->sent_ms > s->clock_from_ms ? oldest->sent_ms : s->clock_from_ms;
	if (relmq__now_ms() - from < s->confirm_timeout_ms)
		return RELMQ_OK;
	mark_overdue(s);
	return relmq__fail(err, RELMQ_EBROKER, RELMQ_F_RETRY,
	    "rabbitmq %.80s: no confirm within confirm_timeout (%lld ms)", s->conn.hosts.text,
	    (long long) s->confirm_timeout_ms);
}

relmq_code relmq__sender_pump(relmq__sender *s, relmq_error *err)
{
	relmq_code code = relmq__dispatch(&s->dispatcher, PUMP_BUDGET, err);
	if (code == RELMQ_OK && s->channel_dead)
		code = revive_channel(s, err);
	if (code == RELMQ_OK)
		code = check_overdue(s, err);
	return code;
}

void relmq__sender_lost(relmq__sender *s)
{
	relmq__dispatcher_reset(&s->dispatcher);
	relmq__conn_close(&s->conn, false);
	if (s->window.slots != NULL)
		orphan(s);
	s->blocked = s->channel_dead = false;
}

void relmq__sender_close(relmq__sender *s)
{
	relmq__conn_close(&s->conn, !s->blocked);
	relmq__sender_lost(s);
}

int relmq__sender_sleep_ms(const relmq__sender *s)
{
	return s->conn.state == NULL || !relmq__conn_has_buffered(&s->conn) ? SLEEP_MAX_MS : 0;
}
