/* test_outbox_limits.c - what relmq/outbox.h refuses before it costs anything, and what the
 * table itself refuses from plain SQL. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "support/testenv.h"
#include "support/testwriter.h"

#define EMOJI "\xf0\x9f\x98\x80"

TestSuite(limits, .init = writer_open, .fini = writer_close, .timeout = 60);

/* --- limits ------------------------------------------------------------------------ */

Test(limits, short_strings_have_their_limits)
{
	char longest[256];
	char longer[257];
	memset(longest, 'a', sizeof(longest));
	memset(longer, 'a', sizeof(longer));
	longest[255] = longer[256] = '\0';
	app_run("START TRANSACTION");
	const relmq_msg good = message("x");
	relmq_msg m = good;
	m.routing_key = m.exchange = m.content_type = m.message_id = m.business_key = m.type =
	    longest;
	add(&m, NULL);
	cr_expect_eq(mysql_affected_rows(app), 1);
	m = good, m.routing_key = NULL, expect_refused(&m, RELMQ_EINVAL);
	m = good, m.routing_key = "", expect_refused(&m, RELMQ_EINVAL);
	m = good, m.message_id = "", expect_refused(&m, RELMQ_EINVAL);
	m = good, m.routing_key = longer, expect_refused(&m, RELMQ_ETOOBIG);
	m = good, m.exchange = longer, expect_refused(&m, RELMQ_ETOOBIG);
	m = good, m.content_type = longer, expect_refused(&m, RELMQ_ETOOBIG);
	m = good, m.message_id = longer, expect_refused(&m, RELMQ_ETOOBIG);
	m = good, m.business_key = longer, expect_refused(&m, RELMQ_ETOOBIG);
	m = good, m.type = longer, expect_refused(&m, RELMQ_ETOOBIG);
	m = good, m.delay_ms = -1, expect_refused(&m, RELMQ_EINVAL);
	m = good, m.delay_ms = INT64_MAX, expect_refused(&m, RELMQ_EINVAL);
	m = good, m.body = NULL, expect_refused(&m, RELMQ_EINVAL);
	m = good, m.body_len = (size_t) 1 << 30, expect_refused(&m, RELMQ_ETOOBIG);
	m = good, m.header_count = 1, expect_refused(&m, RELMQ_EINVAL);
	app_run("COMMIT");
	cr_expect_eq(rows(), 1);
}

Test(limits, a_struct_of_another_version_is_understood_or_refused)
{
	struct {
		relmq_msg m;
		const char *later_member;
	} newer = { message("x"), NULL };
	newer.m.struct_size = sizeof(newer);
	app_run("START TRANSACTION");
	add(&newer.m, NULL);
	newer.later_member = "on";
	expect_refused(&newer.m, RELMQ_EINVAL);

	relmq_msg older = message("x");
	older.struct_size = offsetof(relmq_msg, delay_ms);
	older.delay_ms = -1;           /* must not be looked at, */
	older.type = (const char *) 1; /* and this even less     */
	add(&older, NULL);
	older.struct_size = 0;
	expect_refused(&older, RELMQ_EINVAL);
	older.struct_size = offsetof(relmq_msg, delay_ms) + 1;
	expect_refused(&older, RELMQ_EINVAL);
	app_run("COMMIT");
	cr_expect_eq(rows(), 2);
}

Test(limits, a_table_name_cannot_carry_sql)
{
	static const char *const bad[] = { "", "a b", "a`b", "a;b", ".a", "a.", "a.b.c", "a-b",
		"t1234567890123456789012345678901234567890123456789012345678901234" };
	relmq_outbox *other = NULL;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		cr_expect_eq(
		    relmq_outbox_open(&other, app, bad[i], &err), RELMQ_EINVAL, "%s", bad[i]);
		cr_expect_null(other);
	}
	char name[128];
	relmq_msg m = message("x");
	(void) snprintf(name, sizeof(name), "%s.message_outbox", database);
	cr_assert_eq(relmq_outbox_open(&other, app, name, &err), RELMQ_OK, "%s", err.text);
	app_run("START TRANSACTION");
	cr_expect_eq(relmq_outbox_add(other, &m, NULL, &err), RELMQ_OK, "%s", err.text);
	app_run("COMMIT");
	relmq_outbox_close(other);
	cr_expect_eq(rows(), 1);
}

/* --- properties --------------------------------------------------------------------- */

Test(limits, properties_arrive_in_their_column)
{
	relmq_msg m = message("x");
	m.correlation_id = "c \"1\"";
	m.reply_to = "answers";
	m.app_id = "caf\xc3\xa9";
	m.expiration_ms = 60000;
	m.priority = 9;
	app_run("SET NAMES latin1");
	app_run("START TRANSACTION");
	add(&m, NULL);
	app_run("COMMIT");
	cr_expect_eq(number("SELECT JSON_LENGTH(properties) FROM message_outbox"), 5);
	expect_text("SELECT JSON_UNQUOTE(JSON_EXTRACT(properties, '$.correlation_id'))"
	            " FROM message_outbox",
	    "c \"1\"");
	expect_text("SELECT JSON_UNQUOTE(JSON_EXTRACT(properties, '$.app_id')) FROM message_outbox",
	    "caf\xc3\xa9");
	cr_expect_eq(
	    number("SELECT JSON_EXTRACT(properties, '$.expiration') FROM message_outbox"), 60000);
	cr_expect_eq(
	    number("SELECT JSON_EXTRACT(properties, '$.priority') FROM message_outbox"), 9);
}

