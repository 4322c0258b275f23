/* publisher/purge.h - takes SENT rows away when they have been kept long enough
 * (publisher.keep_sent, publisher.sent_retention), and no other row ever.
 *
 * A little at a time, from store's loop: one page of one shard, then a pause that is a
 * multiple of what it cost. Of our own shards, so that relays do not meet; no lease is needed
 * to be right, because a SENT row is finished and going twice does no harm. Never waits for a row
 * that somebody has locked: the next round finds it. Knows no AMQP. */
#ifndef RELMQ_PUBLISHER_PURGE_H
#define RELMQ_PUBLISHER_PURGE_H

#include "base/buf.h"
#include "base/settings.h"
#include "db/session.h"
#include "publisher/lease.h"

/* Zero is a purge that begins. */
typedef struct relmq__purge {
	int64_t next_ms;
	unsigned walked; /* shards of this round, a bit each */
	unsigned shard;  /* where the round is ...           */
	uint64_t after;  /* ... and behind which id          */
	size_t young;    /* rows since the last old one      */
	bool probed;     /* a second place was looked at     */
	bool refused;    /* the server will not: said once   */
	relmq__buf sql, ids;
} relmq__purge;

/** Does nothing until it is due; `idle`: nobody waits for store now. An outage is returned; what only keeps it from purging is not. */
RELMQ_CHECK relmq_code relmq__purge_tick(relmq__purge *p, relmq__db *db, const relmq__lease *lease,
    const relmq__publisher_settings *settings, bool idle, relmq_error *err);
void relmq__purge_free(relmq__purge *p);

#endif
