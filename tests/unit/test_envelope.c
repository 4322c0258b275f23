/* test_envelope.c - from the columns of a row to an AMQP message: what each column becomes,
 * and what is refused because the broker would close the channel over it. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_digits.h"
#include "mq/table.h"
#include "publisher/envelope.h"

#define COLUMN(text) ((relmq__column){ text, strlen(text) })

static relmq__row *row;
static relmq__row_columns columns;

static void start(void)
{
	row = relmq__row_new();
	cr_assert_not_null(row);
	columns = (relmq__row_columns){
		.msg_id = COLUMN("id-1"),
		.business_key = COLUMN(""),
		.exchange = COLUMN(""),
		.routing_key = COLUMN("orders"),
		.type = COLUMN(""),
		.content_type = COLUMN("text/plain"),
		.payload = COLUMN("body"),
		.created_us = 1700000000123456,
	};
}

static void stop(void)
{
	relmq__row_free(row);
}

TestSuite(envelope, .init = start, .fini = stop);

static const amqp_basic_properties_t *made(void)
{
	cr_assert(relmq__envelope(row, &columns), "%s", row->item.reason);
	return row->item.props;
}

static void expect_bytes(amqp_bytes_t got, const char *text)
{
	cr_expect_eq(got.len, strlen(text), "%.*s", (int) got.len, (char *) got.bytes);
	cr_expect_eq(
	    memcmp(got.bytes, text, got.len), 0, "%.*s", (int) got.len, (char *) got.bytes);
}

static char *headers(void)
{
	relmq__buf out = { 0 };
	relmq__table_to_json(&out, &made()->headers);
	return out.data;
}

static void expect_headers(const char *json)
{
	char *got = headers();
	cr_expect_str_eq(got, json);
	free(got);
}

/* --- properties ------------------------------------------------------------------------ */

Test(envelope, the_least_a_row_gives)
{
	const amqp_basic_properties_t *p = made();
	expect_bytes(p->message_id, "id-1");
	expect_bytes(p->correlation_id, "id-1");
	expect_bytes(p->content_type, "text/plain");
	expect_bytes(row->item.routing_key, "orders");
	expect_bytes(row->item.body, "body");
	cr_expect_eq(row->item.exchange.len, 0);
	cr_expect_eq(p->delivery_mode, 2, "persistent");
	cr_expect_eq(p->timestamp, 1700000000);
	cr_expect_eq(p->_flags,
	    (amqp_flags_t) (AMQP_BASIC_MESSAGE_ID_FLAG | AMQP_BASIC_CORRELATION_ID_FLAG |
	        AMQP_BASIC_CONTENT_TYPE_FLAG | AMQP_BASIC_DELIVERY_MODE_FLAG |
	        AMQP_BASIC_TIMESTAMP_FLAG | AMQP_BASIC_HEADERS_FLAG),
	    "an empty type is no type");
	expect_headers("{\"x-relmq-created-us\":1700000000123456}");
}

Test(envelope, all_properties)
{
	columns.type = COLUMN("order.placed");
	columns.properties = COLUMN("{\"correlation_id\":\"c\",\"reply_to\":\"r\",\"priority\":9,"
	                            "\"expiration\":60000,\"app_id\":\"a\"}");
	const amqp_basic_properties_t *p = made();
	expect_bytes(p->type, "order.placed");
	expect_bytes(p->correlation_id, "c");
	expect_bytes(p->reply_to, "r");
	expect_bytes(p->expiration, "60000");
	expect_bytes(p->app_id, "a");
	cr_expect_eq(p->priority, 9);
	const amqp_flags_t want = AMQP_BASIC_TYPE_FLAG | AMQP_BASIC_REPLY_TO_FLAG |
	    AMQP_BASIC_EXPIRATION_FLAG | AMQP_BASIC_APP_ID_FLAG | AMQP_BASIC_PRIORITY_FLAG;
	cr_expect_eq(p->_flags & want, want);
}

Test(envelope, null_and_empty_properties_are_absent)
{
	columns.properties = COLUMN("{\"priority\":null,\"reply_to\":null,\"app_id\":\"\"}");
	cr_expect_eq(made()->_flags & (AMQP_BASIC_PRIORITY_FLAG | AMQP_BASIC_APP_ID_FLAG), 0);
}

