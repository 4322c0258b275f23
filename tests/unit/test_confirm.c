/* test_confirm.c - the window of publishes: every item settled once, whatever the broker
 * says and in whatever order. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "mq/confirm.h"

enum { MAX = 4096 };

static relmq__window w;
static int items[MAX]; /* item N is what tag N + 1 carried first */

typedef struct settled {
	int acked[MAX], nacked[MAX];
	int order[MAX];
	size_t count;
} settled;

static settled seen;

static void note(void *arg, void *item, bool ack)
{
	settled *s = arg;
	ptrdiff_t n = (int *) item - items;
	(ack ? s->acked : s->nacked)[n]++;
	s->order[s->count++] = (int) n;
}

static void start(void)
{
	cr_assert(relmq__window_init(&w, 8));
}

static void stop(void)
{
	relmq__window_free(&w);
}

TestSuite(window, .init = start, .fini = stop);

static void add(int count)
{
	for (int i = 0; i < count; i++)
		(void) relmq__window_add(&w, &items[w.next - 1]);
}

static void settle(uint64_t tag, bool multiple, bool ack)
{
	relmq__window_settle(&w, tag, multiple, ack, note, &seen);
}

Test(window, tags_count_from_one)
{
	cr_assert_eq(relmq__window_add(&w, &items[0]), 1);
	cr_assert_eq(relmq__window_add(&w, &items[1]), 2);
	cr_assert_eq(w.count, 2);
}

Test(window, a_single_confirm_settles_its_own_tag)
{
	add(3);
	settle(2, false, true);
	cr_expect_eq(seen.count, 1);
	cr_expect_eq(seen.acked[1], 1);
	cr_expect_eq(w.count, 2);
	settle(1, false, false);
	settle(3, false, true);
	cr_expect_eq(seen.nacked[0], 1);
	cr_expect_eq(seen.acked[2], 1);
	cr_expect_eq(w.count, 0);
}

Test(window, multiple_settles_all_up_to_its_tag_in_order)
{
	add(6);
	settle(3, false, false);
	settle(5, true, true);
	cr_expect_eq(w.count, 1);
	cr_expect_eq(seen.count, 5);
	cr_expect_eq(seen.nacked[2], 1, "the one that was settled before stays as it was");
	cr_expect_eq(seen.acked[2], 0);
	const int order[] = { 2, 0, 1, 3, 4 };
	cr_expect_eq(memcmp(seen.order, order, sizeof(order)), 0);
}

Test(window, multiple_nack_refuses_all_up_to_its_tag)
{
	add(4);
	settle(4, true, false);
	cr_expect_eq(w.count, 0);
	for (int i = 0; i < 4; i++)
		cr_expect_eq(seen.nacked[i], 1);
}

Test(window, tag_zero_with_multiple_is_all)
{
	settle(0, true, true); /* of none */
	add(4);
	settle(0, false, true);
	cr_assert_eq(seen.count, 0);
	settle(2, false, false);
	settle(0, true, true);
	cr_assert(w.count == 0 && seen.count == 4);
	cr_assert(seen.acked[0] == 1 && seen.nacked[1] == 1 && seen.acked[3] == 1);
	add(2);
	settle(0, true, false);
	cr_assert(w.count == 0 && seen.nacked[4] == 1 && seen.nacked[5] == 1);
}

Test(window, a_tag_that_is_not_outstanding_is_ignored)
{
	add(3);
	settle(4, false, true);
	settle(4, true, true);
	settle(0, false, true);
	settle(UINT64_MAX, true, true);
	cr_expect_eq(seen.count, 0);
	cr_expect_eq(w.count, 3);
	settle(3, true, true);
	settle(3, true, true);
	settle(2, false, false);
	cr_expect_eq(seen.count, 3, "twice settled is settled once");
}

Test(window, one_late_confirm_does_not_stop_the_others_at_once)
{
	add(1); /* tag 1 stays open */
	uint64_t passed = 0;
	while (!relmq__window_full(&w)) {
		uint64_t tag = relmq__window_add(&w, &items[w.next - 1]);
		settle(tag, false, true);
		passed++;
	}
	cr_expect_geq(passed, 8, "room behind a hole: %llu", (unsigned long long) passed);
	settle(1, false, true);
	cr_expect_not(relmq__window_full(&w));
	cr_expect_eq(w.count, 0);
}

Test(window, next_walks_over_what_is_outstanding)
{
	uint64_t tag = 0;
	add(4);
	settle(1, false, true);
	settle(3, false, true);
	cr_expect_eq(relmq__window_next(&w, &tag), &items[1]);
	cr_expect_eq(relmq__window_next(&w, &tag), &items[3]);
	cr_expect_null(relmq__window_next(&w, &tag));
}

Test(window, reset_forgets_the_old_channel)
{
	uint64_t tag = 0;
	add(5);
	settle(1, false, true);
	relmq__window_reset(&w);
	cr_expect_eq(w.count, 0);
	cr_expect_null(relmq__window_next(&w, &tag));
	settle(5, true, true);
	cr_expect_eq(seen.count, 1, "a confirm of the old channel settles nothing");
	cr_expect_eq(relmq__window_add(&w, &items[9]), 1, "tags start anew");
	settle(1, false, true);
	cr_expect_eq(seen.acked[9], 1);
}

/* Any order of confirms, single and multiple, good and bad: one outcome an item. */
Test(window, every_item_is_settled_exactly_once)
{
	uint64_t published = 0;
	while (published < MAX || w.count > 0) {
		uint64_t n = relmq__random_below(8);
		for (uint64_t i = 0; i < n && published < MAX && !relmq__window_full(&w); i++) {
			uint64_t tag = relmq__window_add(&w, &items[published]);
			cr_assert_eq(tag, ++published);
		}
		uint64_t span = published - w.base + 1;
		settle(w.base + relmq__random_below(span + 1), relmq__random_below(3) == 0,
		    relmq__random_below(2) == 0);
	}
	cr_assert_eq(seen.count, MAX);
	for (int i = 0; i < MAX; i++)
		cr_assert_eq(seen.acked[i] + seen.nacked[i], 1, "item %d", i);
}
