/* consumer/acks.h - which deliveries of a channel may be acked, and in as few frames as
 * possible: a run from the oldest goes as one ack with `multiple`, the rest singly when they
 * have become many or the oldest has not moved for a while: to the broker each costs as much
 * as a run. Knows no connection. */
#ifndef RELMQ_CONSUMER_ACKS_H
#define RELMQ_CONSUMER_ACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct relmq__acks {
	unsigned char *state; /* ring by tag */
	uint64_t mask;
	uint64_t base; /* oldest tag not yet acked     */
	uint64_t next; /* highest tag delivered, + 1   */
	size_t ready;  /* done and not acked           */
	size_t many;   /* so many of those keep a queue's next messages back */
	int64_t since_ms;
} relmq__acks;

/** `prefetch` of each of `queues`. */
bool relmq__acks_init(relmq__acks *a, size_t prefetch, size_t queues);
void relmq__acks_free(relmq__acks *a);
void relmq__acks_reset(relmq__acks *a); /* a new channel: tags start at 1 */

/** A delivery came. False: more outstanding than was asked for, a broken peer. */
bool relmq__acks_delivered(relmq__acks *a, uint64_t tag);
void relmq__acks_done(relmq__acks *a, uint64_t tag, int64_t now_ms);

/**
 * The next ack to send, false when none is due. `all` does not wait for company.
 * Call until false.
 */
bool relmq__acks_next(relmq__acks *a, int64_t now_ms, bool all, uint64_t *tag, bool *multiple);

#endif