Test(limits, properties_have_their_limits)
{
	char longer[257];
	memset(longer, 'a', sizeof(longer));
	longer[256] = '\0';
	app_run("START TRANSACTION");
	const relmq_msg good = message("x");
	relmq_msg m = good;
	m.reply_to = "", m.app_id = "", m.expiration_ms = INT64_C(315360000000), m.priority = 255;
	add(&m, NULL);
	cr_expect_eq(number("SELECT COUNT(*) FROM message_outbox"), 0, "not committed");
	m = good, m.reply_to = longer, expect_refused(&m, RELMQ_ETOOBIG);
	m = good, m.app_id = longer, expect_refused(&m, RELMQ_ETOOBIG);
	m = good, m.correlation_id = longer, expect_refused(&m, RELMQ_ETOOBIG);
	m = good, m.correlation_id = "\xff", expect_refused(&m, RELMQ_EINVAL);
	m = good, m.expiration_ms = -1, expect_refused(&m, RELMQ_EINVAL);
	m = good, m.expiration_ms = INT64_C(315360000001), expect_refused(&m, RELMQ_EINVAL);
	m = good, m.priority = 256, expect_refused(&m, RELMQ_EINVAL);
	m = good, m.priority = -1, expect_refused(&m, RELMQ_EINVAL);
	app_run("COMMIT");
	cr_expect_eq(rows(), 1);
}

/* --- plain SQL --------------------------------------------------------------------- */

Test(limits, plain_sql_needs_only_a_routing_key_and_a_payload)
{
	app_run("INSERT INTO message_outbox (routing_key, payload) VALUES ('q', 'p')");
	cr_expect_eq(number("SELECT status = 0 AND OCTET_LENGTH(msg_id) = 36 AND exchange = ''"
	                    " AND content_type = 'application/octet-stream' AND headers IS NULL"
	                    " AND shard = CRC32(msg_id) MOD 16 FROM message_outbox"),
	    1);
	cr_expect_eq(number("SELECT ABS(TIMESTAMPDIFF(SECOND, created_at, NOW(6))) < 60"
	                    " FROM message_outbox"),
	    1);
	app_run("DELETE FROM message_outbox");
	app_run("INSERT INTO message_outbox (routing_key, payload, next_retry_at)"
	        " VALUES ('q', 'p', NOW(6) + INTERVAL 1 HOUR)");
	cr_expect_eq(number("SELECT status FROM message_outbox"), 4);
}

Test(limits, plain_sql_without_strict_mode_gets_an_error_and_no_cut_value)
{
	app_run("SET SESSION sql_mode = ''");
#define INTO "INSERT INTO message_outbox "
	app_refused(INTO "(routing_key, payload) VALUES (REPEAT('a', 256), 'p')");
	app_refused(INTO "(routing_key, payload) VALUES (REPEAT('a', 5000), 'p')");
	app_refused(INTO "(routing_key, payload) VALUES (CONCAT('a', REPEAT(' ', 5000)), 'p')");
	app_refused(INTO "(routing_key, payload) VALUES ('', 'p')");
	app_refused(INTO "(payload) VALUES ('p')");
	app_refused(INTO "(routing_key) VALUES ('q')");
	app_refused(INTO "(routing_key, payload) VALUES ('q', 'p'), ('q', NULL)");
	app_refused(
	    INTO "(routing_key, payload, business_key) VALUES ('q', 'p', REPEAT('a', 256))");
	app_refused(INTO "(routing_key, payload, msg_id) VALUES ('q', 'p', REPEAT('a', 5000))");
	app_refused(INTO "(routing_key, payload, msg_id) VALUES ('q', 'p', '')");
	app_refused(INTO "(routing_key, payload, exchange) VALUES ('q', 'p', REPEAT('a', 256))");
	app_refused(INTO "(routing_key, payload, type) VALUES ('q', 'p', REPEAT('a', 256))");
	app_refused(
	    INTO "(routing_key, payload, content_type) VALUES ('q', 'p', REPEAT('a', 256))");
	app_refused(INTO "(routing_key, payload, headers) VALUES ('q', 'p', '[]')");
	app_refused(INTO "(routing_key, payload, headers) VALUES ('q', 'p', '{\"a\":')");
	app_refused(INTO "(routing_key, payload, properties) VALUES ('q', 'p', '1')");
	app_refused(INTO "(routing_key, payload, next_retry_at) VALUES ('q', 'p', 'soon')");
	app_refused(INTO "(routing_key, payload, next_retry_at) VALUES ('q', 'p', '9999-01-01')");
	app_refused(INTO "(routing_key, payload, status) VALUES ('q', 'p', 9)");
	app_refused(INTO "(routing_key, payload, status) VALUES ('q', 'p', 2)");
#undef INTO
	cr_expect_eq(rows(), 0);
	app_run("INSERT INTO message_outbox (routing_key, payload) VALUES (REPEAT('a', 255), 'p')");
	cr_expect_eq(number("SELECT OCTET_LENGTH(routing_key) FROM message_outbox"), 255);
}

Test(limits, the_view_shows_text_where_there_is_text)
{
	app_run("INSERT INTO message_outbox (msg_id, routing_key, payload)"
	        " VALUES (X'ff41', X'f09f9880', X'00ff00')");
	expect_text("SELECT msg_id FROM message_outbox_text", "0xFF41");
	expect_text("SELECT routing_key FROM message_outbox_text", EMOJI);
	expect_text("SELECT status FROM message_outbox_text", "PENDING");
	cr_expect_eq(
	    number("SELECT payload_bytes = 3 AND payload_text IS NULL FROM message_outbox_text"),
	    1);
	app_run("UPDATE message_outbox SET payload = X'63616665cc81'");
	expect_text("SELECT payload_text FROM message_outbox_text", "cafe\xcc\x81");
}
