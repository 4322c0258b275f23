/* consumer/acks.c - see acks.h. */
#include "consumer/acks.h"

#include <stdlib.h>
#include <string.h>

enum { OPEN = 0, READY = 1, ACKED = 2 };
enum { SINGLE_AFTER_MS = 100 }; /* how long a done delivery waits for those before it */

bool relmq__acks_init(relmq__acks *a, size_t prefetch, size_t queues)
{
	size_t size = 64;
	/* A hole at the oldest tag lets later ones run ahead by what the prefetch allows,
	 * again and again: room for many rounds, and a check. */
	while (size < prefetch * queues * 64)
		size *= 2;
	memset(a, 0, sizeof(*a));
	a->state = calloc(size, 1);
	a->mask = size - 1;
	a->many = prefetch / 2 > 0 ? prefetch / 2 : 1;
	a->base = a->next = 1;
	return a->state != NULL;
}

void relmq__acks_free(relmq__acks *a)
{
	free(a->state);
	memset(a, 0, sizeof(*a));
}

void relmq__acks_reset(relmq__acks *a)
{
	memset(a->state, OPEN, a->mask + 1);
	a->base = a->next = 1;
	a->ready = 0;
}

bool relmq__acks_delivered(relmq__acks *a, uint64_t tag)
{
	if (tag != a->next || a->next - a->base > a->mask)
		return false;
	a->state[tag & a->mask] = OPEN;
	a->next = tag + 1;
	return true;
}

void relmq__acks_done(relmq__acks *a, uint64_t tag, int64_t now_ms)
{
	if (tag < a->base || tag >= a->next || a->state[tag & a->mask] != OPEN)
		return;
	if (a->ready == 0)
		a->since_ms = now_ms;
	a->state[tag & a->mask] = READY;
	a->ready++;
}

/* Move base over everything done; the last of it that was not yet acked is acked for all. */
static bool run_from_base(relmq__acks *a, uint64_t *tag)
{
	*tag = 0;
	for (; a->base < a->next && a->state[a->base & a->mask] != OPEN; a->base++) {
		if (a->state[a->base & a->mask] == READY) {
			*tag = a->base;
			a->ready--;
		}
	}
	return *tag != 0;
}

bool relmq__acks_next(relmq__acks *a, int64_t now_ms, bool all, uint64_t *tag, bool *multiple)
{
	if (a->ready == 0)
		return false;
	*multiple = true;
	if (run_from_base(a, tag)) {
		a->since_ms = now_ms; /* it goes on: the others have their turn that way */
		return true;
	}
	if (!all && a->ready < a->many && now_ms - a->since_ms < SINGLE_AFTER_MS)
		return false;
	*multiple = false;
	for (uint64_t t = a->base; t < a->next; t++) {
		if (a->state[t & a->mask] != READY)
			continue;
		a->state[t & a->mask] = ACKED;
		a->ready--;
		*tag = t;
		return true;
	}
	return false;
}
