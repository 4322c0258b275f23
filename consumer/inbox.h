/* consumer/inbox.h - message_inbox: claim ids, remember starts. Every call is one
 * statement on the worker's own session. Knows no AMQP.
 *
 * Only DONE makes a duplicate. PROCESSING without a result says that a start was recorded. */
#ifndef RELMQ_CONSUMER_INBOX_H
#define RELMQ_CONSUMER_INBOX_H

#include "consumer/delivery.h"
#include "db/session.h"

typedef enum relmq__inbox_state { /* contract v1; 0: no row */
	RELMQ__INBOX_NONE = 0,
	RELMQ__INBOX_DONE = 1,
	RELMQ__INBOX_PROCESSING = 2
} relmq__inbox_state;

/** Is there an inbox at all? RELMQ_ESCHEMA, RELMQ_F_FATAL: no. */
RELMQ_CHECK relmq_code relmq__inbox_check(relmq__db *db, relmq_error *err);

/** States of `n` deliveries of one consumer, by a read that locks nothing. */
RELMQ_CHECK relmq_code relmq__inbox_known(relmq__db *db, relmq__buf *sql, relmq_delivery *const *ds,
    size_t n, relmq__inbox_state *states, relmq_error *err);

/** Claim `n` ids that are not known, as DONE, in one INSERT sorted by id (so that two
 *  workers cannot deadlock). Fails with 1062 when one is there already. */
RELMQ_CHECK relmq_code relmq__inbox_claim_batch(
    relmq__db *db, relmq__buf *sql, relmq_delivery *const *ds, size_t n, relmq_error *err);
/** Take back the claims of deliveries that did not run; same transaction. */
RELMQ_CHECK relmq_code relmq__inbox_unclaim(
    relmq__db *db, relmq__buf *sql, relmq_delivery *const *ds, size_t n, relmq_error *err);

/** Claim one id, waiting for a transaction that has it. DONE: it is a duplicate; else it
 *  is ours, becoming DONE with this transaction. */
RELMQ_CHECK relmq_code relmq__inbox_claim_one(relmq__db *db, relmq__buf *sql,
    const relmq_delivery *d, relmq__inbox_state *state, relmq_error *err);

/** Record the start of a redelivered message, committed by itself: if the handler kills the
 *  process, this row remembers. Returns state and the number of recorded starts. */
RELMQ_CHECK relmq_code relmq__inbox_record_start(relmq__db *db, relmq__buf *sql,
    const relmq_delivery *d, relmq__inbox_state *state, unsigned *starts, relmq_error *err);
/** A fresh copy (from the ladder, or replayed) starts counting anew. */
RELMQ_CHECK relmq_code relmq__inbox_reset_starts(
    relmq__db *db, relmq__buf *sql, const relmq_delivery *d, relmq_error *err);

#endif
