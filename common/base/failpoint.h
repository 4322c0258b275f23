/* base/failpoint.h - die between two named lines, on purpose, in test builds only.
 *
 * RELMQ_FAIL_POINT("publisher.acked") is nothing unless the build defines
 * RELMQ_FAIL_POINTS (CMake option of that name: presets dev, asan, tsan). There the
 * environment decides, once at the first hit:
 *
 *     RELMQ_FAIL="publisher.acked=kill@3,consumer.committed=kill"
 *
 * kill      SIGKILL to this process, at the first hit or at hit number N (@N)
 * hold:PATH wait while PATH exists (bounded: 60 s), to keep a thread between two lines
 */
#ifndef RELMQ_BASE_FAILPOINT_H
#define RELMQ_BASE_FAILPOINT_H

#ifdef RELMQ_FAIL_POINTS
void relmq__fail_point(const char *name);
#define RELMQ_FAIL_POINT(name) relmq__fail_point(name)
#else
#define RELMQ_FAIL_POINT(name) ((void) 0)
#endif

#endif
