/* base/config.c - see config.h. What a refusal says is in config_text.c. */
#include "base/config.h"

#include <jansson.h>
#include <libgen.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/config_inside.h"
#include "base/duration.h"
#include "base/error.h"

typedef struct reader {
	const char *file;
	const char *folder; /* where relative paths start            */
	char path[192];     /* of the key in hand: consumer.queues[0].queue */
	relmq_error *err;
} reader;

static relmq_code read_value(reader *r, const relmq__config_key *k, json_t *value, void *at);
static relmq_code read_object(
    reader *r, const relmq__config_key *table, json_t *object, char *base);

/* --- where we are, and what is wrong there ------------------------------------------ */

static size_t enter(reader *r, const char *key)
{
	size_t len = strlen(r->path);
	(void) snprintf(r->path + len, sizeof(r->path) - len, "%s%s", len > 0 ? "." : "", key);
	return len;
}

static size_t enter_item(reader *r, size_t index)
{
	size_t len = strlen(r->path);
	(void) snprintf(r->path + len, sizeof(r->path) - len, "[%zu]", index);
	return len;
}

static void leave(reader *r, size_t len)
{
	r->path[len] = '\0';
}

static relmq_code refuse(reader *r, const relmq__config_key *k, json_t *value)
{
	relmq__buf allowed = { 0 };
	char is[RELMQ__CONFIG_SHOWN_SIZE];
	relmq__config_allowed(k, &allowed);
	relmq__config_describe(value, is);
	relmq_code rc = relmq__config_refuse(r->err, r->file, "%s: must be %s, is %s", r->path,
	    allowed.failed ? "valid" : allowed.data, is);
	relmq__buf_free(&allowed);
	return rc;
}

/* --- one value ---------------------------------------------------------------------- */

static bool in_range(const relmq__config_key *k, int64_t n)
{
	return n >= k->min && n <= k->max;
}

static relmq_code copy_text(reader *r, const char *text, char **at)
{
	*at = strdup(text);
	return *at != NULL ? RELMQ_OK : relmq__fail_nomem(r->err);
}

/* The value's text, or NULL when it is none or has a NUL inside. */
static const char *text_of(json_t *value)
{
	const char *text = json_string_value(value);
	return text != NULL && strlen(text) == json_string_length(value) ? text : NULL;
}

static relmq_code read_string(reader *r, const relmq__config_key *k, json_t *value, char **at)
{
	const char *text = text_of(value);
	if (text == NULL && json_is_string(value))
		return relmq__config_refuse(r->err, r->file, "%s: has a NUL inside", r->path);
	if (text == NULL || !in_range(k, (int64_t) strlen(text)))
		return refuse(r, k, value);
	if (k->type != RELMQ__CONFIG_PATH || text[0] == '/' || text[0] == '\0')
		return copy_text(r, text, at);
	relmq__buf joined = { 0 };
	relmq__buf_addf(&joined, "%s/%s", r->folder, text);
	*at = joined.data;
	return joined.failed ? relmq__fail_nomem(r->err) : RELMQ_OK;
}

/* The value's duration, or -1 when it is none that this key may have. */
static int64_t duration_of(const relmq__config_key *k, json_t *value)
{
	const char *text = text_of(value);
	int64_t ms = text != NULL ? relmq__duration_ms(text) : -1;
	bool whole = (k->flags & RELMQ__CONFIG_WHOLE_SECONDS) == 0 || ms % 1000 == 0;
	return ms >= 0 && whole && in_range(k, ms) ? ms : -1;
}

static relmq_code read_duration(reader *r, const relmq__config_key *k, json_t *value, void *at)
{
	int64_t ms = duration_of(k, value);
	if (ms < 0)
		return refuse(r, k, value);
	if (k->type == RELMQ__CONFIG_DURATION_TEXT)
		return copy_text(r, json_string_value(value), at);
	*(int64_t *) at = ms;
	return RELMQ_OK;
}

static relmq_code read_choice(reader *r, const relmq__config_key *k, json_t *value, int *at)
{
	const char *text = text_of(value);
	for (int i = 0; text != NULL && k->choices[i] != NULL; i++)
		if (strcmp(text, k->choices[i]) == 0) {
			*at = i;
			return RELMQ_OK;
		}
	return refuse(r, k, value);
}

/* What relmq__config_show() printed may stand there; it is not a secret. */
static relmq_code read_secret(reader *r, json_t *value, char **at)
{
	const char *text = text_of(value);
	if (text != NULL && (text[0] == '\0' || relmq__config_is_placeholder(text)))
		return copy_text(r, "", at);
	return relmq__config_refuse(r->err, r->file,
	    "%s: a secret does not belong here; see the key %s_file", r->path, r->path);
}

/* --- lists -------------------------------------------------------------------------- */

