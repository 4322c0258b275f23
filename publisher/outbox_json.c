/* publisher/outbox_json.c - see outbox_json.h. */
#include "publisher/outbox_json.h"

#include <string.h>

#include "base/error.h"
#include "base/utf8.h"

enum {
	NAME_MAX_BYTES = 255, /* AMQP short string                                            */
	PRIORITY_MAX = 255,
	HEADERS_MAX = 120 << 10, /* they travel in one frame of 128 KiB; the rest is for ours    */
	FIELD_EXTRA = 6          /* what an AMQP table needs beside a field's name and its value */
};

static const int64_t expiration_max_ms = INT64_C(315360000000); /* ten years: RabbitMQ's bound */

static uint32_t code_point(const char *s, size_t width)
{
	uint32_t point = (unsigned char) s[0] & (0xffU >> (width + 1));
	for (size_t i = 1; i < width; i++)
		point = point << 6 | ((unsigned char) s[i] & 0x3fU);
	return point;
}

static void add_unit(relmq__buf *b, uint32_t utf16)
{
	relmq__buf_addf(b, "\\u%04x", (unsigned) utf16);
}

/* False when `text` is not UTF-8. */
static bool add_json_ascii(relmq__buf *b, const char *text)
{
	size_t n = strlen(text);
	relmq__buf_add(b, "\"", 1);
	for (size_t i = 0, width; i < n; i += width) {
		width = relmq__utf8_width(text + i, n - i);
		if (width == 0)
			return false;
		uint32_t point = width > 1 ? code_point(text + i, width) : (unsigned char) text[i];
		if (point > 0xffff) {
			add_unit(b, 0xd7c0 + (point >> 10)); /* a pair of surrogates */
			add_unit(b, 0xdc00 + (point & 0x3ff));
		} else if (point < 0x20 || point >= 0x7f) {
			add_unit(b, point);
		} else {
			if (point == '"' || point == '\\')
				relmq__buf_add(b, "\\", 1);
			relmq__buf_add(b, text + i, 1);
		}
	}
	relmq__buf_add(b, "\"", 1);
	return true;
}

static relmq_code check_header(const relmq_msg *m, size_t i, size_t *total, relmq_error *err)
{
	const relmq_header *h = &m->headers[i];
	if (h->name == NULL || h->name[0] == '\0' || h->value == NULL)
		return relmq__fail(err, RELMQ_EINVAL, 0,
		    "message: header number %zu has no name or no value", i + 1);
	size_t n = strnlen(h->name, NAME_MAX_BYTES + 1);
	if (n > NAME_MAX_BYTES)
		return relmq__fail(err, RELMQ_ETOOBIG, 0,
		    "message: the name of header number %zu is longer than %d bytes", i + 1,
		    NAME_MAX_BYTES);
	*total += n + strnlen(h->value, HEADERS_MAX) + FIELD_EXTRA;
	if (*total > HEADERS_MAX)
		return relmq__fail(err, RELMQ_ETOOBIG, 0,
		    "message: headers are longer than %d bytes", HEADERS_MAX);
	for (size_t j = 0; j < i; j++)
		if (strcmp(h->name, m->headers[j].name) == 0)
			return relmq__fail(
			    err, RELMQ_EINVAL, 0, "message: header %s is given twice", h->name);
	return RELMQ_OK;
}

relmq_code relmq__outbox_headers(relmq__buf *b, const relmq_msg *m, relmq_error *err)
{
	size_t total = 0;
	relmq__buf_trim(b, HEADERS_MAX);
	for (size_t i = 0; i < m->header_count; i++) {
		relmq_code code = check_header(m, i, &total, err);
		if (code != RELMQ_OK)
			return code;
		relmq__buf_adds(b, i == 0 ? "{" : ",");
		bool ok = add_json_ascii(b, m->headers[i].name);
		relmq__buf_adds(b, ":");
		if (!ok || !add_json_ascii(b, m->headers[i].value))
			return relmq__fail(
			    err, RELMQ_EINVAL, 0, "message: header number %zu is not UTF-8", i + 1);
	}
	if (m->header_count > 0)
		relmq__buf_adds(b, "}");
	return b->failed ? relmq__fail_nomem(err) : RELMQ_OK;
}

/* --- properties -------------------------------------------------------------------- */

static void add_name(relmq__buf *b, const char *name)
{
	relmq__buf_addf(b, "%s\"%s\":", b->len == 0 ? "{" : ",", name);
}

static relmq_code add_text(relmq__buf *b, const char *name, const char *text, relmq_error *err)
{
	if (text == NULL || text[0] == '\0')
		return RELMQ_OK;
	if (strnlen(text, NAME_MAX_BYTES + 1) > NAME_MAX_BYTES)
		return relmq__fail(err, RELMQ_ETOOBIG, 0, "message: %s is longer than %d bytes",
		    name, NAME_MAX_BYTES);
	add_name(b, name);
	if (!add_json_ascii(b, text))
		return relmq__fail(err, RELMQ_EINVAL, 0, "message: %s is not UTF-8", name);
	return RELMQ_OK;
}

relmq_code relmq__outbox_properties(relmq__buf *b, const relmq_msg *m, relmq_error *err)
{
	relmq__buf_reset(b);
	if (m->expiration_ms < 0 || m->expiration_ms > expiration_max_ms)
		return relmq__fail(
		    err, RELMQ_EINVAL, 0, "message: expiration_ms must be 0 to ten years");
	if (m->priority < 0 || m->priority > PRIORITY_MAX)
		return relmq__fail(
		    err, RELMQ_EINVAL, 0, "message: priority must be 0 to %d", PRIORITY_MAX);
	relmq_code code = add_text(b, "correlation_id", m->correlation_id, err);
	if (code == RELMQ_OK)
		code = add_text(b, "reply_to", m->reply_to, err);
	if (code == RELMQ_OK)
		code = add_text(b, "app_id", m->app_id, err);
	if (code != RELMQ_OK)
		return code;
	if (m->expiration_ms > 0) {
		add_name(b, "expiration");
		relmq__buf_addf(b, "%lld", (long long) m->expiration_ms);
	}
	if (m->priority > 0) {
		add_name(b, "priority");
		relmq__buf_addf(b, "%lld", (long long) m->priority);
	}
	if (b->len > 0)
		relmq__buf_adds(b, "}");
	return b->failed ? relmq__fail_nomem(err) : RELMQ_OK;
}
