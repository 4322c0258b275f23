/* publisher/lease.h - which shards are this relay's, and until when.
 *
 * A relay registers in outbox_relay and takes its share of the 16 shards, expired leases
 * only. Expiry is written and compared by the database's clock; the process clock only
 * makes us stop earlier. Knows nothing of rows and nothing of AMQP. */
#ifndef RELMQ_PUBLISHER_LEASE_H
#define RELMQ_PUBLISHER_LEASE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/settings.h"
#include "db/session.h"

typedef struct relmq__lease_shard {
	bool held;
	bool draining;    /* over our share: no new rows, released when in_flight is 0 */
	uint64_t epoch;   /* raised by the database at every change of owner           */
	uint64_t bridged; /* epoch we held right before with nobody in between; 0: none */
	size_t in_flight; /* rows handed out and not settled                           */
} relmq__lease_shard;

typedef struct relmq__lease {
	char owner[64]; /* this process's run: host:pid:random */
	int64_t lease_ms;
	relmq__lease_shard shards[RELMQ__SHARDS];
	unsigned held_count;
	unsigned relays;         /* live ones, this one too                 */
	int64_t next_tick_ms;    /* when relmq__lease_tick() is due         */
	_Atomic int64_t stop_ms; /* wire publishes nothing after this moment */
} relmq__lease;

void relmq__lease_init(relmq__lease *l, int64_t lease_ms);
/** Renew, count the live relays, claim or drain towards the fair share. A few short
 *  statements, each a transaction of its own. */
RELMQ_CHECK relmq_code relmq__lease_tick(relmq__lease *l, relmq__db *db, relmq_error *err);
/** Give everything back, so that another relay need not wait for the expiry. */
RELMQ_CHECK relmq_code relmq__lease_release_all(relmq__lease *l, relmq__db *db, relmq_error *err);
/** The epoch under which a row read under `epoch` may be settled now. */
uint64_t relmq__lease_epoch(const relmq__lease *l, unsigned shard, uint64_t epoch);

#endif