static relmq_code check_unique(reader *r, char *const *texts, size_t count)
{
	for (size_t i = 0; i < count; i++)
		for (size_t j = 0; j < i; j++)
			if (relmq__duration_ms(texts[i]) == relmq__duration_ms(texts[j]))
				return relmq__config_refuse(r->err, r->file,
				    "%s[%zu]: \"%s\" is the same as \"%s\" before it", r->path, i,
				    texts[i], texts[j]);
	return RELMQ_OK;
}

/* The count is set before the items are read: what is there so far can be freed. */
static relmq_code read_list(reader *r, const relmq__config_key *k, json_t *value, char *base)
{
	size_t count = json_array_size(value);
	if (!json_is_array(value) || !in_range(k, (int64_t) count))
		return refuse(r, k, value);
	char *items = calloc(count > 0 ? count : 1, k->size);
	if (items == NULL)
		return relmq__fail_nomem(r->err);
	*(void **) (void *) (base + k->offset) = items;
	*(size_t *) (void *) (base + k->count_offset) = count;
	relmq_code rc = RELMQ_OK;
	for (size_t i = 0; rc == RELMQ_OK && i < count; i++) {
		size_t len = enter_item(r, i);
		rc = read_value(r, k->sub, json_array_get(value, i), items + i * k->size);
		leave(r, len);
	}
	if (rc == RELMQ_OK && (k->flags & RELMQ__CONFIG_UNIQUE) != 0)
		rc = check_unique(r, (char **) (void *) items, count);
	return rc;
}

/* --- objects ------------------------------------------------------------------------ */

static relmq_code read_value(reader *r, const relmq__config_key *k, json_t *value, void *at)
{
	switch (k->type) {
	case RELMQ__CONFIG_STRING:
	case RELMQ__CONFIG_PATH:
		return read_string(r, k, value, at);
	case RELMQ__CONFIG_SECRET:
		return read_secret(r, value, at);
	case RELMQ__CONFIG_BOOL:
		*(bool *) at = json_is_true(value);
		return json_is_boolean(value) ? RELMQ_OK : refuse(r, k, value);
	case RELMQ__CONFIG_INT:
		*(int64_t *) at = json_integer_value(value);
		return json_is_integer(value) && in_range(k, *(int64_t *) at) ? RELMQ_OK
		                                                              : refuse(r, k, value);
	case RELMQ__CONFIG_DURATION:
	case RELMQ__CONFIG_DURATION_TEXT:
		return read_duration(r, k, value, at);
	case RELMQ__CONFIG_CHOICE:
		return read_choice(r, k, value, at);
	case RELMQ__CONFIG_LIST:
		return read_list(r, k, value, (char *) at - k->offset);
	case RELMQ__CONFIG_OBJECT:
		return json_is_object(value) ? read_object(r, k->sub, value, at)
		                             : refuse(r, k, value);
	}
	return relmq__fail(r->err, RELMQ_EINTERNAL, 0, "%s: no such type", r->path);
}

static json_t *words_json(const char *words)
{
	json_t *list = json_array();
	while (list != NULL && *words != '\0') {
		size_t len = strcspn(words, " ");
		if (json_array_append_new(list, json_stringn(words, len)) != 0) {
			json_decref(list);
			return NULL;
		}
		words += len + strspn(words + len, " ");
	}
	return list;
}

/* The default as the file would say it; NULL: out of memory. */
static json_t *fallback_json(const relmq__config_key *k)
{
	const char *text = k->fallback != NULL ? k->fallback : "";
	switch (k->type) {
	case RELMQ__CONFIG_INT:
		return json_integer(strtoll(text, NULL, 10));
	case RELMQ__CONFIG_BOOL:
		return json_boolean(strcmp(text, "true") == 0);
	case RELMQ__CONFIG_LIST:
		return words_json(text);
	default:
		return json_string(text);
	}
}

/* A default goes the way of a value in the file; so it cannot be out of range either. */
static relmq_code read_fallback(reader *r, const relmq__config_key *k, void *at)
{
	if (k->type == RELMQ__CONFIG_OBJECT)
		return read_object(r, k->sub, NULL, at);
	json_t *value = fallback_json(k);
	relmq_code rc = value != NULL ? read_value(r, k, value, at) : relmq__fail_nomem(r->err);
	json_decref(value);
	return rc;
}

static relmq_code refuse_missing(reader *r, const relmq__config_key *k)
{
	relmq__buf allowed = { 0 };
	relmq__config_allowed(k, &allowed);
	relmq_code rc = relmq__config_refuse(r->err, r->file, "%s: is missing; must be %s", r->path,
	    allowed.failed ? "there" : allowed.data);
	relmq__buf_free(&allowed);
	return rc;
}

static relmq_code refuse_unknown(reader *r, const relmq__config_key *table, json_t *object)
{
	void *iter = json_object_iter(object);
	for (; iter != NULL; iter = json_object_iter_next(object, iter)) {
		const char *key = json_object_iter_key(iter);
		const relmq__config_key *k = table;
		while (k->key != NULL && strcmp(k->key, key) != 0)
			k++;
		if (k->key != NULL)
			continue;
		relmq__buf text = { 0 };
		relmq__config_unknown(table, key, &text);
		relmq_code rc = relmq__config_refuse(r->err, r->file, "%s%s%s", r->path,
		    r->path[0] != '\0' ? ": " : "", text.failed ? "unknown key" : text.data);
		relmq__buf_free(&text);
		return rc;
	}
	return RELMQ_OK;
}

