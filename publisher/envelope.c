/* publisher/envelope.c - see envelope.h. */
#include "publisher/envelope.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "mq/table.h"

enum { SHORTSTR_MAX = 255, PRIORITY_MAX = 255 };

#define EXPIRATION_MAX_MS INT64_C(315360000000) /* ten years: RabbitMQ's bound */

static bool refuse(relmq__row *row, const char *why, const char *name)
{
	(void) snprintf(row->item.reason, sizeof(row->item.reason), "%s%s", why, name);
	return false;
}

/* A short string property, by flag. Empty stays absent. */
static bool set_text(
    relmq__row *row, amqp_bytes_t *to, amqp_flags_t flag, const char *text, size_t len)
{
	if (len == 0)
		return true;
	*to = relmq__msg_bytes(row->msg, text, len);
	row->msg->props._flags |= flag;
	return to->bytes != NULL;
}

/* -1: not digits alone. Larger than the bound as soon as that is certain. */
static int64_t digits_value(const char *s, size_t n)
{
	int64_t value = n > 0 ? 0 : -1;
	for (size_t i = 0; i < n && value >= 0; i++) {
		if (s[i] < '0' || s[i] > '9')
			return -1;
		if (value <= EXPIRATION_MAX_MS)
			value = value * 10 + (s[i] - '0');
	}
	return value;
}

static bool set_priority(relmq__row *row, const json_t *value)
{
	if (!json_is_integer(value) || json_integer_value(value) < 0 ||
	    json_integer_value(value) > PRIORITY_MAX)
		return refuse(row, "properties.priority: must be a whole number from 0 to 255", "");
	row->msg->props.priority = (uint8_t) json_integer_value(value);
	row->msg->props._flags |= AMQP_BASIC_PRIORITY_FLAG;
	return true;
}

/* Anything but digits, or too many of them, makes the broker close the channel. */
static bool set_expiration(relmq__row *row, const json_t *value)
{
	char digits[24];
	int64_t ms = -1;
	if (json_is_integer(value))
		ms = json_integer_value(value);
	else if (json_is_string(value))
		ms = digits_value(json_string_value(value), json_string_length(value));
	if (ms < 0 || ms > EXPIRATION_MAX_MS)
		return refuse(
		    row, "properties.expiration: must be milliseconds, at most ten years", "");
	int n = snprintf(digits, sizeof(digits), "%lld", (long long) ms);
	return set_text(
	    row, &row->msg->props.expiration, AMQP_BASIC_EXPIRATION_FLAG, digits, (size_t) n);
}

static bool set_property(relmq__row *row, const char *name, const json_t *value)
{
	amqp_basic_properties_t *p = &row->msg->props;
	const struct {
		const char *name;
		amqp_bytes_t *to;
		amqp_flags_t flag;
	} texts[] = {
		{ "correlation_id", &p->correlation_id, AMQP_BASIC_CORRELATION_ID_FLAG },
		{ "reply_to", &p->reply_to, AMQP_BASIC_REPLY_TO_FLAG },
		{ "app_id", &p->app_id, AMQP_BASIC_APP_ID_FLAG },
	};
	if (strcmp(name, "priority") == 0)
		return set_priority(row, value);
	if (strcmp(name, "expiration") == 0)
		return set_expiration(row, value);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (strcmp(name, texts[i].name) != 0)
			continue;
		if (!json_is_string(value) || json_string_length(value) > SHORTSTR_MAX)
			return refuse(
			    row, "properties: must be a string of at most 255 bytes: ", name);
		return set_text(row, texts[i].to, texts[i].flag, json_string_value(value),
		    json_string_length(value));
	}
	return refuse(row,
	    "properties: allowed are correlation_id, reply_to, priority, expiration,"
	    " app_id; not ",
	    name);
}

