/* base/log.c - see log.h. What a line holds is escaped here, in one place, so that text
 * that came from a peer can neither forge a line nor move a cursor. */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/utf8.h"

enum { LINE_MAX_BYTES = 2048 };

static struct {
	relmq_log_fn fn;
	relmq_log_level max;
	void *arg;
} sink;

void relmq_log_set(relmq_log_fn fn, relmq_log_level max, void *arg)
{
	sink.fn = fn;
	sink.max = max;
	sink.arg = arg;
}

bool relmq__log_on(relmq_log_level level)
{
	return sink.fn != NULL && level <= sink.max;
}

void relmq__log_escape(const char *in, char *out, size_t size)
{
	static const char hex[] = "0123456789abcdef";
	enum { ESCAPED = 4 };
	size_t len = strlen(in);
	size_t n = 0;
	for (size_t i = 0; i < len;) {
		size_t width = relmq__utf8_width(in + i, len - i);
		if (relmq__utf8_plain(in + i, width)) {
			if (n + width >= size)
				break;
			memcpy(out + n, in + i, width);
			n += width;
			i += width;
			continue;
		}
		/* All its bytes, or the one that is no UTF-8. */
		for (size_t end = i + (width > 0 ? width : 1); i < end && n + ESCAPED < size; i++) {
			unsigned char c = (unsigned char) in[i];
			out[n++] = '\\';
			out[n++] = 'x';
			out[n++] = hex[c >> 4];
			out[n++] = hex[c & 15];
		}
		if (n + ESCAPED >= size)
			break;
	}
	out[n] = '\0';
}

void relmq__log_write(relmq_log_level level, const char *subject, const char *fmt, ...)
{
	char raw[LINE_MAX_BYTES];
	char line[LINE_MAX_BYTES];
	va_list args;
	va_start(args, fmt);
	(void) vsnprintf(raw, sizeof(raw), fmt, args);
	va_end(args);
	relmq__log_escape(raw, line, sizeof(line));
	sink.fn(level, subject, line, sink.arg);
}

void relmq__log_stderr(relmq_log_level level, const char *subject, const char *text, void *arg)
{
	static const char *const names[] = { "error", "warn", "info", "debug" };
	char line[LINE_MAX_BYTES + 128];
	char stamp[32];
	struct timespec now;
	struct tm utc;
	(void) arg;
	(void) clock_gettime(CLOCK_REALTIME, &now);
	(void) gmtime_r(&now.tv_sec, &utc);
	(void) strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S", &utc);
	int n = snprintf(line, sizeof(line), "%s.%03ldZ %s %s: %s\n", stamp, now.tv_nsec / 1000000,
	    names[level], subject, text);
	if (n < 0)
		return;
	size_t len = (size_t) n < sizeof(line) ? (size_t) n : sizeof(line) - 1;
	/* One write, so that lines of several threads do not mix. Nothing can be done
	 * about a full disk or a closed pipe, and a log line is no reason to stop. */
	ssize_t ignored = write(STDERR_FILENO, line, len);
	(void) ignored;
}
