/* mq/dispatcher.c - see dispatcher.h. */
#include "mq/dispatcher.h"

#include <string.h>

#include "base/clock.h"
#include "base/error.h"

enum { RELEASE_EVERY = 64 }; /* frames between releases of rabbitmq-c's buffers */

void relmq__dispatcher_init(
    relmq__dispatcher *d, relmq__conn *conn, const relmq__events *events, void *arg)
{
	memset(d, 0, sizeof(*d));
	d->conn = conn;
	d->events = events;
	d->arg = arg;
}

void relmq__dispatcher_reset(relmq__dispatcher *d)
{
	relmq__msg_free(d->msg);
	d->msg = NULL;
	d->pending = 0;
	d->header_seen = false;
}

static relmq_code begin_content(relmq__dispatcher *d, amqp_method_number_t method,
    amqp_bytes_t exchange, amqp_bytes_t routing_key, relmq_error *err)
{
	relmq__dispatcher_reset(d);
	d->msg = relmq__msg_new();
	if (d->msg == NULL)
		return relmq__fail_nomem(err);
	d->msg->exchange = relmq__msg_bytes(d->msg, exchange.bytes, exchange.len);
	d->msg->routing_key = relmq__msg_bytes(d->msg, routing_key.bytes, routing_key.len);
	d->pending = method;
	return RELMQ_OK;
}

static void finish_content(relmq__dispatcher *d)
{
	const relmq__events *e = d->events;
	amqp_method_number_t method = d->pending;
	relmq__msg *msg = d->msg;
	d->msg = NULL;
	d->pending = 0;
	d->header_seen = false;
	if (method == AMQP_BASIC_GET_OK_METHOD) {
		d->got = msg;
		return;
	}
	if (method == AMQP_BASIC_DELIVER_METHOD && e->deliver != NULL) {
		e->deliver(d->arg, msg, amqp_cstring_bytes(d->consumer_tag), d->delivery_tag,
		    d->redelivered);
		return;
	}
	if (method == AMQP_BASIC_RETURN_METHOD && e->returned != NULL)
		e->returned(d->arg, d->return_code, amqp_cstring_bytes(d->return_text), msg);
	relmq__msg_free(msg);
}

static relmq_code content_header(relmq__dispatcher *d, const amqp_frame_t *f, relmq_error *err)
{
	if (d->pending == 0 || d->header_seen)
		return RELMQ_OK; /* of a message nobody asked for */
	const amqp_basic_properties_t *props = f->payload.properties.decoded;
	d->body_size = d->body_left = f->payload.properties.body_size;
	d->header_seen = true;
	if (!relmq__msg_set_props(d->msg, props) || !relmq__msg_body_reserve(d->msg, d->body_size))
		return relmq__fail_nomem(err);
	if (d->body_left == 0)
		finish_content(d);
	return RELMQ_OK;
}

static relmq_code content_body(relmq__dispatcher *d, const amqp_frame_t *f, relmq_error *err)
{
	amqp_bytes_t part = f->payload.body_fragment;
	if (d->pending == 0 || !d->header_seen)
		return RELMQ_OK;
	if (part.len > d->body_left)
		return relmq__fail(err, RELMQ_EBROKER, RELMQ_F_RETRY,
		    "broker sent more body bytes than it announced");
	relmq__msg_body_append(d->msg, part);
	d->body_left -= part.len;
	if (d->body_left == 0)
		finish_content(d);
	return RELMQ_OK;
}

static void send_ok(
    relmq__dispatcher *d, amqp_channel_t channel, amqp_method_number_t method, void *decoded)
{
	relmq__conn_begin(d->conn);
	(void) amqp_send_method(d->conn->state, channel, method, decoded);
	relmq__conn_end(d->conn);
}

static relmq_code on_connection_close(
    relmq__dispatcher *d, const amqp_connection_close_t *m, relmq_error *err)
{
	char text[160];
	int code = m->reply_code;
	(void) relmq__bytes_text(m->reply_text, text, sizeof(text));
	amqp_connection_close_ok_t ok = { 0 };
	send_ok(d, 0, AMQP_CONNECTION_CLOSE_OK_METHOD, &ok);
	relmq__dispatcher_reset(d);
	if (d->events->connection_closed != NULL)
		d->events->connection_closed(d->arg, code, amqp_cstring_bytes(text));
	return relmq__fail_from(err, RELMQ_EBROKER, RELMQ_F_RETRY, RELMQ_FROM_AMQP, code,
	    "rabbitmq %.80s closed the connection: %d %s", d->conn->hosts.text, code, text);
}

