/* test_sql_handler.c - what the sql kind writes, on a real server: types and digits kept,
 * hostile bytes harmless, a batch the same as its messages one by one. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "consumer/delivery.h"
#include "consumer/handler.h"
#include "mq/table.h"

#define BYTES(literal) literal, sizeof(literal) - 1

enum { LOCK_WAIT_S = 5 };

static relmq__mysql_settings settings;
static relmq__db db;
static relmq__buf scratch;
static relmq_error err;
static char database[64];

/* --- a database of its own ------------------------------------------------------------ */

static char *env(const char *name, char *otherwise)
{
	char *value = getenv(name);
	return value != NULL ? value : otherwise;
}

static void run_sql(const char *sql)
{
	cr_assert_eq(
	    relmq__db_exec(&db, sql, strlen(sql), NULL, &err), RELMQ_OK, "%s: %s", sql, err.text);
}

static void create_database(void)
{
	settings = (relmq__mysql_settings){
		.host = env("RELMQ_MYSQL_HOST", "127.0.0.1"),
		.port = strtol(env("RELMQ_MYSQL_PORT", "3306"), NULL, 10),
		.user = env("RELMQ_MYSQL_USER", "relmq"),
		.password = env("RELMQ_MYSQL_PASSWORD", ""),
		.connect_timeout_ms = 5000,
		.read_timeout_ms = 20000,
		.write_timeout_ms = 20000,
	};
	(void) snprintf(database, sizeof(database), "relmq_t_%d_sql", (int) getpid());
	cr_assert_eq(relmq__db_open(&db, &settings, LOCK_WAIT_S, &err), RELMQ_OK, "%s", err.text);
	cr_assert_eq(
	    relmq__db_execf(&db, NULL, &err, "CREATE DATABASE %s CHARACTER SET latin1", database),
	    RELMQ_OK, "%s", err.text);
	cr_assert_eq(
	    relmq__db_execf(&db, NULL, &err, "USE %s", database), RELMQ_OK, "%s", err.text);
	run_sql("CREATE TABLE t (n INT AUTO_INCREMENT PRIMARY KEY, b LONGBLOB,"
	        " v VARCHAR(200) CHARACTER SET utf8mb4)");
}

static void drop_database(void)
{
	cr_expect_eq(relmq__db_execf(&db, NULL, &err, "DROP DATABASE IF EXISTS %s", database),
	    RELMQ_OK, "%s", err.text);
	relmq__db_close(&db);
	relmq__buf_free(&scratch);
}

TestSuite(sql_handler, .init = create_database, .fini = drop_database, .timeout = 60);

/* --- deliveries and answers ----------------------------------------------------------- */

static relmq_delivery *deliver(const char *id, const char *headers, const void *body, size_t len)
{
	char why[100];
	amqp_basic_properties_t props = { 0 };
	relmq__msg *m = relmq__msg_new();
	cr_assert_not_null(m);
	props._flags = AMQP_BASIC_MESSAGE_ID_FLAG | AMQP_BASIC_TYPE_FLAG | AMQP_BASIC_HEADERS_FLAG;
	props.message_id = amqp_cstring_bytes(id);
	props.type = amqp_cstring_bytes("order.created");
	cr_assert(
	    relmq__table_from_json(m, headers, strlen(headers), &props.headers, why, sizeof(why)),
	    "%s", why);
	cr_assert(relmq__msg_set_props(m, &props));
	cr_assert(relmq__msg_set_body(m, body, len));
	relmq_delivery *d = relmq__delivery_new(m);
	cr_assert_not_null(d);
	d->queue = "orders";
	return d;
}

static relmq__handler *open_handler(const char *sql)
{
	relmq__handler *h = NULL;
	char *statements[] = { (char *) (uintptr_t) sql };
	cr_assert_eq(relmq__handler_sql_open(&h, statements, 1, &err), RELMQ_OK, "%s", err.text);
	return h;
}

