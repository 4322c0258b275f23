/* admin/status_relays.h - what the live relays say of themselves, for `relmq status`. */
#ifndef RELMQ_ADMIN_STATUS_RELAYS_H
#define RELMQ_ADMIN_STATUS_RELAYS_H

#include "base/buf.h"
#include "db/session.h"

/** Rows of (owner, shards, report) of the relays whose registration has not run out. */
RELMQ_CHECK relmq_code relmq__status_relays(relmq__db *db, MYSQL_RES **relays, relmq_error *err);
/** A few lines a relay, with what is out of order about it. */
void relmq__status_relays_print(MYSQL_RES *relays);
/** As a JSON array of {"owner","shards","report"}; a report that is missing or no JSON is null. */
void relmq__status_relays_json(MYSQL_RES *relays, relmq__buf *out);

#endif
