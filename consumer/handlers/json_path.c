/* handlers/json_path.c - see json_path.h. */
#include "consumer/handlers/json_path.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "consumer/handlers/json_text.h"

/* --- looking into checked text: every token is where the grammar wants it ------------- */

typedef struct reader {
	const char *at, *end;
} reader;

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

static void skip_string(reader *r)
{
	for (r->at++; *r->at != '"'; r->at++)
		if (*r->at == '\\')
			r->at++;
	r->at++;
}

static void skip_container(reader *r)
{
	size_t open = 0;
	do {
		if (*r->at == '"') {
			skip_string(r);
			continue;
		}
		if (*r->at == '{' || *r->at == '[')
			open++;
		else if (*r->at == '}' || *r->at == ']')
			open--;
		r->at++;
	} while (open > 0);
}

static relmq__json_kind kind_at(char c)
{
	switch (c) {
	case '{':
		return RELMQ__JSON_OBJECT;
	case '[':
		return RELMQ__JSON_ARRAY;
	case '"':
		return RELMQ__JSON_STRING;
	case 't':
		return RELMQ__JSON_TRUE;
	case 'f':
		return RELMQ__JSON_FALSE;
	case 'n':
		return RELMQ__JSON_NULL;
	default:
		return RELMQ__JSON_NUMBER;
	}
}

static void skip_word(reader *r)
{
	while (r->at < r->end && !is_blank(*r->at) && strchr(",]}", *r->at) == NULL)
		r->at++;
}

/* The value behind the blanks at `at`; steps over it. */
static relmq__json_value next_value(reader *r)
{
	skip_blanks(r);
	relmq__json_value v = { kind_at(*r->at), r->at, 0 };
	if (v.kind == RELMQ__JSON_OBJECT || v.kind == RELMQ__JSON_ARRAY)
		skip_container(r);
	else if (v.kind == RELMQ__JSON_STRING)
		skip_string(r);
	else
		skip_word(r);
	v.len = (size_t) (r->at - v.text);
	if (v.kind == RELMQ__JSON_STRING) {
		v.text++;
		v.len -= 2;
	}
	skip_blanks(r);
	return v;
}

static relmq__json_value step_into(relmq__json_value in, const relmq__json_step *step)
{
	static const relmq__json_value missing = { RELMQ__JSON_MISSING, "", 0 };
	if (in.kind != (step->name != NULL ? RELMQ__JSON_OBJECT : RELMQ__JSON_ARRAY))
		return missing;
	reader r = { in.text + 1, in.text + in.len };
	skip_blanks(&r);
	for (size_t i = 0; *r.at != '}' && *r.at != ']'; i++) {
		bool here = i == step->index;
		if (step->name != NULL) {
			relmq__json_value name = next_value(&r);
			here = relmq__json_says(name.text, name.len, step->name, step->len);
			r.at++; /* ':' */
		}
		relmq__json_value v = next_value(&r);
		if (here)
			return v;
		if (*r.at == ',')
			r.at++;
		skip_blanks(&r);
	}
	return missing;
}

relmq__json_value relmq__json_find(
    const char *text, size_t len, const relmq__json_step *steps, size_t count)
{
	reader r = { text, text + len };
	relmq__json_value v = next_value(&r);
	for (size_t i = 0; i < count; i++)
		v = step_into(v, &steps[i]);
	return v;
}

/* --- the path ------------------------------------------------------------------------ */

static bool is_name_byte(char c)
{
	return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
	    (unsigned char) c >= 0x80;
}

/* Both return the bytes of the step at `text`, 0 when it is malformed. */
static size_t read_name(const char *text, size_t len, relmq__json_step *step)
{
	size_t n = 1;
	if (len > 1 && text[1] == '"') {
		const char *quote = memchr(text + 2, '"', len - 2);
		*step = (relmq__json_step){ text + 2,
			quote != NULL ? (size_t) (quote - text) - 2 : 0, 0 };
		return quote != NULL ? step->len + 3 : 0;
	}
	while (n < len && is_name_byte(text[n]))
		n++;
	*step = (relmq__json_step){ text + 1, n - 1, 0 };
	return n > 1 ? n : 0;
}

static size_t read_index(const char *text, size_t len, relmq__json_step *step)
{
	enum { DIGITS_MAX = 9 };
	size_t n = 1;
	*step = (relmq__json_step){ NULL, 0, 0 };
	for (; n < len && is_digit(text[n]) && n <= DIGITS_MAX; n++)
		step->index = step->index * 10 + (size_t) (text[n] - '0');
	return n > 1 && n < len && text[n] == ']' ? n + 1 : 0;
}

size_t relmq__json_steps(
    const char *text, size_t len, relmq__json_step steps[RELMQ__JSON_STEPS_MAX], size_t *count)
{
	size_t used = 0;
	*count = 0;
	while (used < len && (text[used] == '.' || text[used] == '[')) {
		size_t n = 0;
		if (*count < RELMQ__JSON_STEPS_MAX)
			n = text[used] == '.' ? read_name(text + used, len - used, &steps[*count])
			                      : read_index(text + used, len - used, &steps[*count]);
		if (n == 0) {
			*count = SIZE_MAX;
			return used;
		}
		*count += 1;
		used += n;
	}
	return used;
}
