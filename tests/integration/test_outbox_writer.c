/* test_outbox_writer.c - relmq/outbox.h on a real server, from connections set up as badly as an application's may be. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <relmq/outbox.h>

#include "support/testenv.h"
#include "support/testwriter.h"

#define EMOJI "\xf0\x9f\x98\x80"

TestSuite(writer, .init = writer_open, .fini = writer_close, .timeout = 60);

/* --- transactions ------------------------------------------------------------------ */

Test(writer, a_committed_message_is_a_pending_row)
{
	char id[RELMQ_ID_SIZE];
	relmq_msg m = message("{}");
	app_run("START TRANSACTION");
	add(&m, id);
	app_run("COMMIT");
	cr_expect_eq(rows(), 1);
	cr_expect_eq(strlen(id), 36);
	cr_expect_eq(id[14], '7', "%s is no UUIDv7", id);
	expect_text("SELECT msg_id FROM message_outbox", id);
	expect_text("SELECT exchange FROM message_outbox", "");
	expect_text("SELECT routing_key FROM message_outbox", "order.placed");
	expect_text("SELECT business_key FROM message_outbox", "");
	expect_text("SELECT type FROM message_outbox", "");
	expect_text("SELECT content_type FROM message_outbox", "application/octet-stream");
	expect_text("SELECT payload FROM message_outbox", "{}");
	cr_expect_eq(number("SELECT status FROM message_outbox"), 0);
	cr_expect_eq(
	    number("SELECT headers IS NULL AND properties IS NULL AND next_retry_at IS NULL"
	           " AND last_error IS NULL AND retry_count = 0 FROM message_outbox"),
	    1);
	cr_expect_eq(number("SELECT key_hash = CRC32(msg_id) AND shard = key_hash MOD 16"
	                    " FROM message_outbox"),
	    1);
}

Test(writer, every_member_arrives_in_its_column)
{
	relmq_msg m = message("body");
	m.exchange = "orders";
	m.content_type = "application/json";
	m.message_id = "id-1";
	m.business_key = "customer-7 ";
	m.type = "order";
	app_run("START TRANSACTION");
	add(&m, NULL);
	app_run("COMMIT");
	expect_text(
	    "SELECT CONCAT_WS('|', msg_id, business_key, exchange, routing_key, type, content_type)"
	    " FROM message_outbox",
	    "id-1|customer-7 |orders|order.placed|order|application/json");
	cr_expect_eq(number("SELECT key_hash = CRC32('customer-7 ') FROM message_outbox"), 1);
}

Test(writer, a_rolled_back_message_is_no_row)
{
	relmq_msg m = message("x");
	app_run("START TRANSACTION");
	add(&m, NULL);
	app_run("ROLLBACK");
	cr_expect_eq(rows(), 0);
}

Test(writer, without_a_transaction_nothing_is_written)
{
	relmq_msg m = message("x");
	cr_expect_eq(relmq_outbox_add(outbox, &m, NULL, &err), RELMQ_ENOTX);
	cr_expect_eq(rows(), 0);
	app_run("START TRANSACTION");
	add(&m, NULL);
	app_run("COMMIT");
	cr_expect_eq(relmq_outbox_add(outbox, &m, NULL, &err), RELMQ_ENOTX, "after COMMIT");
	cr_expect_eq(rows(), 1);
}

Test(writer, a_session_without_autocommit_is_always_in_a_transaction)
{
	relmq_msg m = message("x");
	app_run("SET autocommit = 0");
	add(&m, NULL);
	cr_expect_eq(rows(), 0);
	app_run("COMMIT");
	cr_expect_eq(rows(), 1);
}

/* --- bytes ------------------------------------------------------------------------- */

Test(writer, payloads_arrive_byte_for_byte)
{
	static const char zeros[] = { 0, 1, 0, (char) 0xff, 0, '\'', '\\', 0 };
	size_t size = (size_t) 1 << 20;
	unsigned char *big = malloc(size);
	cr_assert_not_null(big);
	for (size_t i = 0; i < size; i++)
		big[i] = (unsigned char) (i * 2654435761U >> 13);
	relmq_msg m = message("");
	app_run("START TRANSACTION");
	m.message_id = "zeros", m.body = zeros, m.body_len = sizeof(zeros);
	add(&m, NULL);
	m.message_id = "big", m.body = big, m.body_len = size;
	add(&m, NULL);
	m.message_id = "null", m.body = NULL, m.body_len = 0;
	add(&m, NULL);
	m.message_id = "empty", m.body = "x", m.body_len = 0;
	add(&m, NULL);
	app_run("COMMIT");
	expect_bytes(
	    "SELECT payload FROM message_outbox WHERE msg_id = 'zeros'", zeros, sizeof(zeros));
	expect_bytes("SELECT payload FROM message_outbox WHERE msg_id = 'big'", big, size);
	expect_bytes("SELECT payload FROM message_outbox WHERE msg_id = 'null'", "", 0);
	expect_bytes("SELECT payload FROM message_outbox WHERE msg_id = 'empty'", "", 0);
	free(big);
}

