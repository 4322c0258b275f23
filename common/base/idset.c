/* base/idset.c - see idset.h. */
#include "base/idset.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static uint64_t home(const relmq__idset *s, uint64_t value)
{
	uint64_t h = value * 0x9e3779b97f4a7c15U;
	return (h ^ (h >> 32)) & s->mask;
}

bool relmq__idset_init(relmq__idset *s, size_t expected)
{
	size_t size = 64;
	while (size < expected * 2)
		size *= 2;
	s->slots = calloc(size, sizeof(*s->slots));
	s->mask = size - 1;
	s->count = 0;
	return s->slots != NULL;
}

void relmq__idset_free(relmq__idset *s)
{
	free(s->slots);
	memset(s, 0, sizeof(*s));
}

void relmq__idset_clear(relmq__idset *s)
{
	if (s->count > 0)
		memset(s->slots, 0, (s->mask + 1) * sizeof(*s->slots));
	s->count = 0;
}

/* The slot that holds `value`, or the free one where it would go. */
static uint64_t find(const relmq__idset *s, uint64_t value)
{
	uint64_t at = home(s, value);
	while (s->slots[at] != 0 && s->slots[at] != value + 1)
		at = (at + 1) & s->mask;
	return at;
}

static bool grow(relmq__idset *s)
{
	relmq__idset bigger;
	if (!relmq__idset_init(&bigger, s->mask + 1))
		return false;
	for (uint64_t i = 0; i <= s->mask; i++)
		if (s->slots[i] != 0)
			bigger.slots[find(&bigger, s->slots[i] - 1)] = s->slots[i];
	bigger.count = s->count;
	free(s->slots);
	*s = bigger;
	return true;
}

bool relmq__idset_add(relmq__idset *s, uint64_t value)
{
	assert(value != UINT64_MAX);
	if ((s->count + 1) * 2 > s->mask + 1 && !grow(s))
		return false;
	uint64_t at = find(s, value);
	if (s->slots[at] == 0)
		s->count++;
	s->slots[at] = value + 1;
	return true;
}

bool relmq__idset_has(const relmq__idset *s, uint64_t value)
{
	return s->slots[find(s, value)] != 0;
}

/* Backward shift: what stood behind the hole moves up, so that no search ends early. */
void relmq__idset_remove(relmq__idset *s, uint64_t value)
{
	uint64_t hole = find(s, value);
	if (s->slots[hole] == 0)
		return;
	s->slots[hole] = 0;
	s->count--;
	for (uint64_t at = (hole + 1) & s->mask; s->slots[at] != 0; at = (at + 1) & s->mask) {
		uint64_t want = home(s, s->slots[at] - 1);
		if (((at - want) & s->mask) < ((at - hole) & s->mask))
			continue;
		s->slots[hole] = s->slots[at];
		s->slots[at] = 0;
		hole = at;
	}
}
