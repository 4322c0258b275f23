/* test_settings.c - the configuration that users write: defaults, cross checks, secrets. */
#include <criterion/criterion.h>

#include "base/settings.h"
#include "scratch.h"

#define SQL    "\"handler\":{\"kind\":\"sql\",\"statements\":[\"x\"]}"
#define PLUGIN "\"handler\":{\"kind\":\"plugin\",\"path\":\"/p.so\"}"

static void no_environment(void)
{
	(void) unsetenv("RELMQ_MYSQL_PASSWORD");
	(void) unsetenv("RELMQ_RABBITMQ_PASSWORD");
}

TestSuite(settings, .init = no_environment, .fini = scratch_remove);

static relmq_code load(const char *json, relmq__settings *s, relmq_error *err)
{
	return relmq__settings_load(s, scratch_text("relmq.json", json), err);
}

Test(settings, the_documented_defaults)
{
	relmq__settings s;
	relmq_error err = RELMQ_ERROR_INIT;
	cr_assert_eq(relmq__settings_load(&s, NULL, &err), RELMQ_OK, "%s", err.text);
	cr_expect_str_eq(s.mysql.host, "127.0.0.1");
	cr_expect_eq(s.mysql.port, 3306);
	cr_expect_str_empty(s.mysql.socket);
	cr_expect_str_eq(s.mysql.user, "relmq");
	cr_expect_str_eq(s.mysql.database, "relmq");
	cr_expect_str_empty(s.mysql.password);
	cr_expect_eq(s.mysql.connect_timeout_ms, 5000);
	cr_expect_eq(s.mysql.read_timeout_ms, 30000);
	cr_expect_eq(s.mysql.write_timeout_ms, 30000);
	cr_expect_eq(s.rabbitmq.port, 5672);
	cr_expect_eq(s.rabbitmq.host_count, 0);
	cr_expect_not(s.rabbitmq.tls.enabled);
	cr_expect(s.rabbitmq.tls.verify);
	cr_expect_eq(s.mysql.host_count, 0);
	cr_expect_not(s.mysql.tls.enabled);
	cr_expect(s.mysql.tls.verify);
	cr_expect_str_eq(s.rabbitmq.vhost, "/");
	cr_expect_str_empty(s.rabbitmq.password);
	cr_expect_eq(s.rabbitmq.send_timeout_ms, 15000);
	cr_expect_eq(s.rabbitmq.heartbeat_ms, 10000);
	cr_expect_eq(s.rabbitmq.frame_max, 131072);
	cr_expect_eq(s.publisher.window, 1000);
	cr_expect_eq(s.publisher.window_bytes, 8 << 20);
	cr_expect_eq(s.publisher.ordering, RELMQ__ORDER_KEY);
	cr_expect_eq(s.publisher.lease_ms, 10000);
	cr_expect_eq(s.publisher.poll_max_ms, 20);
	cr_assert_eq(s.publisher.retry_delay_count, 5);
	cr_expect_eq(s.publisher.retry_delays_ms[0], 30000);
	cr_expect_eq(s.publisher.retry_delays_ms[4], 7200000);
	cr_expect_eq(s.publisher.max_attempts, 10);
	cr_expect_eq(s.publisher.max_message_bytes, 16 << 20);
	cr_expect_not(s.publisher.keep_sent);
	cr_expect_eq(s.publisher.sent_retention_ms, INT64_C(7) * 86400 * 1000);
	cr_expect_eq(s.consumer.workers, 2);
	cr_expect_eq(s.consumer.batch_max, 100);
	cr_expect_eq(s.consumer.prefetch, 0);
	cr_expect_eq(s.consumer.batch_time_ms, 100);
	cr_expect_eq(s.consumer.queue_count, 0);
	cr_expect_eq(s.dlx.queue_count, 0);
	cr_expect_eq(s.log.level, RELMQ_LOG_INFO);
	relmq__settings_free(&s);
	cr_expect_null(s.mysql.host);
	relmq__settings_free(&s);
}

