/* base/hash.h - a quick hash of bytes for tables and lanes of this process. Nothing that is
 * stored or sent depends on it: what the database hashes, it hashes with CRC32. */
#ifndef RELMQ_BASE_HASH_H
#define RELMQ_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/** FNV-1a, folded to 63 bits: every value fits a relmq__idset. */
uint64_t relmq__hash(const void *bytes, size_t n);

#endif