static const struct {
	const char *properties;
	const char *names; /* what the reason must name */
} refused_properties[] = {
	{ "{\"expiration\":\"later\"}", "expiration" },
	{ "{\"expiration\":\"\"}", "expiration" },
	{ "{\"expiration\":\"-1\"}", "expiration" },
	{ "{\"expiration\":\" 1\"}", "expiration" },
	{ "{\"expiration\":\"1.5\"}", "expiration" },
	{ "{\"expiration\":-1}", "expiration" },
	{ "{\"expiration\":1.5}", "expiration" },
	{ "{\"expiration\":true}", "expiration" },
	{ "{\"expiration\":\"99999999999999999999\"}", "expiration" },
	{ "{\"expiration\":9223372036854775807}", "expiration" },
	{ "{\"priority\":256}", "priority" },
	{ "{\"priority\":-1}", "priority" },
	{ "{\"priority\":\"1\"}", "priority" },
	{ "{\"priority\":1.0}", "priority" },
	{ "{\"reply_to\":1}", "reply_to" },
	{ "{\"app_id\":[]}", "app_id" },
	{ "{\"user_id\":\"guest\"}", "user_id" },
	{ "{\"delivery_mode\":1}", "delivery_mode" },
	{ "[]", "properties" },
	{ "1", "properties" },
	{ "{", "properties" },
	{ "{\"app_id\":\"a\",\"app_id\":\"b\"}", "properties" },
};

Test(envelope, properties_that_amqp_cannot_carry)
{
	for (size_t i = 0; i < sizeof(refused_properties) / sizeof(refused_properties[0]); i++) {
		columns.properties = COLUMN(refused_properties[i].properties);
		cr_expect_not(relmq__envelope(row, &columns), "was taken: %s",
		    refused_properties[i].properties);
		cr_expect_not_null(strstr(row->item.reason, refused_properties[i].names), "%s: %s",
		    refused_properties[i].properties, row->item.reason);
	}
}

Test(envelope, a_property_of_255_bytes_is_the_longest)
{
	char text[320];
	(void) snprintf(text, sizeof(text), "{\"reply_to\":\"%0255d\"}", 0);
	columns.properties = COLUMN(text);
	cr_expect_eq(made()->reply_to.len, 255);
	(void) snprintf(text, sizeof(text), "{\"reply_to\":\"%0256d\"}", 0);
	columns.properties = COLUMN(text);
	cr_expect_not(relmq__envelope(row, &columns));
}

/* The broker's bound: longer, and it closes the channel. */
Test(envelope, the_longest_expiration)
{
	columns.properties = COLUMN("{\"expiration\":\"315360000000\"}");
	expect_bytes(made()->expiration, "315360000000");
	columns.properties = COLUMN("{\"expiration\":315360000001}");
	cr_expect_not(relmq__envelope(row, &columns));
	columns.properties = COLUMN("{\"expiration\":\"3153600000000\"}");
	cr_expect_not(relmq__envelope(row, &columns));
	columns.properties = COLUMN("{\"expiration\":\"0\"}");
	expect_bytes(made()->expiration, "0");
}

/* --- headers ---------------------------------------------------------------------------- */

Test(envelope, headers_of_every_type)
{
	columns.business_key = COLUMN("k-1");
	columns.headers =
	    COLUMN("{\"s\":\"t\\u00e9xt\",\"n\":-7,\"big\":9223372036854775807,\"r\":1.5,"
	           "\"yes\":true,\"no\":false,\"null\":null,\"a\":[1,\"x\",[]],"
	           "\"o\":{\"in\":{}},\"traceparent\":\"00-1-2-03\"}");
	expect_headers("{\"s\":\"t\xc3\xa9xt\",\"n\":-7,\"big\":9223372036854775807,\"r\":1.5,"
	               "\"yes\":true,\"no\":false,\"null\":null,\"a\":[1,\"x\",[]],"
	               "\"o\":{\"in\":{}},\"traceparent\":\"00-1-2-03\","
	               "\"x-relmq-key\":\"k-1\",\"x-relmq-created-us\":1700000000123456}");
}

Test(envelope, the_kinds_of_headers)
{
	columns.headers = COLUMN("{\"s\":\"t\",\"n\":1,\"r\":0.5,\"b\":true,\"v\":null}");
	(void) made();
	const struct {
		const char *name;
		int kind;
	} kinds[] = {
		{ "s", AMQP_FIELD_KIND_UTF8 },
		{ "n", AMQP_FIELD_KIND_I64 },
		{ "r", AMQP_FIELD_KIND_F64 },
		{ "b", AMQP_FIELD_KIND_BOOLEAN },
		{ "v", AMQP_FIELD_KIND_VOID },
	};
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		const amqp_field_value_t *v = relmq__msg_header(row->msg, kinds[i].name);
		cr_assert_not_null(v, "%s", kinds[i].name);
		cr_expect_eq(v->kind, kinds[i].kind, "%s is a '%c'", kinds[i].name, v->kind);
	}
}

/* A header that was written as a number never arrives as another one. */
Test(envelope, numbers_keep_their_digits)
{
	columns.headers = COLUMN("{\"price\":19.99,\"least\":-9223372036854775808,"
	                         "\"id\":18446744073709551615,\"pi\":3.14159265358979323846,"
	                         "\"s\":\"9 \\\" 18446744073709551616\",\"e\":1e3,"
	                         "\"a\":[0.1, 12345678901234567890 ,-0.5e-3,1e999]}");
	expect_headers("{\"price\":19.99,\"least\":-9223372036854775808,"
	               "\"id\":\"18446744073709551615\",\"pi\":\"3.14159265358979323846\","
	               "\"s\":\"9 \\\" 18446744073709551616\",\"e\":1000.0,"
	               "\"a\":[0.1,\"12345678901234567890\",-0.0005,\"1e999\"],"
	               "\"x-relmq-created-us\":1700000000123456}");
}

