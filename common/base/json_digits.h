/* base/json_digits.h - numbers that a JSON reader would change, kept as written. Knows no
 * JSON but its strings and its numbers. */
#ifndef RELMQ_BASE_JSON_DIGITS_H
#define RELMQ_BASE_JSON_DIGITS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

/** Does a 64-bit signed integer, or a double, hold all digits of this JSON number? */
bool relmq__json_number_fits(const char *text, size_t n);

/**
 * `text` into `out`, and each number in it that does not fit between quotes: "12345678901234567890"
 * is a string then, with its digits as written. What is no JSON stays none. `*changed` tells
 * whether there was one; without one nothing is written and `text` can be used as it is.
 */
void relmq__json_keep_digits(const char *text, size_t n, relmq__buf *out, bool *changed);

#endif