/* One statement for one message; the verdict. `reason` may be NULL. */
static relmq_verdict handle(const char *sql, const void *body, size_t len, char *reason)
{
	relmq__handler *h = open_handler(sql);
	relmq_delivery *d = deliver("id-1", "{\"x-relmq-key\":\"key-1\"}", body, len);
	relmq_verdict verdict = h->ops->run(h, d, &db, &scratch);
	if (reason != NULL)
		(void) snprintf(reason, sizeof(d->reason), "%s", d->reason);
	else
		cr_expect_str_eq(d->reason, "");
	relmq__delivery_free(d);
	relmq__handler_close(h);
	return verdict;
}

/* All rows of a query as text: fields by "|", rows by "\n". */
static void expect_rows(const char *sql, const char *rows)
{
	MYSQL_RES *res = NULL;
	relmq__buf out = { 0 };
	cr_assert_eq(relmq__db_query(&db, sql, strlen(sql), &res, &err), RELMQ_OK, "%s", err.text);
	for (MYSQL_ROW row; (row = mysql_fetch_row(res)) != NULL;) {
		relmq__buf_adds(&out, out.len > 0 ? "\n" : "");
		for (unsigned i = 0; i < mysql_num_fields(res); i++) {
			relmq__buf_adds(&out, i > 0 ? "|" : "");
			relmq__buf_adds(&out, row[i] != NULL ? row[i] : "NULL");
		}
	}
	mysql_free_result(res);
	relmq__buf_add(&out, "", 0);
	cr_expect_str_eq(out.data, rows, "%s", sql);
	relmq__buf_free(&out);
}

/* --- one message ---------------------------------------------------------------------- */

Test(sql_handler, keeps_types_and_digits)
{
	static const char body[] =
	    "{\"price\":19.99,\"big\":18446744073709551615,\"neg\":-7,\"e\":1.5e3,\"digits\":0.10,"
	    "\"yes\":true,\"no\":false,\"nothing\":null,\"name\":\"\xf0\x9f\x98\x80\\u00e9\","
	    "\"doc\":{\"l\": [1.10,{\"x\":5}]}}";
	run_sql("CREATE TABLE p (price DECIMAL(10,4), big BIGINT UNSIGNED, less BIGINT UNSIGNED,"
	        " neg INT, e DOUBLE, digits TEXT, yes BOOLEAN, no BOOLEAN, nothing INT, gone INT,"
	        " name VARCHAR(20) CHARACTER SET utf8mb4, doc TEXT, deep INT)");
	/* big - 1 is exact for a number only: a string would become a double first */
	cr_expect_eq(handle("INSERT INTO p VALUES (:payload.price, :payload.big, :payload.big - 1,"
	                    " :payload.neg, :payload.e, :payload.digits, :payload.yes, :payload.no,"
	                    " :payload.nothing, :payload.gone.away, :payload.name, :payload.doc,"
	                    " :payload.doc.l[1].x)",
	                 body, sizeof(body) - 1, NULL),
	    RELMQ_DONE);
	expect_rows("SELECT * FROM p",
	    "19.9900|18446744073709551615|18446744073709551614|-7|1500|0.10|1|0|NULL|NULL|"
	    "\xf0\x9f\x98\x80\xc3\xa9|{\"l\": [1.10,{\"x\":5}]}|5");
}

Test(sql_handler, knows_the_message)
{
	static const char headers[] =
	    "{\"x-relmq-key\":\"k'1\",\"x-relmq-attempt\":3,\"x-text\":\"a\\\\b\",\"x-num\":-5,"
	    "\"x-digits\":\"41\",\"x-real\":1.5,\"x-yes\":true,\"x-void\":null,\"x-list\":[1]}";
	run_sql("CREATE TABLE p (id VARBINARY(255), text VARCHAR(255) CHARACTER SET utf8mb4,"
	        " k TEXT, type TEXT, attempt INT, queue TEXT, h TEXT, num BIGINT, digits INT,"
	        " more INT, r DOUBLE, yes BOOLEAN, gone TEXT, void TEXT, list TEXT)");
	relmq__handler *h = open_handler(
	    "INSERT INTO p VALUES (:msg_id, :msg_id, :business_key, :type, :attempt, :queue,"
	    " :header.x-text, :header.x-num, :header.x-digits, :header.x-digits + 1,"
	    " :header.x-real, :header.x-yes, :header.x-gone, :header.x-void, :header.x-list)");
	relmq_delivery *d = deliver("id-\xc3\xa9", headers, BYTES("not JSON, and nobody asks"));
	cr_expect_eq(h->ops->run(h, d, &db, &scratch), RELMQ_DONE, "%s", d->reason);
	expect_rows("SELECT * FROM p",
	    "id-\xc3\xa9|id-\xc3\xa9|k'1|order.created|3|orders|a\\b|-5|41|42|1.5|1|NULL|NULL|NULL");
	relmq__delivery_free(d);
	relmq__handler_close(h);
}

