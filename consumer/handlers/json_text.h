/* handlers/json_text.h - is this JSON, and what does a string in it say?
 *
 * What passes the check goes into SQL as it is, numbers to the digit: so the check is
 * RFC 8259 to the last byte, and stricter in one point: half a surrogate pair is refused,
 * because no UTF-8 stands for it. Builds nothing in memory. Knows no SQL. */
#ifndef RELMQ_HANDLERS_JSON_TEXT_H
#define RELMQ_HANDLERS_JSON_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

enum { RELMQ__JSON_DEPTH_MAX = 256 }; /* arrays and objects around a value */

/** One JSON value and nothing else but white space. False: `why` says what is wrong and
 *  at which byte. */
bool relmq__json_check(const char *text, size_t len, char *why, size_t why_size);

/* A string of checked text, without its quotes, still escaped. */

/** Append it as UTF-8; \u0000 becomes a NUL byte. */
void relmq__json_unescape(relmq__buf *out, const char *string, size_t len);
/** Does it say `name`? */
bool relmq__json_says(const char *string, size_t len, const char *name, size_t name_len);

#endif
