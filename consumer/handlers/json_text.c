/* handlers/json_text.c - see json_text.h. */
#include "consumer/handlers/json_text.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

/* --- the check --------------------------------------------------------------------- */

typedef struct reader {
	const char *text, *at, *end;
	const char *problem; /* of the first fault; `at` stays there */
} reader;

static bool fail(reader *r, const char *problem)
{
	r->problem = problem;
	return false;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void skip_blanks(reader *r)
{
	while (r->at < r->end && is_blank(*r->at))
		r->at++;
}

static bool take(reader *r, char c)
{
	if (r->at == r->end || *r->at != c)
		return false;
	r->at++;
	return true;
}

static bool check_digits(reader *r)
{
	if (r->at == r->end || !is_digit(*r->at))
		return fail(r, "a digit is missing");
	while (r->at < r->end && is_digit(*r->at))
		r->at++;
	return true;
}

static bool check_number(reader *r)
{
	(void) take(r, '-');
	if (take(r, '0')) {
		if (r->at < r->end && is_digit(*r->at))
			return fail(r, "a number starts with 0");
	} else if (!check_digits(r)) {
		return false;
	}
	if (take(r, '.') && !check_digits(r))
		return false;
	if (take(r, 'e') || take(r, 'E')) {
		if (!take(r, '+'))
			(void) take(r, '-');
		return check_digits(r);
	}
	return true;
}

static int hex_value(char c)
{
	if (is_digit(c))
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The number in "\uXXXX" at `s`, or -1. */
static int32_t unit_at(const char *s, const char *end)
{
	if (end - s < 6 || s[0] != '\\' || s[1] != 'u')
		return -1;
	int32_t unit = 0;
	for (int i = 2; i < 6; i++) {
		int digit = hex_value(s[i]);
		if (digit < 0)
			return -1;
		unit = unit * 16 + digit;
	}
	return unit;
}

static bool is_high_half(int32_t unit)
{
	return unit >= 0xd800 && unit <= 0xdbff;
}

static bool is_low_half(int32_t unit)
{
	return unit >= 0xdc00 && unit <= 0xdfff;
}

static bool check_escape(reader *r)
{
	int32_t unit = unit_at(r->at, r->end);
	if (unit < 0) {
		if (r->end - r->at < 2 || strchr("\"\\/bfnrt", r->at[1]) == NULL ||
		    r->at[1] == '\0')
			return fail(r, "no such escape");
		r->at += 2;
		return true;
	}
	if (is_low_half(unit) || (is_high_half(unit) && !is_low_half(unit_at(r->at + 6, r->end))))
		return fail(r, "half a surrogate pair");
	r->at += is_high_half(unit) ? 12 : 6;
	return true;
}

static bool check_string(reader *r)
{
	if (!take(r, '"'))
		return fail(r, "a string is missing");
	while (r->at < r->end && *r->at != '"') {
		if ((unsigned char) *r->at < 0x20)
			return fail(r, "a control character in a string");
		if (*r->at == '\\') {
			if (!check_escape(r))
				return false;
			continue;
		}
		size_t width = relmq__utf8_width(r->at, (size_t) (r->end - r->at));
		if (width == 0)
			return fail(r, "a string is not UTF-8");
		r->at += width;
	}
	return take(r, '"') || fail(r, "a string does not end");
}

static bool check_word(reader *r, const char *word)
{
	size_t len = strlen(word);
	if ((size_t) (r->end - r->at) < len || memcmp(r->at, word, len) != 0)
		return fail(r, "no JSON value");
	r->at += len;
	return true;
}

/* Depth is bounded, so recursion is. */
static bool check_value(reader *r, unsigned depth);

static bool check_members(reader *r, bool named, unsigned depth)
{
	char close = named ? '}' : ']';
	if (depth == RELMQ__JSON_DEPTH_MAX)
		return fail(r, "nested too deep");
	r->at++;
	skip_blanks(r);
	if (take(r, close))
		return true;
	for (;;) {
		skip_blanks(r);
		if (named) {
			if (!check_string(r))
				return false;
			skip_blanks(r);
			if (!take(r, ':'))
				return fail(r, "':' is missing");
		}
		if (!check_value(r, depth + 1))
			return false;
		if (take(r, close))
			return true;
		if (!take(r, ','))
			return fail(r, named ? "',' or '}' is missing" : "',' or ']' is missing");
	}
}

static bool check_value(reader *r, unsigned depth)
{
	bool ok = false;
	skip_blanks(r);
	if (r->at == r->end)
		return fail(r, "it ends too early");
	switch (*r->at) {
	case '{':
	case '[':
		ok = check_members(r, *r->at == '{', depth);
		break;
	case '"':
		ok = check_string(r);
		break;
	case 't':
		ok = check_word(r, "true");
		break;
	case 'f':
		ok = check_word(r, "false");
		break;
	case 'n':
		ok = check_word(r, "null");
		break;
	default:
		ok = *r->at == '-' || is_digit(*r->at) ? check_number(r) : fail(r, "no JSON value");
	}
	skip_blanks(r);
	return ok;
}

bool relmq__json_check(const char *text, size_t len, char *why, size_t why_size)
{
	reader r = { text, text, text + len, NULL };
	if (len == 0)
		(void) fail(&r, "it is empty");
	else if (check_value(&r, 0) && r.at != r.end)
		(void) fail(&r, "something stands behind the value");
	if (r.problem == NULL)
		return true;
	(void) snprintf(why, why_size, "%s (byte %zu)", r.problem, (size_t) (r.at - r.text));
	return false;
}

/* --- one character of a string ------------------------------------------------------- */

static size_t put_utf8(char out[4], uint32_t point)
{
	if (point < 0x80) {
		out[0] = (char) point;
		return 1;
	}
	size_t width = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
	for (size_t i = width - 1; i > 0; i--) {
		out[i] = (char) (0x80 | (point & 0x3f));
		point >>= 6;
	}
	out[0] = (char) ((0xf00 >> width) | point);
	return width;
}

/* Decode the escape at *at (checked text) and step over it; returns bytes in `out`. */
static size_t decode_escape(const char **at, const char *end, char out[4])
{
	static const char letters[] = "bfnrt", bytes[] = "\b\f\n\r\t";
	int32_t unit = unit_at(*at, end);
	if (unit < 0) {
		const char *letter = strchr(letters, (*at)[1]);
		out[0] = letter != NULL ? bytes[letter - letters] : (*at)[1];
		*at += 2;
		return 1;
	}
	uint32_t point = (uint32_t) unit;
	*at += 6;
	if (is_high_half(unit)) {
		point =
		    0x10000 + ((point - 0xd800) << 10) + ((uint32_t) unit_at(*at, end) - 0xdc00);
		*at += 6;
	}
	return put_utf8(out, point);
}

void relmq__json_unescape(relmq__buf *out, const char *string, size_t len)
{
	const char *at = string, *end = string + len;
	while (at < end) {
		char decoded[4];
		const char *escape = memchr(at, '\\', (size_t) (end - at));
		const char *plain_end = escape != NULL ? escape : end;
		relmq__buf_add(out, at, (size_t) (plain_end - at));
		at = plain_end;
		if (escape != NULL)
			relmq__buf_add(out, decoded, decode_escape(&at, end, decoded));
	}
}

bool relmq__json_says(const char *string, size_t len, const char *name, size_t name_len)
{
	if (memchr(string, '\\', len) == NULL)
		return len == name_len && memcmp(string, name, len) == 0;
	const char *at = string, *end = string + len;
	size_t said = 0;
	while (at < end) {
		char decoded[4] = { *at };
		size_t n = 1;
		if (*at == '\\')
			n = decode_escape(&at, end, decoded);
		else
			at++;
		if (n > name_len - said || memcmp(decoded, name + said, n) != 0)
			return false;
		said += n;
	}
	return said == name_len;
}