static const struct {
	const char *text;
	bool fits;
} numbers[] = {
	{ "0", true },
	{ "-1", true },
	{ "9223372036854775807", true },
	{ "9223372036854775808", false },
	{ "-9223372036854775808", true },
	{ "-9223372036854775809", false },
	{ "123456789012345.0", true },
	{ "1234567890123456.5", false },
	{ "0.000000123456789012345", true },
	{ "0.0000001234567890123456", false },
	{ "123456789012345e10", true },
	{ "1e290", true },
	{ "1e308", false },
	{ "1e-400", false },
	{ "0.0e99999999999999999999", true },
	{ "1e", false },
	{ "01", false },
	{ "-", false },
	{ "", false },
};

Test(envelope, which_numbers_fit)
{
	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
		cr_expect_eq(relmq__json_number_fits(numbers[i].text, strlen(numbers[i].text)),
		    numbers[i].fits, "%s", numbers[i].text);
}

Test(envelope, what_we_set_cannot_be_forged)
{
	columns.business_key = COLUMN("mine");
	columns.headers = COLUMN("{\"x-relmq-key\":\"other\",\"x-relmq-created-us\":1}");
	expect_headers("{\"x-relmq-key\":\"mine\",\"x-relmq-created-us\":1700000000123456}");
}

Test(envelope, a_key_of_any_bytes)
{
	columns.business_key = (relmq__column){ "\xff\x00k", 3 };
	(void) made();
	amqp_bytes_t key = relmq__msg_header_bytes(row->msg, "x-relmq-key");
	cr_assert_eq(key.len, 3);
	cr_expect_eq(memcmp(key.bytes, "\xff\x00k", 3), 0);
}

static const struct {
	const char *headers;
	bool good;
} routing_headers[] = {
	{ "{\"CC\":[\"a\",\"b\"],\"BCC\":[]}", true },
	{ "{\"cc\":\"a\",\"C\":1,\"BCCC\":2}", true },
	{ "{\"CC\":\"a\"}", false },
	{ "{\"BCC\":\"a\"}", false },
	{ "{\"CC\":[\"a\",1]}", false },
	{ "{\"CC\":{}}", false },
	{ "{\"BCC\":null}", false },
	{ "{\"CC\":[[\"a\"]]}", false },
};

Test(envelope, routing_headers_are_arrays_of_strings)
{
	for (size_t i = 0; i < sizeof(routing_headers) / sizeof(routing_headers[0]); i++) {
		columns.headers = COLUMN(routing_headers[i].headers);
		bool taken = relmq__envelope(row, &columns);
		cr_expect_eq(taken, routing_headers[i].good, "%s", routing_headers[i].headers);
		if (!taken)
			cr_expect_not_null(strstr(row->item.reason, "CC"));
	}
}

Test(envelope, headers_that_are_no_object)
{
	const char *const bad[] = { "[]", "1", "\"x\"", "null", "{", "", "{\"a\":1}x",
		"{\"a\":1,\"a\":2}", "{\"a\":01}", "{\"a\":1.}", "{\"a\":.5}", "{\"a\":0x10}",
		"{\"a\":012345678901234567890}", "{\"a\":12345678901234567890x}" };
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		columns.headers = COLUMN(bad[i]);
		cr_expect_not(relmq__envelope(row, &columns), "was taken: %s", bad[i]);
		cr_expect_eq(strncmp(row->item.reason, "headers: ", 9), 0, "%s: '%s'", bad[i],
		    row->item.reason);
	}
}

Test(envelope, a_header_name_over_255_bytes)
{
	char text[320];
	(void) snprintf(text, sizeof(text), "{\"%0255d\":1}", 0);
	columns.headers = COLUMN(text);
	(void) made();
	(void) snprintf(text, sizeof(text), "{\"%0256d\":1}", 0);
	columns.headers = COLUMN(text);
	cr_expect_not(relmq__envelope(row, &columns));
	cr_expect_not_null(strstr(row->item.reason, "255"));
}

/* --- body ------------------------------------------------------------------------------- */

Test(envelope, a_body_of_any_bytes)
{
	static char bytes[300];
	for (size_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (char) i;
	columns.payload = (relmq__column){ bytes, sizeof(bytes) };
	(void) made();
	cr_assert_eq(row->item.body.len, sizeof(bytes));
	cr_expect_eq(memcmp(row->item.body.bytes, bytes, sizeof(bytes)), 0);
}

Test(envelope, an_empty_body)
{
	columns.payload = (relmq__column){ "", 0 };
	(void) made();
	cr_expect_eq(row->item.body.len, 0);
}
