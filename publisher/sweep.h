/* publisher/sweep.h - look for work: which rows may go now, by one statement, and their
 * contents by a second. Owns what is handed out (ids and keys), so that no row and no
 * key goes twice. Knows no AMQP connection. */
#ifndef RELMQ_PUBLISHER_SWEEP_H
#define RELMQ_PUBLISHER_SWEEP_H

#include "base/buf.h"
#include "base/idset.h"
#include "publisher/breaker.h"
#include "publisher/depth.h"
#include "publisher/lease.h"
#include "publisher/row.h"

typedef struct relmq__candidate {
	uint64_t id, epoch;
	uint32_t key_hash;
	uint8_t shard, status;
	bool due;     /* FAILED and SCHEDULED: its time has come */
	bool offered; /* its contents were read                    */
	bool handed;  /* out of our hands: its row is on its way   */
} relmq__candidate;

enum { RELMQ__FAILED_KEYS = 64 };

/* Key hashes of a shard's FAILED rows, as of the last look. */
typedef struct relmq__failed_keys {
	size_t count; /* more than fit: not known */
	uint32_t hashes[RELMQ__FAILED_KEYS];
} relmq__failed_keys;

typedef struct relmq__sweep {
	bool by_key; /* ordering: "key" */
	relmq__breakers breakers;
	relmq__idset ids;            /* handed out, or settled but not yet committed */
	relmq__idset keys;           /* key hashes of rows whose outcome is open     */
	size_t bytes;                /* of handed-out rows                           */
	size_t window;               /* rows wire can have in flight                   */
	relmq__depth depth;          /* how far each shard's index range is read       */
	size_t yield[RELMQ__SHARDS]; /* rows that a look found to go, lately             */
	relmq__failed_keys failed[RELMQ__SHARDS];
	size_t row_bytes; /* moving average of a row's size               */
	relmq__candidate *found;
	size_t found_count, found_room;
	uint32_t asked;   /* shards, a bit each, that this look is for            */
	uint32_t waiting; /* in which the last look met rows whose key was out    */
	uint32_t freed;   /* in which a key has come free since the last look     */
	bool large;       /* the backlog was more than a small question can ask for */
	int64_t look_us;  /* what the last look for work took */
	relmq__buf sql;
} relmq__sweep;

typedef void (*relmq__hand_out_fn)(void *arg, relmq__row *row);

enum { RELMQ__ALL_SHARDS = (1 << RELMQ__SHARDS) - 1 };

bool relmq__sweep_init(relmq__sweep *s, const relmq__publisher_settings *settings);
void relmq__sweep_free(relmq__sweep *s);

/**
 * In these shards (a bit each) find at most `want` rows and hand each to `fn` (taken), until `room` bytes of payload
 * are reached (one row goes in any case). A row that AMQP cannot carry is handed out
 * with outcome REFUSED already set and item.reason filled. `*moved` counts those handed out and
 * those that a circuit breaker holds from now on.
 */
RELMQ_CHECK relmq_code relmq__sweep_run(relmq__sweep *s, relmq__db *db, relmq__lease *lease,
    uint32_t shards, size_t want, size_t room, relmq__hand_out_fn fn, void *arg, size_t *moved,
    relmq_error *err);
/** Shards in which a row waited for its key and a key has come free: worth a look at once. */
static inline uint32_t relmq__sweep_hot(const relmq__sweep *s)
{
	return s->waiting & s->freed;
}
/** Is there anything at all? One cheap probe, for idle times. */
RELMQ_CHECK relmq_code relmq__sweep_probe(relmq__db *db, bool *any, relmq_error *err);

/** The outcome is known: later rows of the key may go, if it leaves no hold. */
void relmq__sweep_free_key(relmq__sweep *s, const relmq__row *row);
/** The outcome is committed (or open again): the row itself may be found again. */
void relmq__sweep_forget(relmq__sweep *s, relmq__lease *lease, const relmq__row *row);

#endif