/* By a JSON parser, as every reader does: one server keeps the text as it was written, the
 * other writes it anew. */
static void expect_header(const char *id, const relmq_header *expected)
{
	MYSQL_RES *res = NULL;
	char sql[96];
	(void) snprintf(
	    sql, sizeof(sql), "SELECT headers FROM message_outbox WHERE msg_id = '%s'", id);
	cr_assert_eq(relmq__db_query(&db, sql, strlen(sql), &res, &err), RELMQ_OK, "%s", err.text);
	MYSQL_ROW row = mysql_fetch_row(res);
	cr_assert(row != NULL && row[0] != NULL);
	json_t *headers = json_loads(row[0], JSON_REJECT_DUPLICATES, NULL);
	cr_expect_eq(json_object_size(headers), 1, "%s", row[0]);
	const char *value = json_string_value(json_object_get(headers, expected->name));
	cr_assert_not_null(value, "%s", row[0]);
	cr_expect_str_eq(value, expected->value);
	json_decref(headers);
	mysql_free_result(res);
}

static void expect_emoji_unharmed(const char *id)
{
	static const relmq_header headers[] = { { "mood " EMOJI,
	    "caf\xc3\xa9 " EMOJI " \"\\\n\x7f" } };
	relmq_msg m = message(EMOJI);
	char sql[160];
	m.message_id = id;
	m.business_key = m.routing_key = m.type = EMOJI;
	m.headers = headers;
	m.header_count = 1;
	app_run("START TRANSACTION");
	add(&m, NULL);
	app_run("COMMIT");
	(void) snprintf(sql, sizeof(sql),
	    "SELECT CONCAT(payload, business_key, routing_key, type) FROM message_outbox"
	    " WHERE msg_id = '%s'",
	    id);
	expect_text(sql, EMOJI EMOJI EMOJI EMOJI);
	expect_header(id, &headers[0]);
}

Test(writer, no_character_set_and_no_sql_mode_harms_a_message)
{
	static const char *const sets[] = { "latin1", "utf8mb3", "utf8mb4", "gbk", "sjis",
		"ascii" };
	app_run("SET SESSION sql_mode = ''");
	for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]); i++) {
		cr_assert_eq(mysql_set_character_set(app, sets[i]), 0, "%s", mysql_error(app));
		expect_emoji_unharmed(sets[i]);
	}
	app_run("SET SESSION sql_mode = 'ANSI,NO_BACKSLASH_ESCAPES,STRICT_ALL_TABLES'");
	expect_emoji_unharmed("ansi");
}

Test(writer, headers_that_make_no_table_are_refused)
{
	static const relmq_header twice[] = { { "a", "1" }, { "b", "2" }, { "a", "3" } };
	static const relmq_header cut[] = { { "a", "caf\xc3" } };
	static const relmq_header surrogate[] = { { "\xed\xa0\x80", "1" } };
	static const relmq_header nameless[] = { { "", "1" } };
	static const relmq_header valueless[] = { { "a", NULL } };
	static char huge_text[200 << 10];
	memset(huge_text, 'x', sizeof(huge_text) - 1);
	const relmq_header huge[] = { { "a", huge_text } };
	relmq_msg m = message("x");
	app_run("START TRANSACTION");
	m.headers = twice, m.header_count = 3, expect_refused(&m, RELMQ_EINVAL);
	m.headers = cut, m.header_count = 1, expect_refused(&m, RELMQ_EINVAL);
	m.headers = surrogate, expect_refused(&m, RELMQ_EINVAL);
	m.headers = nameless, expect_refused(&m, RELMQ_EINVAL);
	m.headers = valueless, expect_refused(&m, RELMQ_EINVAL);
	m.headers = huge, expect_refused(&m, RELMQ_ETOOBIG);
	m.headers = twice, m.header_count = 2;
	add(&m, NULL);
	app_run("COMMIT");
	cr_expect_eq(rows(), 1);
	cr_expect_eq(number("SELECT JSON_LENGTH(headers) FROM message_outbox"), 2);
}

