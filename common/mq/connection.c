/* mq/connection.c - see connection.h. */
#include "mq/connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <relmq/version.h>

#include "base/error.h"
#include "base/log.h"
#include "mq/tls.h"

static struct timeval to_timeval(int64_t ms)
{
	struct timeval tv = { ms / 1000, (ms % 1000) * 1000 };
	return tv;
}

const char *relmq__bytes_text(amqp_bytes_t bytes, char *out, size_t size)
{
	size_t n = bytes.len < size - 1 ? bytes.len : size - 1;
	if (n > 0)
		memcpy(out, bytes.bytes, n);
	out[n] = '\0';
	for (size_t i = 0; i < n; i++)
		if (out[i] == '\0' || out[i] == '\n' || out[i] == '\r')
			out[i] = ' ';
	return out;
}

static const char *where(const relmq__conn *c, char *out, size_t size)
{
	(void) snprintf(out, size, "rabbitmq %.60s vhost %s", c->hosts.text, c->settings->vhost);
	return out;
}

relmq_code relmq__conn_fail_status(
    const relmq__conn *c, int status, const char *doing, relmq_error *err)
{
	char at[96];
	const char *text = amqp_error_string2(status);
	if (c->watched && atomic_load(&c->watch.fired))
		text = "no progress within send_timeout; the socket was shut down";
	return relmq__fail_from(err, RELMQ_EBROKER, RELMQ_F_RETRY, RELMQ_FROM_AMQP, status,
	    "%s: %s: %s", where(c, at, sizeof(at)), doing, text);
}

relmq_code relmq__conn_fail_reply(
    const relmq__conn *c, amqp_rpc_reply_t reply, const char *doing, relmq_error *err)
{
	char at[96];
	char text[160];
	int code = 0;
	amqp_bytes_t reason = amqp_empty_bytes;
	if (reply.reply_type == AMQP_RESPONSE_LIBRARY_EXCEPTION)
		return relmq__conn_fail_status(c, reply.library_error, doing, err);
	if (reply.reply_type == AMQP_RESPONSE_SERVER_EXCEPTION &&
	    reply.reply.id == AMQP_CONNECTION_CLOSE_METHOD) {
		amqp_connection_close_t *m = reply.reply.decoded;
		code = m->reply_code;
		reason = m->reply_text;
	} else if (reply.reply_type == AMQP_RESPONSE_SERVER_EXCEPTION &&
	    reply.reply.id == AMQP_CHANNEL_CLOSE_METHOD) {
		amqp_channel_close_t *m = reply.reply.decoded;
		code = m->reply_code;
		reason = m->reply_text;
	} else {
		return relmq__fail_from(err, RELMQ_EBROKER, RELMQ_F_RETRY, RELMQ_FROM_AMQP, 0,
		    "%s: %s: unexpected answer", where(c, at, sizeof(at)), doing);
	}
	return relmq__fail_from(err, RELMQ_EBROKER, RELMQ_F_RETRY, RELMQ_FROM_AMQP, code,
	    "%s: %s: %d %s", where(c, at, sizeof(at)), doing, code,
	    relmq__bytes_text(reason, text, sizeof(text)));
}

bool relmq__reply_closed_channel(amqp_rpc_reply_t reply)
{
	return reply.reply_type == AMQP_RESPONSE_SERVER_EXCEPTION &&
	    reply.reply.id == AMQP_CHANNEL_CLOSE_METHOD;
}

int relmq__conn_fd(const relmq__conn *c)
{
	return c->state != NULL ? amqp_get_sockfd(c->state) : -1;
}

bool relmq__conn_has_buffered(const relmq__conn *c)
{
	return amqp_frames_enqueued(c->state) || amqp_data_in_buffer(c->state);
}

void relmq__conn_cork(const relmq__conn *c, bool on)
{
	int value = on;
	(void) setsockopt(relmq__conn_fd(c), IPPROTO_TCP, TCP_CORK, &value, sizeof(value));
}