Test(settings, queues_get_their_names_and_ladders)
{
	relmq__settings s;
	relmq_error err = RELMQ_ERROR_INIT;
	relmq_code rc =
	    load("{\"consumer\":{\"queues\":[{\"queue\":\"a\"," SQL
	         "},{\"queue\":\"b\",\"name\":\"bee\",\"max_attempts\":7," PLUGIN "}]}}",
	        &s, &err);
	cr_assert_eq(rc, RELMQ_OK, "%s", err.text);
	cr_assert_eq(s.consumer.queue_count, 2);
	cr_expect_str_eq(s.consumer.queues[0].name, "a");
	cr_expect_str_eq(s.consumer.queues[1].name, "bee");
	cr_expect_eq(s.consumer.queues[0].max_attempts, 5);
	cr_expect_eq(s.consumer.queues[1].max_attempts, 7);
	cr_expect_eq(s.consumer.queues[0].handler.kind, RELMQ__HANDLER_SQL);
	cr_expect_eq(s.consumer.queues[1].handler.kind, RELMQ__HANDLER_PLUGIN);
	cr_expect_str_eq(s.consumer.queues[1].handler.path, "/p.so");
	cr_assert_eq(s.dlx.queue_count, 2);
	const relmq__dlx_queue *d = relmq__settings_dlx(&s, "b");
	cr_assert_not_null(d);
	cr_assert_eq(d->tier_count, 3);
	cr_expect_str_eq(d->tiers[0], "5s");
	cr_expect_str_eq(d->tiers[2], "5m");
	cr_expect_null(relmq__settings_dlx(&s, "c"));
	relmq__settings_free(&s);
}

Test(settings, written_ladders_stay_as_written)
{
	relmq__settings s;
	relmq_error err = RELMQ_ERROR_INIT;
	relmq_code rc = load("{\"consumer\":{\"queues\":[{\"queue\":\"a\"," SQL "}]},\"dlx\":{"
	                     "\"queues\":[{\"queue\":\"z\"},{\"queue\":\"a\",\"tiers\":[\"60s\","
	                     "\"200ms\"]}]}}",
	    &s, &err);
	cr_assert_eq(rc, RELMQ_OK, "%s", err.text);
	cr_assert_eq(s.dlx.queue_count, 2);
	const relmq__dlx_queue *d = relmq__settings_dlx(&s, "a");
	cr_assert_eq(d->tier_count, 2);
	cr_expect_str_eq(d->tiers[0], "60s");
	cr_expect_str_eq(d->tiers[1], "200ms");
	relmq__settings_free(&s);
}

Test(settings, lists_of_servers)
{
	relmq__settings s;
	relmq_error err = RELMQ_ERROR_INIT;
	relmq_code rc = load("{\"mysql\":{\"hosts\":[\"db1\",\"[::1]:3307\"],\"socket\":\"\"},"
	                     "\"rabbitmq\":{\"hosts\":[],\"host\":\"::1\",\"port\":5673}}",
	    &s, &err);
	cr_assert_eq(rc, RELMQ_OK, "%s", err.text);
	cr_assert_eq(s.mysql.host_count, 2);
	cr_expect_str_eq(s.mysql.hosts[0], "db1");
	cr_expect_str_eq(s.mysql.hosts[1], "[::1]:3307");
	cr_expect_eq(s.rabbitmq.host_count, 0);
	cr_expect_str_eq(s.rabbitmq.host, "::1");
	cr_expect_eq(s.rabbitmq.port, 5673);
	relmq__settings_free(&s);
}

Test(settings, tls_has_a_port_of_its_own_for_rabbitmq)
{
	relmq__settings s;
	relmq_error err = RELMQ_ERROR_INIT;
	(void) scratch_text("c.pem", "x");
	(void) scratch_text("k.pem", "-----BEGIN PRIVATE KEY-----\n");
	relmq_code rc = load("{\"rabbitmq\":{\"tls\":{\"enabled\":true,\"ca_file\":\"c.pem\","
	                     "\"cert_file\":\"c.pem\",\"key_file\":\"k.pem\"}}}",
	    &s, &err);
	cr_assert_eq(rc, RELMQ_OK, "%s", err.text);
	cr_expect(s.rabbitmq.tls.enabled);
	cr_expect(s.rabbitmq.tls.verify);
	cr_expect_eq(s.rabbitmq.port, 5671);
	cr_expect_eq(s.rabbitmq.tls.ca_file[0], '/', "a relative path starts at the file's folder");
	relmq__settings_free(&s);
	rc = load("{\"rabbitmq\":{\"port\":5999,\"tls\":{\"enabled\":true}}}", &s, &err);
	cr_assert_eq(rc, RELMQ_OK, "%s", err.text);
	cr_expect_eq(s.rabbitmq.port, 5999);
	relmq__settings_free(&s);
}

