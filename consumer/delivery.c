/* consumer/delivery.c - see delivery.h; and the views that handlers have. */
#include "consumer/delivery.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/utf8.h"

relmq_delivery *relmq__delivery_new(relmq__msg *msg)
{
	relmq_delivery *d = calloc(1, sizeof(*d));
	if (d == NULL) {
		relmq__msg_free(msg);
		return NULL;
	}
	int64_t attempt = relmq__msg_header_int(msg, "x-relmq-attempt", 1);
	d->msg = msg;
	d->attempt = attempt >= 1 && attempt <= 1000000 ? (unsigned) attempt : 1;
	return d;
}

void relmq__delivery_free(relmq_delivery *d)
{
	if (d == NULL)
		return;
	relmq__msg_free(d->msg);
	free(d->header_text);
	free(d);
}

amqp_bytes_t relmq__delivery_id_bytes(const relmq_delivery *d)
{
	bool has = (d->msg->props._flags & AMQP_BASIC_MESSAGE_ID_FLAG) != 0;
	return has ? d->msg->props.message_id : amqp_empty_bytes;
}

uint64_t relmq__delivery_lane(const relmq_delivery *d)
{
	amqp_bytes_t key = relmq__msg_header_bytes(d->msg, "x-relmq-key");
	if (key.len == 0)
		key = relmq__delivery_id_bytes(d);
	return relmq__hash(key.bytes, key.len);
}

/* Our copies all have a NUL behind them. */
static const char *text(amqp_bytes_t bytes)
{
	return bytes.bytes != NULL ? bytes.bytes : "";
}

const char *relmq_delivery_id(const relmq_delivery *d)
{
	return text(relmq__delivery_id_bytes(d));
}

const char *relmq_delivery_key(const relmq_delivery *d)
{
	return text(relmq__msg_header_bytes(d->msg, "x-relmq-key"));
}

const char *relmq_delivery_type(const relmq_delivery *d)
{
	return (d->msg->props._flags & AMQP_BASIC_TYPE_FLAG) != 0 ? text(d->msg->props.type) : "";
}

const char *relmq_delivery_queue(const relmq_delivery *d)
{
	return d->queue != NULL ? d->queue : "";
}

const void *relmq_delivery_body(const relmq_delivery *d, size_t *len)
{
	*len = d->msg->body.len;
	return text(d->msg->body);
}

/* Numbers have no text of their own in the message: it is kept with the delivery. */
static const char *number_text(const relmq_delivery *d, const char *digits)
{
	relmq_delivery *own = (relmq_delivery *) (uintptr_t) d;
	free(own->header_text);
	own->header_text = strdup(digits);
	return own->header_text;
}

const char *relmq_delivery_header(const relmq_delivery *d, const char *name)
{
	char digits[40];
	int64_t number;
	const amqp_field_value_t *v = relmq__msg_header(d->msg, name);
	if (v == NULL)
		return NULL;
	if (v->kind == AMQP_FIELD_KIND_UTF8 || v->kind == AMQP_FIELD_KIND_BYTES)
		return text(v->value.bytes);
	if (v->kind == AMQP_FIELD_KIND_BOOLEAN)
		return v->value.boolean ? "true" : "false";
	if (v->kind == AMQP_FIELD_KIND_F64)
		(void) snprintf(digits, sizeof(digits), "%.17g", v->value.f64);
	else if (relmq__field_int(v, &number))
		(void) snprintf(digits, sizeof(digits), "%lld", (long long) number);
	else
		return NULL;
	return number_text(d, digits);
}

unsigned relmq_delivery_attempt(const relmq_delivery *d)
{
	return d->attempt + d->starts;
}

void relmq_delivery_reason(relmq_delivery *d, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	(void) vsnprintf(d->reason, sizeof(d->reason), fmt, args);
	va_end(args);
	size_t len = strlen(d->reason);
	d->reason[relmq__utf8_cut(d->reason, len, RELMQ__REASON_MAX - 1)] = '\0';
}
