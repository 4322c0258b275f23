/* base/clock.h - time as this process sees it. A process clock only ever makes
 * us stop earlier; what is due or expired is decided by the database's clock. */
#ifndef RELMQ_BASE_CLOCK_H
#define RELMQ_BASE_CLOCK_H

#include <stdint.h>

int64_t relmq__now_us(void); /* monotonic microseconds */
int64_t relmq__now_ms(void); /* monotonic milliseconds */

#endif
