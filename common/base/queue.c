/* base/queue.c - see queue.h. */
#include "base/queue.h"

#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct relmq__queue {
	pthread_mutex_t lock;
	int fd;
	size_t capacity, head, count;
	void *items[];
};

relmq__queue *relmq__queue_new(size_t capacity)
{
	relmq__queue *q = calloc(1, sizeof(*q) + capacity * sizeof(void *));
	if (q == NULL)
		return NULL;
	q->capacity = capacity;
	q->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (q->fd < 0) {
		free(q);
		return NULL;
	}
	(void) pthread_mutex_init(&q->lock, NULL);
	return q;
}

void relmq__queue_free(relmq__queue *q)
{
	if (q == NULL)
		return;
	(void) pthread_mutex_destroy(&q->lock);
	(void) close(q->fd);
	free(q);
}

static bool add(relmq__queue *q, void *item, bool *was_empty)
{
	(void) pthread_mutex_lock(&q->lock);
	bool room = q->count < q->capacity;
	*was_empty = q->count == 0;
	if (room) {
		q->items[(q->head + q->count) % q->capacity] = item;
		q->count++;
	}
	(void) pthread_mutex_unlock(&q->lock);
	return room;
}

bool relmq__queue_push(relmq__queue *q, void *item)
{
	bool was_empty;
	bool room = add(q, item, &was_empty);
	/* Only the push that ends emptiness needs to wake: the reader clears the
	 * wake-up before it looks, and looks until the queue is empty. */
	if (room && was_empty)
		relmq__queue_wake(q);
	return room;
}

bool relmq__queue_put(relmq__queue *q, void *item)
{
	bool was_empty;
	return add(q, item, &was_empty);
}

size_t relmq__queue_pop_many(relmq__queue *q, void **items, size_t max)
{
	(void) pthread_mutex_lock(&q->lock);
	size_t n = q->count < max ? q->count : max;
	for (size_t i = 0; i < n; i++) {
		items[i] = q->items[q->head];
		q->head = (q->head + 1) % q->capacity;
	}
	q->count -= n;
	bool more = q->count > 0;
	(void) pthread_mutex_unlock(&q->lock);
	if (more) /* a reader that takes less than all must not sleep on the rest */
		relmq__queue_wake(q);
	return n;
}

void *relmq__queue_pop(relmq__queue *q)
{
	void *item = NULL;
	return relmq__queue_pop_many(q, &item, 1) == 1 ? item : NULL;
}

size_t relmq__queue_count(relmq__queue *q)
{
	(void) pthread_mutex_lock(&q->lock);
	size_t n = q->count;
	(void) pthread_mutex_unlock(&q->lock);
	return n;
}

void relmq__queue_wake(relmq__queue *q)
{
	uint64_t one = 1;
	/* EAGAIN means that 2^64-2 wake-ups are pending: the reader will wake. */
	ssize_t ignored = write(q->fd, &one, sizeof(one));
	(void) ignored;
}

int relmq__queue_fd(const relmq__queue *q)
{
	return q->fd;
}

void relmq__queue_clear_wake(relmq__queue *q)
{
	uint64_t pending;
	ssize_t ignored = read(q->fd, &pending, sizeof(pending));
	(void) ignored;
}

void relmq__queue_wait(relmq__queue *q, int timeout_ms)
{
	struct pollfd p = { .fd = q->fd, .events = POLLIN };
	if (poll(&p, 1, timeout_ms) > 0)
		relmq__queue_clear_wake(q);
}
