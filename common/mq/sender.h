/* mq/sender.h - publish with confirms: one connection, one channel, one window, and for
 * every item exactly one outcome. The relay, the retry ladder and the replay of parked
 * messages all publish through this. Knows no database.
 *
 * The order of calls: init, open (again after every loss), then in a loop publish while
 * relmq__sender_ready(), and relmq__sender_pump(). One thread. */
#ifndef RELMQ_MQ_SENDER_H
#define RELMQ_MQ_SENDER_H

#include "base/idset.h"
#include "mq/confirm.h"
#include "mq/connection.h"
#include "mq/dispatcher.h"

enum { RELMQ__REFUSAL_MAX = 256 };

typedef enum relmq__outcome {
	RELMQ__CONFIRMED, /* the broker has taken responsibility                          */
	RELMQ__REFUSED,   /* nack, return, a channel error laid to it, or AMQP cannot carry it */
	RELMQ__UNKNOWN    /* may or may not have arrived: send again under the same id    */
} relmq__outcome;

typedef enum relmq__refusal {     /* who refused */
	RELMQ__REFUSED_LOCAL = 0, /* we did: AMQP cannot carry it                         */
	RELMQ__REFUSED_NACK,      /* a queue                                              */
	RELMQ__REFUSED_RETURNED,  /* no queue took it                                     */
	RELMQ__REFUSED_CHANNEL    /* the broker closed the channel or the connection over it */
} relmq__refusal;

/* What is published; embedded in the owner's record. All bytes are borrowed until the outcome. */
typedef struct relmq__item {
	amqp_bytes_t exchange, routing_key, body;
	const amqp_basic_properties_t *props; /* with message_id: returns are found by it */
	/* the sender's, valid in the outcome callback */
	int code; /* REFUSED: AMQP reply code, 0 for a nack or our own check */
	relmq__refusal refusal;
	bool permanent; /* REFUSED: no later attempt can help                      */
	char reason[RELMQ__REFUSAL_MAX];
	bool overdue; /* UNKNOWN: its confirm is, and others came after it was sent */
	int64_t sent_ms;
	bool returned;
} relmq__item;

typedef void (*relmq__outcome_fn)(void *arg, relmq__item *item, relmq__outcome outcome);

typedef struct relmq__sender {
	relmq__conn conn;
	relmq__dispatcher dispatcher;
	relmq__window window;
	size_t bytes;  /* bodies in flight                 */
	uint64_t sent; /* handed to the connection, ever   */
	/* Who breaks channels? One at a time, at most so many outcomes, until the suspects (hashes
	 * of the ids that were in flight) are cleared. */
	size_t careful;
	size_t others; /* outcomes since one of a suspect */
	relmq__idset suspects;
	bool blocked;          /* the broker does not read from us: an alarm             */
	int64_t clock_from_ms; /* the confirm clock stands still while blocked           */
	int64_t answered_ms;   /* when the last confirm came                             */
	int closed_code;       /* channel closed by the broker, to be dealt with by pump */
	char closed_text[RELMQ__REFUSAL_MAX];
	bool channel_dead;
	/* by the owner */
	size_t max_count, max_bytes;
	int64_t confirm_timeout_ms;
	size_t max_body; /* 0: no own limit */
	relmq__outcome_fn outcome;
	void *arg;
	const char *subject; /* for log lines */
} relmq__sender;

/** The owner's members are set by the caller before; false: out of memory. */
bool relmq__sender_init(relmq__sender *s);
void relmq__sender_free(relmq__sender *s);

RELMQ_CHECK relmq_code relmq__sender_open(
    relmq__sender *s, const relmq__rabbitmq_settings *settings, const char *name, relmq_error *err);
bool relmq__sender_is_open(const relmq__sender *s);
/** May the next item be published now? */
bool relmq__sender_ready(const relmq__sender *s);
/**
 * Hand one item over; its outcome comes by the callback, perhaps before this returns.
 * RELMQ_EBROKER: the connection is lost; call relmq__sender_lost().
 */
RELMQ_CHECK relmq_code relmq__sender_publish(relmq__sender *s, relmq__item *item, relmq_error *err);
/** Read what came, without waiting. RELMQ_EBROKER as above; also a confirm that is overdue. */
RELMQ_CHECK relmq_code relmq__sender_pump(relmq__sender *s, relmq_error *err);
/** Close what is left of the connection; everything in flight becomes UNKNOWN. */
void relmq__sender_lost(relmq__sender *s);
/** The same after everything has been settled, with a proper goodbye. */
void relmq__sender_close(relmq__sender *s);
/** How long the owner may sleep in poll() before it must pump again, milliseconds. */
int relmq__sender_sleep_ms(const relmq__sender *s);

#endif