/* Two keys that say the same thing cannot both be obeyed. */
static relmq_code refuse_both(reader *r, const relmq__config_key *k)
{
	int section = (int) (strlen(r->path) - strlen(k->key));
	return relmq__config_refuse(r->err, r->file,
	    "%s: cannot stand together with %.*s%s; give one of the two", r->path, section, r->path,
	    k->instead);
}

/* `value` NULL: the object does not have it. */
static relmq_code read_member(
    reader *r, const relmq__config_key *k, json_t *object, json_t *value, void *at)
{
	if (value == NULL && (k->flags & RELMQ__CONFIG_REQUIRED) == 0)
		return read_fallback(r, k, at);
	if (value == NULL)
		return object != NULL ? refuse_missing(r, k) : RELMQ_OK;
	bool empty = json_is_string(value) && json_string_length(value) == 0;
	if (k->instead != NULL && !empty &&
	    json_array_size(json_object_get(object, k->instead)) > 0)
		return refuse_both(r, k);
	return read_value(r, k, value, at);
}

/* `object` NULL: all defaults, and what is required stays zero. */
static relmq_code read_object(reader *r, const relmq__config_key *table, json_t *object, char *base)
{
	relmq_code rc = refuse_unknown(r, table, object);
	for (const relmq__config_key *k = table; rc == RELMQ_OK && k->key != NULL; k++) {
		size_t len = enter(r, k->key);
		rc = read_member(r, k, object, json_object_get(object, k->key), base + k->offset);
		leave(r, len);
	}
	return rc;
}

/* --- the whole ---------------------------------------------------------------------- */

relmq_code relmq__config_default(const relmq__config_key *table, void *out, relmq_error *err)
{
	reader r = { .file = "defaults", .err = err };
	relmq_code rc = read_object(&r, table, NULL, out);
	if (rc != RELMQ_OK)
		relmq__config_free(table, out);
	return rc;
}

/* Where a relative path in the file starts: the folder that the file was named in. */
static char *folder_of(const char *file)
{
	char *copy = strdup(file);
	char *folder = copy != NULL ? realpath(dirname(copy), NULL) : NULL;
	free(copy);
	return folder;
}

/* `root` is taken. */
static relmq_code read_root(const relmq__config_key *table, const char *file, char *folder,
    json_t *root, void *out, relmq_error *err)
{
	reader r = { .file = file, .folder = folder, .err = err };
	relmq_code rc = folder != NULL ? read_object(&r, table, root, out) : relmq__fail_nomem(err);
	free(folder);
	json_decref(root);
	if (rc != RELMQ_OK)
		relmq__config_free(table, out);
	return rc;
}

relmq_code relmq__config_read(
    const relmq__config_key *table, const char *file, void *out, relmq_error *err)
{
	json_t *root = NULL;
	relmq_code rc = relmq__config_load(file, &root, err);
	return rc == RELMQ_OK ? read_root(table, file, folder_of(file), root, out, err) : rc;
}

relmq_code relmq__config_read_text(
    const relmq__config_key *table, const char *name, const char *text, void *out, relmq_error *err)
{
	json_t *root = NULL;
	relmq_code rc = relmq__config_json(name, text, strlen(text), &root, err);
	return rc == RELMQ_OK ? read_root(table, name, realpath(".", NULL), root, out, err) : rc;
}

static void free_value(const relmq__config_key *k, char *base)
{
	char **text = (char **) (void *) (base + k->offset);
	switch (k->type) {
	case RELMQ__CONFIG_SECRET:
		if (*text != NULL)
			explicit_bzero(*text, strlen(*text));
		__attribute__((fallthrough));
	case RELMQ__CONFIG_STRING:
	case RELMQ__CONFIG_PATH:
	case RELMQ__CONFIG_DURATION_TEXT:
		free(*text);
		*text = NULL;
		break;
	case RELMQ__CONFIG_LIST: {
		size_t *count = (size_t *) (void *) (base + k->count_offset);
		for (size_t i = 0; i < *count; i++)
			free_value(k->sub, *text + i * k->size);
		free(*text);
		*text = NULL;
		*count = 0;
		break;
	}
	case RELMQ__CONFIG_OBJECT:
		relmq__config_free(k->sub, base + k->offset);
		break;
	case RELMQ__CONFIG_BOOL:
	case RELMQ__CONFIG_INT:
	case RELMQ__CONFIG_DURATION:
	case RELMQ__CONFIG_CHOICE:
		break;
	}
}

void relmq__config_free(const relmq__config_key *table, void *out)
{
	for (const relmq__config_key *k = table; k->key != NULL; k++)
		free_value(k, out);
}
