/* publisher/backlog.h - what waits in the whole table, whoever's it is: for the numbers of a
 * relay and for `relmq status`. */
#ifndef RELMQ_PUBLISHER_BACKLOG_H
#define RELMQ_PUBLISHER_BACKLOG_H

#include "db/session.h"

/** `*oldest_us`: for how long the row that has been ready for longest has been so; -1: none is.
 *  `*clock_us`: the database's clock, microseconds since 1970. By ranges of indexes. */
RELMQ_CHECK relmq_code relmq__backlog_look(
    relmq__db *db, int64_t *oldest_us, int64_t *clock_us, relmq_error *err);

#endif
