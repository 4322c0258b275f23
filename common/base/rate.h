/* base/rate.h - so many a second and no more, evenly, without a timer. One thread. */
#ifndef RELMQ_BASE_RATE_H
#define RELMQ_BASE_RATE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct relmq__rate {
	int64_t per_s;   /* 0: no limit                                   */
	int64_t next_ns; /* when the next one would be due, were all even */
} relmq__rate;

/** Take one, if it is due at `now_us`. What was not used in the last 20 ms may be caught up with:
 *  who sleeps in milliseconds could not keep up otherwise. */
bool relmq__rate_take(relmq__rate *r, int64_t now_us);
/** Microseconds until one is due, 0 when it is. */
int64_t relmq__rate_wait_us(const relmq__rate *r, int64_t now_us);

#endif
