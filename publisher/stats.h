/* publisher/stats.h - the numbers of a relay: counted by its two threads, read by any.
 * Knows no database and no AMQP. */
#ifndef RELMQ_PUBLISHER_STATS_H
#define RELMQ_PUBLISHER_STATS_H

#include <stdatomic.h>
#include <stdbool.h>

#include <relmq/publisher.h>

#include "base/buf.h"

/* As in relmq_publisher_stats, whose members say what they mean. */
#define RELMQ__COUNTERS(X)  \
	X(read)             \
	X(published)        \
	X(confirmed)        \
	X(refused_nack)     \
	X(refused_returned) \
	X(refused_channel)  \
	X(refused_local)    \
	X(abandoned)        \
	X(in_doubt)         \
	X(held)             \
	X(gone)
#define RELMQ__GAUGES(X) \
	X(in_flight)     \
	X(out)           \
	X(breakers_open) \
	X(shards)        \
	X(relays)        \
	X(database_up)   \
	X(broker_up)     \
	X(blocked)

typedef struct relmq__relay_stats {
#define X(name) _Atomic uint64_t name;
	RELMQ__COUNTERS(X)
	RELMQ__GAUGES(X)
#undef X
	_Atomic int64_t oldest_ready_age_us;
	_Atomic int64_t clock_ahead_us; /* the database's, less our monotonic one */
	_Atomic uint64_t latency_count, latency_sum_us;
	_Atomic uint64_t latency[RELMQ_LATENCY_BUCKETS];
} relmq__relay_stats;

/** What is not 0 at the beginning; the rest must be. May be read already. */
void relmq__stats_init(relmq__relay_stats *s);
/** A row created at `created_us` (the database's clock, since 1970) was confirmed just now. */
void relmq__stats_confirmed(relmq__relay_stats *s, uint64_t created_us);
void relmq__stats_read(const relmq__relay_stats *s, relmq_publisher_stats *out);
/** Milliseconds under which the part `of` (0.5, 0.99) of the confirms between two readings
 *  stayed, by the bounds of the buckets; -1: there were none, or it is above the last bound. */
int64_t relmq__stats_quantile_ms(
    const relmq_publisher_stats *before, const relmq_publisher_stats *now, double of);
/** All of it as one JSON object; with p50_ms and p99_ms since `before`. */
void relmq__stats_json(
    relmq__buf *out, const relmq_publisher_stats *before, const relmq_publisher_stats *now);

#endif
