/* base/version.c - which library is running. */
#include <relmq/version.h>

const char *relmq_version(void)
{
	return RELMQ_VERSION;
}
