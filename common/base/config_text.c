/* base/config_text.c - what a refusal says. See config.h. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/config_inside.h"
#include "base/duration.h"
#include "base/error.h"
#include "base/utf8.h"

enum {
	TEXT_SIZE = sizeof(((relmq_error *) 0)->text),
	FILE_SHOWN = 70,  /* bytes of a file's name that a message has room for */
	VALUE_SHOWN = 40, /* of a value or an unknown key                       */
	WORD_MAX = 48     /* the longest key that can be a slip of another      */
};

/* --- what is allowed ---------------------------------------------------------------- */

static void allowed_text(const relmq__config_key *k, relmq__buf *out)
{
	if (k->min == 0)
		relmq__buf_addf(out, "text of at most %lld bytes", (long long) k->max);
	else
		relmq__buf_addf(
		    out, "text of %lld to %lld bytes", (long long) k->min, (long long) k->max);
}

static void allowed_duration(const relmq__config_key *k, relmq__buf *out)
{
	char min[RELMQ__DURATION_SIZE], max[RELMQ__DURATION_SIZE];
	relmq__duration_text(k->min, min);
	relmq__duration_text(k->max, max);
	bool whole = (k->flags & RELMQ__CONFIG_WHOLE_SECONDS) != 0;
	relmq__buf_addf(out, "a duration like \"5s\", from \"%s\" to \"%s\" (units %ss, m, h, d)",
	    min, max, whole ? "" : "ms, ");
}

static void allowed_choice(const relmq__config_key *k, relmq__buf *out)
{
	for (size_t i = 0; k->choices[i] != NULL; i++) {
		const char *lead = i == 0 ? "" : k->choices[i + 1] == NULL ? " or " : ", ";
		relmq__buf_addf(out, "%s\"%s\"", lead, k->choices[i]);
	}
}

static void allowed_list(const relmq__config_key *k, relmq__buf *out)
{
	const char *items = "durations";
	if (k->sub->type == RELMQ__CONFIG_STRING)
		items = "texts";
	else if (k->sub->type == RELMQ__CONFIG_OBJECT)
		items = "objects";
	relmq__buf_addf(
	    out, "a list of %lld to %lld %s", (long long) k->min, (long long) k->max, items);
}

void relmq__config_allowed(const relmq__config_key *k, relmq__buf *out)
{
	switch (k->type) {
	case RELMQ__CONFIG_STRING:
	case RELMQ__CONFIG_PATH:
		allowed_text(k, out);
		break;
	case RELMQ__CONFIG_SECRET:
		relmq__buf_adds(out, "left out");
		break;
	case RELMQ__CONFIG_BOOL:
		relmq__buf_adds(out, "true or false");
		break;
	case RELMQ__CONFIG_INT:
		relmq__buf_addf(out, "a whole number from %lld to %lld", (long long) k->min,
		    (long long) k->max);
		break;
	case RELMQ__CONFIG_DURATION:
	case RELMQ__CONFIG_DURATION_TEXT:
		allowed_duration(k, out);
		break;
	case RELMQ__CONFIG_CHOICE:
		allowed_choice(k, out);
		break;
	case RELMQ__CONFIG_LIST:
		allowed_list(k, out);
		break;
	case RELMQ__CONFIG_OBJECT:
		relmq__buf_adds(out, "an object");
		break;
	}
}

/* --- what is there ------------------------------------------------------------------ */

void relmq__config_describe(const json_t *value, char out[RELMQ__CONFIG_SHOWN_SIZE])
{
	if (json_is_object(value)) {
		(void) snprintf(out, RELMQ__CONFIG_SHOWN_SIZE, "an object");
		return;
	}
	if (json_is_array(value)) {
		(void) snprintf(
		    out, RELMQ__CONFIG_SHOWN_SIZE, "a list of %zu", json_array_size(value));
		return;
	}
	char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(6));
	const char *full = text != NULL ? text : "another";
	size_t len = strlen(full);
	size_t cut = relmq__utf8_cut(full, len, VALUE_SHOWN);
	(void) snprintf(
	    out, RELMQ__CONFIG_SHOWN_SIZE, "%.*s%s", (int) cut, full, cut < len ? "..." : "");
	free(text);
}

/* Letters to change, add or drop to make `b` of `a`; big when they are not words. */
static size_t distance(const char *a, const char *b)
{
	size_t row[WORD_MAX + 1];
	size_t n = strlen(b);
	if (strlen(a) > WORD_MAX || n > WORD_MAX)
		return SIZE_MAX;
	for (size_t j = 0; j <= n; j++)
		row[j] = j;
	for (size_t i = 1; a[i - 1] != '\0'; i++) {
		size_t diagonal = row[0];
		row[0] = i;
		for (size_t j = 1; j <= n; j++) {
			size_t best = diagonal + (a[i - 1] != b[j - 1]);
			diagonal = row[j];
			if (row[j] + 1 < best)
				best = row[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			row[j] = best;
		}
	}
	return row[n];
}

static const char *nearest(const relmq__config_key *table, const char *key)
{
	const char *best = NULL;
	size_t least = strlen(key) / 3 + 2;
	for (const relmq__config_key *k = table; k->key != NULL; k++) {
		size_t d = distance(key, k->key);
		if (d < least) {
			least = d;
			best = k->key;
		}
	}
	return best;
}

void relmq__config_unknown(const relmq__config_key *table, const char *key, relmq__buf *out)
{
	size_t len = strlen(key);
	size_t cut = relmq__utf8_cut(key, len, VALUE_SHOWN);
	const char *near = nearest(table, key);
	relmq__buf_adds(out, "unknown key ");
	relmq__buf_add_json(out, key, cut);
	if (near != NULL)
		relmq__buf_addf(out, "; did you mean \"%s\"?", near);
	relmq__buf_adds(out, near != NULL ? " Allowed here: " : "; allowed here: ");
	for (const relmq__config_key *k = table; k->key != NULL; k++)
		if (k->type != RELMQ__CONFIG_SECRET)
			relmq__buf_addf(out, "%s%s", k == table ? "" : ", ", k->key);
}

/* --- the record --------------------------------------------------------------------- */

relmq_code relmq__config_refuse(relmq_error *err, const char *file, const char *fmt, ...)
{
	char text[TEXT_SIZE * 4];
	size_t len = strlen(file);
	size_t skip = len > FILE_SHOWN ? len - FILE_SHOWN : 0;
	while (skip > 0 && ((unsigned char) file[skip] & 0xc0) == 0x80)
		skip++;
	int lead = snprintf(text, TEXT_SIZE, "%s%s: ", skip > 0 ? "..." : "", file + skip);
	va_list args;
	va_start(args, fmt);
	(void) vsnprintf(text + lead, sizeof(text) - (size_t) lead, fmt, args);
	va_end(args);
	len = strlen(text);
	if (len < TEXT_SIZE)
		return relmq__fail(err, RELMQ_ECONFIG, RELMQ_F_FATAL, "%s", text);
	int cut = (int) relmq__utf8_cut(text, len, TEXT_SIZE - 4);
	return relmq__fail(err, RELMQ_ECONFIG, RELMQ_F_FATAL, "%.*s...", cut, text);
}
