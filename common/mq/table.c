/* mq/table.c - see table.h. */
#include "mq/table.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/json_digits.h"
#include "base/utf8.h"

enum { KEY_MAX = 255, DEPTH_MAX = 32 };

typedef struct reader {
	relmq__msg *m;
	char *why;
	size_t why_size;
} reader;

static bool read_value(const reader *r, const json_t *in, amqp_field_value_t *out, int depth);

static bool read_object(const reader *r, const json_t *in, amqp_table_t *out, int depth)
{
	const char *name;
	json_t *value;
	size_t count = json_object_size(in);
	int n = 0;
	out->num_entries = 0;
	out->entries = amqp_pool_alloc(&r->m->pool, (count + 1) * sizeof(*out->entries));
	if (out->entries == NULL)
		return false;
	json_object_foreach((json_t *) (uintptr_t) in, name, value)
	{
		if (strlen(name) > KEY_MAX) { /* rabbitmq-c would cut it without a word */
			(void) snprintf(
			    r->why, r->why_size, "a name over 255 bytes: %.40s...", name);
			return false;
		}
		out->entries[n].key = relmq__msg_text(r->m, name);
		if (out->entries[n].key.bytes == NULL ||
		    !read_value(r, value, &out->entries[n].value, depth))
			return false;
		out->num_entries = ++n;
	}
	return true;
}

static bool read_array(const reader *r, const json_t *in, amqp_array_t *out, int depth)
{
	size_t count = json_array_size(in);
	out->num_entries = (int) count;
	out->entries = amqp_pool_alloc(&r->m->pool, (count + 1) * sizeof(*out->entries));
	for (size_t i = 0; out->entries != NULL && i < count; i++)
		if (!read_value(r, json_array_get(in, i), &out->entries[i], depth))
			return false;
	return out->entries != NULL;
}

static bool read_value(const reader *r, const json_t *in, amqp_field_value_t *out, int depth)
{
	if (depth >= DEPTH_MAX) {
		(void) snprintf(r->why, r->why_size, "nested deeper than %d", DEPTH_MAX);
		return false;
	}
	switch (json_typeof(in)) {
	case JSON_STRING:
		out->kind = AMQP_FIELD_KIND_UTF8;
		out->value.bytes =
		    relmq__msg_bytes(r->m, json_string_value(in), json_string_length(in));
		return out->value.bytes.bytes != NULL;
	case JSON_INTEGER:
		out->kind = AMQP_FIELD_KIND_I64;
		out->value.i64 = json_integer_value(in);
		return true;
	case JSON_REAL:
		out->kind = AMQP_FIELD_KIND_F64;
		out->value.f64 = json_real_value(in);
		return true;
	case JSON_TRUE:
	case JSON_FALSE:
		out->kind = AMQP_FIELD_KIND_BOOLEAN;
		out->value.boolean = json_is_true(in);
		return true;
	case JSON_ARRAY:
		out->kind = AMQP_FIELD_KIND_ARRAY;
		return read_array(r, in, &out->value.array, depth + 1);
	case JSON_OBJECT:
		out->kind = AMQP_FIELD_KIND_TABLE;
		return read_object(r, in, &out->value.table, depth + 1);
	case JSON_NULL:
	default:
		out->kind = AMQP_FIELD_KIND_VOID;
		return true;
	}
}

bool relmq__table_from_json(
    relmq__msg *m, const char *text, size_t len, amqp_table_t *out, char *why, size_t why_size)
{
	json_error_t where;
	reader r = { m, why, why_size };
	relmq__buf kept = { 0 };
	bool changed;
	why[0] = '\0';
	relmq__json_keep_digits(text, len, &kept, &changed);
	if (kept.failed) {
		relmq__buf_free(&kept);
		return false;
	}
	json_t *root = json_loadb(
	    changed ? kept.data : text, changed ? kept.len : len, JSON_REJECT_DUPLICATES, &where);
	relmq__buf_free(&kept);
	if (!json_is_object(root)) {
		(void) snprintf(why, why_size, "not a JSON object: %s",
		    root != NULL ? "other type" : where.text);
		json_decref(root);
		return false;
	}
	bool ok = read_object(&r, root, out, 0);
	if (ok)
		m->props._flags |= AMQP_BASIC_HEADERS_FLAG;
	json_decref(root);
	return ok;
}

