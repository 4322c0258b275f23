/* baseline.h - the relay that everybody writes first, to compare with. */
#ifndef RELMQ_BENCH_BASELINE_H
#define RELMQ_BENCH_BASELINE_H

#include "bench.h"

/** Read a page of rows in the order of their ids; for each: publish it, wait for its confirm,
 *  delete it. Until `rows` are gone. */
void bench_baseline(bench *b, int64_t rows);

#endif
