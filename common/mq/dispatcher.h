/* mq/dispatcher.h - the one place that reads frames of a connection and says what they mean.
 *
 * rabbitmq-c's own readers (amqp_consume_message, amqp_read_message) wait without a
 * time-out and trip over frames they do not expect; this one takes every frame as it
 * comes and never waits. */
#ifndef RELMQ_MQ_DISPATCHER_H
#define RELMQ_MQ_DISPATCHER_H

#include "mq/connection.h"
#include "mq/message.h"

/* What the owner wants to hear; NULL members are ignored. Called on the owner's thread
 * from relmq__dispatch(). Bytes are borrowed for the call. */
typedef struct relmq__events {
	void (*confirm)(void *arg, uint64_t tag, bool multiple, bool ack);
	void (*returned)(void *arg, int code, amqp_bytes_t text, const relmq__msg *msg);
	/** `msg` is taken. */
	void (*deliver)(
	    void *arg, relmq__msg *msg, amqp_bytes_t consumer_tag, uint64_t tag, bool redelivered);
	void (*cancelled)(void *arg, amqp_bytes_t consumer_tag);
	/** The broker closed the channel (already answered). Do not reopen in here. */
	void (*channel_closed)(void *arg, int code, amqp_bytes_t text);
	/** The broker closed the connection (already answered); relmq__dispatch() fails next. */
	void (*connection_closed)(void *arg, int code, amqp_bytes_t text);
	void (*blocked)(void *arg, bool blocked, amqp_bytes_t reason);
} relmq__events;

typedef struct relmq__dispatcher {
	relmq__conn *conn;
	const relmq__events *events;
	void *arg;
	/* a message whose method frame has come and whose content has not, whole */
	amqp_method_number_t pending; /* 0: none */
	relmq__msg *msg;
	uint64_t body_left, body_size;
	bool header_seen;
	int return_code;
	char return_text[256];
	char consumer_tag[256];
	uint64_t delivery_tag;
	bool redelivered;
	relmq__msg *got; /* by basic.get */
} relmq__dispatcher;

void relmq__dispatcher_init(
    relmq__dispatcher *d, relmq__conn *conn, const relmq__events *events, void *arg);
/** Forget a half-read message: the channel or the connection is gone. */
void relmq__dispatcher_reset(relmq__dispatcher *d);

/**
 * Handle what has arrived, at most `budget` frames, without waiting; sends heartbeats
 * that are due. RELMQ_EBROKER: the connection is lost, close it.
 */
RELMQ_CHECK relmq_code relmq__dispatch(relmq__dispatcher *d, unsigned budget, relmq_error *err);

/**
 * basic.get without auto-ack: one message, or NULL when the queue is empty. `*msg` is the
 * caller's. Blocks at most connect_timeout for the answer and send_timeout for the content.
 */
RELMQ_CHECK relmq_code relmq__dispatch_get(
    relmq__dispatcher *d, const char *queue, relmq__msg **msg, uint64_t *tag, relmq_error *err);

#endif