static void write_bytes(relmq__buf *out, amqp_bytes_t b)
{
	static const char digits[] =
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const unsigned char *p = b.bytes;
	if (relmq__utf8_ok(b.bytes, b.len)) {
		relmq__buf_add_json(out, b.bytes, b.len);
		return;
	}
	relmq__buf_adds(out, "\"base64:");
	for (size_t i = 0; i < b.len; i += 3) {
		unsigned v = (unsigned) p[i] << 16 |
		    (i + 1 < b.len ? (unsigned) p[i + 1] << 8 : 0) | (i + 2 < b.len ? p[i + 2] : 0);
		char quad[4] = { digits[v >> 18], digits[v >> 12 & 63],
			i + 1 < b.len ? digits[v >> 6 & 63] : '=',
			i + 2 < b.len ? digits[v & 63] : '=' };
		relmq__buf_add(out, quad, 4);
	}
	relmq__buf_add(out, "\"", 1);
}

static void write_real(relmq__buf *out, double value)
{
	/* jansson's writer knows no locale. 15 digits are enough for what was written with 15. */
	char text[64];
	for (size_t digits = 15; digits <= 17; digits++) {
		json_t *number = json_real(value); /* NULL: JSON has no such number */
		size_t n = json_dumpb(
		    number, text, sizeof(text), JSON_ENCODE_ANY | JSON_REAL_PRECISION(digits));
		json_t *back =
		    n > 0 && n <= sizeof(text) ? json_loadb(text, n, JSON_DECODE_ANY, NULL) : NULL;
		bool same = json_is_real(back) && json_real_value(back) == value;
		json_decref(back);
		json_decref(number);
		if (same) {
			relmq__buf_add(out, text, n);
			return;
		}
	}
	relmq__buf_adds(out, "null");
}

/* All digits, and as many behind the point as there are: 1999 of two decimals is 19.99. */
static void write_decimal(relmq__buf *out, const amqp_decimal_t *d)
{
	char digits[16];
	int n = snprintf(digits, sizeof(digits), "%u", (unsigned) d->value);
	int whole = n - d->decimals;
	relmq__buf_add(out, whole > 0 ? digits : "0", whole > 0 ? (size_t) whole : 1);
	if (d->decimals == 0)
		return;
	relmq__buf_adds(out, ".");
	for (int i = whole; i < 0; i++)
		relmq__buf_adds(out, "0");
	relmq__buf_add(out, digits + (whole > 0 ? whole : 0), (size_t) (whole > 0 ? n - whole : n));
}

static void write_value(relmq__buf *out, const amqp_field_value_t *v)
{
	switch (v->kind) {
	case AMQP_FIELD_KIND_UTF8:
	case AMQP_FIELD_KIND_BYTES:
		write_bytes(out, v->value.bytes);
		break;
	case AMQP_FIELD_KIND_BOOLEAN:
		relmq__buf_adds(out, v->value.boolean ? "true" : "false");
		break;
	case AMQP_FIELD_KIND_F32:
		write_real(out, (double) v->value.f32);
		break;
	case AMQP_FIELD_KIND_F64:
		write_real(out, v->value.f64);
		break;
	case AMQP_FIELD_KIND_TABLE:
		relmq__table_to_json(out, &v->value.table);
		break;
	case AMQP_FIELD_KIND_ARRAY:
		relmq__buf_add(out, "[", 1);
		for (int i = 0; i < v->value.array.num_entries; i++) {
			if (i > 0)
				relmq__buf_add(out, ",", 1);
			write_value(out, &v->value.array.entries[i]);
		}
		relmq__buf_add(out, "]", 1);
		break;
	case AMQP_FIELD_KIND_DECIMAL:
		write_decimal(out, &v->value.decimal);
		break;
	case AMQP_FIELD_KIND_VOID:
		relmq__buf_adds(out, "null");
		break;
	default: {
		int64_t number = 0;
		(void) relmq__field_int(v, &number);
		relmq__buf_addf(out, "%lld", (long long) number);
	}
	}
}

void relmq__table_to_json(relmq__buf *out, const amqp_table_t *table)
{
	relmq__buf_add(out, "{", 1);
	for (int i = 0; i < table->num_entries; i++) {
		if (i > 0)
			relmq__buf_add(out, ",", 1);
		relmq__buf_add_json(out, table->entries[i].key.bytes, table->entries[i].key.len);
		relmq__buf_add(out, ":", 1);
		write_value(out, &table->entries[i].value);
	}
	relmq__buf_add(out, "}", 1);
}
