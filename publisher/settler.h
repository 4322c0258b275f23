/* publisher/settler.h - outcomes on their way into the table: gathered into batches that never
 * wait longer than 5 ms, and written in statements of which each commits by itself.
 *
 * Rows that somebody else has locked are passed by: after the first that let a statement run
 * into its lock wait time, each batch asks which of its rows are free, and the others
 * are tried again later. Owned by store, on its session. */
#ifndef RELMQ_PUBLISHER_SETTLER_H
#define RELMQ_PUBLISHER_SETTLER_H

#include "publisher/relay.h"

typedef struct relmq__pile { /* rows that wait to be settled */
	relmq__row **rows;
	size_t count;
	int64_t since_ms;      /* the first of them came, or the last batch left */
	int64_t not_before_ms; /* all that are left are locked by somebody       */
} relmq__pile;

/** The row's outcome has committed, or the row was not ours to settle any more. Taken. */
typedef void (*relmq__settled_fn)(void *arg, relmq__row *row);

typedef struct relmq__settler {
	relmq__relay *relay;
	relmq__pile confirmed, refused;
	int64_t around_until_ms; /* look for locks of others first, until then */
	relmq__settled_fn settled;
	void *arg;
	relmq__buf sql;
} relmq__settler;

/** `room`: rows that can wait at most. False: out of memory. */
bool relmq__settler_init(
    relmq__settler *s, relmq__relay *relay, size_t room, relmq__settled_fn settled, void *arg);
/** What still waits is handed to `settled`, unsettled. */
void relmq__settler_free(relmq__settler *s);

/** CONFIRMED or REFUSED. Taken. */
void relmq__settler_add(relmq__settler *s, relmq__row *row);
/** Settle what is due; `last`: nothing more will come, so do not wait for company. */
RELMQ_CHECK relmq_code relmq__settler_run(
    relmq__settler *s, relmq__db *db, bool last, relmq_error *err);
/** When something is due next; INT64_MAX: nothing waits. */
int64_t relmq__settler_due_ms(const relmq__settler *s);

#endif
