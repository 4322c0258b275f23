/* base/backoff.c - see backoff.h. */
#include "base/backoff.h"

#include <sys/random.h>

#include "base/clock.h"

uint64_t relmq__random_below(uint64_t bound)
{
	static _Thread_local uint64_t state;
	if (bound == 0)
		return 0;
	if (state == 0 && getrandom(&state, sizeof(state), GRND_NONBLOCK) != sizeof(state))
		state = (uint64_t) relmq__now_us() | 1;
	/* splitmix64 */
	uint64_t z = (state += 0x9e3779b97f4a7c15U);
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
	return (z ^ (z >> 31)) % bound;
}

int64_t relmq__backoff_next_ms(relmq__backoff *b)
{
	int64_t bound = b->first_ms;
	for (unsigned i = 0; i < b->failures && bound < b->cap_ms; i++)
		bound *= 2;
	if (bound > b->cap_ms)
		bound = b->cap_ms;
	b->failures++;
	return bound / 2 + (int64_t) relmq__random_below((uint64_t) (bound - bound / 2 + 1));
}

void relmq__backoff_reset(relmq__backoff *b)
{
	b->failures = 0;
}

int64_t relmq__jitter_ms(int64_t ms)
{
	int64_t fifth = ms / 5;
	return ms - fifth + (int64_t) relmq__random_below((uint64_t) (2 * fifth + 1));
}