/* In both of the forms that PEM has for it; nobody could be asked for the passphrase. */
Test(settings, an_encrypted_key_is_refused)
{
	static const char *const keys[] = { "-----BEGIN ENCRYPTED PRIVATE KEY-----\n",
		"-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n" };
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		relmq__settings s;
		relmq_error err = RELMQ_ERROR_INIT;
		(void) scratch_text("k.pem", keys[i]);
		cr_expect_eq(load("{\"mysql\":{\"tls\":{\"enabled\":true,\"cert_file\":\"k.pem\","
		                  "\"key_file\":\"k.pem\"}}}",
		                 &s, &err),
		    RELMQ_ECONFIG);
		cr_expect_not_null(strstr(err.text, "mysql.tls.key_file: "), "%s", err.text);
		cr_expect_not_null(
		    strstr(err.text, "is encrypted, which is not supported"), "%s", err.text);
	}
}

#define QUEUES(list) "{\"consumer\":{\"queues\":[" list "]}}"
#define HANDLER(h)   QUEUES("{\"queue\":\"a\",\"handler\":{" h "}}")
#define LADDERS(list) \
	"{\"consumer\":{\"queues\":[{\"queue\":\"a\"," SQL "}]},\"dlx\":{\"queues\":[" list "]}}"

static const struct {
	const char *json, *text; /* what follows the file's name */
} bad[] = {
	{ "{\"publisher\":{\"window\":\"x\"}}",
	    "publisher.window: must be a whole number from 1 to 65535, is \"x\"" },
	{ "{\"publisher\":{\"window\":65536}}",
	    "publisher.window: must be a whole number from 1 to 65535, is 65536" },
	{ "{\"rabbitmq\":{\"frame_max\":4096}}",
	    "rabbitmq.frame_max: must be a whole number from 8192 to 1048576, is 4096" },
	{ "{\"mysql\":{\"hosts\":[\"a\"],\"host\":\"b\"}}",
	    "mysql.host: cannot stand together with mysql.hosts; give one of the two" },
	{ "{\"mysql\":{\"hosts\":[\"a\"],\"socket\":\"/s\"}}",
	    "mysql.socket: cannot stand together with mysql.hosts; give one of the two" },
	{ "{\"rabbitmq\":{\"host\":\"127.0.0.1\",\"hosts\":[\"b\"]}}",
	    "rabbitmq.host: cannot stand together with rabbitmq.hosts; give one of the two" },
	{ "{\"rabbitmq\":{\"hosts\":[\"a:1\",\"::1:5672\"]}}",
	    "rabbitmq.hosts[1]: \"::1:5672\" is ambiguous: an IPv6 address stands in brackets "
	    "here, [::1] or [::1]:5672" },
	{ "{\"mysql\":{\"hosts\":[\"a:0\"]}}",
	    "mysql.hosts[0]: \"a:0\" must have a port from 1 to 65535 after ':'" },
	{ "{\"mysql\":{\"hosts\":[\"\"]}}",
	    "mysql.hosts[0]: must be text of 1 to 263 bytes, is \"\"" },
	{ "{\"mysql\":{\"host\":\"::1:3306\"}}",
	    "mysql.host: \"::1:3306\" is ambiguous: does it end in its port? That stands in port" },
	{ "{\"rabbitmq\":{\"host\":\"h:5672\"}}",
	    "rabbitmq.host: \"h:5672\" is no name and no IPv6 address; the port stands in port" },
	{ "{\"rabbitmq\":{\"tls\":{\"enabled\":true,\"cert_file\":\"/dev/null\"}}}",
	    "rabbitmq.tls.key_file: is missing; cert_file and key_file belong together" },
	{ "{\"rabbitmq\":{\"tls\":{\"enabled\":true,\"ca_file\":\"/no/such\"}}}",
	    "rabbitmq.tls.ca_file: /no/such: cannot read: No such file or directory" },
	{ "{\"mysql\":{\"socket\":\"/s\",\"tls\":{\"enabled\":true}}}",
	    "mysql.tls: not over mysql.socket, which never leaves this machine" },
	{ "{\"mysql\":{\"password\":\"pwsecret\"}}",
	    "mysql.password: a secret does not belong here; see the key mysql.password_file" },
	{ "{\"mysqll\":{}}",
	    "unknown key \"mysqll\"; did you mean \"mysql\"? Allowed here: mysql, "
	    "rabbitmq, publisher, consumer, dlx, log" },
	{ QUEUES("{" SQL "}"),
	    "consumer.queues[0].queue: is missing; must be text of 1 to 200 bytes" },
	{ QUEUES("{\"queue\":\"a\"}"),
	    "consumer.queues[0].handler: is missing; must be an object" },
	{ HANDLER(""),
	    "consumer.queues[0].handler.kind: is missing; must be \"sql\" or \"plugin\"" },
	{ HANDLER("\"kind\":\"exec\""),
	    "consumer.queues[0].handler.kind: must be \"sql\" or \"plugin\", is \"exec\"" },
	{ HANDLER("\"kind\":\"sql\""),
	    "consumer.queues[0].handler.statements: kind \"sql\" needs at least one" },
	{ HANDLER("\"kind\":\"sql\",\"statements\":[\"x\"],\"path\":\"/p.so\""),
	    "consumer.queues[0].handler.path: only for kind \"plugin\"" },
	{ HANDLER("\"kind\":\"sql\",\"statements\":[\"x\"],\"argument\":\"y\""),
	    "consumer.queues[0].handler.argument: only for kind \"plugin\"" },
	{ HANDLER("\"kind\":\"plugin\""),
	    "consumer.queues[0].handler.path: kind \"plugin\" needs its shared object" },
	{ HANDLER("\"kind\":\"plugin\",\"path\":\"/p.so\",\"statements\":[\"x\"]"),
	    "consumer.queues[0].handler.statements: only for kind \"sql\"" },
	{ QUEUES("{\"queue\":\"a\"," SQL "},{\"queue\":\"a\",\"name\":\"n\"," SQL "}"),
	    "consumer.queues[1].queue: \"a\" is there twice" },
	{ QUEUES("{\"queue\":\"a\"," SQL "},{\"queue\":\"b\",\"name\":\"a\"," SQL "}"),
	    "consumer.queues[1].name: \"a\" is also the name of consumer.queues[0]" },
	{ QUEUES("{\"queue\":\"a\",\"on_retry\":\"hold_key\"," SQL "}"),
	    "consumer.queues[0].on_retry: must be \"pass\", is \"hold_key\"" },
	{ LADDERS("{\"queue\":\"b\"}"),
	    "dlx.queues: \"a\" of consumer.queues[0] must be here too, or "
	    "leave dlx.queues out" },
	{ LADDERS("{\"queue\":\"a\"},{\"queue\":\"a\"}"),
	    "dlx.queues[1].queue: \"a\" is there twice" },
	{ LADDERS("{\"queue\":\"a\",\"tiers\":[\"60s\",\"1m\"]}"),
	    "dlx.queues[0].tiers[1]: \"1m\" is the same as \"60s\" before it" },
	{ LADDERS("{\"queue\":\"a\",\"tiers\":[]}"),
	    "dlx.queues[0].tiers: must be a list of 1 to 10 durations, is a list of 0" },
};

