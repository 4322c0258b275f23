/* publisher/sweep_payload.h - read the contents of chosen rows, bounded in bytes. */
#ifndef RELMQ_PUBLISHER_SWEEP_PAYLOAD_H
#define RELMQ_PUBLISHER_SWEEP_PAYLOAD_H

#include "publisher/sweep.h"

/** False: not taken, the row is still the caller's. */
typedef bool (*relmq__take_fn)(void *arg, relmq__row *row);

/**
 * Read rows `c[0..n)` that are still in the state in which they were found and hand each
 * to `fn`, until `room` bytes are used; those that it takes are marked `handed`. `row_bytes` is what a row is expected to take.
 */
RELMQ_CHECK relmq_code relmq__sweep_payloads(relmq__db *db, relmq__buf *sql, relmq__candidate *c,
    size_t n, size_t room, size_t row_bytes, relmq__take_fn fn, void *arg, relmq_error *err);

#endif
