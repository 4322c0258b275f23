/* mq/message.c - see message.h. */
#include "mq/message.h"

#include <stdlib.h>
#include <string.h>

enum { POOL_PAGE = 2048, BODY_MAX_BITS = 32 };

relmq__msg *relmq__msg_new(void)
{
	relmq__msg *m = calloc(1, sizeof(*m));
	if (m != NULL)
		init_amqp_pool(&m->pool, POOL_PAGE);
	return m;
}

void relmq__msg_free(relmq__msg *m)
{
	if (m == NULL)
		return;
	empty_amqp_pool(&m->pool);
	free(m);
}

amqp_bytes_t relmq__msg_bytes(relmq__msg *m, const void *bytes, size_t len)
{
	amqp_bytes_t out = { 0, NULL };
	char *copy = amqp_pool_alloc(&m->pool, len + 1);
	if (copy == NULL)
		return out;
	if (len > 0)
		memcpy(copy, bytes, len);
	copy[len] = '\0';
	out.len = len;
	out.bytes = copy;
	return out;
}

amqp_bytes_t relmq__msg_text(relmq__msg *m, const char *text)
{
	return relmq__msg_bytes(m, text, strlen(text));
}

bool relmq__msg_body_reserve(relmq__msg *m, uint64_t len)
{
	if (len >> BODY_MAX_BITS != 0)
		return false;
	m->body.len = 0;
	m->body.bytes = amqp_pool_alloc(&m->pool, (size_t) len + 1);
	m->body_capacity = (size_t) len;
	return m->body.bytes != NULL;
}

void relmq__msg_body_append(relmq__msg *m, amqp_bytes_t part)
{
	if (part.len == 0 || part.len > m->body_capacity - m->body.len)
		return;
	memcpy((char *) m->body.bytes + m->body.len, part.bytes, part.len);
	m->body.len += part.len;
}

bool relmq__msg_set_body(relmq__msg *m, const void *bytes, size_t len)
{
	amqp_bytes_t part = { len, (void *) (uintptr_t) bytes };
	if (!relmq__msg_body_reserve(m, len))
		return false;
	relmq__msg_body_append(m, part);
	return true;
}

static bool copy_value(relmq__msg *m, const amqp_field_value_t *in, amqp_field_value_t *out);

static bool copy_table(relmq__msg *m, const amqp_table_t *in, amqp_table_t *out)
{
	out->num_entries = in->num_entries;
	out->entries = NULL;
	if (in->num_entries <= 0)
		return true;
	out->entries = amqp_pool_alloc(&m->pool, (size_t) in->num_entries * sizeof(*out->entries));
	if (out->entries == NULL)
		return false;
	for (int i = 0; i < in->num_entries; i++) {
		out->entries[i].key =
		    relmq__msg_bytes(m, in->entries[i].key.bytes, in->entries[i].key.len);
		if (out->entries[i].key.bytes == NULL ||
		    !copy_value(m, &in->entries[i].value, &out->entries[i].value))
			return false;
	}
	return true;
}

static bool copy_array(relmq__msg *m, const amqp_array_t *in, amqp_array_t *out)
{
	out->num_entries = in->num_entries;
	out->entries = NULL;
	if (in->num_entries <= 0)
		return true;
	out->entries = amqp_pool_alloc(&m->pool, (size_t) in->num_entries * sizeof(*out->entries));
	for (int i = 0; out->entries != NULL && i < in->num_entries; i++)
		if (!copy_value(m, &in->entries[i], &out->entries[i]))
			return false;
	return out->entries != NULL;
}

static bool copy_value(relmq__msg *m, const amqp_field_value_t *in, amqp_field_value_t *out)
{
	*out = *in;
	switch (in->kind) {
	case AMQP_FIELD_KIND_UTF8:
	case AMQP_FIELD_KIND_BYTES:
		out->value.bytes = relmq__msg_bytes(m, in->value.bytes.bytes, in->value.bytes.len);
		return out->value.bytes.bytes != NULL;
	case AMQP_FIELD_KIND_TABLE:
		return copy_table(m, &in->value.table, &out->value.table);
	case AMQP_FIELD_KIND_ARRAY:
		return copy_array(m, &in->value.array, &out->value.array);
	default:
		return true;
	}
}

bool relmq__msg_set_props(relmq__msg *m, const amqp_basic_properties_t *props)
{
	amqp_bytes_t *const ours[] = { &m->props.content_type, &m->props.content_encoding,
		&m->props.correlation_id, &m->props.reply_to, &m->props.expiration,
		&m->props.message_id, &m->props.type, &m->props.user_id, &m->props.app_id,
		&m->props.cluster_id };
	m->props = *props;
	/* Absent properties hold leftovers of the decoder: only what is flagged is ours to copy. */
	static const amqp_flags_t flags[] = { AMQP_BASIC_CONTENT_TYPE_FLAG,
		AMQP_BASIC_CONTENT_ENCODING_FLAG, AMQP_BASIC_CORRELATION_ID_FLAG,
		AMQP_BASIC_REPLY_TO_FLAG, AMQP_BASIC_EXPIRATION_FLAG, AMQP_BASIC_MESSAGE_ID_FLAG,
		AMQP_BASIC_TYPE_FLAG, AMQP_BASIC_USER_ID_FLAG, AMQP_BASIC_APP_ID_FLAG,
		AMQP_BASIC_CLUSTER_ID_FLAG };
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
		if ((props->_flags & flags[i]) == 0) {
			*ours[i] = amqp_empty_bytes;
			continue;
		}
		*ours[i] = relmq__msg_bytes(m, ours[i]->bytes, ours[i]->len);
		if (ours[i]->bytes == NULL)
			return false;
	}
	if ((props->_flags & AMQP_BASIC_HEADERS_FLAG) == 0) {
		m->props.headers = amqp_empty_table;
		return true;
	}
	return copy_table(m, &props->headers, &m->props.headers);
}