/* Bytes that try to leave their literal, and bytes that are no text. */
static const struct {
	const char *body;
	size_t len;
} payloads[] = {
	{ BYTES("") },
	{ BYTES("plain") },
	{ BYTES("'); DROP TABLE t; -- ") },
	{ BYTES("\\'); DROP TABLE t; -- ") },
	{ BYTES("'' OR ''='") },
	{ BYTES("\\") },
	{ BYTES("\\\\\\") },
	{ BYTES("\"`:msg_id :payload.a") },
	{ BYTES("nul\0in\0side") },
	{ BYTES("\0") },
	{ BYTES("\xf0\x9f\x98\x80'\\") },
	{ BYTES("\xbf'; DROP TABLE t; -- ") }, /* GBK's trick             */
	{ BYTES("\xe2'; DROP TABLE t; -- ") }, /* a character cut short   */
	{ BYTES("\xf0\x9f\\'; DROP TABLE t; -- ") },
	{ BYTES("\xff\xfe\x00\x01\x1a\r\n\t%_") },
	{ BYTES("\x1a\b\r\n\t\"%_") },
};

/* `padding` in front: long values are written in another way than short ones. */
static void expect_payloads_arrive(size_t padding)
{
	relmq__buf body = { 0 };
	char check[256], hex[128];
	for (size_t i = 0; i < sizeof(payloads) / sizeof(payloads[0]); i++) {
		run_sql("DELETE FROM t");
		relmq__buf_reset(&body);
		for (size_t n = 0; n < padding; n++)
			relmq__buf_add(&body, "-", 1);
		relmq__buf_add(&body, payloads[i].body, payloads[i].len);
		cr_expect_eq(
		    handle("INSERT INTO t (b) VALUES (:payload)", body.data, body.len, NULL),
		    RELMQ_DONE, "case %zu", i);
		(void) mysql_hex_string(hex, payloads[i].body, (unsigned long) payloads[i].len);
		(void) snprintf(check, sizeof(check),
		    "SELECT OCTET_LENGTH(b) = %zu, HEX(SUBSTR(b, %zu)) = '%s' FROM t", body.len,
		    padding + 1, hex);
		expect_rows(check, "1|1");
	}
	relmq__buf_free(&body);
}

Test(sql_handler, payload_arrives_byte_for_byte)
{
	expect_payloads_arrive(0);
	expect_payloads_arrive(100000);
}

Test(sql_handler, every_byte_in_a_payload_and_a_megabyte_of_them)
{
	enum { LEN = 1 << 20 };
	char *body = malloc(LEN), check[100];
	cr_assert_not_null(body);
	for (size_t i = 0; i < LEN; i++)
		body[i] = (char) (i ^ (i >> 8) ^ (i >> 16));
	cr_expect_eq(handle("INSERT INTO t (b) VALUES (:payload)", body, LEN, NULL), RELMQ_DONE);
	(void) snprintf(check, sizeof(check), "SELECT OCTET_LENGTH(b) FROM t");
	expect_rows(check, "1048576");
	MYSQL_RES *res = NULL;
	cr_assert_eq(relmq__db_query(&db, BYTES("SELECT b FROM t"), &res, &err), RELMQ_OK);
	cr_expect_eq(memcmp(mysql_fetch_row(res)[0], body, LEN), 0);
	mysql_free_result(res);
	free(body);
}

