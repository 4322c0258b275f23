/* support/testoutbox.h - numbered rows of the outbox, and what of them arrived in a queue.
 *
 * Row N has the id "m-N" (six digits), the same as payload, and a key by its number. */
#ifndef RELMQ_TEST_OUTBOX_H
#define RELMQ_TEST_OUTBOX_H

#include "support/testenv.h"

/* Everything taken from a queue, in the order of arrival. Zero is empty. */
typedef struct arrived {
	relmq__msg **msgs;
	size_t count, room;
} arrived;

/** Commit rows FIRST to FIRST + COUNT - 1, a thousand a transaction. `keys` 0: no order;
 *  else row N has the key "k-" N mod KEYS. */
void outbox_fill(env *e, const char *routing_key, int first, int count, int keys);
/** One row; `fields` and `values` go into the INSERT behind msg_id, routing_key, payload. */
void outbox_row(
    env *e, const char *id, const char *routing_key, const char *fields, const char *values);
int64_t outbox_rows(env *e);
/** Shards that a live relay owns, and how many relays own some. */
int64_t outbox_owned(env *e);
int64_t outbox_owners(env *e);

/** relmq-publisher with this env's configuration. */
proc relay_start(env *e, const char *fail);
/** "confirmed" of the totals that a relay logs when it stops; -1: it has not said. */
int64_t relay_confirmed(const proc *p);

/** Take all that is in the queue now; appends to `got`. Nothing must be coming in. */
void queue_take(env *e, const char *queue, arrived *got);
/** Take what comes, one by one, until the queue is empty; messages may be coming in. */
void queue_sip(env *e, const char *queue, arrived *got);
/** The next message; waits for it. Free with relmq__msg_free(). */
relmq__msg *queue_wait(env *e, const char *queue, int64_t ms);
void arrived_free(arrived *got);
bool bytes_are(amqp_bytes_t bytes, const char *text);
size_t arrived_times(const arrived *got, const char *id);
/** Each of the rows arrived `least` to `most` times, and nothing else did. */
void arrived_check(const arrived *got, int first, int count, size_t least, size_t most);
/** The first arrivals of each key are in the order of their numbers. */
void arrived_in_order(const arrived *got);

/** A statement as the administrator of the stack's database. */
void admin_sql(env *e, const char *sql);

#endif
