/* consumer/handler.h - what a worker asks of a handler, whatever its kind. */
#ifndef RELMQ_CONSUMER_HANDLER_H
#define RELMQ_CONSUMER_HANDLER_H

#include <relmq/consumer.h>

#include "base/buf.h"
#include "base/settings.h"
#include "db/session.h"

typedef struct relmq__handler relmq__handler;

/* One handler object serves all workers at once: it is read-only after open, and
 * what a call needs to write in is the worker's (`scratch`). */
typedef struct relmq__handler_ops {
	/** One delivery inside the open transaction. On RETRY and REJECT says why by
	 *  relmq_delivery_reason(). A database error stays visible in mysql_errno(db->mysql). */
	relmq_verdict (*run)(
	    relmq__handler *h, relmq_delivery *d, relmq__db *db, relmq__buf *scratch);
	/** All of a batch at once, or NULL when the kind has no faster way. RELMQ_DONE, or
	 *  anything else: the worker rolls back and runs them one by one. */
	relmq_verdict (*run_batch)(
	    relmq__handler *h, relmq_delivery **ds, size_t n, relmq__db *db, relmq__buf *scratch);
	void (*close)(relmq__handler *h);
} relmq__handler_ops;

struct relmq__handler {
	const relmq__handler_ops *ops;
};

/** `sql`: named parameters in statements. Checks the templates; no I/O. RELMQ_ECONFIG. */
RELMQ_CHECK relmq_code relmq__handler_sql_open(
    relmq__handler **out, char *const *statements, size_t count, relmq_error *err);
/** `plugin`: load, check the ABI, call its open(). RELMQ_ECONFIG. */
RELMQ_CHECK relmq_code relmq__handler_plugin_open(
    relmq__handler **out, const char *path, const char *argument, relmq_error *err);
/** The C callback of relmq/consumer.h. */
RELMQ_CHECK relmq_code relmq__handler_callback_open(
    relmq__handler **out, relmq_handler_fn fn, void *arg, relmq_error *err);
void relmq__handler_close(relmq__handler *h); /* NULL is a no-op */

#endif
