/* base/utf8.h - is this UTF-8, and may a person's terminal have it? */
#ifndef RELMQ_BASE_UTF8_H
#define RELMQ_BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/** Bytes of the well-formed character at `s` (1..4), 0 when it is none. No overlong
 *  forms, no surrogates, nothing above U+10FFFF. */
size_t relmq__utf8_width(const char *s, size_t n);
bool relmq__utf8_ok(const char *s, size_t n);
/** Largest length <= `max` at which `s` can be cut without splitting a character. */
size_t relmq__utf8_cut(const char *s, size_t n, size_t max);
/** May the character at `s`, `width` bytes as relmq__utf8_width() says, be printed as it is?
 *  No UTF-8 (0), control characters in one byte or two, and those that turn the direction of
 *  what is around them may not. */
bool relmq__utf8_plain(const char *s, size_t width);

#endif
