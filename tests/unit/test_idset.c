/* test_idset.c - the set of numbers, against the dullest set there is. */
#include <criterion/criterion.h>

#include "base/backoff.h"
#include "base/idset.h"

enum { RANGE = 512, STEPS = 200000 };

Test(idset, agrees_with_an_array_of_flags)
{
	static bool flags[RANGE];
	size_t count = 0;
	relmq__idset s;
	cr_assert(relmq__idset_init(&s, 4));
	for (int i = 0; i < STEPS; i++) {
		/* Far apart and near each other: collisions and long runs. */
		uint64_t n = relmq__random_below(RANGE);
		uint64_t value = n % 2 == 0 ? n : n << 40;
		if (relmq__random_below(2) == 0) {
			cr_assert(relmq__idset_add(&s, value));
			count += !flags[n];
			flags[n] = true;
		} else {
			relmq__idset_remove(&s, value);
			count -= flags[n];
			flags[n] = false;
		}
		cr_assert_eq(s.count, count);
		n = relmq__random_below(RANGE);
		cr_assert_eq(relmq__idset_has(&s, n % 2 == 0 ? n : n << 40), flags[n]);
	}
	relmq__idset_free(&s);
}

Test(idset, zero_and_the_largest_are_numbers_too)
{
	relmq__idset s;
	cr_assert(relmq__idset_init(&s, 0));
	cr_expect_not(relmq__idset_has(&s, 0));
	cr_assert(relmq__idset_add(&s, 0));
	cr_assert(relmq__idset_add(&s, UINT64_MAX - 1));
	cr_assert(relmq__idset_add(&s, 0));
	cr_expect_eq(s.count, 2);
	cr_expect(relmq__idset_has(&s, 0));
	cr_expect(relmq__idset_has(&s, UINT64_MAX - 1));
	relmq__idset_clear(&s);
	cr_expect_eq(s.count, 0);
	cr_expect_not(relmq__idset_has(&s, 0));
	relmq__idset_free(&s);
}
