/* publisher/breaker.h - leave a destination alone that refuses everything.
 *
 * A destination is an exchange and a routing key. After so many refusals in a row its breaker
 * opens: its rows are held (not handed out, and charged nothing), until after a pause one of
 * them, any, is the probe. A confirm that is overdue counts as a refusal here (a quorum queue
 * without its majority gives none): a destination without an answer would fill the window for all. Its confirm closes the breaker and frees the rows; its refusal, which
 * charges nobody, doubles the pause. Held rows stay as they are in the table; the ids are
 * kept here, 24 bytes each, so that a sweep passes them by without reading their contents.
 * One thread (store's). Knows no database and no AMQP connection. */
#ifndef RELMQ_PUBLISHER_BREAKER_H
#define RELMQ_PUBLISHER_BREAKER_H

#include "base/buf.h"
#include "base/idset.h"
#include "base/settings.h"
#include "publisher/row.h"

typedef struct relmq__breaker relmq__breaker;

typedef struct relmq__breakers {
	const relmq__publisher_settings *settings;
	relmq__breaker *all; /* destinations whose last outcome was a refusal */
	size_t count;
	size_t open;         /* of those */
	relmq__idset held;   /* ids of rows */
	uint64_t total_held; /* ever */
} relmq__breakers;

bool relmq__breakers_init(relmq__breakers *b, const relmq__publisher_settings *settings);
void relmq__breakers_free(relmq__breakers *b);

/** May this row be handed out? If not it is held from now on. */
bool relmq__breakers_admit(relmq__breakers *b, const relmq__row *row);
/** Is this row held? Later rows of its key must wait, too. */
static inline bool relmq__breakers_hold(const relmq__breakers *b, uint64_t id)
{
	return b->held.count > 0 && relmq__idset_has(&b->held, id);
}

/** A row that was admitted had this outcome. False: it was refused, and is to be charged nothing and
 *  stay as it is; it is held. */
bool relmq__breakers_outcome(relmq__breakers *b, const relmq__row *row, relmq__outcome outcome);
/** Where a pause is over, let a held row be found again: it will be the probe. */
void relmq__breakers_tick(relmq__breakers *b);

/** The breakers that are not closed as a JSON array, at most `max` of them. */
void relmq__breakers_json(const relmq__breakers *b, relmq__buf *out, size_t max);

#endif
