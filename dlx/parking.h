/* dlx/parking.h - look at the messages of a parking queue, and take them out one by one.
 * What is looked at and not acked goes back when the session closes, also when the process
 * dies. One thread. Knows no database. */
#ifndef RELMQ_DLX_PARKING_H
#define RELMQ_DLX_PARKING_H

#include "base/settings.h"
#include "mq/dispatcher.h"

typedef struct relmq__parking {
	relmq__conn conn;
	relmq__dispatcher dispatcher;
	char queue[256]; /* Q.parked */
	uint32_t left;   /* of those that were there at the start */
} relmq__parking;

/* What a person wants to know of a parked message. Text points into the message. */
typedef struct relmq__parked {
	const char *id, *key, *queue, *reason, *type;
	int64_t attempts;
	int64_t age_s; /* since the row was written, by this machine's clock; -1: unknown */
} relmq__parked;

/** Connect and count. @retval RELMQ_EBROKER native 404: the queue does not exist */
RELMQ_CHECK relmq_code relmq__parking_open(relmq__parking *p,
    const relmq__rabbitmq_settings *settings, const char *work_queue, relmq_error *err);
/** The next of those that were there at the start; NULL when there are no more. */
RELMQ_CHECK relmq_code relmq__parking_next(
    relmq__parking *p, relmq__msg **msg, uint64_t *tag, relmq_error *err);
RELMQ_CHECK relmq_code relmq__parking_ack(relmq__parking *p, uint64_t tag, relmq_error *err);
/** Waits until the broker has handled the acks; the rest goes back. Idempotent. */
void relmq__parking_close(relmq__parking *p);

void relmq__parked_read(const relmq__msg *msg, const char *work_queue, relmq__parked *out);

#endif