static bool set_properties(relmq__row *row, relmq__column text)
{
	json_error_t where;
	const char *name;
	json_t *value;
	bool ok = true;
	if (text.data == NULL)
		return true;
	json_t *root = json_loadb(text.data, text.len, JSON_REJECT_DUPLICATES, &where);
	if (!json_is_object(root)) {
		json_decref(root);
		return refuse(row, "properties: not a JSON object: ", where.text);
	}
	json_object_foreach(root, name, value)
	{
		ok = json_is_null(value) || set_property(row, name, value);
		if (!ok)
			break;
	}
	json_decref(root);
	return ok;
}

/* CC and BCC are routing instructions: of any other type the broker closes the channel. */
static bool check_routing_headers(relmq__row *row)
{
	const amqp_table_t *t = &row->msg->props.headers;
	for (int i = 0; i < t->num_entries; i++) {
		amqp_bytes_t key = t->entries[i].key;
		bool cc = (key.len == 2 && memcmp(key.bytes, "CC", 2) == 0) ||
		    (key.len == 3 && memcmp(key.bytes, "BCC", 3) == 0);
		if (!cc)
			continue;
		const amqp_field_value_t *v = &t->entries[i].value;
		bool ok = v->kind == AMQP_FIELD_KIND_ARRAY;
		for (int j = 0; ok && j < v->value.array.num_entries; j++)
			ok = v->value.array.entries[j].kind == AMQP_FIELD_KIND_UTF8;
		if (!ok)
			return refuse(row, "headers: CC and BCC must be arrays of strings", "");
	}
	return true;
}

static bool set_headers(relmq__row *row, const relmq__row_columns *c)
{
	static const char *const ours[] = { "x-relmq-key", "x-relmq-created-us" };
	amqp_table_entry_t added[2];
	size_t n = 0;
	char why[160] = "";
	if (c->headers.data != NULL &&
	    !relmq__table_from_json(row->msg, c->headers.data, c->headers.len,
	        &row->msg->props.headers, why, sizeof(why)))
		return refuse(row, "headers: ", why);
	if (c->business_key.len > 0) {
		added[n].key = amqp_cstring_bytes(ours[0]);
		added[n].value.kind = AMQP_FIELD_KIND_UTF8;
		added[n++].value.value.bytes =
		    relmq__msg_bytes(row->msg, c->business_key.data, c->business_key.len);
	}
	added[n].key = amqp_cstring_bytes(ours[1]);
	added[n].value.kind = AMQP_FIELD_KIND_I64;
	added[n++].value.value.i64 = (int64_t) c->created_us;
	return relmq__msg_edit_headers(row->msg, ours, 2, added, n) && check_routing_headers(row);
}

bool relmq__envelope(relmq__row *row, const relmq__row_columns *c)
{
	relmq__msg *m = row->msg;
	amqp_basic_properties_t *p = &m->props;
	m->exchange = relmq__msg_bytes(m, c->exchange.data, c->exchange.len);
	m->routing_key = relmq__msg_bytes(m, c->routing_key.data, c->routing_key.len);
	p->_flags = AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_TIMESTAMP_FLAG;
	p->delivery_mode = AMQP_DELIVERY_PERSISTENT;
	p->timestamp = c->created_us / 1000000;
	row->item.reason[0] = '\0';
	bool ok = set_text(row, &p->message_id, AMQP_BASIC_MESSAGE_ID_FLAG, c->msg_id.data,
	              c->msg_id.len) &&
	    set_text(row, &p->correlation_id, AMQP_BASIC_CORRELATION_ID_FLAG, c->msg_id.data,
	        c->msg_id.len) &&
	    set_text(row, &p->type, AMQP_BASIC_TYPE_FLAG, c->type.data, c->type.len) &&
	    set_text(row, &p->content_type, AMQP_BASIC_CONTENT_TYPE_FLAG, c->content_type.data,
	        c->content_type.len) &&
	    set_properties(row, c->properties) && set_headers(row, c) &&
	    relmq__msg_set_body(m, c->payload.data, c->payload.len);
	row->item.exchange = m->exchange;
	row->item.routing_key = m->routing_key;
	row->item.body = m->body;
	row->item.props = p;
	return ok;
}
