/* base/log.h - one line to whoever listens; the level is checked before formatting. */
#ifndef RELMQ_BASE_LOG_H
#define RELMQ_BASE_LOG_H

#include <stdbool.h>
#include <stddef.h>

#include <relmq/log.h>

bool relmq__log_on(relmq_log_level level);
void relmq__log_write(relmq_log_level level, const char *subject, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

#define RELMQ_LOG(level, subject, ...)                                 \
	do {                                                           \
		if (relmq__log_on(level))                              \
			relmq__log_write(level, subject, __VA_ARGS__); \
	} while (0)
#define LOG_ERROR(subject, ...) RELMQ_LOG(RELMQ_LOG_ERROR, subject, __VA_ARGS__)
#define LOG_WARN(subject, ...)  RELMQ_LOG(RELMQ_LOG_WARN, subject, __VA_ARGS__)
#define LOG_INFO(subject, ...)  RELMQ_LOG(RELMQ_LOG_INFO, subject, __VA_ARGS__)
#define LOG_DEBUG(subject, ...) RELMQ_LOG(RELMQ_LOG_DEBUG, subject, __VA_ARGS__)

/** `in` as one harmless line: what is not plain UTF-8 text (relmq__utf8_plain) as \xNN. */
void relmq__log_escape(const char *in, char *out, size_t size);

/** The programs' sink: stderr, one write() a line, "2026-12-01T00:00:00.000Z info wire: text". */
void relmq__log_stderr(relmq_log_level level, const char *subject, const char *text, void *arg);

#endif
