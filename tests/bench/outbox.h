/* outbox.h - rows for the benchmarks of the relay, and a relay that takes them away. */
#ifndef RELMQ_BENCH_OUTBOX_H
#define RELMQ_BENCH_OUTBOX_H

#include "bench.h"

/** The highest id there is; 0: none. */
int64_t bench_top_id(bench *b);
/** `rows` messages to BENCH_QUEUE, ready to go: of BENCH_KEYS keys, or all of one. */
void bench_fill(bench *b, int64_t rows, bool hot_key);
/** Many rows, made by the server itself. `key` may use n, a number from 0; `status` and
 *  `next_retry_at` are SQL. They are not for a relay to send. */
void bench_bulk(
    bench *b, int64_t rows, const char *key, const char *status, const char *next_retry_at);
/** Is no row above this id left? Costs one index entry as long as one is. */
bool bench_is_sent(bench *b, int64_t above);
/** Wait until that is so; dies when a program has ended by itself. */
void bench_await_sent(bench *b, pid_t pid, int64_t above);

typedef struct bench_drained {
	double seconds;
	double us[3]; /* processor time a row: the relay, the database, the broker */
	int64_t peak_kib;
} bench_drained;

/** Run relmq-publisher into a fresh queue from its start until the `rows` above that id are
 *  gone; adds to `sum`, so that rounds come together. */
void bench_drain(bench *b, const char *what, int64_t above, int64_t rows, bench_drained *sum);

#endif
