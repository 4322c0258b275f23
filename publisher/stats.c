/* publisher/stats.c - see stats.h. */
#include "publisher/stats.h"

#include <string.h>

#include "base/clock.h"

static const int64_t bounds_ms[] = {
#define X(ms) ms,
	RELMQ_LATENCY_BOUNDS_MS(X)
#undef X
};
enum { BOUNDS = RELMQ_LATENCY_BUCKETS - 1 };

void relmq__stats_init(relmq__relay_stats *s)
{
	atomic_store(&s->oldest_ready_age_us, -1);
}

void relmq__stats_confirmed(relmq__relay_stats *s, uint64_t created_us)
{
	int64_t now = relmq__now_us() + atomic_load(&s->clock_ahead_us);
	int64_t us = now - (int64_t) created_us;
	size_t at = 0;
	us = us > 0 ? us : 0; /* the two clocks are a round trip apart at best */
	while (at < BOUNDS && us > bounds_ms[at] * 1000)
		at++;
	s->latency[at]++;
	s->latency_count++;
	s->latency_sum_us += (uint64_t) us;
}

void relmq__stats_read(const relmq__relay_stats *s, relmq_publisher_stats *out)
{
	memset(out, 0, sizeof(*out));
	out->struct_size = sizeof(*out);
#define X(name) out->name = atomic_load(&s->name);
	RELMQ__COUNTERS(X)
#undef X
#define X(name) out->name = (__typeof__(out->name)) atomic_load(&s->name);
	RELMQ__GAUGES(X)
#undef X
	out->oldest_ready_age_us = atomic_load(&s->oldest_ready_age_us);
	out->latency_count = atomic_load(&s->latency_count);
	out->latency_sum_us = atomic_load(&s->latency_sum_us);
	for (size_t i = 0; i < RELMQ_LATENCY_BUCKETS; i++)
		out->latency[i] = atomic_load(&s->latency[i]);
}

int64_t relmq__stats_quantile_ms(
    const relmq_publisher_stats *before, const relmq_publisher_stats *now, double of)
{
	uint64_t total = 0;
	uint64_t seen = 0;
	for (size_t i = 0; i < RELMQ_LATENCY_BUCKETS; i++)
		total += now->latency[i] - before->latency[i];
	for (size_t i = 0; i < BOUNDS && total > 0; i++) {
		seen += now->latency[i] - before->latency[i];
		if ((double) seen >= of * (double) total)
			return bounds_ms[i];
	}
	return -1;
}

void relmq__stats_json(
    relmq__buf *out, const relmq_publisher_stats *before, const relmq_publisher_stats *now)
{
	const char *between = "{";
#define X(name)                                                                                \
	relmq__buf_addf(out, "%s\"" #name "\":%llu", between, (unsigned long long) now->name); \
	between = ",";
	RELMQ__COUNTERS(X)
	RELMQ__GAUGES(X)
#undef X
	relmq__buf_addf(out, ",\"oldest_ready_age_ms\":%lld,\"p50_ms\":%lld,\"p99_ms\":%lld}",
	    now->oldest_ready_age_us < 0 ? -1LL : (long long) now->oldest_ready_age_us / 1000,
	    (long long) relmq__stats_quantile_ms(before, now, 0.5),
	    (long long) relmq__stats_quantile_ms(before, now, 0.99));
}
