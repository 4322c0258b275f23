/* test_acks.c - which deliveries may be acked: none twice, none unasked, and few frames. */
#include <criterion/criterion.h>
#include <string.h>

#include "base/backoff.h"
#include "consumer/acks.h"

enum { PREFETCH = 10, MAX = 5000 };

static relmq__acks a;
static uint64_t tag;
static bool multiple;

static void start(void)
{
	cr_assert(relmq__acks_init(&a, PREFETCH, 1));
}

static void stop(void)
{
	relmq__acks_free(&a);
}

TestSuite(acks, .init = start, .fini = stop);

static void deliver(int count)
{
	for (int i = 0; i < count; i++)
		cr_assert(relmq__acks_delivered(&a, a.next));
}

Test(acks, nothing_is_due_before_something_is_done)
{
	deliver(3);
	cr_expect_not(relmq__acks_next(&a, 1000, true, &tag, &multiple));
}

Test(acks, a_run_from_the_oldest_is_one_ack)
{
	deliver(5);
	relmq__acks_done(&a, 2, 0);
	relmq__acks_done(&a, 1, 0);
	relmq__acks_done(&a, 3, 0);
	cr_assert(relmq__acks_next(&a, 0, false, &tag, &multiple));
	cr_expect_eq(tag, 3);
	cr_expect(multiple);
	cr_expect_not(relmq__acks_next(&a, 1000, true, &tag, &multiple));
}

Test(acks, one_behind_a_gap_waits_a_moment_and_then_goes_alone)
{
	deliver(5);
	relmq__acks_done(&a, 4, 100);
	cr_expect_not(relmq__acks_next(&a, 101, false, &tag, &multiple));
	cr_assert(relmq__acks_next(&a, 200, false, &tag, &multiple));
	cr_expect_eq(tag, 4);
	cr_expect_not(multiple);
	cr_expect_not(relmq__acks_next(&a, 200, true, &tag, &multiple));
}

/* Waiting for company must not keep the broker from sending more. */
Test(acks, many_behind_a_gap_do_not_wait)
{
	deliver(PREFETCH);
	for (uint64_t t = 2; t < 2 + PREFETCH / 2 - 1; t++)
		relmq__acks_done(&a, t, 100);
	cr_expect_not(relmq__acks_next(&a, 100, false, &tag, &multiple));
	relmq__acks_done(&a, PREFETCH, 100);
	cr_assert(relmq__acks_next(&a, 100, false, &tag, &multiple));
	cr_expect(tag == 2 && !multiple);
}

Test(acks, all_does_not_wait)
{
	deliver(5);
	relmq__acks_done(&a, 3, 100);
	relmq__acks_done(&a, 5, 100);
	cr_assert(relmq__acks_next(&a, 100, true, &tag, &multiple));
	cr_expect(tag == 3 && !multiple);
	cr_assert(relmq__acks_next(&a, 100, true, &tag, &multiple));
	cr_expect(tag == 5 && !multiple);
	cr_expect_not(relmq__acks_next(&a, 100, true, &tag, &multiple));
}

/* multiple acks everything up to its tag: an open one in between must never be below it. */
Test(acks, an_open_delivery_is_never_acked_by_a_later_one)
{
	deliver(4);
	relmq__acks_done(&a, 1, 0);
	relmq__acks_done(&a, 3, 0);
	relmq__acks_done(&a, 4, 0);
	cr_assert(relmq__acks_next(&a, 0, false, &tag, &multiple));
	cr_expect(tag == 1 && multiple);
	cr_assert(relmq__acks_next(&a, 100, false, &tag, &multiple));
	cr_expect(tag == 3 && !multiple);
}

Test(acks, done_twice_or_unknown_is_ignored)
{
	deliver(2);
	relmq__acks_done(&a, 0, 0);
	relmq__acks_done(&a, 3, 0);
	relmq__acks_done(&a, UINT64_MAX, 0);
	cr_expect_not(relmq__acks_next(&a, 100, true, &tag, &multiple));
	relmq__acks_done(&a, 1, 0);
	relmq__acks_done(&a, 1, 0);
	cr_assert(relmq__acks_next(&a, 100, true, &tag, &multiple));
	relmq__acks_done(&a, 1, 0);
	cr_expect_not(relmq__acks_next(&a, 100, true, &tag, &multiple));
}

Test(acks, tags_must_come_without_a_gap)
{
	cr_expect_not(relmq__acks_delivered(&a, 2));
	cr_expect(relmq__acks_delivered(&a, 1));
	cr_expect_not(relmq__acks_delivered(&a, 1));
	cr_expect_not(relmq__acks_delivered(&a, 3));
}

Test(acks, a_new_channel_starts_at_one)
{
	deliver(4);
	relmq__acks_done(&a, 2, 0);
	relmq__acks_reset(&a);
	cr_expect_not(relmq__acks_next(&a, 1000, true, &tag, &multiple));
	cr_expect(relmq__acks_delivered(&a, 1));
	relmq__acks_done(&a, 2, 0); /* a verdict of the old channel */
	cr_expect_not(relmq__acks_next(&a, 1000, true, &tag, &multiple));
}

/* The broker's view: an ack of what is not outstanding closes the channel. */
typedef struct broker {
	bool outstanding[MAX + 1], done[MAX + 1];
	uint64_t delivered;
	int count;
} broker;

static void take_acks(broker *b, int64_t now, bool all)
{
	while (relmq__acks_next(&a, now, all, &tag, &multiple)) {
		cr_assert(tag >= 1 && tag <= b->delivered && b->outstanding[tag]);
		for (uint64_t t = multiple ? 1 : tag; t <= tag; t++) {
			cr_assert(!b->outstanding[t] || b->done[t], "tag %llu was not done",
			    (unsigned long long) t);
			b->count -= b->outstanding[t];
			b->outstanding[t] = false;
		}
	}
}

Test(acks, agrees_with_a_broker)
{
	static broker b;
	for (int64_t now = 0; b.delivered < MAX || b.count > 0; now++) {
		while (b.count < PREFETCH && b.delivered < MAX) {
			cr_assert(relmq__acks_delivered(&a, ++b.delivered));
			b.outstanding[b.delivered] = true;
			b.count++;
		}
		uint64_t low = b.delivered > 60 ? b.delivered - 60 : 1;
		uint64_t t = low + relmq__random_below(b.delivered - low + 1);
		if (b.outstanding[t]) {
			b.done[t] = true;
			relmq__acks_done(&a, t, now);
		}
		/* The oldest cannot stay behind for ever: that is what prefetch is for. */
		if (relmq__random_below(40) == 0)
			for (uint64_t i = 1; i <= b.delivered; i++)
				if (b.outstanding[i] && !b.done[i]) {
					b.done[i] = true;
					relmq__acks_done(&a, i, now);
				}
		take_acks(&b, now, relmq__random_below(20) == 0);
	}
	cr_expect_eq(a.ready, 0);
}
