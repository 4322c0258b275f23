/* base/clock.c - see clock.h. */
#include "base/clock.h"

#include <time.h>

int64_t relmq__now_us(void)
{
	struct timespec now;
	(void) clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t) now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t relmq__now_ms(void)
{
	return relmq__now_us() / 1000;
}