/* --- time -------------------------------------------------------------------------- */

Test(writer, a_delay_is_counted_by_the_clock_of_the_database)
{
	relmq_msg m = message("x");
	m.delay_ms = 90500;
	app_run("SET SESSION time_zone = '+08:00'");
	app_run("START TRANSACTION");
	add(&m, NULL);
	app_run("COMMIT");
	cr_expect_eq(number("SELECT status FROM message_outbox"), 4);
	int64_t left_us =
	    number("SELECT TIMESTAMPDIFF(MICROSECOND, NOW(6), next_retry_at) FROM message_outbox");
	cr_expect(left_us > 60500000 && left_us <= 90500000, "%lld us", (long long) left_us);
	cr_expect_eq(
	    number(
	        "SELECT TIMESTAMPDIFF(MICROSECOND, created_at, next_retry_at) FROM message_outbox"),
	    90500000);
}

/* --- connections that break -------------------------------------------------------- */

static void kill_app(void)
{
	unsigned long id = mysql_thread_id(app);
	cr_assert_eq(relmq__db_execf(&db, NULL, &err, "KILL %lu", id), RELMQ_OK, "%s", err.text);
	char sql[96];
	(void) snprintf(sql, sizeof(sql),
	    "SELECT COUNT(*) FROM information_schema.processlist WHERE id = %lu", id);
	EVENTUALLY(10000, number(sql) == 0);
}

static void expect_transaction_lost(const relmq_msg *m)
{
	cr_expect_eq(relmq_outbox_add(outbox, m, NULL, &err), RELMQ_EDB);
	cr_expect_eq(err.flags, RELMQ_F_TX_LOST | RELMQ_F_RETRY, "%s", err.text);
	cr_expect_eq(err.origin, RELMQ_FROM_MYSQL);
	cr_expect_neq(err.native, 0);
	cr_expect_eq(number("SELECT COUNT(*) FROM business"), 0);
	cr_expect_eq(rows(), 0);
}

Test(writer, a_killed_connection_loses_the_whole_transaction)
{
	relmq_msg m = message("x");
	for (int prepared = 0; prepared < 2; prepared++) {
		app_run("START TRANSACTION");
		app_run("INSERT INTO business VALUES (1)");
		if (prepared)
			add(&m, NULL);
		kill_app();
		expect_transaction_lost(&m);
		relmq_outbox_close(outbox);
		mysql_close(app);
		app = mysql_init(NULL);
		app_connect();
		cr_assert_eq(relmq_outbox_open(&outbox, app, NULL, &err), RELMQ_OK);
	}
	app_run("START TRANSACTION");
	app_run("INSERT INTO business VALUES (1)");
	add(&m, NULL);
	app_run("COMMIT");
	cr_expect_eq(rows(), 1);
}

#if defined(MARIADB_BASE_VERSION) || defined(LIBMARIADB)
/* The header forbids it; an application does it all the same. */
Test(writer, a_silent_reconnect_does_not_record_a_message_of_its_own)
{
	relmq_msg m = message("x");
	my_bool on = 1;
	(void) mysql_options(app, MYSQL_OPT_RECONNECT, &on);
	for (int prepared = 0; prepared < 2; prepared++) {
		app_run("START TRANSACTION");
		app_run("INSERT INTO business VALUES (1)");
		if (prepared)
			add(&m, NULL);
		kill_app();
		expect_transaction_lost(&m);
		app_run("START TRANSACTION");
		add(&m, NULL);
		app_run("COMMIT");
		cr_expect_eq(rows(), 1);
		app_run("DELETE FROM message_outbox");
	}
}
#endif

/* Takes row 1 while it holds row 2 and more: the heavier transaction, which survives. */
static void *take_row_1(void *arg)
{
	(void) arg;
	relmq_error failure = RELMQ_ERROR_INIT;
	relmq_code code =
	    relmq__db_execf(&db, NULL, &failure, "UPDATE rows_ SET n = 1 WHERE id = 1");
	return code == RELMQ_OK ? NULL : &db;
}