static void on_channel_close(relmq__dispatcher *d, const amqp_channel_close_t *m)
{
	char text[256];
	int code = m->reply_code;
	(void) relmq__bytes_text(m->reply_text, text, sizeof(text));
	amqp_channel_close_ok_t ok = { 0 };
	send_ok(d, RELMQ__CHANNEL, AMQP_CHANNEL_CLOSE_OK_METHOD, &ok);
	relmq__dispatcher_reset(d);
	if (d->events->channel_closed != NULL)
		d->events->channel_closed(d->arg, code, amqp_cstring_bytes(text));
}

static relmq_code on_return(relmq__dispatcher *d, const amqp_basic_return_t *m, relmq_error *err)
{
	d->return_code = m->reply_code;
	(void) relmq__bytes_text(m->reply_text, d->return_text, sizeof(d->return_text));
	return begin_content(d, AMQP_BASIC_RETURN_METHOD, m->exchange, m->routing_key, err);
}

static relmq_code on_deliver(relmq__dispatcher *d, const amqp_basic_deliver_t *m, relmq_error *err)
{
	d->delivery_tag = m->delivery_tag;
	d->redelivered = m->redelivered;
	(void) relmq__bytes_text(m->consumer_tag, d->consumer_tag, sizeof(d->consumer_tag));
	return begin_content(d, AMQP_BASIC_DELIVER_METHOD, m->exchange, m->routing_key, err);
}

static relmq_code on_method(relmq__dispatcher *d, const amqp_frame_t *f, relmq_error *err)
{
	const relmq__events *e = d->events;
	void *decoded = f->payload.method.decoded;
	switch (f->payload.method.id) {
	case AMQP_BASIC_ACK_METHOD: {
		const amqp_basic_ack_t *m = decoded;
		if (e->confirm != NULL)
			e->confirm(d->arg, m->delivery_tag, m->multiple, true);
		return RELMQ_OK;
	}
	case AMQP_BASIC_NACK_METHOD: {
		const amqp_basic_nack_t *m = decoded;
		if (e->confirm != NULL)
			e->confirm(d->arg, m->delivery_tag, m->multiple, false);
		return RELMQ_OK;
	}
	case AMQP_BASIC_RETURN_METHOD:
		return on_return(d, decoded, err);
	case AMQP_BASIC_DELIVER_METHOD:
		return on_deliver(d, decoded, err);
	case AMQP_BASIC_CANCEL_METHOD:
		if (e->cancelled != NULL)
			e->cancelled(d->arg, ((amqp_basic_cancel_t *) decoded)->consumer_tag);
		return RELMQ_OK;
	case AMQP_CONNECTION_BLOCKED_METHOD:
		if (e->blocked != NULL)
			e->blocked(d->arg, true, ((amqp_connection_blocked_t *) decoded)->reason);
		return RELMQ_OK;
	case AMQP_CONNECTION_UNBLOCKED_METHOD:
		if (e->blocked != NULL)
			e->blocked(d->arg, false, amqp_empty_bytes);
		return RELMQ_OK;
	case AMQP_CHANNEL_CLOSE_METHOD:
		on_channel_close(d, decoded);
		return RELMQ_OK;
	case AMQP_CONNECTION_CLOSE_METHOD:
		return on_connection_close(d, decoded, err);
	default:
		return RELMQ_OK; /* answers to RPCs that are no longer waited for */
	}
}

/* What is said of another channel's messages must not be taken as said of ours. And a message
 * comes in one piece: behind a return that was broken off, the ack of what it returned would
 * pass for a confirm. Only the channel may close at any time. */
