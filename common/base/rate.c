/* base/rate.c - see rate.h. */
#include "base/rate.h"

#define SECOND_NS   INT64_C(1000000000)
#define CATCH_UP_NS INT64_C(20000000)

bool relmq__rate_take(relmq__rate *r, int64_t now_us)
{
	int64_t now = now_us * 1000;
	if (r->per_s == 0)
		return true;
	if (r->next_ns < now - CATCH_UP_NS)
		r->next_ns = now - CATCH_UP_NS;
	if (r->next_ns > now)
		return false;
	r->next_ns += SECOND_NS / r->per_s;
	return true;
}

int64_t relmq__rate_wait_us(const relmq__rate *r, int64_t now_us)
{
	int64_t wait = r->next_ns - now_us * 1000;
	return r->per_s != 0 && wait > 0 ? wait / 1000 + 1 : 0;
}
