/* test_breaker.c - when a destination is left alone, what its rows are charged, and how it
 * comes back. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "publisher/breaker.h"

enum { AFTER = 3 };

static relmq__publisher_settings settings;
static relmq__breakers b;
static relmq__row row;

static void start(void)
{
	settings = (relmq__publisher_settings){
		.breaker_after = AFTER, .breaker_pause_ms = 1, .breaker_pause_max_ms = 1
	};
	cr_assert(relmq__breakers_init(&b, &settings));
	memset(&row, 0, sizeof(row));
}

static void stop(void)
{
	relmq__breakers_free(&b);
}

TestSuite(breaker, .init = start, .fini = stop);

static const relmq__row *to(uint64_t id, const char *exchange, const char *routing_key)
{
	row.id = id;
	row.item.exchange = amqp_cstring_bytes(exchange);
	row.item.routing_key = amqp_cstring_bytes(routing_key);
	row.item.refusal = RELMQ__REFUSED_NACK;
	row.item.permanent = row.item.overdue = false;
	return &row;
}

static bool refused(uint64_t id, const char *routing_key)
{
	return relmq__breakers_outcome(&b, to(id, "x", routing_key), RELMQ__REFUSED);
}

static void open_up(const char *routing_key)
{
	for (uint64_t id = 1; id <= AFTER; id++)
		cr_assert(refused(id, routing_key), "each that opens it is charged");
	cr_assert_eq(b.open, 1);
}

static void wait_for_the_pause(void)
{
	int64_t end = relmq__now_ms() + 5; /* one millisecond, and its jitter */
	while (relmq__now_ms() < end) {
	}
}

Test(breaker, refusals_in_a_row_open_it)
{
	open_up("down");
	cr_expect_not(relmq__breakers_admit(&b, to(9, "x", "down")));
	cr_expect(relmq__breakers_hold(&b, 9));
	cr_expect(relmq__breakers_admit(&b, to(10, "x", "up")));
	cr_expect(relmq__breakers_admit(&b, to(11, "", "xdown")), "names are not run together");
	cr_expect(relmq__breakers_admit(&b, to(12, "xd", "own")));
}

Test(breaker, a_confirm_in_between_starts_the_count_anew)
{
	for (int i = 0; i < 5; i++) {
		for (uint64_t id = 1; id < AFTER; id++)
			cr_expect(refused(id, "q"));
		cr_expect(relmq__breakers_outcome(&b, to(7, "x", "q"), RELMQ__CONFIRMED));
	}
	cr_expect_eq(b.open, 0);
	cr_expect_eq(b.count, 0, "and nothing is remembered");
}

Test(breaker, what_is_the_rows_own_fault_counts_for_nothing)
{
	for (uint64_t id = 1; id < 20; id++) {
		(void) to(id, "x", "q");
		row.item.refusal = RELMQ__REFUSED_LOCAL;
		cr_expect(relmq__breakers_outcome(&b, &row, RELMQ__REFUSED));
		row.item.refusal = RELMQ__REFUSED_CHANNEL;
		row.item.code = 406;
		cr_expect(relmq__breakers_outcome(&b, &row, RELMQ__REFUSED));
		cr_expect(relmq__breakers_outcome(&b, to(id, "x", "q"), RELMQ__UNKNOWN));
	}
	cr_expect_eq(b.open, 0);
	for (uint64_t id = 1; id <= AFTER; id++) {
		(void) to(id, "x", "q");
		row.item.refusal = RELMQ__REFUSED_CHANNEL;
		row.item.code = 404;
		cr_expect(relmq__breakers_outcome(&b, &row, RELMQ__REFUSED));
	}
	cr_expect_eq(b.open, 1, "an exchange that is missing is");
}

/* Nobody is charged for a confirm that does not come, and yet it is the destination's. */
Test(breaker, no_answer_is_an_answer)
{
	(void) to(1, "x", "q");
	for (row.id = 1; row.id <= AFTER; row.id++) {
		row.item.overdue = true;
		cr_expect(relmq__breakers_outcome(&b, &row, RELMQ__UNKNOWN));
	}
	cr_expect_eq(b.open, 1);
	cr_expect_not(relmq__breakers_admit(&b, to(9, "x", "q")));
}

