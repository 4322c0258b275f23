/* base/duration.h - times as people write them: "20ms", "5s", "1m", "2h", "7d". */
#ifndef RELMQ_BASE_DURATION_H
#define RELMQ_BASE_DURATION_H

#include <stdint.h>

enum { RELMQ__DURATION_SIZE = 24 };

/** Milliseconds; -1 when it is none. A number has one way to be written: "05s" is none. */
int64_t relmq__duration_ms(const char *text);
/** The shortest exact way to write it: 60000 is "1m". */
void relmq__duration_text(int64_t ms, char out[RELMQ__DURATION_SIZE]);

#endif