Test(settings, a_refusal_names_the_path)
{
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		relmq__settings s;
		relmq_error err = RELMQ_ERROR_INIT;
		cr_expect_eq(load(bad[i].json, &s, &err), RELMQ_ECONFIG, "%s", bad[i].json);
		const char *text = strstr(err.text, "relmq.json: ");
		cr_assert_not_null(text, "no file in: %s", err.text);
		cr_expect_str_eq(text + strlen("relmq.json: "), bad[i].text);
		cr_expect_null(s.mysql.host, "something is left to free");
	}
}

/* --- secrets ------------------------------------------------------------------------ */

static const struct {
	const char *bytes;
	size_t n;
	const char *password; /* NULL: refused */
} password_files[] = {
	{ "", 0, "" },
	{ "\n", 1, "" },
	{ "pw", 2, "pw" },
	{ "pw\n", 3, "pw" },
	{ "pw\r\n", 4, "pw" },
	{ "pw\r", 3, "pw\r" },
	{ " p@ss/w#rd%:$ 1 \nsecond line\n", 29, " p@ss/w#rd%:$ 1 " },
	{ "p\0w\n", 4, NULL },
	{ "pw\n\0", 4, "pw" },
};

Test(settings, the_first_line_of_the_password_file)
{
	(void) setenv("RELMQ_MYSQL_PASSWORD", "from the environment", 1);
	for (size_t i = 0; i < sizeof(password_files) / sizeof(password_files[0]); i++) {
		relmq__settings s;
		relmq_error err = RELMQ_ERROR_INIT;
		(void) scratch_write("pw", password_files[i].bytes, password_files[i].n);
		relmq_code rc = load("{\"mysql\":{\"password_file\":\"pw\"}}", &s, &err);
		if (password_files[i].password == NULL) {
			cr_expect_eq(rc, RELMQ_ECONFIG, "case %zu", i);
			continue;
		}
		cr_assert_eq(rc, RELMQ_OK, "case %zu: %s", i, err.text);
		cr_expect_str_eq(s.mysql.password, password_files[i].password, "case %zu", i);
		relmq__settings_free(&s);
	}
}

