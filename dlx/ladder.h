/* dlx/ladder.h - the retry ladder and the parking queue of a work queue: names, how they
 * are declared, and what a message must look like to go there. Knows no database.
 *
 * For work queue Q with tiers 5s, 30s: Q.retry.5s, Q.retry.30s (quorum, queue-level TTL,
 * dead-lettering to Q by the default exchange) and Q.parked (quorum, terminal). */
#ifndef RELMQ_DLX_LADDER_H
#define RELMQ_DLX_LADDER_H

#include "base/settings.h"
#include "mq/message.h"
#include "mq/topology.h"

enum { RELMQ__QUEUE_NAME_SIZE = 256 };

void relmq__ladder_tier_name(char out[RELMQ__QUEUE_NAME_SIZE], const char *queue, const char *tier);
void relmq__ladder_parked_name(char out[RELMQ__QUEUE_NAME_SIZE], const char *queue);

/** Declare the parking queue, the tiers and the work queue (single active consumer), in this
 *  order: nothing exists before what it dead-letters to. Harmless when they exist as wanted.
 *  @retval RELMQ_EBROKER native 406: one exists with other arguments (the text names which) */
RELMQ_CHECK relmq_code relmq__ladder_declare(
    relmq__conn *c, const relmq__dlx_queue *q, relmq_error *err);
/** Declare only those of them that exist: a difference shows before anything is made.
 *  @retval RELMQ_EBROKER native 406, as for relmq__ladder_declare() */
RELMQ_CHECK relmq_code relmq__ladder_compare(
    relmq__conn *c, const relmq__dlx_queue *q, relmq_error *err);
/** Do the work queue, all tiers and the parking queue exist? */
RELMQ_CHECK relmq_code relmq__ladder_check(
    relmq__conn *c, const relmq__dlx_queue *q, relmq_error *err);

/** Address and headers for the tier that follows `attempt` (from 1): x-relmq-attempt + 1,
 *  the reason, where it failed and where it was first published. False: out of memory. */
bool relmq__ladder_to_tier(
    relmq__msg *m, const relmq__dlx_queue *q, unsigned attempt, const char *reason);
/** The same for the parking queue; the attempt stays as it is. */
bool relmq__ladder_to_parking(
    relmq__msg *m, const char *queue, unsigned attempt, const char *reason);
/** From parking back to a queue, counters reset, same id. */
bool relmq__ladder_to_work(relmq__msg *m, const char *queue);

#endif
