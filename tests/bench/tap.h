/* tap.h - a listener between a publisher and the broker that passes every byte on and tells
 * when a message's confirm came by.
 *
 * It reads frames of both directions: publishes are counted as the broker counts them, the n
 * of bench_body() says which message each is, and acks settle them. One connection at a time.
 * It costs a hop over loopback in each direction, which the times measured through it include. */
#ifndef RELMQ_BENCH_TAP_H
#define RELMQ_BENCH_TAP_H

#include "bench.h"

typedef struct bench_tap bench_tap;
/** Called by the tap's thread, once a message; `wall_us` is of the wall clock. */
typedef void (*bench_tap_fn)(void *arg, uint64_t n, int64_t wall_us);

/** At most `max` publishes a connection. */
bench_tap *bench_tap_open(const bench *b, uint64_t max, bench_tap_fn confirmed, void *arg);
int64_t bench_tap_port(const bench_tap *t);
/** Ends the thread: after it nothing is told any more. */
void bench_tap_close(bench_tap *t);
int64_t bench_wall_us(void);

#endif
