/* base/buf.c - see buf.h. */
#include "base/buf.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

static const size_t default_max = (size_t) 1 << 30;
static const char hex_digits[] = "0123456789abcdef";

void relmq__buf_free(relmq__buf *b)
{
	free(b->data);
	b->data = NULL;
	b->len = b->cap = 0;
	b->failed = false;
}

void relmq__buf_reset(relmq__buf *b)
{
	b->len = 0;
	b->failed = false;
	if (b->data != NULL)
		b->data[0] = '\0';
}

void relmq__buf_trim(relmq__buf *b, size_t keep)
{
	if (b->cap > keep)
		relmq__buf_free(b);
	else
		relmq__buf_reset(b);
}

char *relmq__buf_reserve(relmq__buf *b, size_t n)
{
	size_t max = b->max != 0 ? b->max : default_max;
	if (b->failed || n > max || b->len > max - n) {
		b->failed = true;
		return NULL;
	}
	size_t need = b->len + n + 1;
	if (need > b->cap) {
		size_t cap = b->cap != 0 ? b->cap : 256;
		while (cap < need)
			cap *= 2;
		char *data = realloc(b->data, cap);
		if (data == NULL) {
			b->failed = true;
			return NULL;
		}
		b->data = data;
		b->cap = cap;
	}
	return b->data + b->len;
}

void relmq__buf_add(relmq__buf *b, const void *bytes, size_t n)
{
	char *at = relmq__buf_reserve(b, n);
	if (at == NULL)
		return;
	if (n > 0)
		memcpy(at, bytes, n);
	b->len += n;
	b->data[b->len] = '\0';
}

void relmq__buf_adds(relmq__buf *b, const char *text)
{
	relmq__buf_add(b, text, strlen(text));
}

void relmq__buf_addf(relmq__buf *b, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	int n = vsnprintf(NULL, 0, fmt, args);
	va_end(args);
	char *at = n >= 0 ? relmq__buf_reserve(b, (size_t) n) : NULL;
	if (at == NULL) {
		b->failed = true;
		return;
	}
	va_start(args, fmt);
	(void) vsnprintf(at, (size_t) n + 1, fmt, args);
	va_end(args);
	b->len += (size_t) n;
}

void relmq__buf_addu(relmq__buf *b, uint64_t value)
{
	char digits[20];
	size_t n = sizeof(digits);
	do {
		digits[--n] = (char) ('0' + value % 10);
		value /= 10;
	} while (value != 0);
	relmq__buf_add(b, digits + n, sizeof(digits) - n);
}

void relmq__buf_add_hex(relmq__buf *b, const void *bytes, size_t n)
{
	const unsigned char *from = bytes;
	char *at = n <= SIZE_MAX / 2 ? relmq__buf_reserve(b, n * 2) : NULL;
	if (at == NULL) {
		b->failed = true;
		return;
	}
	for (size_t i = 0; i < n; i++) {
		*at++ = hex_digits[from[i] >> 4];
		*at++ = hex_digits[from[i] & 15];
	}
	*at = '\0';
	b->len += n * 2;
}

void relmq__buf_add_json(relmq__buf *b, const char *bytes, size_t n)
{
	relmq__buf_add(b, "\"", 1);
	for (size_t i = 0; i < n;) {
		unsigned char c = (unsigned char) bytes[i];
		size_t width = relmq__utf8_width(bytes + i, n - i);
		if (width == 0) {
			relmq__buf_adds(b, "\\ufffd");
			i++;
			continue;
		}
		if (c == '"' || c == '\\')
			relmq__buf_addf(b, "\\%c", c);
		else if (c < 0x20 || c == 0x7f)
			relmq__buf_addf(b, "\\u%04x", (unsigned) c);
		else
			relmq__buf_add(b, bytes + i, width);
		i += width;
	}
	relmq__buf_add(b, "\"", 1);
}
