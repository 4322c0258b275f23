/* log.h - where the library's log lines go. Silent until a sink is set. */
#ifndef RELMQ_LOG_H
#define RELMQ_LOG_H

#include <relmq/error.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum relmq_log_level {
	RELMQ_LOG_ERROR = 0,
	RELMQ_LOG_WARN,
	RELMQ_LOG_INFO,
	RELMQ_LOG_DEBUG
} relmq_log_level;

/**
 * @param subject which part speaks: "store", "wire", "intake", ...; static.
 * @param text    one line without a newline; borrowed, copy what you keep.
 *
 * Called from any thread of the library, several at once.
 */
typedef void (*relmq_log_fn)(
    relmq_log_level level, const char *subject, const char *text, void *arg);

/** Set the sink before the first relmq call, once. NULL: silent. */
RELMQ_API void relmq_log_set(relmq_log_fn fn, relmq_log_level max, void *arg);

#ifdef __cplusplus
}
#endif
#endif
