/* mq/confirm.h - publishes that wait for their confirm, by delivery tag.
 *
 * Tags of a channel in confirm mode count from 1. Confirms come in any order and, with
 * `multiple`, for all outstanding tags up to theirs. A window belongs to one opening of
 * one channel and is emptied when that ends. Knows no connection. */
#ifndef RELMQ_MQ_CONFIRM_H
#define RELMQ_MQ_CONFIRM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct relmq__window {
	void **slots; /* NULL: settled */
	uint64_t mask;
	uint64_t base; /* oldest tag that may be outstanding */
	uint64_t next; /* tag of the next publish            */
	size_t count;  /* outstanding                        */
} relmq__window;

/** Room for at least `capacity` outstanding publishes, with room for confirms out of order. */
bool relmq__window_init(relmq__window *w, size_t capacity);
void relmq__window_free(relmq__window *w);

bool relmq__window_full(const relmq__window *w);
/** The tag that the publish just made has. The window must not be full. */
uint64_t relmq__window_add(relmq__window *w, void *item);

typedef void (*relmq__settle_fn)(void *arg, void *item, bool ack);
/** A confirm came. Calls `fn` in tag order; a tag that is not outstanding is ignored; tag 0
 *  with `multiple` is all that are. */
void relmq__window_settle(
    relmq__window *w, uint64_t tag, bool multiple, bool ack, relmq__settle_fn fn, void *arg);
/** Oldest outstanding item at or after `*tag` (start with 0), or NULL; moves `*tag` behind it. */
void *relmq__window_next(const relmq__window *w, uint64_t *tag);
/** Empty it and start at tag 1 again; take what was in it out by relmq__window_next first. */
void relmq__window_reset(relmq__window *w);

#endif
