/* base/uuid.c - see uuid.h. RFC 9562, section 5.7. */
#include "base/uuid.h"

#include <stdint.h>
#include <sys/random.h>
#include <time.h>

int relmq__uuid7(char out[RELMQ__UUID_SIZE])
{
	static const char hex[] = "0123456789abcdef";
	uint8_t b[16];
	struct timespec now;
	if (clock_gettime(CLOCK_REALTIME, &now) != 0 || getrandom(b, sizeof(b), 0) != sizeof(b))
		return -1;
	uint64_t ms = (uint64_t) now.tv_sec * 1000 + (uint64_t) now.tv_nsec / 1000000;
	/* rand_a carries the fraction of the millisecond, so that ids of one writer sort. */
	unsigned fraction = (unsigned) ((uint64_t) (now.tv_nsec % 1000000) * 4096 / 1000000);
	for (int i = 0; i < 6; i++)
		b[i] = (uint8_t) (ms >> (40 - 8 * i));
	b[6] = (uint8_t) (0x70 | (fraction >> 8));
	b[7] = (uint8_t) fraction;
	b[8] = (uint8_t) (0x80 | (b[8] & 0x3f));
	char *at = out;
	for (int i = 0; i < 16; i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			*at++ = '-';
		*at++ = hex[b[i] >> 4];
		*at++ = hex[b[i] & 15];
	}
	*at = '\0';
	return 0;
}
