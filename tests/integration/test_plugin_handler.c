/* test_plugin_handler.c - plugins that write, on a real server: the example that the
 * documentation shows, and the one that other tests use. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "consumer/delivery.h"
#include "consumer/handler.h"
#include "mq/table.h"

enum { LOCK_WAIT_S = 5 };

static relmq__mysql_settings settings;
static relmq__db db;
static relmq_error err;
static char database[64];

static char *env(const char *name, char *otherwise)
{
	char *value = getenv(name);
	return value != NULL ? value : otherwise;
}

static void run_sql(const char *sql)
{
	cr_assert_eq(relmq__db_exec(&db, sql, strlen(sql), NULL, &err), RELMQ_OK, "%s", err.text);
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
	(void) snprintf(database, sizeof(database), "relmq_t_%d_plugin", (int) getpid());
	cr_assert_eq(relmq__db_open(&db, &settings, LOCK_WAIT_S, &err), RELMQ_OK, "%s", err.text);
	cr_assert_eq(relmq__db_execf(&db, NULL, &err, "CREATE DATABASE %s", database), RELMQ_OK);
	cr_assert_eq(relmq__db_execf(&db, NULL, &err, "USE %s", database), RELMQ_OK);
	run_sql("CREATE TABLE message_counts (business_key VARBINARY(255) PRIMARY KEY,"
	        " messages BIGINT UNSIGNED NOT NULL)");
	run_sql(
	    "CREATE TABLE effects (id VARBINARY(255), `key` VARBINARY(255), body LONGBLOB, attempt INT)");
}

static void drop_database(void)
{
	cr_expect_eq(relmq__db_execf(&db, NULL, &err, "DROP DATABASE IF EXISTS %s", database),
	    RELMQ_OK, "%s", err.text);
	relmq__db_close(&db);
}

TestSuite(plugin_handler, .init = create_database, .fini = drop_database, .timeout = 60);

static relmq__handler *load(const char *path)
{
	relmq__handler *h = NULL;
	cr_assert_eq(relmq__handler_plugin_open(&h, path, "", &err), RELMQ_OK, "%s", err.text);
	return h;
}

static relmq_verdict handle(relmq__handler *h, const char *headers, const char *body, char *reason)
{
	char why[100];
	amqp_basic_properties_t props = { 0 };
	relmq__msg *m = relmq__msg_new();
	cr_assert_not_null(m);
	props._flags = AMQP_BASIC_MESSAGE_ID_FLAG | AMQP_BASIC_HEADERS_FLAG;
	props.message_id = amqp_cstring_bytes("id-1");
	cr_assert(
	    relmq__table_from_json(m, headers, strlen(headers), &props.headers, why, sizeof(why)));
	cr_assert(relmq__msg_set_props(m, &props));
	cr_assert(relmq__msg_set_body(m, body, strlen(body)));
	relmq_delivery *d = relmq__delivery_new(m);
	cr_assert_not_null(d);
	run_sql("START TRANSACTION");
	relmq_verdict verdict = h->ops->run(h, d, &db, NULL);
	run_sql(verdict == RELMQ_DONE ? "COMMIT" : "ROLLBACK");
	(void) snprintf(reason, RELMQ__REASON_MAX + 1, "%s", d->reason);
	relmq__delivery_free(d);
	return verdict;
}

static int64_t number(const char *sql)
{
	int64_t n = -1;
	cr_assert_eq(relmq__db_number(&db, sql, -1, &n, &err), RELMQ_OK, "%s", err.text);
	return n;
}

Test(plugin_handler, example_counts_messages_by_key)
{
	static const char *const keys[] = { "{\"x-relmq-key\":\"a'b\"}", "{\"x-relmq-key\":\"c\"}",
		"{\"x-relmq-key\":\"a'b\"}", "{}" };
	char reason[RELMQ__REASON_MAX + 1], long_key[400];
	relmq__handler *h = load(COUNT_PLUGIN);
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		cr_expect_eq(handle(h, keys[i], "", reason), RELMQ_DONE, "%s", reason);
	cr_expect_eq(number("SELECT messages FROM message_counts WHERE business_key = 'a\\'b'"), 2);
	cr_expect_eq(number("SELECT messages FROM message_counts WHERE business_key = 'c'"), 1);
	cr_expect_eq(number("SELECT messages FROM message_counts WHERE business_key = ''"), 1);
	(void) snprintf(long_key, sizeof(long_key), "{\"x-relmq-key\":\"%0256d\"}", 0);
	cr_expect_eq(handle(h, long_key, "", reason), RELMQ_REJECT);
	cr_expect_str_eq(reason, "a key of 256 bytes is too long to count");
	run_sql("DROP TABLE message_counts");
	cr_expect_eq(handle(h, "{}", "", reason), RELMQ_RETRY);
	cr_expect_eq(strncmp(reason, "count: (1146) ", 14), 0, "%s", reason);
	relmq__handler_close(h);
}

/* What tests rely on when they tell the test plugin what to do. */
static const struct {
	const char *headers, *body;
	relmq_verdict verdict;
	int64_t rows; /* left in effects */
	const char *reason;
} orders[] = {
	{ "{}", "hello", RELMQ_DONE, 1, "" },
	{ "{}", "retry", RELMQ_RETRY, 0, "told to retry" },
	{ "{}", "reject", RELMQ_REJECT, 0, "told to reject" },
	{ "{\"x-test-verdict\":\"reject\"}", "hello", RELMQ_REJECT, 0, "told to reject" },
	{ "{\"x-test-verdict\":\"none\"}", "hello", RELMQ_RETRY, 0, "handler returned no verdict" },
	{ "{\"x-test-verdict\":\"error\"}", "hello", RELMQ_RETRY, 0, "(1054) " },
	{ "{\"x-test-verdict\":\"commit\"}", "hello", RELMQ_DONE, 1, "" },
	{ "{\"x-test-verdict\":\"sleep:1\"}", "hello", RELMQ_DONE, 1, "" },
	{ "{\"x-test-verdict\":\"until:3\"}", "hello", RELMQ_RETRY, 0, "told to until:3" },
	{ "{\"x-test-verdict\":\"until:3\",\"x-relmq-attempt\":3}", "hello", RELMQ_DONE, 1, "" },
};

Test(plugin_handler, test_plugin_does_as_told)
{
	relmq__handler *h = load(TEST_PLUGIN);
	for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
		char reason[RELMQ__REASON_MAX + 1];
		run_sql("DELETE FROM effects");
		cr_expect_eq(handle(h, orders[i].headers, orders[i].body, reason),
		    orders[i].verdict, "%zu", i);
		cr_expect_eq(number("SELECT COUNT(*) FROM effects"), orders[i].rows, "%zu", i);
		cr_expect_eq(
		    strncmp(reason, orders[i].reason, strlen(orders[i].reason)), 0, "%s", reason);
	}
	relmq__handler_close(h);
}
