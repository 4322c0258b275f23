/* publisher/settle.h - write outcomes back, in batches that touch their own rows only.
 *
 * Every statement names its rows by id through JSON_TABLE (a long IN list scans and waits
 * for strangers' uncommitted rows), and is fenced by the owner and epoch of the shard's
 * lease in the same statement: a relay that slept past its lease changes nothing. */
#ifndef RELMQ_PUBLISHER_SETTLE_H
#define RELMQ_PUBLISHER_SETTLE_H

#include "base/buf.h"
#include "publisher/lease.h"
#include "publisher/row.h"

enum { RELMQ__SETTLE_MAX = 500 }; /* rows in a statement */

/** Confirmed: delete, or mark SENT. `settled` counts the rows that were still there and ours. */
RELMQ_CHECK relmq_code relmq__settle_confirmed(relmq__db *db, const relmq__lease *lease,
    relmq__buf *sql, relmq__row *const *rows, size_t n, bool keep_sent, uint64_t *settled,
    relmq_error *err);

/** Refused: FAILED with its next attempt, or ABANDONED. */
RELMQ_CHECK relmq_code relmq__settle_refused(relmq__db *db, const relmq__lease *lease,
    relmq__buf *sql, relmq__row *const *rows, size_t n, const relmq__publisher_settings *settings,
    uint64_t *settled, relmq_error *err);

/** Which of the rows has somebody else locked? The others are locked for us, in the transaction
 *  that is open; a row that is gone is not locked. At most 500. Waits for nobody. */
RELMQ_CHECK relmq_code relmq__settle_look(relmq__db *db, relmq__buf *sql, relmq__row *const *rows,
    size_t n, bool *locked, relmq_error *err);

/** Will this refusal be the last? */
bool relmq__settle_abandons(const relmq__row *row, const relmq__publisher_settings *settings);

#endif
