/* base/error.h - fill the public error record. Knows no MySQL and no AMQP: those
 * layers translate their own refusals before they come here. */
#ifndef RELMQ_BASE_ERROR_H
#define RELMQ_BASE_ERROR_H

#include <relmq/error.h>

/** Fill `err` (NULL is allowed) and return `code`, so that a caller can `return relmq__fail(...)`. */
relmq_code relmq__fail(relmq_error *err, relmq_code code, unsigned flags, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/** The same for a refusal that has a native number. */
relmq_code relmq__fail_from(relmq_error *err, relmq_code code, unsigned flags, relmq_origin origin,
    int native, const char *fmt, ...) __attribute__((format(printf, 6, 7)));

/** ENOMEM in one word. */
relmq_code relmq__fail_nomem(relmq_error *err);

#endif
