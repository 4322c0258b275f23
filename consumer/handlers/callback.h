/* handlers/callback.h - a handler that is a C function; a plugin is one, too. */
#ifndef RELMQ_HANDLERS_CALLBACK_H
#define RELMQ_HANDLERS_CALLBACK_H

#include "consumer/handler.h"

typedef struct relmq__callback {
	relmq__handler base;
	relmq_handler_fn fn;
	void *arg;
} relmq__callback;

/** The `run` of relmq__handler_ops for a handler that starts with a relmq__callback. */
relmq_verdict relmq__callback_run(
    relmq__handler *h, relmq_delivery *d, relmq__db *db, relmq__buf *scratch);

#endif
