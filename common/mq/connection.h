/* mq/connection.h - one AMQP connection with one channel (number 1), every call bounded.
 *
 * One channel, because rabbitmq-c drops frames of other channels while it assembles a
 * body (FACTS of the library, all versions). One thread owns a connection. Knows no
 * database and nothing of outbox or inbox. */
#ifndef RELMQ_MQ_CONNECTION_H
#define RELMQ_MQ_CONNECTION_H

#include <stdbool.h>

#include <relmq/error.h>

#include "base/hosts.h"
#include "base/settings.h"
#include "mq/amqp.h"
#include "mq/watchdog.h"

enum { RELMQ__CHANNEL = 1 };

typedef struct relmq__conn {
	amqp_connection_state_t state; /* NULL while closed */
	const relmq__rabbitmq_settings *settings;
	relmq__hosts hosts; /* zero at first; kept from one opening to the next */
	relmq__watch watch;
	bool watched;
	int tls_verdict;     /* of a certificate that was refused: see mq/tls.h */
	uint64_t generation; /* raised at every opening of the channel */
} relmq__conn;

/**
 * Connect, log in with our capabilities (blocked, consumer_cancel_notify, confirms) and open
 * the channel. Blocks at most 2 * connect_timeout + a few round trips.
 * `name` is what the broker's management shows for this connection.
 *
 * One broker is tried. Where the settings list several, the first one is any of them, so that
 * many programs spread; a broker that could not be had, or whose connection was lost, is left
 * for the next at the next opening.
 */
RELMQ_CHECK relmq_code relmq__conn_open(
    relmq__conn *c, const relmq__rabbitmq_settings *settings, const char *name, relmq_error *err);
/** For a tool that runs once: every broker of the list in turn. */
RELMQ_CHECK relmq_code relmq__conn_open_any(
    relmq__conn *c, const relmq__rabbitmq_settings *settings, const char *name, relmq_error *err);
/** Open channel 1 again after the broker closed it. */
RELMQ_CHECK relmq_code relmq__conn_reopen_channel(relmq__conn *c, relmq_error *err);
/** `polite` tells the broker and waits for its answer, bounded by send_timeout; otherwise the
 *  connection counts as lost. Idempotent. */
void relmq__conn_close(relmq__conn *c, bool polite);

int relmq__conn_fd(const relmq__conn *c); /* -1 while closed */
/** True when a wait for the fd would sleep on frames that are already in memory. */
bool relmq__conn_has_buffered(const relmq__conn *c);

/** While corked, what is sent leaves in full packets; drawing the cork sends what is left, and
 *  200 ms do. rabbitmq-c makes a packet of each message, which costs both sides more than its
 *  bytes do. */
void relmq__conn_cork(const relmq__conn *c, bool on);

/** Guard calls of rabbitmq-c that may block. */
void relmq__conn_begin(relmq__conn *c);
void relmq__conn_end(relmq__conn *c);

/** Translate: a rabbitmq-c status, or the reply of an RPC. */
relmq_code relmq__conn_fail_status(
    const relmq__conn *c, int status, const char *doing, relmq_error *err);
relmq_code relmq__conn_fail_reply(
    const relmq__conn *c, amqp_rpc_reply_t reply, const char *doing, relmq_error *err);
/** Was this reply a channel.close of the broker? Then the channel can be opened again. */
bool relmq__reply_closed_channel(amqp_rpc_reply_t reply);

/** `bytes` as printable text for a message: cut to `size`, NUL-terminated; returns `out`. */
const char *relmq__bytes_text(amqp_bytes_t bytes, char *out, size_t size);

#endif
