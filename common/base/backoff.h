/* base/backoff.h - how long to wait before the next try. */
#ifndef RELMQ_BASE_BACKOFF_H
#define RELMQ_BASE_BACKOFF_H

#include <stdint.h>

/* Reconnects: full jitter below a doubling, capped bound, so that many processes
 * do not hit a recovering server in lockstep. */
typedef struct relmq__backoff {
	int64_t first_ms;
	int64_t cap_ms;
	unsigned failures;
} relmq__backoff;

/** Next delay: uniform in [bound/2, bound], bound = min(first << failures, cap). */
int64_t relmq__backoff_next_ms(relmq__backoff *b);
void relmq__backoff_reset(relmq__backoff *b);

/** `ms` with a fifth of it as jitter either way. */
int64_t relmq__jitter_ms(int64_t ms);

/** Uniform in [0, bound); a per-thread generator seeded by the kernel; not for secrets. */
uint64_t relmq__random_below(uint64_t bound);

#endif