void relmq__conn_begin(relmq__conn *c)
{
	if (c->watched)
		relmq__watch_begin(&c->watch, c->settings->send_timeout_ms);
}

void relmq__conn_end(relmq__conn *c)
{
	if (c->watched)
		relmq__watch_end(&c->watch);
}

static void entry_bool(amqp_table_entry_t *e, const char *key)
{
	e->key = amqp_cstring_bytes(key);
	e->value.kind = AMQP_FIELD_KIND_BOOLEAN;
	e->value.value.boolean = 1;
}

static void entry_text(amqp_table_entry_t *e, const char *key, const char *value)
{
	e->key = amqp_cstring_bytes(key);
	e->value.kind = AMQP_FIELD_KIND_UTF8;
	e->value.value.bytes = amqp_cstring_bytes(value);
}

/* rabbitmq-c announces only two capabilities by itself. Without connection.blocked an
 * alarm is silence, and without consumer_cancel_notify a deleted queue is. */
static amqp_rpc_reply_t login(relmq__conn *c, const char *name)
{
	const relmq__rabbitmq_settings *s = c->settings;
	amqp_table_entry_t caps[5];
	amqp_table_entry_t entries[4];
	entry_bool(&caps[0], "publisher_confirms");
	entry_bool(&caps[1], "basic.nack");
	entry_bool(&caps[2], "consumer_cancel_notify");
	entry_bool(&caps[3], "connection.blocked");
	entry_bool(&caps[4], "authentication_failure_close");
	entry_text(&entries[0], "product", "relmq");
	entry_text(&entries[1], "version", RELMQ_VERSION);
	entry_text(&entries[2], "connection_name", name);
	entries[3].key = amqp_cstring_bytes("capabilities");
	entries[3].value.kind = AMQP_FIELD_KIND_TABLE;
	entries[3].value.value.table.num_entries = 5;
	entries[3].value.value.table.entries = caps;
	amqp_table_t properties = { 4, entries };
	return amqp_login_with_properties(c->state, s->vhost, 0, (int) s->frame_max,
	    (int) (s->heartbeat_ms / 1000), &properties, AMQP_SASL_METHOD_PLAIN, s->user,
	    s->password);
}

relmq_code relmq__conn_reopen_channel(relmq__conn *c, relmq_error *err)
{
	relmq__conn_begin(c);
	bool opened = amqp_channel_open(c->state, RELMQ__CHANNEL) != NULL;
	relmq__conn_end(c);
	if (!opened)
		return relmq__conn_fail_reply(c, amqp_get_rpc_reply(c->state), "open channel", err);
	c->generation++;
	return RELMQ_OK;
}

/* Trouble with a certificate and a server without TLS are told from a port that is shut. */
static relmq_code fail_connect(const relmq__conn *c, int status, relmq_error *err)
{
	char at[96];
	const char *why =
	    c->settings->tls.enabled ? relmq__tls_reason(status, c->tls_verdict) : NULL;
	if (why == NULL)
		return relmq__conn_fail_status(c, status, "connect", err);
	return relmq__fail_from(err, RELMQ_EBROKER, RELMQ_F_RETRY, RELMQ_FROM_AMQP, status,
	    "%s: TLS refused: %s", where(c, at, sizeof(at)), why);
}