static const struct {
	const char *json;
	const char *hex; /* of what must be stored */
} strings[] = {
	{ "{\"a\":\"it's\"}", "69742773" },
	{ "{\"a\":\"\\\\\"}", "5C" },
	{ "{\"a\":\"\\\\'); DROP TABLE t; -- \"}", "5C27293B2044524F50205441424C4520743B202D2D20" },
	{ "{\"a\":\"\\u0027\"}", "27" },
	{ "{\"a\":\"x\\u0000y\"}", "780079" },
	{ "{\"a\":\"\\ud83d\\ude00\"}", "F09F9880" },
	{ "{\"a\":\"\"}", "" },
	{ "{\"a\":[\"it's \\\\ \"]}", "5B2269742773205C5C20225D" },
};

Test(sql_handler, strings_of_json_arrive_as_they_are)
{
	for (size_t i = 0; i < sizeof(strings) / sizeof(strings[0]); i++) {
		char rows[200];
		run_sql("DELETE FROM t");
		cr_expect_eq(handle("INSERT INTO t (b, v) VALUES (:payload.a, :payload.a)",
		                 strings[i].json, strlen(strings[i].json), NULL),
		    RELMQ_DONE, "%s", strings[i].json);
		(void) snprintf(rows, sizeof(rows), "%s|%s", strings[i].hex, strings[i].hex);
		expect_rows("SELECT HEX(b), HEX(v) FROM t", rows);
	}
}

/* Text must find text by its index, and a JSON column must take it. */
Test(sql_handler, values_suit_text_binary_and_json_columns)
{
	run_sql("CREATE TABLE p (v VARCHAR(50) CHARACTER SET utf8mb4 PRIMARY KEY, b VARBINARY(50) "
	        "UNIQUE,"
	        " j JSON, hits INT)");
	run_sql("INSERT INTO p VALUES ('id-1', 'id-1', '{}', 0), ('id-2', 'id-2', '{}', 0)");
	cr_expect_eq(
	    handle("UPDATE p SET hits = hits + 1, j = :payload WHERE v = :msg_id AND b = :msg_id",
	        BYTES("{\"a\": 1}"), NULL),
	    RELMQ_DONE);
	cr_expect_eq(handle("UPDATE p SET hits = hits + 1, j = :payload.a WHERE v = :payload.id",
	                 BYTES("{\"a\": {\"b\": 2}, \"id\": \"id-2\"}"), NULL),
	    RELMQ_DONE);
	expect_rows("SELECT v, hits, j FROM p ORDER BY v", "id-1|1|{\"a\": 1}\nid-2|1|{\"b\": 2}");
}

Test(sql_handler, payload_that_is_no_json_is_rejected_only_when_asked_for)
{
	char reason[RELMQ__REASON_MAX + 1];
	static const char *const bodies[] = { "", "{\"a\":1;DROP TABLE x}", "{\"a\":01}",
		"{\"a\" 1}", "{\"a\":1", "[1 2]" };
	for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
		cr_expect_eq(handle("INSERT INTO t (b) VALUES (:payload.a)", bodies[i],
		                 strlen(bodies[i]), reason),
		    RELMQ_REJECT);
		cr_expect_eq(strncmp(reason, "payload is not JSON: ", 21), 0, "%s", reason);
	}
	expect_rows("SELECT COUNT(*) FROM t", "0");
	cr_expect_eq(
	    handle("INSERT INTO t (b) VALUES (:payload)", BYTES("{\"a\":01}"), NULL), RELMQ_DONE);
}

Test(sql_handler, database_error_is_a_retry_and_says_which)
{
	char reason[RELMQ__REASON_MAX + 1];
	run_sql("INSERT INTO t (n) VALUES (7)");
	cr_expect_eq(handle("INSERT INTO t (n) VALUES (:payload.n)", BYTES("{\"n\":7}"), reason),
	    RELMQ_RETRY);
	cr_expect_eq(mysql_errno(db.mysql), 1062);
	cr_expect_eq(strncmp(reason, "statement 1: (1062) ", 20), 0, "%s", reason);
	cr_expect_not_null(strstr(reason, "Duplicate entry '7'"), "%s", reason);
	/* bytes that are no text do not get into a text column, and are not cut either */
	cr_expect_eq(
	    handle("INSERT INTO t (v) VALUES (:payload)", BYTES("ab\xff"), reason), RELMQ_RETRY);
	expect_rows("SELECT n, v FROM t", "7|NULL");
}

