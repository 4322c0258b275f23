/* mq/confirm.c - see confirm.h. */
#include "mq/confirm.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

bool relmq__window_init(relmq__window *w, size_t capacity)
{
	/* Four times: one late confirm leaves a hole, and publishing goes on behind it. */
	size_t size = 16;
	while (size < capacity * 4)
		size *= 2;
	memset(w, 0, sizeof(*w));
	w->slots = calloc(size, sizeof(*w->slots));
	w->mask = size - 1;
	w->base = w->next = 1;
	return w->slots != NULL;
}

void relmq__window_free(relmq__window *w)
{
	free(w->slots);
	memset(w, 0, sizeof(*w));
}

bool relmq__window_full(const relmq__window *w)
{
	return w->next - w->base > w->mask;
}

uint64_t relmq__window_add(relmq__window *w, void *item)
{
	assert(item != NULL && !relmq__window_full(w));
	w->slots[w->next & w->mask] = item;
	w->count++;
	return w->next++;
}

static void settle_one(relmq__window *w, uint64_t tag, bool ack, relmq__settle_fn fn, void *arg)
{
	void *item = w->slots[tag & w->mask];
	if (item == NULL)
		return;
	w->slots[tag & w->mask] = NULL;
	w->count--;
	fn(arg, item, ack);
}

void relmq__window_settle(
    relmq__window *w, uint64_t tag, bool multiple, bool ack, relmq__settle_fn fn, void *arg)
{
	if (tag == 0 && multiple)
		tag = w->next - 1; /* AMQP's way to say: all of them */
	if (tag >= w->next || (!multiple && tag < w->base))
		return; /* a tag we never used: a broken peer must not corrupt the window */
	if (multiple) {
		for (uint64_t t = w->base; t <= tag; t++)
			settle_one(w, t, ack, fn, arg);
	} else {
		settle_one(w, tag, ack, fn, arg);
	}
	while (w->base < w->next && w->slots[w->base & w->mask] == NULL)
		w->base++;
}

void *relmq__window_next(const relmq__window *w, uint64_t *tag)
{
	for (uint64_t t = *tag > w->base ? *tag : w->base; t < w->next; t++) {
		if (w->slots[t & w->mask] != NULL) {
			*tag = t + 1;
			return w->slots[t & w->mask];
		}
	}
	return NULL;
}

void relmq__window_reset(relmq__window *w)
{
	memset(w->slots, 0, (w->mask + 1) * sizeof(*w->slots));
	w->base = w->next = 1;
	w->count = 0;
}