static relmq_code connect_socket(relmq__conn *c, relmq_error *err)
{
	const relmq__rabbitmq_settings *s = c->settings;
	struct timeval bound = to_timeval(s->connect_timeout_ms);
	if (s->tls.enabled) {
		if (relmq__tls_socket(c->state, &s->tls, c->hosts.name, &c->tls_verdict, err) ==
		    NULL)
			return RELMQ_EBROKER;
	} else if (amqp_tcp_socket_new(c->state) == NULL) {
		return relmq__fail_nomem(err);
	}
	/* The bound is for the handshake too. */
	int rc = amqp_socket_open_noblock(
	    amqp_get_socket(c->state), c->hosts.name, (int) c->hosts.port, &bound);
	if (rc != AMQP_STATUS_OK)
		return fail_connect(c, rc, err);
	int fd = amqp_get_sockfd(c->state);
	unsigned limit = (unsigned) s->send_timeout_ms;
	/* A peer that acknowledges no bytes any more: the kernel gives up when we would. */
	(void) setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit, sizeof(limit));
	c->watched = relmq__watch_add(&c->watch, fd);
	return c->watched ? RELMQ_OK : relmq__fail_nomem(err);
}

/* Smaller ones hold no message, and old versions of rabbitmq-c agree to them. */
static bool has_frames(const relmq__conn *c)
{
	return amqp_get_frame_max(c->state) >= AMQP_FRAME_MIN_SIZE;
}

static relmq_code log_in(relmq__conn *c, const char *name, relmq_error *err)
{
	struct timeval bound = to_timeval(c->settings->connect_timeout_ms);
	(void) amqp_set_handshake_timeout(c->state, &bound);
	(void) amqp_set_rpc_timeout(c->state, &bound);
	relmq__conn_begin(c);
	amqp_rpc_reply_t reply = login(c, name);
	relmq__conn_end(c);
	if (reply.reply_type == AMQP_RESPONSE_NORMAL && has_frames(c))
		return relmq__conn_reopen_channel(c, err);
	if (reply.reply_type == AMQP_RESPONSE_NORMAL)
		return relmq__fail(err, RELMQ_EBROKER, RELMQ_F_RETRY,
		    "rabbitmq %.80s wants frames of %d bytes: AMQP's least is %d", c->hosts.text,
		    amqp_get_frame_max(c->state), AMQP_FRAME_MIN_SIZE);
	char doing[96];
	(void) snprintf(doing, sizeof(doing), "log in as %s", c->settings->user);
	return relmq__conn_fail_reply(c, reply, doing, err);
}

relmq_code relmq__conn_open(
    relmq__conn *c, const relmq__rabbitmq_settings *settings, const char *name, relmq_error *err)
{
	const relmq__servers servers = { settings->hosts, settings->host_count, settings->host,
		settings->port };
	relmq__hosts_pick(&c->hosts, &servers, true);
	c->settings = settings;
	c->watched = false;
	c->state = amqp_new_connection();
	if (c->state == NULL)
		return relmq__fail_nomem(err);
	relmq_code code = connect_socket(c, err);
	if (code == RELMQ_OK)
		code = log_in(c, name, err);
	if (code != RELMQ_OK)
		relmq__conn_close(c, false);
	return code;
}

relmq_code relmq__conn_open_any(
    relmq__conn *c, const relmq__rabbitmq_settings *settings, const char *name, relmq_error *err)
{
	relmq_error last;
	relmq_code code = relmq__conn_open(c, settings, name, &last);
	for (size_t left = settings->host_count; code != RELMQ_OK && left > 1; left--) {
		LOG_WARN("rabbitmq", "%s; trying the next broker", last.text);
		code = relmq__conn_open(c, settings, name, &last);
	}
	if (code != RELMQ_OK && err != NULL)
		*err = last;
	return code;
}

void relmq__conn_close(relmq__conn *c, bool polite)
{
	if (c->state == NULL)
		return;
	if (!polite)
		relmq__hosts_leave(&c->hosts);
	if (polite) {
		relmq__conn_begin(c);
		(void) amqp_connection_close(c->state, AMQP_REPLY_SUCCESS);
		relmq__conn_end(c);
	}
	if (c->watched)
		relmq__watch_remove(&c->watch);
	c->watched = false;
	(void) amqp_destroy_connection(c->state);
	c->state = NULL;
	if (c->settings->tls.enabled)
		relmq__tls_forget();
}
