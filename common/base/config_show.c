/* base/config_show.c - a table's values as JSON, and its keys as a reference. See config.h. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/config_inside.h"
#include "base/duration.h"

static const char hidden[] = "(hidden)";
static const char none[] = "(none)";

bool relmq__config_is_placeholder(const char *text)
{
	return strcmp(text, hidden) == 0 || strcmp(text, none) == 0;
}

/* --- values ------------------------------------------------------------------------- */

static void show_value(const relmq__config_key *k, const char *at, unsigned depth, relmq__buf *out);

static void show_line(unsigned depth, relmq__buf *out)
{
	relmq__buf_addf(out, "\n%*s", (int) depth * 2, "");
}

static void show_text(const char *text, relmq__buf *out)
{
	relmq__buf_add_json(out, text != NULL ? text : "", text != NULL ? strlen(text) : 0);
}

static void show_secret(const char *text, relmq__buf *out)
{
	show_text(text != NULL && text[0] != '\0' ? hidden : none, out);
}

static void show_duration(int64_t ms, relmq__buf *out)
{
	char text[RELMQ__DURATION_SIZE];
	relmq__duration_text(ms, text);
	show_text(text, out);
}

/* Plain items stand in one line, objects each in their own. */
static void show_list(const relmq__config_key *k, const char *base, unsigned depth, relmq__buf *out)
{
	const char *items = *(char *const *) (const void *) (base + k->offset);
	size_t count = *(const size_t *) (const void *) (base + k->count_offset);
	bool apart = k->sub->type == RELMQ__CONFIG_OBJECT && count > 0;
	relmq__buf_adds(out, "[");
	for (size_t i = 0; i < count; i++) {
		relmq__buf_adds(out, i == 0 ? "" : apart ? "," : ", ");
		if (apart)
			show_line(depth + 1, out);
		show_value(k->sub, items + i * k->size, depth + 1, out);
	}
	if (apart)
		show_line(depth, out);
	relmq__buf_adds(out, "]");
}

/* What another key stands in for is not in force, and the reader would refuse both. */
static bool is_replaced(
    const relmq__config_key *table, const relmq__config_key *k, const char *base)
{
	const relmq__config_key *other = table;
	while (k->instead != NULL && strcmp(other->key, k->instead) != 0)
		other++;
	return k->instead != NULL &&
	    *(const size_t *) (const void *) (base + other->count_offset) > 0;
}

static void show_object(
    const relmq__config_key *table, const char *base, unsigned depth, relmq__buf *out)
{
	const char *separator = "";
	relmq__buf_adds(out, "{");
	for (const relmq__config_key *k = table; k->key != NULL; k++) {
		if (is_replaced(table, k, base))
			continue;
		relmq__buf_adds(out, separator);
		separator = ",";
		show_line(depth + 1, out);
		show_text(k->key, out);
		relmq__buf_adds(out, ": ");
		show_value(k, base + k->offset, depth + 1, out);
	}
	show_line(depth, out);
	relmq__buf_adds(out, "}");
}

static void show_value(const relmq__config_key *k, const char *at, unsigned depth, relmq__buf *out)
{
	const void *value = at;
	switch (k->type) {
	case RELMQ__CONFIG_STRING:
	case RELMQ__CONFIG_PATH:
	case RELMQ__CONFIG_DURATION_TEXT:
		show_text(*(char *const *) value, out);
		break;
	case RELMQ__CONFIG_SECRET:
		show_secret(*(char *const *) value, out);
		break;
	case RELMQ__CONFIG_BOOL:
		relmq__buf_adds(out, *(const bool *) value ? "true" : "false");
		break;
	case RELMQ__CONFIG_INT:
		relmq__buf_addf(out, "%lld", (long long) *(const int64_t *) value);
		break;
	case RELMQ__CONFIG_DURATION:
		show_duration(*(const int64_t *) value, out);
		break;
	case RELMQ__CONFIG_CHOICE:
		show_text(k->choices[*(const int *) value], out);
		break;
	case RELMQ__CONFIG_LIST:
		show_list(k, at - k->offset, depth, out);
		break;
	case RELMQ__CONFIG_OBJECT:
		show_object(k->sub, at, depth, out);
		break;
	}
}

void relmq__config_show(const relmq__config_key *table, const void *in, relmq__buf *out)
{
	show_object(table, in, 0, out);
	relmq__buf_adds(out, "\n");
}

/* --- the reference ------------------------------------------------------------------ */

static void refer_default(const relmq__config_key *k, relmq__buf *out)
{
	bool quoted = k->type != RELMQ__CONFIG_INT && k->type != RELMQ__CONFIG_BOOL;
	const char *text = k->fallback != NULL ? k->fallback : "";
	if ((k->flags & RELMQ__CONFIG_REQUIRED) != 0) {
		relmq__buf_adds(out, " (required)");
		return;
	}
	relmq__buf_adds(out, " = ");
	if (k->type == RELMQ__CONFIG_LIST)
		relmq__buf_addf(out, "[%s]", text);
	else if (quoted)
		show_text(text, out);
	else
		relmq__buf_adds(out, text);
}

/* `prefix` is the path of the table, "consumer.queues[]." */
static void refer(const relmq__config_key *table, const char *prefix, relmq__buf *out)
{
	for (const relmq__config_key *k = table; k->key != NULL; k++) {
		char path[128];
		bool list = k->type == RELMQ__CONFIG_LIST && k->sub->type == RELMQ__CONFIG_OBJECT;
		(void) snprintf(path, sizeof(path), "%s%s%s.", prefix, k->key, list ? "[]" : "");
		if (k->type == RELMQ__CONFIG_SECRET)
			continue;
		if (k->type == RELMQ__CONFIG_OBJECT) {
			refer(k->sub, path, out);
			continue;
		}
		relmq__buf_addf(out, "%s%s", prefix, k->key);
		refer_default(k, out);
		relmq__buf_addf(out, "\n    %s; ", k->help);
		relmq__config_allowed(k, out);
		relmq__buf_adds(out, "\n");
		if (list)
			refer(k->sub->sub, path, out);
	}
}

void relmq__config_reference(const relmq__config_key *table, relmq__buf *out)
{
	refer(table, "", out);
}
