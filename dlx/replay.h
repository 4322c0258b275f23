/* dlx/replay.h - send parked messages back to the queue where they failed: the same id,
 * counters reset, a confirmed publish and only then the ack. Bounded by what was parked at
 * the start, so that messages which fail again are not replayed in a circle. */
#ifndef RELMQ_DLX_REPLAY_H
#define RELMQ_DLX_REPLAY_H

#include "base/settings.h"
#include "mq/message.h"

typedef struct relmq__replay_counts {
	uint64_t seen, replayed;
} relmq__replay_counts;

/** Is this one wanted? Called once a message. */
typedef bool (*relmq__replay_filter)(void *arg, const relmq__msg *msg, const char *work_queue);

/**
 * @param dry_run look only; `replayed` counts what would go.
 * A crash at any line leaves a message in parking, in the work queue, or (between confirm
 * and ack) in both under one id, never in none.
 */
RELMQ_CHECK relmq_code relmq__replay(const relmq__rabbitmq_settings *settings,
    const char *work_queue, bool dry_run, relmq__replay_filter wanted, void *arg,
    relmq__replay_counts *counts, relmq_error *err);

#endif