Test(sql_handler, runs_statements_in_order_and_stops_at_the_first_failure)
{
	relmq__handler *h = NULL;
	char s1[] = "SET @n = :payload.n", s2[] = "INSERT INTO t (n) VALUES (@n)",
	     s3[] = "INSERT INTO nowhere VALUES (:msg_id)", s4[] = "INSERT INTO t (n) VALUES (99)";
	char *statements[] = { s1, s2, s3, s4 };
	cr_assert_eq(relmq__handler_sql_open(&h, statements, 4, &err), RELMQ_OK, "%s", err.text);
	cr_expect_null(h->ops->run_batch);
	relmq_delivery *d = deliver("id", "{}", BYTES("{\"n\":41}"));
	cr_expect_eq(h->ops->run(h, d, &db, &scratch), RELMQ_RETRY);
	cr_expect_eq(strncmp(d->reason, "statement 3: (1146) ", 20), 0, "%s", d->reason);
	expect_rows("SELECT n FROM t", "41");
	relmq__delivery_free(d);
	relmq__handler_close(h);
}

Test(sql_handler, rows_that_nobody_wants_are_read)
{
	run_sql("CREATE PROCEDURE p (n INT) BEGIN SELECT n; SELECT n + 1; INSERT INTO t (n) VALUES "
	        "(n); END");
	cr_expect_eq(
	    handle("SELECT :payload.n UNION ALL SELECT 2", BYTES("{\"n\":1}"), NULL), RELMQ_DONE);
	cr_expect_eq(handle("CALL p(:payload.n)", BYTES("{\"n\":5}"), NULL), RELMQ_DONE);
	cr_expect_eq(
	    handle("INSERT INTO t (n) VALUES (:payload.n)", BYTES("{\"n\":6}"), NULL), RELMQ_DONE);
	expect_rows("SELECT n FROM t ORDER BY n", "5\n6");
	/* an error behind the first result counts */
	char reason[RELMQ__REASON_MAX + 1];
	cr_expect_eq(handle("CALL p(:payload.n)", BYTES("{\"n\":5}"), reason), RELMQ_RETRY);
	cr_expect_not_null(strstr(reason, "(1062)"), "%s", reason);
	expect_rows("SELECT COUNT(*) FROM t", "2");
}

/* A server hangs up on a statement that is too large, and an outage is retried for ever. */
Test(sql_handler, statement_larger_than_the_servers_packet_is_rejected)
{
	int64_t max = 0;
	char reason[RELMQ__REASON_MAX + 1];
	cr_assert_eq(relmq__db_number(&db, "SELECT @@max_allowed_packet", 0, &max, &err), RELMQ_OK);
	size_t len = (size_t) max;
	char *body = malloc(len);
	cr_assert_not_null(body);
	memset(body, 'x', len);
	cr_expect_eq(
	    handle("INSERT INTO t (b) VALUES (:payload)", body, len, reason), RELMQ_REJECT);
	cr_expect_not_null(strstr(reason, "max_allowed_packet"), "%s", reason);
	/* and what just fits goes in */
	cr_expect_eq(
	    handle("INSERT INTO t (b) VALUES (:payload)", body, len - 200, NULL), RELMQ_DONE);
	free(body);
	expect_rows("SELECT COUNT(*) FROM t", "1");
}

/* --- batches -------------------------------------------------------------------------- */

static const char batch_sql[] =
    "INSERT IGNORE INTO r (id, price, note, body) VALUES (:msg_id, :payload.price, :payload.note, "
    ":payload)"
    " ON DUPLICATE KEY UPDATE hits = hits + 1, price = VALUES(price); -- note";

static void create_batch_table(void)
{
	run_sql("DROP TABLE IF EXISTS r");
	run_sql("CREATE TABLE r (seq INT AUTO_INCREMENT PRIMARY KEY, id VARBINARY(255) UNIQUE,"
	        " price DECIMAL(10,2), note VARCHAR(50) CHARACTER SET utf8mb4, body LONGBLOB, hits "
	        "INT DEFAULT 1)");
}