Test(breaker, what_was_under_way_when_it_opened_is_charged_nothing)
{
	open_up("q");
	for (uint64_t id = 100; id < 200; id++)
		cr_expect_not(refused(id, "q"));
	cr_expect_eq(b.held.count, 100);
	cr_expect_not(refused(100, "q"), "twice is once");
	cr_expect_eq(b.held.count, 100);
}

Test(breaker, one_is_the_probe_and_its_confirm_frees_all)
{
	open_up("q");
	for (uint64_t id = 10; id < 15; id++)
		cr_expect_not(relmq__breakers_admit(&b, to(id, "x", "q")));
	relmq__breakers_tick(&b);
	wait_for_the_pause();
	relmq__breakers_tick(&b);
	cr_assert_eq(b.held.count, 4, "one may be found again");
	uint64_t probe = 10;
	while (relmq__breakers_hold(&b, probe))
		probe++;
	cr_assert(relmq__breakers_admit(&b, to(probe, "x", "q")));
	cr_expect_not(relmq__breakers_admit(&b, to(99, "x", "q")), "one at a time");
	cr_expect(relmq__breakers_outcome(&b, to(probe, "x", "q"), RELMQ__CONFIRMED));
	cr_expect_eq(b.open, 0);
	cr_expect_eq(b.held.count, 0);
	cr_expect(relmq__breakers_admit(&b, to(99, "x", "q")));
}

Test(breaker, a_probe_that_is_refused_is_charged_nothing)
{
	open_up("q");
	for (int i = 0; i < 20; i++) {
		wait_for_the_pause();
		cr_assert(relmq__breakers_admit(&b, to(50, "x", "q")));
		cr_assert_not(refused(50, "q"));
		cr_assert(relmq__breakers_hold(&b, 50));
		cr_expect_not(relmq__breakers_admit(&b, to(51, "x", "q")));
		wait_for_the_pause();
		while (relmq__breakers_hold(&b, 50)) /* any of the two is released */
			relmq__breakers_tick(&b);
	}
	cr_expect_eq(b.open, 1);
}

Test(breaker, a_probe_without_an_outcome_is_followed_by_another)
{
	open_up("q");
	wait_for_the_pause();
	cr_assert(relmq__breakers_admit(&b, to(50, "x", "q")));
	cr_expect(relmq__breakers_outcome(&b, to(50, "x", "q"), RELMQ__UNKNOWN));
	cr_expect(relmq__breakers_admit(&b, to(51, "x", "q")), "at once");
	cr_expect_not(relmq__breakers_admit(&b, to(50, "x", "q")));
}

Test(breaker, the_pause_doubles_up_to_its_bound)
{
	settings.breaker_pause_ms = 1000;
	settings.breaker_pause_max_ms = 1000;
	open_up("q");
	relmq__buf text = { 0 };
	relmq__breakers_json(&b, &text, 10);
	cr_expect_not_null(strstr(text.data, "\"routing_key\":\"q\""), "%s", text.data);
	cr_expect_not(relmq__breakers_admit(&b, to(5, "x", "q")), "a second has not passed");
	relmq__buf_free(&text);
}

Test(breaker, zero_is_never)
{
	settings.breaker_after = 0;
	for (uint64_t id = 1; id < 1000; id++)
		cr_expect(refused(id, "q"));
	cr_expect_eq(b.open, 0);
}

/* More destinations than are watched: the open ones stay, the others take turns. */
Test(breaker, many_destinations)
{
	char key[32];
	settings.breaker_pause_ms = settings.breaker_pause_max_ms = 3600000;
	open_up("down");
	for (int i = 0; i < 5000; i++) {
		(void) snprintf(key, sizeof(key), "k-%d", i);
		cr_expect(refused((uint64_t) i + 100, key));
	}
	cr_expect_eq(b.open, 1);
	cr_expect_leq(b.count, 256);
	cr_expect_not(relmq__breakers_admit(&b, to(7, "x", "down")));
}
