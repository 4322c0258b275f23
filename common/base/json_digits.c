/* base/json_digits.c - see json_digits.h. */
#include "base/json_digits.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum {
	DOUBLE_DIGITS = 15,    /* decimal digits that a double always keeps (DBL_DIG)        */
	DOUBLE_EXPONENT = 290, /* of ten, either way, where it keeps them for certain        */
	EXPONENT_MAX = 100000, /* further nobody needs to count                              */
	INT64_DIGITS = 19
};

typedef struct number {
	size_t len;           /* 0: it is none */
	bool whole;           /* neither fraction nor exponent */
	const char *digits;   /* of the integer part */
	size_t integer_count; /* of those            */
	size_t significant;   /* digits from the first to the last that is not 0 */
	long magnitude;       /* of ten, of the first of them */
} number;

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static size_t count_digits(const char *at, const char *end)
{
	const char *from = at;
	while (at < end && is_digit(*at))
		at++;
	return (size_t) (at - from);
}

/* One digit after another, the point left out. */
static void weigh(number *x, const char *at, const char *end)
{
	size_t seen = 0; /* from the first that is not 0 on */
	long place = (long) x->integer_count - 1;
	for (; at < end; at++) {
		if (*at == '.')
			continue;
		if (seen == 0 && *at != '0')
			x->magnitude = place;
		if (seen > 0 || *at != '0')
			seen++;
		if (*at != '0')
			x->significant = seen;
		place--;
	}
}

static const char *read_exponent(number *x, const char *at, const char *end)
{
	bool negative = false;
	long value = 0;
	at++;
	if (at < end && (*at == '+' || *at == '-'))
		negative = *at++ == '-';
	size_t n = count_digits(at, end);
	for (size_t i = 0; i < n && value < EXPONENT_MAX; i++)
		value = value * 10 + (at[i] - '0');
	x->magnitude += negative ? -value : value;
	return n > 0 ? at + n : NULL;
}

/* By the grammar of JSON: no leading zeros, digits on both sides of the point. */
static number read_number(const char *text, const char *end)
{
	number x = { .whole = true };
	const char *at = text < end && *text == '-' ? text + 1 : text;
	x.digits = at;
	x.integer_count = count_digits(at, end);
	if (x.integer_count == 0 || (x.integer_count > 1 && *at == '0'))
		return (number){ 0 };
	at += x.integer_count;
	if (at < end && *at == '.') {
		size_t n = count_digits(at + 1, end);
		if (n == 0)
			return (number){ 0 };
		at += n + 1;
		x.whole = false;
	}
	weigh(&x, x.digits, at);
	if (at < end && (*at == 'e' || *at == 'E')) {
		at = read_exponent(&x, at, end);
		x.whole = false;
	}
	x.len = at != NULL ? (size_t) (at - text) : 0;
	return x;
}

static bool fits(const number *x, bool negative)
{
	if (x->significant == 0)
		return true;
	if (x->whole)
		return x->integer_count < INT64_DIGITS ||
		    (x->integer_count == INT64_DIGITS &&
		        memcmp(x->digits, negative ? "9223372036854775808" : "9223372036854775807",
		            INT64_DIGITS) <= 0);
	return x->significant <= DOUBLE_DIGITS && labs(x->magnitude) <= DOUBLE_EXPONENT;
}

bool relmq__json_number_fits(const char *text, size_t n)
{
	number x = read_number(text, text + n);
	return x.len == n && n > 0 && fits(&x, text[0] == '-');
}

/* Behind the string that begins at `at`, or the end. */
static const char *skip_string(const char *at, const char *end)
{
	for (at++; at < end && *at != '"'; at++)
		if (*at == '\\' && at + 1 < end)
			at++;
	return at < end ? at + 1 : end;
}

static bool may_follow_number(const char *at, const char *end)
{
	return at == end || strchr(",]} \t\r\n", *at) != NULL;
}

void relmq__json_keep_digits(const char *text, size_t n, relmq__buf *out, bool *changed)
{
	const char *end = text + n;
	const char *copied = text; /* up to here it is in `out` */
	const char *at = text;
	*changed = false;
	while (at < end) {
		if (*at == '"') {
			at = skip_string(at, end);
			continue;
		}
		number x = *at == '-' || is_digit(*at) ? read_number(at, end) : (number){ 0 };
		if (x.len == 0) {
			at++;
			continue;
		}
		if (may_follow_number(at + x.len, end) && !fits(&x, *at == '-')) {
			relmq__buf_add(out, copied, (size_t) (at - copied));
			relmq__buf_add(out, "\"", 1);
			relmq__buf_add(out, at, x.len);
			relmq__buf_add(out, "\"", 1);
			copied = at + x.len;
			*changed = true;
		}
		at += x.len;
	}
	if (*changed)
		relmq__buf_add(out, copied, (size_t) (end - copied));
}
