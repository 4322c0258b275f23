/* admin/outbox.h - inside `relmq outbox`: what a person asks for, and the rows that it is
 * about. Every look is short: a range of an index at a time, never a scan of the table. */
#ifndef RELMQ_ADMIN_OUTBOX_H
#define RELMQ_ADMIN_OUTBOX_H

#include "base/settings.h"
#include "db/session.h"

enum { RELMQ__OUTBOX_STATES = 5, RELMQ__OUTBOX_IDS_MAX = 1000 };

/* By the number in `status`, as people read and write them. */
extern const char *const relmq__outbox_states[RELMQ__OUTBOX_STATES];

typedef struct relmq__outbox_filter {
	unsigned states; /* a bit each, by number                                        */
	const char *key, *exchange, *routing_key; /* NULL: any                           */
	uint64_t up_to;                           /* no row with a higher id; 0: no end  */
} relmq__outbox_filter;

typedef struct relmq__outbox_ref { /* how a person names a row */
	const char *msg_id;        /* NULL: by the id of the row */
	uint64_t id;
} relmq__outbox_ref;

typedef struct relmq__outbox_request {
	relmq__outbox_filter filter; /* states 0: not asked for */
	int64_t limit;               /* 0: not asked for        */
	bool json, payload, all, yes;
	relmq__outbox_ref refs[RELMQ__OUTBOX_IDS_MAX];
	int ref_count;
} relmq__outbox_request;

/* --- the sub-commands: exit status --------------------------------------------------- */

int relmq__outbox_list(relmq__db *db, const relmq__outbox_request *r);
int relmq__outbox_show(relmq__db *db, const relmq__outbox_request *r);
int relmq__outbox_retry(relmq__db *db, const relmq__outbox_request *r);
int relmq__outbox_skip(relmq__db *db, const relmq__outbox_request *r);

/* --- finding rows --------------------------------------------------------------------- */

/** One row. Its result is stored on the client, so `fn` may use the session. False: enough. */
typedef bool (*relmq__outbox_row_fn)(void *arg, MYSQL_ROW row, const unsigned long *lengths);

/** Rows that pass the filter, lowest id first, a page a statement; `columns` of table o. */
RELMQ_CHECK relmq_code relmq__outbox_each(relmq__db *db, const relmq__outbox_filter *filter,
    const char *columns, relmq__outbox_row_fn fn, void *arg, relmq_error *err);

/** The rows that `ref` names, lowest id first: several rows may have one msg_id. */
RELMQ_CHECK relmq_code relmq__outbox_named(relmq__db *db, const relmq__outbox_ref *ref,
    const char *columns, int limit, MYSQL_RES **out, relmq_error *err);

/** "row 7" or "row with msg_id x", for a message. */
void relmq__outbox_name(const relmq__outbox_ref *ref, char *out, size_t size);

/** A byte string as JSON: a text, or what is no UTF-8 as "0x" and hex digits. NULL: null. */
void relmq__outbox_add_bytes(relmq__buf *b, const char *bytes, size_t n);

#endif