Test(settings, the_environment_has_the_password_where_no_file_does)
{
	relmq__settings s;
	(void) setenv("RELMQ_MYSQL_PASSWORD", "m", 1);
	(void) setenv("RELMQ_RABBITMQ_PASSWORD", "r", 1);
	cr_assert_eq(load("{\"mysql\":{\"password\":\"(hidden)\"}}", &s, NULL), RELMQ_OK);
	cr_expect_str_eq(s.mysql.password, "m");
	cr_expect_str_eq(s.rabbitmq.password, "r");
	relmq__settings_free(&s);
}

Test(settings, a_password_file_that_cannot_be_read_is_named_with_its_key)
{
	relmq__settings s;
	relmq_error err = RELMQ_ERROR_INIT;
	cr_assert_eq(load("{\"rabbitmq\":{\"password_file\":\"none\"}}", &s, &err), RELMQ_ECONFIG);
	cr_expect_not_null(
	    strstr(err.text, "relmq.json: rabbitmq.password_file: "), "%s", err.text);
	cr_expect_not_null(strstr(err.text, "/none: cannot read: No such file"), "%s", err.text);
	cr_expect_eq(err.origin, RELMQ_FROM_OS);
}

/* --- showing ------------------------------------------------------------------------ */

static char *shown(const relmq__settings *s)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	cr_assert(relmq__settings_show(s, out));
	(void) fclose(out);
	return text;
}

Test(settings, what_is_shown_has_no_secret_and_can_be_read_again)
{
	relmq__settings s, again;
	relmq_error err = RELMQ_ERROR_INIT;
	(void) setenv("RELMQ_RABBITMQ_PASSWORD", "pwsecret", 1);
	cr_assert_eq(load(LADDERS("{\"queue\":\"a\",\"tiers\":[\"60s\"]}"), &s, &err), RELMQ_OK,
	    "%s", err.text);
	char *first = shown(&s);
	cr_expect_null(strstr(first, "pwsecret"));
	cr_expect_not_null(strstr(first, "\"password\": \"(hidden)\""));
	cr_expect_not_null(strstr(first, "\"password\": \"(none)\""));
	cr_assert_eq(load(first, &again, &err), RELMQ_OK, "%s", err.text);
	char *second = shown(&again);
	cr_expect_str_eq(first, second);
	free(first);
	free(second);
	relmq__settings_free(&s);
	relmq__settings_free(&again);
}

Test(settings, what_is_not_in_force_is_not_shown)
{
	relmq__settings s, again;
	relmq_error err = RELMQ_ERROR_INIT;
	cr_assert_eq(
	    load("{\"mysql\":{\"hosts\":[\"a\",\"b:2\"]}}", &s, &err), RELMQ_OK, "%s", err.text);
	char *first = shown(&s);
	cr_expect_not_null(strstr(first, "\"hosts\": [\"a\", \"b:2\"]"), "%s", first);
	cr_expect_null(strstr(first, "\"socket\""), "%s", first);
	cr_assert_eq(load(first, &again, &err), RELMQ_OK, "%s", err.text);
	char *second = shown(&again);
	cr_expect_str_eq(first, second);
	free(first);
	free(second);
	relmq__settings_free(&s);
	relmq__settings_free(&again);
}

Test(settings, a_full_disk_is_noticed)
{
	relmq__settings s;
	FILE *full = fopen("/dev/full", "w");
	cr_assert_not_null(full);
	cr_assert_eq(relmq__settings_default(&s, NULL), RELMQ_OK);
	cr_expect_not(relmq__settings_show(&s, full));
	cr_expect_not(relmq__settings_reference(full));
	(void) fclose(full);
	relmq__settings_free(&s);
}

/* Every key has a default that its own range allows, and a line of help. */
Test(settings, the_reference_is_complete)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	cr_assert(relmq__settings_reference(out));
	(void) fclose(out);
	cr_expect_null(strstr(text, "(null)"));
	cr_expect_not_null(strstr(text, "publisher.window = 1000\n"));
	cr_expect_not_null(strstr(text, "consumer.queues[].handler.kind (required)\n"));
	cr_expect_not_null(strstr(text, "dlx.queues[].tiers = [5s 30s 5m]\n"));
	free(text);
}
