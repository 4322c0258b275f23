/* base/idset.h - a set of 64-bit numbers (row ids, key hashes): open addressing, no
 * memory an element, nothing freed until the end. One thread. */
#ifndef RELMQ_BASE_IDSET_H
#define RELMQ_BASE_IDSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct relmq__idset {
	uint64_t *slots; /* value + 1; 0: free */
	uint64_t mask;
	size_t count;
} relmq__idset;

bool relmq__idset_init(relmq__idset *s, size_t expected);
void relmq__idset_free(relmq__idset *s);
/** False only when memory ran out while growing. UINT64_MAX cannot be stored. */
bool relmq__idset_add(relmq__idset *s, uint64_t value);
bool relmq__idset_has(const relmq__idset *s, uint64_t value);
void relmq__idset_remove(relmq__idset *s, uint64_t value);
void relmq__idset_clear(relmq__idset *s);

#endif