/* Is this statement being run by another connection? Asked on the application's. */
static bool runs_elsewhere(const char *statement)
{
	char sql[160];
	(void) snprintf(sql, sizeof(sql),
	    "SELECT COUNT(*) FROM information_schema.processlist WHERE info = '%s'", statement);
	cr_assert_eq(mysql_query(app, sql), 0, "%s", mysql_error(app));
	MYSQL_RES *res = mysql_store_result(app);
	bool found = strcmp(mysql_fetch_row(res)[0], "0") != 0;
	mysql_free_result(res);
	return found;
}

static void lose_a_deadlock(void)
{
	pthread_t other;
	void *failed = NULL;
	app_run("CREATE TABLE rows_ (id INT PRIMARY KEY, n INT)");
	app_run("INSERT INTO rows_ VALUES (1, 0), (2, 0), (3, 0), (4, 0), (5, 0), (6, 0)");
	cr_assert_eq(relmq__db_execf(&db, NULL, &err, "START TRANSACTION"), RELMQ_OK);
	cr_assert_eq(
	    relmq__db_execf(&db, NULL, &err, "UPDATE rows_ SET n = 1 WHERE id > 1"), RELMQ_OK);
	app_run("START TRANSACTION");
	app_run("UPDATE rows_ SET n = 2 WHERE id = 1");
	cr_assert_eq(pthread_create(&other, NULL, take_row_1, NULL), 0);
	EVENTUALLY(10000, runs_elsewhere("UPDATE rows_ SET n = 1 WHERE id = 1"));
	cr_expect_neq(mysql_query(app, "UPDATE rows_ SET n = 2 WHERE id = 2"), 0);
	cr_assert_eq(mysql_errno(app), 1213, "%s", mysql_error(app));
	(void) pthread_join(other, &failed);
	cr_expect_null(failed);
	cr_assert_eq(relmq__db_execf(&db, NULL, &err, "ROLLBACK"), RELMQ_OK);
}

/* The server has rolled back, and its error did not tell the client's state so. */
Test(writer, after_a_deadlock_a_message_is_no_transaction_of_its_own)
{
	relmq_msg m = message("x");
	lose_a_deadlock();
	cr_expect_eq(relmq_outbox_add(outbox, &m, NULL, &err), RELMQ_EDB);
	cr_expect_eq(err.native, 1213);
	cr_expect_eq(err.flags, RELMQ_F_TX_LOST | RELMQ_F_RETRY);
	cr_expect_eq(rows(), 0);
	app_run("ROLLBACK");
	app_run("START TRANSACTION");
	add(&m, NULL);
	app_run("COMMIT");
	cr_expect_eq(rows(), 1);
}

Test(writer, a_harmless_error_before_it_does_not_matter)
{
	relmq_msg m = message("x");
	app_run("START TRANSACTION");
	app_refused("SELECT no_such_column");
	add(&m, NULL);
	app_run("COMMIT");
	app_refused("SELECT no_such_column");
	cr_expect_eq(relmq_outbox_add(outbox, &m, NULL, &err), RELMQ_ENOTX);
	cr_expect_eq(rows(), 1);
}

Test(writer, a_session_that_was_reset_prepares_again)
{
	relmq_msg m = message("x");
	app_run("START TRANSACTION");
	add(&m, NULL);
	app_run("COMMIT");
	cr_assert_eq(mysql_change_user(app, settings.user, settings.password, database), 0, "%s",
	    mysql_error(app));
	app_run("START TRANSACTION");
	add(&m, NULL);
	app_run("COMMIT");
	cr_assert_eq(mysql_reset_connection(app), 0, "%s", mysql_error(app));
	app_run("START TRANSACTION");
	add(&m, NULL);
	app_run("COMMIT");
	cr_expect_eq(rows(), 3);
}

Test(writer, a_refusal_of_the_server_keeps_its_number)
{
	relmq_outbox *other = NULL;
	relmq_msg m = message("x");
	cr_assert_eq(relmq_outbox_open(&other, app, "no_such_table", &err), RELMQ_OK);
	app_run("START TRANSACTION");
	cr_expect_eq(relmq_outbox_add(other, &m, NULL, &err), RELMQ_EDB);
	cr_expect_eq(err.native, 1146);
	cr_expect_eq(err.flags, RELMQ_F_TX_LOST);
	cr_expect_str_eq(err.sqlstate, "42S02");
	cr_expect_eq(relmq_outbox_add(other, &m, NULL, NULL), RELMQ_EDB);
	relmq_outbox_close(other);
	relmq_outbox_close(NULL);
}
