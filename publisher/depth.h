/* publisher/depth.h - how far into a shard's index range a sweep reads.
 *
 * Rows that are held (behind a FAILED row of their key) or whose key is in flight stand in
 * front of rows that could go. Reading deep finds those, and costs; this keeps a factor a
 * shard: deeper while nothing useful is found, deeper on trial while wire starves and only
 * kept if it helped, shallower when what was useful stood near the front. */
#ifndef RELMQ_PUBLISHER_DEPTH_H
#define RELMQ_PUBLISHER_DEPTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/settings.h"

typedef struct relmq__depth_shard {
	size_t factor; /* 0 means 1 */
	bool on_trial;
	size_t before; /* useful rows before the trial */
	int64_t next_trial_ms, trial_wait_ms;
} relmq__depth_shard;

typedef struct relmq__depth {
	relmq__depth_shard shards[RELMQ__SHARDS];
} relmq__depth;

/* What a sweep saw in one shard. */
typedef struct relmq__depth_seen {
	size_t limit;     /* of its range                                 */
	size_t read;      /* index entries                                */
	size_t useful;    /* chosen now, and in flight already            */
	size_t last_rank; /* how far from the front the last chosen stood; 0: none */
	bool starving;    /* wire could take more than it has             */
} relmq__depth_seen;

/** Entries to read for a need of `need` rows. */
size_t relmq__depth_limit(const relmq__depth *d, unsigned shard, size_t need);
void relmq__depth_learn(
    relmq__depth *d, unsigned shard, const relmq__depth_seen *seen, int64_t now_ms);

#endif
