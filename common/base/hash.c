/* base/hash.c - see hash.h. */
#include "base/hash.h"

uint64_t relmq__hash(const void *bytes, size_t n)
{
	const unsigned char *p = bytes;
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	for (size_t i = 0; i < n; i++)
		hash = (hash ^ p[i]) * UINT64_C(0x100000001b3);
	/* The low bits are the weak ones, and the ones that tables and lanes look at. */
	return (hash ^ (hash >> 32)) >> 1;
}
