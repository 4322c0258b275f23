/* test_stats.c - the histogram's buckets, and what is written of the numbers. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <string.h>

#include "base/clock.h"
#include "publisher/stats.h"

static relmq__relay_stats s;
static relmq_publisher_stats zero, now;

static void start(void)
{
	memset(&s, 0, sizeof(s));
	relmq__stats_init(&s);
	relmq__stats_read(&s, &zero);
}

TestSuite(stats, .init = start);

static void confirmed_after_ms(int64_t ms)
{
	relmq__stats_confirmed(&s, (uint64_t) (relmq__now_us() - ms * 1000));
}

Test(stats, quantiles_by_bucket)
{
	for (int i = 0; i < 98; i++)
		confirmed_after_ms(60); /* up to 70 */
	confirmed_after_ms(6000);
	confirmed_after_ms(120000);
	relmq__stats_read(&s, &now);
	cr_expect_eq(now.latency_count, 100);
	cr_expect_eq(relmq__stats_quantile_ms(&zero, &now, 0.5), 70);
	cr_expect_eq(relmq__stats_quantile_ms(&zero, &now, 0.98), 70);
	cr_expect_eq(relmq__stats_quantile_ms(&zero, &now, 0.99), 10000);
	cr_expect_eq(relmq__stats_quantile_ms(&zero, &now, 1.0), -1, "above the last bound");
	cr_expect_eq(relmq__stats_quantile_ms(&now, &now, 0.5), -1, "none in between");
}

/* The two clocks are never quite one. */
Test(stats, a_row_from_the_future_took_no_time)
{
	atomic_store(&s.clock_ahead_us, -5000000);
	confirmed_after_ms(1);
	relmq__stats_read(&s, &now);
	cr_expect_eq(now.latency[0], 1);
	cr_expect_eq(now.latency_sum_us, 0);
}

Test(stats, all_numbers_are_written)
{
	s.read = 7;
	s.refused_returned = 3;
	s.blocked = 1;
	relmq__stats_read(&s, &now);
	relmq__buf text = { 0 };
	relmq__stats_json(&text, &zero, &now);
	json_t *root = json_loadb(text.data, text.len, 0, NULL);
	cr_assert_not_null(root, "%s", text.data);
	cr_expect_eq(json_integer_value(json_object_get(root, "read")), 7);
	cr_expect_eq(json_integer_value(json_object_get(root, "refused_returned")), 3);
	cr_expect_eq(json_integer_value(json_object_get(root, "blocked")), 1);
	cr_expect_eq(json_integer_value(json_object_get(root, "oldest_ready_age_ms")), -1);
	cr_expect_eq(json_object_size(root), 22);
	json_decref(root);
	relmq__buf_free(&text);
}
