/* base/outage.h - say once that something is down, each reason once, and once that it is
 * back. A line an attempt would bury the one that tells why. One thread. */
#ifndef RELMQ_BASE_OUTAGE_H
#define RELMQ_BASE_OUTAGE_H

#include <stdbool.h>
#include <stdint.h>

#include <relmq/error.h>

#include "base/backoff.h"

enum { RELMQ__OUTAGE_REASONS = 8 }; /* that are told; two may well alternate */

typedef struct relmq__outage {
	const char *subject; /* of the log lines */
	const char *what;    /* "database", "rabbitmq" */
	relmq__backoff backoff;
	bool down;
	uint64_t told[RELMQ__OUTAGE_REASONS]; /* native number and server, hashed */
	unsigned told_count;
	int64_t since_ms, retry_at_ms;
	const char *where; /* which server the next failure is of; NULL: there is but one */
} relmq__outage;

#define RELMQ__OUTAGE_INIT(subject, what)                                    \
	{                                                                    \
		subject, what, { 100, 5000, 0 }, false, { 0 }, 0, 0, 0, NULL \
	}

/** A try failed: log if this is news (first, or a new reason), set when to try again. */
void relmq__outage_failed(relmq__outage *o, const relmq_error *err);
/** A try worked. */
void relmq__outage_over(relmq__outage *o);
/** Milliseconds until the next try is due, 0 when it is. */
int64_t relmq__outage_wait_ms(const relmq__outage *o);

#endif
