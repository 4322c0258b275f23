/* base/outage.c - see outage.h. */
#include "base/outage.h"

#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"

/* What was said of one server is news again of another. */
static bool is_news(relmq__outage *o, int native)
{
	uint64_t reason = (uint64_t) (unsigned) native;
	if (o->where != NULL)
		reason ^= relmq__hash(o->where, strlen(o->where)) << 32;
	for (unsigned i = 0; i < o->told_count; i++)
		if (o->told[i] == reason)
			return false;
	if (o->told_count == RELMQ__OUTAGE_REASONS)
		return false;
	o->told[o->told_count++] = reason;
	return true;
}

void relmq__outage_failed(relmq__outage *o, const relmq_error *err)
{
	int64_t now = relmq__now_ms();
	if (!o->down)
		o->since_ms = now;
	if (is_news(o, err->native))
		LOG_WARN(o->subject, "%s; trying again with backoff", err->text);
	o->down = true;
	o->retry_at_ms = now + relmq__backoff_next_ms(&o->backoff);
}

void relmq__outage_over(relmq__outage *o)
{
	if (o->down)
		LOG_INFO(o->subject, "%s is back after %lld ms%s%s", o->what,
		    (long long) (relmq__now_ms() - o->since_ms), o->where != NULL ? ", on " : "",
		    o->where != NULL ? o->where : "");
	o->down = false;
	o->told_count = 0;
	o->retry_at_ms = 0;
	relmq__backoff_reset(&o->backoff);
}

int64_t relmq__outage_wait_ms(const relmq__outage *o)
{
	int64_t left = o->retry_at_ms - relmq__now_ms();
	return left > 0 ? left : 0;
}
