/* test_rate.c - so many a second and no more, told the time. */
#include <criterion/criterion.h>

#include "base/rate.h"

Test(rate, no_limit)
{
	relmq__rate r = { 0 };
	for (int i = 0; i < 1000; i++)
		cr_assert(relmq__rate_take(&r, 5));
	cr_expect_eq(relmq__rate_wait_us(&r, 5), 0);
}

static int taken(relmq__rate *r, int64_t from_us, int64_t to_us, int64_t step_us)
{
	int n = 0;
	for (int64_t now = from_us; now < to_us; now += step_us)
		while (relmq__rate_take(r, now))
			n++;
	return n;
}

Test(rate, as_many_as_were_asked_for)
{
	static const int64_t rates[] = { 1, 3, 100, 999, 5000, 300000 };
	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		relmq__rate r = { .per_s = rates[i] };
		(void) taken(&r, 0, 1000000, 1000);
		int n = taken(&r, 1000000, 11000000, 1000);
		cr_expect_leq(n, rates[i] * 10 + rates[i] / 50 + 1, "%d", n);
		cr_expect_geq(n, rates[i] * 10 - rates[i] / 50 - 1, "%d", n);
	}
}

Test(rate, a_pause_is_not_saved_up)
{
	relmq__rate r = { .per_s = 1000 };
	(void) taken(&r, 0, 1000000, 1000);
	cr_expect_leq(taken(&r, 3600000000, 3600000001, 1), 22);
}

Test(rate, it_says_how_long_to_wait)
{
	relmq__rate r = { .per_s = 2 };
	while (relmq__rate_take(&r, 1000000)) {
	}
	int64_t wait = relmq__rate_wait_us(&r, 1000000);
	cr_expect_gt(wait, 0);
	cr_expect_leq(wait, 500001);
	cr_expect_not(relmq__rate_take(&r, 1000000 + wait - 2));
	cr_expect(relmq__rate_take(&r, 1000000 + wait));
}
