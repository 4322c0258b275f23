/* handlers/sql_value.c - see sql_value.h. */
#include "consumer/handlers/sql_value.h"

#include <string.h>

#include "base/utf8.h"
#include "consumer/delivery.h"
#include "consumer/handlers/json_text.h"
#include "db/session.h"

/* Hex digits cost both sides less than escapes do, but twice the room, and room is short
 * below the server's max_allowed_packet. */
enum { HEX_MAX = 64 * 1024 };

static void add_escaped(relmq__buf *out, MYSQL *mysql, const char *bytes, size_t len)
{
	char *at = len < SIZE_MAX / 4 ? relmq__buf_reserve(out, 2 * len + 2) : NULL;
	if (at == NULL) {
		out->failed = true;
		return;
	}
	unsigned long n = mysql_real_escape_string(mysql, at + 1, bytes, (unsigned long) len);
	if (n == (unsigned long) -1) { /* Oracle's, in a session without backslash escapes */
		out->failed = true;
		return;
	}
	at[0] = at[n + 1] = '\'';
	at[n + 2] = '\0';
	out->len += n + 2;
}

static void add_text(relmq__buf *out, MYSQL *mysql, const char *text, size_t len)
{
	if (len <= HEX_MAX)
		relmq__sql_text(out, text, len);
	else
		add_escaped(out, mysql, text, len);
}

/* What is UTF-8 goes as text: a text literal stores the same bytes in VARBINARY and BLOB
 * as a binary one, and suits VARCHAR and JSON too (MySQL refuses a binary string as JSON). */
static void add_bytes(relmq__buf *out, MYSQL *mysql, amqp_bytes_t b)
{
	if (relmq__utf8_ok(b.bytes, b.len)) {
		add_text(out, mysql, b.bytes, b.len);
	} else if (b.len <= HEX_MAX) {
		relmq__sql_bytes(out, b.bytes, b.len);
	} else {
		relmq__buf_adds(out, "_binary");
		add_escaped(out, mysql, b.bytes, b.len);
	}
}

static void add_header(relmq__buf *out, relmq__sql_source *s, const char *name)
{
	const amqp_field_value_t *v = relmq__msg_header(s->d->msg, name);
	int64_t number = 0;
	if (v == NULL || v->kind == AMQP_FIELD_KIND_VOID) {
		relmq__buf_adds(out, "NULL");
	} else if (v->kind == AMQP_FIELD_KIND_UTF8 || v->kind == AMQP_FIELD_KIND_BYTES) {
		add_bytes(out, s->mysql, v->value.bytes);
	} else if (v->kind == AMQP_FIELD_KIND_BOOLEAN) {
		relmq__buf_adds(out, v->value.boolean ? "TRUE" : "FALSE");
	} else if (relmq__field_int(v, &number)) {
		relmq__buf_addf(out, "%lld", (long long) number);
	} else {
		const char *text = relmq_delivery_header(s->d, name);
		if (text != NULL)
			add_bytes(out, s->mysql, amqp_cstring_bytes(text));
		else
			relmq__buf_adds(out, "NULL"); /* an array or a table */
	}
}

static void add_json_string(relmq__buf *out, relmq__sql_source *s, relmq__json_value v)
{
	if (memchr(v.text, '\\', v.len) == NULL) {
		add_text(out, s->mysql, v.text, v.len);
		return;
	}
	relmq__buf_reset(&s->text);
	relmq__json_unescape(&s->text, v.text, v.len);
	if (s->text.failed)
		out->failed = true;
	else
		add_text(out, s->mysql, s->text.data, s->text.len);
}

static void add_json(relmq__buf *out, relmq__sql_source *s, relmq__json_value v)
{
	switch (v.kind) {
	case RELMQ__JSON_MISSING:
	case RELMQ__JSON_NULL:
		relmq__buf_adds(out, "NULL");
		return;
	case RELMQ__JSON_FALSE:
		relmq__buf_adds(out, "FALSE");
		return;
	case RELMQ__JSON_TRUE:
		relmq__buf_adds(out, "TRUE");
		return;
	case RELMQ__JSON_NUMBER:
		relmq__buf_add(out, v.text, v.len);
		return;
	case RELMQ__JSON_STRING:
		add_json_string(out, s, v);
		return;
	case RELMQ__JSON_ARRAY:
	case RELMQ__JSON_OBJECT:
		add_text(out, s->mysql, v.text, v.len);
		return;
	}
}

void relmq__sql_value(relmq__buf *out, const relmq__sql_part *param, void *source)
{
	relmq__sql_source *s = source;
	const amqp_bytes_t body = s->d->msg->body;
	switch (param->kind) {
	case RELMQ__SQL_TEXT:
		return;
	case RELMQ__SQL_MSG_ID:
		add_bytes(out, s->mysql, relmq__delivery_id_bytes(s->d));
		return;
	case RELMQ__SQL_BUSINESS_KEY:
		add_bytes(out, s->mysql, relmq__msg_header_bytes(s->d->msg, "x-relmq-key"));
		return;
	case RELMQ__SQL_TYPE:
		add_bytes(out, s->mysql, amqp_cstring_bytes(relmq_delivery_type(s->d)));
		return;
	case RELMQ__SQL_ATTEMPT:
		relmq__buf_addu(out, relmq_delivery_attempt(s->d));
		return;
	case RELMQ__SQL_QUEUE:
		add_bytes(out, s->mysql, amqp_cstring_bytes(relmq_delivery_queue(s->d)));
		return;
	case RELMQ__SQL_HEADER:
		add_header(out, s, param->header);
		return;
	case RELMQ__SQL_PAYLOAD:
		add_bytes(out, s->mysql, body);
		return;
	case RELMQ__SQL_PAYLOAD_PATH:
		add_json(out, s,
		    relmq__json_find(body.bytes, body.len, param->steps, param->step_count));
		return;
	}
}
