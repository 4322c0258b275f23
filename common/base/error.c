/* base/error.c - see error.h. */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *relmq_code_name(relmq_code code)
{
	switch (code) {
#define X(name, val, text) \
	case RELMQ_##name: \
		return "RELMQ_" #name;
		RELMQ_CODE_MAP(X)
#undef X
	case RELMQ_CODE_RESERVED:
	default:
		return "RELMQ_?";
	}
}

const char *relmq_code_text(relmq_code code)
{
	switch (code) {
#define X(name, val, text) \
	case RELMQ_##name: \
		return text;
		RELMQ_CODE_MAP(X)
#undef X
	case RELMQ_CODE_RESERVED:
	default:
		return "unknown code";
	}
}

static void fill(relmq_error *err, relmq_code code, unsigned flags, relmq_origin origin, int native,
    const char *fmt, va_list args)
{
	if (err == NULL)
		return;
	memset(err, 0, sizeof(*err));
	err->code = code;
	err->flags = flags;
	err->origin = origin;
	err->native = native;
	(void) vsnprintf(err->text, sizeof(err->text), fmt, args);
}

relmq_code relmq__fail(relmq_error *err, relmq_code code, unsigned flags, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	fill(err, code, flags, RELMQ_FROM_LIB, 0, fmt, args);
	va_end(args);
	return code;
}

relmq_code relmq__fail_from(relmq_error *err, relmq_code code, unsigned flags, relmq_origin origin,
    int native, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	fill(err, code, flags, origin, native, fmt, args);
	va_end(args);
	return code;
}

relmq_code relmq__fail_nomem(relmq_error *err)
{
	return relmq__fail(err, RELMQ_ENOMEM, RELMQ_F_RETRY, "out of memory");
}
