/* test_queue.c - the bounded queue between two threads. */
#include <criterion/criterion.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>

#include "base/queue.h"

static bool readable(relmq__queue *q)
{
	struct pollfd p = { .fd = relmq__queue_fd(q), .events = POLLIN };
	return poll(&p, 1, 0) == 1;
}

Test(queue, first_in_first_out_and_full_is_full)
{
	int items[4];
	relmq__queue *q = relmq__queue_new(3);
	cr_assert_not_null(q);
	cr_expect_null(relmq__queue_pop(q));
	for (int round = 0; round < 5; round++) { /* wraps around */
		for (int i = 0; i < 3; i++)
			cr_expect(relmq__queue_push(q, &items[i]));
		cr_expect_not(relmq__queue_push(q, &items[3]));
		cr_expect_eq(relmq__queue_count(q), 3);
		for (int i = 0; i < 3; i++)
			cr_expect_eq(relmq__queue_pop(q), &items[i]);
		cr_expect_null(relmq__queue_pop(q));
		cr_expect(relmq__queue_push(q, &items[0]));
		cr_expect_eq(relmq__queue_pop(q), &items[0]);
	}
	relmq__queue_free(q);
	relmq__queue_free(NULL);
}

Test(queue, many_at_once)
{
	int items[5];
	void *out[5] = { NULL };
	relmq__queue *q = relmq__queue_new(5);
	for (int i = 0; i < 5; i++)
		(void) relmq__queue_push(q, &items[i]);
	cr_expect_eq(relmq__queue_pop_many(q, out, 2), 2);
	cr_expect_eq(out[1], &items[1]);
	cr_expect_eq(relmq__queue_pop_many(q, out, 5), 3);
	cr_expect_eq(out[2], &items[4]);
	cr_expect_eq(relmq__queue_pop_many(q, out, 5), 0);
	relmq__queue_free(q);
}

Test(queue, the_fd_is_readable_while_there_is_news)
{
	int item;
	relmq__queue *q = relmq__queue_new(4);
	cr_expect_not(readable(q));
	(void) relmq__queue_push(q, &item);
	cr_expect(readable(q));
	relmq__queue_clear_wake(q);
	cr_expect_not(readable(q));
	relmq__queue_wake(q);
	relmq__queue_wake(q);
	cr_expect(readable(q));
	relmq__queue_wait(q, 0);
	cr_expect_not(readable(q), "one wait clears all wake-ups");
	relmq__queue_free(q);
}

Test(queue, a_reader_that_takes_less_than_all_is_woken_again)
{
	int items[2];
	relmq__queue *q = relmq__queue_new(4);
	(void) relmq__queue_push(q, &items[0]);
	(void) relmq__queue_push(q, &items[1]);
	relmq__queue_clear_wake(q);
	cr_expect_eq(relmq__queue_pop(q), &items[0]);
	cr_expect(readable(q));
	relmq__queue_clear_wake(q);
	cr_expect_eq(relmq__queue_pop(q), &items[1]);
	cr_expect_not(readable(q));
	relmq__queue_free(q);
}

enum { MANY = 200000 };

static void *push_numbers(void *arg)
{
	for (uintptr_t i = 1; i <= MANY;)
		if (relmq__queue_push(arg, (void *) i)) /* NOLINT: a number, never followed */
			i++;
		else
			(void) sched_yield();
	return NULL;
}

/* A lost wake-up would show as a wait that only ends with its time. */
Test(queue, two_threads_lose_nothing_and_never_oversleep, .timeout = 50)
{
	void *out[7];
	uintptr_t next = 1;
	pthread_t writer;
	relmq__queue *q = relmq__queue_new(16);
	cr_assert_eq(pthread_create(&writer, NULL, push_numbers, q), 0);
	while (next <= MANY) {
		struct pollfd p = { .fd = relmq__queue_fd(q), .events = POLLIN };
		cr_assert_eq(poll(&p, 1, 10000), 1, "no wake-up for item %zu", (size_t) next);
		relmq__queue_clear_wake(q);
		size_t n = relmq__queue_pop_many(q, out, next % 7 + 1);
		for (size_t i = 0; i < n; i++, next++)
			cr_assert_eq((uintptr_t) out[i], next);
	}
	cr_assert_eq(pthread_join(writer, NULL), 0);
	cr_assert_eq(relmq__queue_count(q), 0);
	relmq__queue_free(q);
}
