/* base/queue.h - a bounded queue of pointers between two threads.
 *
 * The reader sleeps in poll(2) on relmq__queue_fd(), beside its socket; the fd is
 * readable while a wake-up is pending. Neither side ever blocks in here: a push on
 * a full queue fails, and the writer keeps what it has. */
#ifndef RELMQ_BASE_QUEUE_H
#define RELMQ_BASE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>

typedef struct relmq__queue relmq__queue;

relmq__queue *relmq__queue_new(size_t capacity); /* NULL: out of memory or fds */
void relmq__queue_free(relmq__queue *q);         /* NULL is a no-op; the items are the caller's */

/** False when full or (for a moment) out of room: nothing was taken. Wakes the reader. */
bool relmq__queue_push(relmq__queue *q, void *item);
/** The same without waking the reader: for several items and one relmq__queue_wake() behind them. */
bool relmq__queue_put(relmq__queue *q, void *item);
/** Oldest item, or NULL when empty. */
void *relmq__queue_pop(relmq__queue *q);
/** Up to `max` oldest items in one lock; returns how many. */
size_t relmq__queue_pop_many(relmq__queue *q, void **items, size_t max);
size_t relmq__queue_count(relmq__queue *q);

/** Wake the reader without an item (stop, state change). Async-signal-safe. */
void relmq__queue_wake(relmq__queue *q);
int relmq__queue_fd(const relmq__queue *q);
/** Reader: consume pending wake-ups before looking into the queue. */
void relmq__queue_clear_wake(relmq__queue *q);
/** Reader without another fd: wait up to `timeout_ms` (-1: for ever) for a wake-up and clear it. */
void relmq__queue_wait(relmq__queue *q, int timeout_ms);

#endif
