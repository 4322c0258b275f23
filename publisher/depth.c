/* publisher/depth.c - see depth.h. */
#include "publisher/depth.h"

enum {
	STEP = 4,
	SPARE = 3, /* half of a range is given up when what was chosen stood in this part of it */
	FACTOR_MAX = 4096,
	RANGE_MAX = 400000, /* 60 to 80 ms of covering index on two cores */
	TRIAL_WAIT_MS = 100,
	TRIAL_WAIT_MAX_MS = 5000
};

static size_t factor_of(const relmq__depth_shard *s)
{
	return s->factor != 0 ? s->factor : 1;
}

size_t relmq__depth_limit(const relmq__depth *d, unsigned shard, size_t need)
{
	size_t limit = need * factor_of(&d->shards[shard]);
	return limit < RANGE_MAX ? limit : RANGE_MAX;
}

static void deeper(relmq__depth_shard *s)
{
	size_t factor = factor_of(s) * STEP;
	s->factor = factor < FACTOR_MAX ? factor : FACTOR_MAX;
}

static void end_trial(relmq__depth_shard *s, const relmq__depth_seen *seen, int64_t now_ms)
{
	s->on_trial = false;
	if (seen->useful >= 2 * s->before) {
		s->trial_wait_ms = TRIAL_WAIT_MS;
		return;
	}
	s->factor = factor_of(s) / STEP;
	s->next_trial_ms = now_ms + s->trial_wait_ms;
	s->trial_wait_ms *= 2;
	if (s->trial_wait_ms > TRIAL_WAIT_MAX_MS)
		s->trial_wait_ms = TRIAL_WAIT_MAX_MS;
}

void relmq__depth_learn(
    relmq__depth *d, unsigned shard, const relmq__depth_seen *seen, int64_t now_ms)
{
	relmq__depth_shard *s = &d->shards[shard];
	bool cut = seen->read >= seen->limit;
	if (s->trial_wait_ms == 0)
		s->trial_wait_ms = TRIAL_WAIT_MS;
	if (s->on_trial)
		end_trial(s, seen, now_ms);
	if (cut && seen->useful == 0) {
		deeper(s);
	} else if (cut && seen->starving && now_ms >= s->next_trial_ms) {
		s->on_trial = true;
		s->before = seen->useful;
		deeper(s);
	} else if (!s->on_trial && s->factor > 1 && seen->last_rank > 0 &&
	    seen->last_rank < seen->limit / SPARE) {
		s->factor /= 2;
	}
}