static relmq_delivery *batch_message(size_t i, size_t padding)
{
	char id[32];
	relmq__buf body = { 0 };
	(void) snprintf(id, sizeof(id), "id-%zu", i % 90); /* some come twice */
	relmq__buf_addf(&body,
	    "{\"price\":%zu.10,\"note\":\"it's \\\\ \xf0\x9f\x98\x80 %zu\"%s,\"pad\":\"", i, i,
	    i % 7 == 0 ? ",\"x\":null" : "");
	for (size_t n = 0; n < padding; n++)
		relmq__buf_add(&body, "p", 1);
	relmq__buf_adds(&body, "\"}");
	relmq_delivery *d = deliver(id, "{}", body.data, body.len);
	relmq__buf_free(&body);
	return d;
}

static void table_checksum(char *out, size_t size)
{
	MYSQL_RES *res = NULL;
	static const char sql[] =
	    "SELECT COUNT(*), SUM(hits), SUM(CRC32(CONCAT_WS('|', id, price, note, body, hits)))"
	    " FROM r";
	cr_assert_eq(
	    relmq__db_query(&db, sql, sizeof(sql) - 1, &res, &err), RELMQ_OK, "%s", err.text);
	MYSQL_ROW row = mysql_fetch_row(res);
	(void) snprintf(out, size, "%s|%s|%s", row[0], row[1], row[2]);
	mysql_free_result(res);
}

static void expect_batch_equals_singles(size_t count, size_t padding, bool one_statement)
{
	char singly[100], together[100];
	relmq__handler *h = open_handler(batch_sql);
	relmq_delivery *ds[200];
	cr_assert_not_null(h->ops->run_batch);
	create_batch_table();
	for (size_t i = 0; i < count; i++) {
		ds[i] = batch_message(i, padding);
		cr_expect_eq(h->ops->run(h, ds[i], &db, &scratch), RELMQ_DONE, "%s", ds[i]->reason);
	}
	table_checksum(singly, sizeof(singly));
	create_batch_table();
	cr_expect_eq(h->ops->run_batch(h, ds, count, &db, &scratch), RELMQ_DONE);
	table_checksum(together, sizeof(together));
	cr_expect_str_eq(together, singly);
	cr_expect_eq(
	    one_statement, scratch.len > count * padding, "%zu bytes in the last", scratch.len);
	for (size_t i = 0; i < count; i++)
		relmq__delivery_free(ds[i]);
	relmq__handler_close(h);
}

Test(sql_handler, batch_writes_what_singles_write)
{
	expect_batch_equals_singles(1, 10, true);
	expect_batch_equals_singles(100, 300, true);
}

Test(sql_handler, batch_is_split_by_bytes)
{
	expect_batch_equals_singles(100, 50000, false);
}

Test(sql_handler, batch_fails_as_a_whole)
{
	relmq__handler *h = open_handler("INSERT INTO t (n, v) VALUES (:payload.n, :msg_id)");
	relmq_delivery *ds[] = { deliver("a", "{}", BYTES("{\"n\":1}")),
		deliver("b", "{}", BYTES("{\"n\":1}")), deliver("c", "{}", BYTES("{\"n\":")) };
	run_sql("START TRANSACTION");
	cr_expect_eq(h->ops->run_batch(h, ds, 2, &db, &scratch), RELMQ_RETRY);
	cr_expect_eq(mysql_errno(db.mysql), 1062);
	run_sql("ROLLBACK");
	cr_expect_eq(h->ops->run_batch(h, ds + 1, 2, &db, &scratch), RELMQ_RETRY);
	expect_rows("SELECT COUNT(*) FROM t", "0");
	for (size_t i = 0; i < 3; i++)
		relmq__delivery_free(ds[i]);
	relmq__handler_close(h);
}

Test(sql_handler, refuses_bad_statements_by_number)
{
	relmq__handler *h = NULL;
	char s1[] = "DO 1", s2[] = "DO :nothing";
	char *statements[] = { s1, s2 };
	cr_expect_eq(relmq__handler_sql_open(&h, statements, 2, &err), RELMQ_ECONFIG);
	cr_expect_eq(
	    strncmp(err.text, "statement 2: unknown parameter :nothing", 39), 0, "%s", err.text);
	cr_expect_eq(relmq__handler_sql_open(&h, statements, 0, &err), RELMQ_ECONFIG);
	cr_expect_null(h);
}
