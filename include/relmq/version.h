/* version.h - the one place where the version stands; CMake reads it from here. */
#ifndef RELMQ_VERSION_H
#define RELMQ_VERSION_H

#include <relmq/error.h>

#define RELMQ_VERSION_MAJOR 0
#define RELMQ_VERSION_MINOR 1
#define RELMQ_VERSION_PATCH 0
#define RELMQ_VERSION       "0.1.0"

#ifdef __cplusplus
extern "C" {
#endif

/** Version of the library that is running, e.g. "0.1.0"; static. */
RELMQ_API const char *relmq_version(void);

#ifdef __cplusplus
}
#endif
#endif
