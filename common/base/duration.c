/* base/duration.c - see duration.h. */
#include "base/duration.h"

#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef struct unit {
	const char *name;
	int64_t ms;
} unit;

static const unit units[] = { { "d", 86400000 }, { "h", 3600000 }, { "m", 60000 }, { "s", 1000 },
	{ "ms", 1 } };
enum { UNIT_COUNT = sizeof(units) / sizeof(units[0]) };

int64_t relmq__duration_ms(const char *text)
{
	int64_t n = 0;
	size_t i = 0;
	for (; isdigit((unsigned char) text[i]); i++) {
		if (n > (INT64_MAX - 9) / 10)
			return -1;
		n = n * 10 + (text[i] - '0');
	}
	if (i == 0 || (text[0] == '0' && i > 1))
		return -1;
	for (size_t u = 0; u < UNIT_COUNT; u++)
		if (strcmp(text + i, units[u].name) == 0)
			return n <= INT64_MAX / units[u].ms ? n * units[u].ms : -1;
	return -1;
}

void relmq__duration_text(int64_t ms, char out[RELMQ__DURATION_SIZE])
{
	size_t u = 0;
	while (u + 1 < UNIT_COUNT && (ms == 0 || ms % units[u].ms != 0))
		u++;
	(void) snprintf(
	    out, RELMQ__DURATION_SIZE, "%lld%s", (long long) (ms / units[u].ms), units[u].name);
}
