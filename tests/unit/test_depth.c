/* test_depth.c - how deep a sweep reads: deeper where what can go stands behind what is
 * held, and not for long where that does not help. */
#include <criterion/criterion.h>

#include "publisher/depth.h"

enum { NEED = 100, SHARD = 3, RANGE_MAX = 400000 };

static relmq__depth d;

static size_t limit(void)
{
	return relmq__depth_limit(&d, SHARD, NEED);
}

/* One sweep over a shard whose first `blocked` entries are held, `free` ones behind. */
static size_t sweep(size_t blocked, size_t free_rows, bool starving, int64_t now_ms)
{
	size_t lim = limit();
	size_t read = blocked + free_rows < lim ? blocked + free_rows : lim;
	size_t useful = read > blocked ? read - blocked : 0;
	if (useful > NEED)
		useful = NEED;
	relmq__depth_seen seen = { .limit = lim,
		.read = read,
		.useful = useful,
		.last_rank = useful > 0 ? blocked + useful : 0,
		.starving = starving };
	relmq__depth_learn(&d, SHARD, &seen, now_ms);
	return useful;
}

Test(depth, starts_at_what_is_needed)
{
	cr_expect_eq(limit(), NEED);
	cr_expect_eq(relmq__depth_limit(&d, SHARD, 0), 0);
}

Test(depth, a_wall_of_held_rows_is_passed_in_a_few_sweeps)
{
	int sweeps = 0;
	while (sweep(300000, 1000, true, 10 * sweeps) == 0)
		cr_assert_lt(++sweeps, 10);
	cr_expect_gt(sweeps, 0);
}

Test(depth, no_range_is_longer_than_its_bound)
{
	for (int i = 0; i < 100; i++)
		(void) sweep(100 * (size_t) RANGE_MAX, 0, true, i);
	cr_expect_leq(limit(), RANGE_MAX);
	cr_expect_eq(relmq__depth_limit(&d, SHARD, 1000000), RANGE_MAX);
}

/* Not all the way: a range that ends right behind what it is for would be cut at once. */
Test(depth, comes_back_when_the_wall_is_gone)
{
	for (int i = 0; i < 20; i++)
		(void) sweep(50000, 1000, true, i);
	cr_assert_gt(limit(), 50000);
	for (int i = 0; i < 40; i++)
		(void) sweep(0, 1000, false, 1000 + i);
	cr_expect_leq(limit(), 3 * NEED);
}

/* While everything near the front is in flight nothing is chosen: that says nothing about how far
 * back the next one will stand. */
Test(depth, stays_where_nothing_was_chosen)
{
	for (int i = 0; i < 20; i++)
		(void) sweep(50000, 1000, true, i);
	size_t deep = limit();
	cr_assert_gt(deep, 50000);
	for (int i = 0; i < 40; i++) {
		relmq__depth_seen seen = {
			.limit = deep, .read = 51000, .useful = 50, .last_rank = 0
		};
		relmq__depth_learn(&d, SHARD, &seen, 1000 + i);
	}
	cr_expect_eq(limit(), deep);
}

/* And where it was deep enough for a wall it does not stay four times as deep. */
Test(depth, is_not_much_deeper_than_the_wall)
{
	for (int i = 0; i < 60; i++)
		(void) sweep(26000, 1000000, false, i);
	cr_expect_gt(limit(), 26000);
	cr_expect_leq(limit(), 2 * 26000);
}

/* A few hot keys: reading deeper finds no other, so it must not be read deep each time. */
Test(depth, a_trial_that_does_not_help_is_ended_and_not_repeated_at_once)
{
	int deep = 0;
	for (int64_t now = 0; now < 10000; now += 10) {
		size_t lim = limit();
		deep += lim > NEED;
		relmq__depth_seen seen = {
			.limit = lim, .read = lim, .useful = 10, .last_rank = 10, .starving = true
		};
		relmq__depth_learn(&d, SHARD, &seen, now);
	}
	cr_expect_gt(deep, 0, "it was never tried");
	cr_expect_lt(deep, 100, "%d of 1000 sweeps read deep for nothing", deep);
}

Test(depth, a_trial_that_helps_is_kept)
{
	size_t lim = 0;
	for (int64_t now = 0; now < 500; now += 10) {
		lim = limit();
		relmq__depth_seen seen = { .limit = lim,
			.read = lim,
			.useful = lim / 4, /* one in four can go */
			.last_rank = lim,
			.starving = lim / 4 < NEED };
		relmq__depth_learn(&d, SHARD, &seen, now);
	}
	cr_expect_geq(lim / 4, NEED);
}

Test(depth, shards_learn_each_for_itself)
{
	for (int i = 0; i < 10; i++)
		(void) sweep(50000, 0, true, i);
	cr_expect_gt(limit(), NEED);
	cr_expect_eq(relmq__depth_limit(&d, SHARD + 1, NEED), NEED);
}
