/* base/uuid.h - UUIDv7: ordered by time, so that an index on it grows at one end
 * (random ids cost the inbox a factor of ten once it outgrows the buffer pool). */
#ifndef RELMQ_BASE_UUID_H
#define RELMQ_BASE_UUID_H

#define RELMQ__UUID_SIZE 37 /* canonical text and NUL */

/** Any thread. Returns 0, or -1 when the kernel gives no random bytes. */
int relmq__uuid7(char out[RELMQ__UUID_SIZE]);

#endif