static relmq_code check_place(const relmq__dispatcher *d, const amqp_frame_t *f, relmq_error *err)
{
	enum { CONNECTION_CLASS = 10 };
	bool method = f->frame_type == AMQP_FRAME_METHOD;
	bool of_connection = f->frame_type == AMQP_FRAME_HEARTBEAT ||
	    (method && f->payload.method.id >> 16 == CONNECTION_CLASS);
	if (f->channel != (of_connection ? 0 : RELMQ__CHANNEL))
		return relmq__fail(err, RELMQ_EBROKER, RELMQ_F_RETRY,
		    "rabbitmq %.80s sent a frame on channel %u where it has no place",
		    d->conn->hosts.text, (unsigned) f->channel);
	if (d->pending != 0 && method && !of_connection &&
	    f->payload.method.id != AMQP_CHANNEL_CLOSE_METHOD)
		return relmq__fail(err, RELMQ_EBROKER, RELMQ_F_RETRY,
		    "rabbitmq %.80s broke off a message", d->conn->hosts.text);
	return RELMQ_OK;
}

static relmq_code on_frame(relmq__dispatcher *d, const amqp_frame_t *f, relmq_error *err)
{
	relmq_code code = check_place(d, f, err);
	if (code != RELMQ_OK)
		return code;
	switch (f->frame_type) {
	case AMQP_FRAME_METHOD:
		return on_method(d, f, err);
	case AMQP_FRAME_HEADER:
		return content_header(d, f, err);
	case AMQP_FRAME_BODY:
		return content_body(d, f, err);
	default:
		return RELMQ_OK; /* heartbeat */
	}
}

relmq_code relmq__dispatch(relmq__dispatcher *d, unsigned budget, relmq_error *err)
{
	amqp_connection_state_t state = d->conn->state;
	relmq_code code = RELMQ_OK;
	for (unsigned n = 1; n <= budget && code == RELMQ_OK; n++) {
		amqp_frame_t frame;
		struct timeval now = { 0, 0 };
		relmq__conn_begin(d->conn); /* it may send a heartbeat, and sends have no bound */
		int rc = amqp_simple_wait_frame_noblock(state, &frame, &now);
		relmq__conn_end(d->conn);
		if (rc == AMQP_STATUS_TIMEOUT)
			break;
		if (rc != AMQP_STATUS_OK)
			return relmq__conn_fail_status(d->conn, rc, "read", err);
		code = on_frame(d, &frame, err);
		/* Everything that was in the frame has been copied or used by now. */
		if (n % RELEASE_EVERY == 0 || frame.frame_type == AMQP_FRAME_BODY)
			amqp_maybe_release_buffers(state);
	}
	amqp_maybe_release_buffers(state);
	return code;
}

static relmq_code read_got(relmq__dispatcher *d, relmq__msg **msg, relmq_error *err)
{
	int64_t end = relmq__now_ms() + d->conn->settings->send_timeout_ms;
	while (d->pending != 0) {
		amqp_frame_t frame;
		struct timeval wait = { 0, 100000 };
		int rc = amqp_simple_wait_frame_noblock(d->conn->state, &frame, &wait);
		if (rc == AMQP_STATUS_TIMEOUT && relmq__now_ms() < end)
			continue;
		if (rc != AMQP_STATUS_OK)
			return relmq__conn_fail_status(d->conn, rc, "read message", err);
		relmq_code code = on_frame(d, &frame, err);
		amqp_maybe_release_buffers(d->conn->state);
		if (code != RELMQ_OK)
			return code;
	}
	*msg = d->got;
	d->got = NULL;
	if (*msg == NULL) /* the channel or the connection closed in mid-message */
		return relmq__fail(
		    err, RELMQ_EBROKER, RELMQ_F_RETRY, "the broker broke off a message");
	return RELMQ_OK;
}

relmq_code relmq__dispatch_get(
    relmq__dispatcher *d, const char *queue, relmq__msg **msg, uint64_t *tag, relmq_error *err)
{
	*msg = NULL;
	relmq__conn_begin(d->conn);
	amqp_rpc_reply_t reply =
	    amqp_basic_get(d->conn->state, RELMQ__CHANNEL, amqp_cstring_bytes(queue), 0);
	relmq__conn_end(d->conn);
	if (reply.reply_type != AMQP_RESPONSE_NORMAL)
		return relmq__conn_fail_reply(d->conn, reply, queue, err);
	if (reply.reply.id == AMQP_BASIC_GET_EMPTY_METHOD)
		return RELMQ_OK;
	const amqp_basic_get_ok_t *m = reply.reply.decoded;
	*tag = m->delivery_tag;
	relmq_code code =
	    begin_content(d, AMQP_BASIC_GET_OK_METHOD, m->exchange, m->routing_key, err);
	return code == RELMQ_OK ? read_got(d, msg, err) : code;
}
