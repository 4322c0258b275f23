/* handlers/callback.c - see callback.h. */
#include "consumer/handlers/callback.h"

#include <stdlib.h>

#include "base/error.h"

relmq_verdict relmq__callback_run(
    relmq__handler *h, relmq_delivery *d, relmq__db *db, relmq__buf *scratch)
{
	const relmq__callback *c = (const relmq__callback *) h;
	(void) scratch;
	relmq_verdict verdict = c->fn(d, db->mysql, c->arg);
	switch (verdict) {
	case RELMQ_DONE:
	case RELMQ_RETRY:
	case RELMQ_REJECT:
		return verdict;
	}
	relmq_delivery_reason(d, "handler returned no verdict");
	return RELMQ_RETRY;
}

static void close_callback(relmq__handler *h)
{
	free(h);
}

relmq_code relmq__handler_callback_open(
    relmq__handler **out, relmq_handler_fn fn, void *arg, relmq_error *err)
{
	static const relmq__handler_ops ops = { relmq__callback_run, NULL, close_callback };
	relmq__callback *c = calloc(1, sizeof(*c));
	if (c == NULL)
		return relmq__fail_nomem(err);
	c->base.ops = &ops;
	c->fn = fn;
	c->arg = arg;
	*out = &c->base;
	return RELMQ_OK;
}
