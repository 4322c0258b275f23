/* base/buf.h - a growing byte buffer with a hard bound.
 *
 * A failed append is remembered: write a whole statement, then ask once. */
#ifndef RELMQ_BASE_BUF_H
#define RELMQ_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct relmq__buf {
	char *data; /* NUL-terminated when len > 0 */
	size_t len;
	size_t cap;
	size_t max; /* 0: 1 GiB */
	bool failed;
} relmq__buf;

void relmq__buf_free(relmq__buf *b);
/** Empty it, keep the memory, forget a failure. */
void relmq__buf_reset(relmq__buf *b);
/** Give memory back when the last use was much larger than usual. */
void relmq__buf_trim(relmq__buf *b, size_t keep);
/** Room for `n` more bytes; returns where to write them, or NULL. The caller adds to len. */
char *relmq__buf_reserve(relmq__buf *b, size_t n);
void relmq__buf_add(relmq__buf *b, const void *bytes, size_t n);
void relmq__buf_adds(relmq__buf *b, const char *text);
void relmq__buf_addf(relmq__buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void relmq__buf_addu(relmq__buf *b, uint64_t value);
/** Bytes as hex digits, for SQL literals that no escaping rule can break. */
void relmq__buf_add_hex(relmq__buf *b, const void *bytes, size_t n);
/** A JSON string with its quotes; bytes that are not UTF-8 become U+FFFD. */
void relmq__buf_add_json(relmq__buf *b, const char *bytes, size_t n);

#endif