const amqp_field_value_t *relmq__msg_header(const relmq__msg *m, const char *name)
{
	size_t len = strlen(name);
	for (int i = 0; i < m->props.headers.num_entries; i++) {
		const amqp_table_entry_t *e = &m->props.headers.entries[i];
		if (e->key.len == len && memcmp(e->key.bytes, name, len) == 0)
			return &e->value;
	}
	return NULL;
}

bool relmq__field_int(const amqp_field_value_t *v, int64_t *out)
{
	switch (v->kind) {
	case AMQP_FIELD_KIND_I8:
		*out = (int64_t) v->value.i8; /* a number here, never a character */
		return true;
	case AMQP_FIELD_KIND_U8:
		*out = v->value.u8;
		return true;
	case AMQP_FIELD_KIND_I16:
		*out = v->value.i16;
		return true;
	case AMQP_FIELD_KIND_U16:
		*out = v->value.u16;
		return true;
	case AMQP_FIELD_KIND_I32:
		*out = v->value.i32;
		return true;
	case AMQP_FIELD_KIND_U32:
		*out = v->value.u32;
		return true;
	case AMQP_FIELD_KIND_I64:
	case AMQP_FIELD_KIND_U64: /* the broker reads both as signed */
	case AMQP_FIELD_KIND_TIMESTAMP:
		*out = v->value.i64;
		return true;
	default:
		return false;
	}
}

int64_t relmq__msg_header_int(const relmq__msg *m, const char *name, int64_t otherwise)
{
	const amqp_field_value_t *v = relmq__msg_header(m, name);
	int64_t value = otherwise;
	return v != NULL && relmq__field_int(v, &value) ? value : otherwise;
}

amqp_bytes_t relmq__msg_header_bytes(const relmq__msg *m, const char *name)
{
	const amqp_field_value_t *v = relmq__msg_header(m, name);
	if (v != NULL && (v->kind == AMQP_FIELD_KIND_UTF8 || v->kind == AMQP_FIELD_KIND_BYTES))
		return v->value.bytes;
	return amqp_empty_bytes;
}

static bool is_named(amqp_bytes_t key, const char *const *names, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (key.len == strlen(names[i]) && memcmp(key.bytes, names[i], key.len) == 0)
			return true;
	return false;
}

bool relmq__msg_edit_headers(relmq__msg *m, const char *const *drop, size_t count,
    const amqp_table_entry_t *added, size_t added_count)
{
	amqp_table_t old = m->props.headers;
	size_t room = (size_t) (old.num_entries > 0 ? old.num_entries : 0) + added_count;
	amqp_table_entry_t *entries = amqp_pool_alloc(&m->pool, (room + 1) * sizeof(*entries));
	if (entries == NULL)
		return false;
	int n = 0;
	for (int i = 0; i < old.num_entries; i++)
		if (!is_named(old.entries[i].key, drop, count))
			entries[n++] = old.entries[i];
	amqp_table_t extra = { (int) added_count, (amqp_table_entry_t *) (uintptr_t) added };
	amqp_table_t copy;
	if (!copy_table(m, &extra, &copy))
		return false;
	for (size_t i = 0; i < added_count; i++)
		entries[n++] = copy.entries[i];
	m->props.headers.num_entries = n;
	m->props.headers.entries = entries;
	m->props._flags |= AMQP_BASIC_HEADERS_FLAG;
	return true;
}

static size_t table_size(const amqp_table_t *t);

static size_t value_size(const amqp_field_value_t *v)
{
	switch (v->kind) {
	case AMQP_FIELD_KIND_UTF8:
	case AMQP_FIELD_KIND_BYTES:
		return 1 + 4 + v->value.bytes.len;
	case AMQP_FIELD_KIND_TABLE:
		return 1 + table_size(&v->value.table);
	case AMQP_FIELD_KIND_ARRAY: {
		size_t size = 1 + 4;
		for (int i = 0; i < v->value.array.num_entries; i++)
			size += value_size(&v->value.array.entries[i]);
		return size;
	}
	default:
		return 1 + 8; /* the widest fixed kind */
	}
}

static size_t table_size(const amqp_table_t *t)
{
	size_t size = 4;
	for (int i = 0; i < t->num_entries; i++)
		size += 1 + t->entries[i].key.len + value_size(&t->entries[i].value);
	return size;
}

size_t relmq__props_size(const amqp_basic_properties_t *props)
{
	const amqp_bytes_t strings[] = { props->content_type, props->content_encoding,
		props->correlation_id, props->reply_to, props->expiration, props->message_id,
		props->type, props->user_id, props->app_id, props->cluster_id };
	size_t size =
	    14 + 2 + 1 + 1 + 8; /* fixed part, flags, delivery mode, priority, timestamp */
	for (size_t i = 0; i < sizeof(strings) / sizeof(strings[0]); i++)
		size += 1 + strings[i].len;
	if ((props->_flags & AMQP_BASIC_HEADERS_FLAG) != 0)
		size += table_size(&props->headers);
	return size;
}
