/* test_connections.c - who is connected to, and how that is written: lists of servers, names
 * and passwords with any character, IPv6, vhosts (cases K01 to K03, P17), and a database that
 * turns read-only. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/uri.h"
#include "support/testconsumer.h"
#include "support/testgate.h"
#include "support/testoutbox.h"

enum { SOON_MS = 15000, LONG_MS = 60000, LOCK_WAIT_S = 5 };

#define PASSWORD "p@ss/w#rd%:$ 1"
#define ENCODED  "p%40ss%2Fw%23rd%25%3A%24%201"

static env e;
static proc relay, consumer;
static arrived got;

static void start(void)
{
	env_open(&e);
	env_declare(&e, e.queue, NULL);
}

static void set_read_only(bool on)
{
	admin_sql(&e, on ? "SET GLOBAL read_only = 1" : "SET GLOBAL read_only = 0");
}

static void stop(void)
{
	proc_kill(&relay);
	set_read_only(false); /* whatever became of the test */
	arrived_free(&got);
	env_close(&e);
}

TestSuite(connections, .init = start, .fini = stop, .timeout = 180);

static int lines_with(const proc *p, const char *text)
{
	int lines = 0;
	char *log = proc_log(p);
	for (char *at = log; (at = strstr(at, text)) != NULL; at++)
		lines++;
	free(log);
	return lines;
}

static char *address(char out[64], int64_t port)
{
	(void) snprintf(out, 64, "%s:%lld", e.settings.mysql.host, (long long) port);
	return out;
}

static void db_hosts(const char *first, const char *second)
{
	env_hosts(&e.settings.mysql.hosts, &e.settings.mysql.host_count, first, second);
}

static void mq_hosts(const char *first, const char *second)
{
	env_hosts(&e.settings.rabbitmq.hosts, &e.settings.rabbitmq.host_count, first, second);
}

static relmq_code try_db(relmq_error *err)
{
	relmq__db db = { 0 };
	relmq_code code = relmq__db_open(&db, &e.settings.mysql, LOCK_WAIT_S, err);
	relmq__db_close(&db);
	return code;
}

static relmq_code try_mq(relmq_error *err)
{
	relmq__conn conn = { 0 };
	relmq_code code = relmq__conn_open(&conn, &e.settings.rabbitmq, "test", err);
	relmq__conn_close(&conn, true);
	return code;
}

/* --- lists ------------------------------------------------------------------------------ */

Test(connections, who_is_dead_is_passed_over_and_named_once)
{
	char live[64];
	db_hosts("127.0.0.1:1", address(live, e.settings.mysql.port));
	env_config(&e, "\"publisher\":{\"lease\":\"2s\"}");
	outbox_fill(&e, e.queue, 0, 100, 0);
	relay = relay_start(&e, NULL);
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 0);
	cr_expect_eq(lines_with(&relay, "connect to 127.0.0.1:1 "), 1);
	cr_expect_eq(proc_stop(&relay, SOON_MS), 0);
	char *output = NULL;
	cr_expect_eq(
	    env_run(&e, &output, "relmq", (char *[]){ (char *) "status", NULL }), 0, "%s", output);
	cr_expect_not_null(strstr(output, "trying the next server"), "%s", output);
	free(output);
}

/* Two doors to one broker: whichever the relay came in by is shut, and it uses the other. */
Test(connections, a_broker_that_is_lost_is_left_for_the_next)
{
	gate doors[2];
	char at[2][64];
	for (int i = 0; i < 2; i++) {
		gate_start(&doors[i], e.settings.rabbitmq.port);
		gate_set(&doors[i], true);
		(void) address(at[i], doors[i].port);
	}
	mq_hosts(at[0], at[1]);
	env_config(&e, "\"publisher\":{\"lease\":\"2s\"}");
	relay = relay_start(&e, NULL);
	EVENTUALLY(SOON_MS, doors[0].callers + doors[1].callers == 1);
	int inside = doors[0].callers == 1 ? 0 : 1;
	for (int round = 0; round < 3; round++) {
		outbox_fill(&e, e.queue, round * 100, 100, 0);
		EVENTUALLY(SOON_MS, outbox_rows(&e) == 0);
		int other = doors[1 - inside].callers;
		int refused = doors[inside].refused;
		gate_set(&doors[inside], false);
		EVENTUALLY(SOON_MS, doors[1 - inside].callers == other + 1);
		cr_expect_eq(doors[inside].refused, refused, "it knocked where it was thrown out");
		gate_set(&doors[inside], true);
		inside = 1 - inside;
	}
	cr_expect_eq(proc_stop(&relay, SOON_MS), 0);
	queue_take(&e, e.queue, &got);
	arrived_check(&got, 0, 300, 1, 2);
	for (int i = 0; i < 2; i++)
		gate_stop(&doors[i]);
}

/* --- a database that turns read-only ------------------------------------------------------ */

/* Both doors lead to the same server: the relay leaves by the one it came in, finds the other
 * no better, goes from one to the other and is there again when either is. */
Test(connections, a_database_that_turned_read_only_is_left_and_nothing_is_lost)
{
	enum { ROWS = 3000 };
	gate doors[2];
	char at[2][64];
	for (int i = 0; i < 2; i++) {
		gate_start(&doors[i], e.settings.mysql.port);
		gate_set(&doors[i], true);
		(void) address(at[i], doors[i].port);
	}
	db_hosts(at[0], at[1]);
	env_config(&e, "\"publisher\":{\"lease\":\"5s\",\"window\":100}");
	outbox_fill(&e, e.queue, 0, ROWS, 100);
	relay = relay_start(&e, NULL);
	EVENTUALLY(SOON_MS, outbox_rows(&e) < ROWS);
	set_read_only(true);
	EVENTUALLY(LONG_MS, doors[1].callers > 1 && doors[0].callers > 2);
	char *output = NULL;
	cr_expect_eq(env_run(&e, &output, "relmq", (char *[]){ (char *) "status", NULL }), 0,
	    "to look is allowed: %s", output);
	free(output);
	char *const list[] = { (char *) "outbox", (char *) "list", NULL };
	cr_expect_eq(env_run(&e, &output, "relmq", list), 0, "%s", output);
	free(output);
	char *const changes[][4] = { { (char *) "migrate", NULL },
		{ (char *) "outbox", (char *) "retry", (char *) "--all", NULL } };
	for (size_t i = 0; i < 2; i++) {
		cr_expect_neq(env_run(&e, &output, "relmq", changes[i]), 0);
		cr_expect_not_null(strstr(output, "the server is read-only"), "%s", output);
		free(output);
	}
	set_read_only(false);
	EVENTUALLY(LONG_MS, outbox_rows(&e) == 0);
	cr_expect_eq(proc_stop(&relay, SOON_MS), 0);
	char *log = proc_log(&relay);
	cr_expect_not_null(strstr(log, "the database is back after"), "%s", log);
	cr_expect_not_null(strstr(log, " 0 refused, 0 abandoned"), "%s", log);
	cr_expect_leq(lines_with(&relay, "trying again"), 4, "a line an attempt: %s", log);
	free(log);
	queue_take(&e, e.queue, &got);
	arrived_check(&got, 0, ROWS, 1, 2);
	arrived_in_order(&got);
	for (int i = 0; i < 2; i++)
		gate_stop(&doors[i]);
}

/* SIGNAL makes the server say anything: that it is no member of its cluster any more, or what
 * is no reason to go. */
Test(connections, a_session_says_when_to_leave_its_server)
{
	static const struct {
		const char *sql;
		bool leave;
	} words[] = {
		{ "SIGNAL SQLSTATE '08S01' SET MYSQL_ERRNO = 1047", true },
		{ "SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213", false },
		{ "SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1114", false },
		{ "SIGNAL SQLSTATE 'HY000' SET MYSQL_ERRNO = 1290", true },
	};
	relmq__db db = { 0 };
	relmq_error err = RELMQ_ERROR_INIT;
	char first[64], second[64];
	(void) snprintf(
	    second, sizeof(second), "localhost:%lld", (long long) e.settings.mysql.port);
	db_hosts(address(first, e.settings.mysql.port), second);
	const char *at = first;
	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		cr_assert_eq(relmq__db_open(&db, &e.settings.mysql, LOCK_WAIT_S, &err), RELMQ_OK,
		    "%s", err.text);
		cr_expect_str_eq(db.hosts.text, at, "before %s", words[i].sql);
		cr_expect_eq(relmq__db_execf(&db, NULL, &err, "%s", words[i].sql), RELMQ_EDB);
		cr_expect_eq(
		    strstr(err.text, at) != NULL, relmq__db_is_outage(db.class), "%s", err.text);
		if (words[i].leave)
			at = at == first ? second : first;
		relmq__db_close(&db);
	}
}

static void stop_consumer(void)
{
	proc_kill(&consumer);
	set_read_only(false);
	consumer_close(&e);
}

TestSuite(connections_consumer, .fini = stop_consumer, .timeout = 180);

/* With max_attempts 1 a single attempt charged would park the message. */
Test(connections_consumer, a_database_that_turned_read_only_charges_no_attempt)
{
	enum { MESSAGES = 500 };
	consumer_open(&e, &(setup){ .consumer = "\"workers\":2", .queue = "\"max_attempts\":1" });
	put_numbered(&e, e.queue, 1, MESSAGES, 7, "sleep:5");
	consumer = consumer_start(&e, NULL);
	EVENTUALLY(SOON_MS, effects(&e) > MESSAGES / 10);
	set_read_only(true);
	EVENTUALLY(LONG_MS, proc_said(&consumer, "the server is read-only"));
	set_read_only(false);
	EVENTUALLY(LONG_MS, effects(&e) == MESSAGES);
	consumer_stop(&consumer);
	effects_are(&e, 1, MESSAGES);
	cr_expect_eq(env_ready(&e, parked(&e)), 0);
}

/* --- passwords (K01) ------------------------------------------------------------------------ */

static void make_accounts(const char *user)
{
	char text[512];
	(void) snprintf(
	    text, sizeof(text), "CREATE USER '%s'@'%%' IDENTIFIED BY '%s'", user, PASSWORD);
	admin_sql(&e, text);
	(void) snprintf(text, sizeof(text), "GRANT ALL ON %s.* TO '%s'@'%%'", e.name, user);
	admin_sql(&e, text);
	(void) snprintf(text, sizeof(text), "add_user %s '%s'", user, PASSWORD);
	cr_assert_eq(env_ctl(text), 0);
	(void) snprintf(text, sizeof(text), "set_permissions %s '.*' '.*' '.*'", user);
	cr_assert_eq(env_ctl(text), 0);
}

static void drop_accounts(const char *user)
{
	char text[128];
	(void) snprintf(text, sizeof(text), "DROP USER '%s'@'%%'", user);
	admin_sql(&e, text);
	(void) snprintf(text, sizeof(text), "delete_user %s", user);
	cr_expect_eq(env_ctl(text), 0);
}

static void set_user(const char *user)
{
	free(e.settings.mysql.user);
	free(e.settings.rabbitmq.user);
	e.settings.mysql.user = strdup(user);
	e.settings.rabbitmq.user = strdup(user);
}

static void set_password(const char *password)
{
	free(e.settings.mysql.password);
	free(e.settings.rabbitmq.password);
	e.settings.mysql.password = strdup(password);
	e.settings.rabbitmq.password = strdup(password);
}

static void use_file(const char *path)
{
	FILE *f = fopen(path, "w");
	cr_assert_not_null(f);
	(void) fputs(PASSWORD "\n", f);
	(void) fclose(f);
	f = fopen(e.config, "w");
	cr_assert_not_null(f);
	(void) fprintf(f,
	    "{\"mysql\":{\"port\":%lld,\"user\":\"%s\",\"password_file\":\"%s\",\"database\":\"%s\"},"
	    "\"rabbitmq\":{\"port\":%lld,\"user\":\"%s\",\"password_file\":\"%s\"}}",
	    (long long) e.settings.mysql.port, e.settings.mysql.user, path, e.name,
	    (long long) e.settings.rabbitmq.port, e.settings.rabbitmq.user, path);
	(void) fclose(f);
}

Test(connections, a_password_with_every_special_character)
{
	char uri[256], path[320];
	relmq_error err = RELMQ_ERROR_INIT;
	make_accounts(e.name);
	set_user(e.name);
	/* in a file */
	(void) snprintf(path, sizeof(path), "%s/%s.password", e.dir, e.name);
	use_file(path);
	outbox_fill(&e, e.queue, 0, 10, 0);
	relay = relay_start(&e, NULL);
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 0);
	cr_expect_eq(proc_stop(&relay, SOON_MS), 0);
	(void) unlink(path);
	/* encoded in an address */
	set_password("");
	(void) snprintf(uri, sizeof(uri), "amqp://%s:%s@127.0.0.1:%lld", e.name, ENCODED,
	    (long long) e.settings.rabbitmq.port);
	cr_assert_eq(
	    relmq__uri_rabbitmq(uri, &e.settings.rabbitmq, &err), RELMQ_OK, "%s", err.text);
	cr_expect_eq(try_mq(&err), RELMQ_OK, "%s", err.text);
	(void) snprintf(uri, sizeof(uri), "mysql://%s:%s@127.0.0.1:%lld/%s", e.name, ENCODED,
	    (long long) e.settings.mysql.port, e.name);
	cr_assert_eq(relmq__uri_mysql(uri, &e.settings.mysql, &err), RELMQ_OK, "%s", err.text);
	cr_expect_eq(try_db(&err), RELMQ_OK, "%s", err.text);
	/* raw in an address */
	(void) snprintf(uri, sizeof(uri), "amqp://%s:%s@127.0.0.1", e.name, PASSWORD);
	cr_expect_eq(relmq__uri_rabbitmq(uri, &e.settings.rabbitmq, &err), RELMQ_ECONFIG);
	cr_expect_eq(strncmp(err.text, "amqp address: password: ", 24), 0, "%s", err.text);
	cr_expect_null(strstr(err.text, "ss/w"), "%s", err.text);
	/* wrong: said by whom it was refused, and as whom, not with what */
	set_password("pwsecret");
	cr_expect_eq(try_mq(&err), RELMQ_EBROKER);
	cr_expect_not_null(strstr(err.text, e.name), "%s", err.text);
	cr_expect_null(strstr(err.text, "pwsecret"), "%s", err.text);
	cr_expect_eq(try_db(&err), RELMQ_EDB);
	cr_expect_not_null(strstr(err.text, e.name), "%s", err.text);
	cr_expect_null(strstr(err.text, "pwsecret"), "%s", err.text);
	set_user(getenv("RELMQ_MYSQL_USER"));
	drop_accounts(e.name);
}

/* --- vhosts (K02) ----------------------------------------------------------------------------- */

static relmq_code try_uri(const char *path, relmq_error *err)
{
	char uri[256];
	(void) snprintf(uri, sizeof(uri), "amqp://%s:%s@127.0.0.1:%lld%s", e.settings.rabbitmq.user,
	    e.settings.rabbitmq.password, (long long) e.settings.rabbitmq.port, path);
	relmq_code code = relmq__uri_rabbitmq(uri, &e.settings.rabbitmq, err);
	return code == RELMQ_OK ? try_mq(err) : code;
}

Test(connections, vhosts_with_slashes)
{
	relmq_error err = RELMQ_ERROR_INIT;
	char vhost[96], text[256];
	static const char *const root[] = { "", "/", "/%2F" };
	for (size_t i = 0; i < 3; i++)
		cr_expect_eq(try_uri(root[i], &err), RELMQ_OK, "%s: %s", root[i], err.text);
	(void) snprintf(vhost, sizeof(vhost), "%s/a b", e.name);
	(void) snprintf(text, sizeof(text), "/%s%%2Fa%%20b", e.name);
	cr_expect_eq(try_uri(text, &err), RELMQ_EBROKER);
	cr_expect_eq(err.native, AMQP_NOT_ALLOWED, "530, not %d: %s", err.native, err.text);
	cr_expect_not_null(strstr(err.text, vhost), "%s", err.text);
	(void) snprintf(text, sizeof(text), "add_vhost '%s'", vhost);
	cr_assert_eq(env_ctl(text), 0);
	(void) snprintf(text, sizeof(text), "set_permissions -p '%s' relmq '.*' '.*' '.*'", vhost);
	cr_assert_eq(env_ctl(text), 0);
	(void) snprintf(text, sizeof(text), "/%s%%2Fa%%20b", e.name);
	cr_expect_eq(try_uri(text, &err), RELMQ_OK, "%s", err.text);
	cr_expect_str_eq(e.settings.rabbitmq.vhost, vhost);
	/* the same as a field of the configuration */
	env_reopen_mq(&e);
	env_declare(&e, e.queue, NULL);
	env_config(&e, "\"publisher\":{\"lease\":\"2s\"}");
	outbox_fill(&e, e.queue, 0, 10, 0);
	relay = relay_start(&e, NULL);
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 0 && env_ready(&e, e.queue) == 10);
	cr_expect_eq(proc_stop(&relay, SOON_MS), 0);
	(void) snprintf(text, sizeof(text), "delete_vhost '%s'", vhost);
	cr_expect_eq(env_ctl(text), 0);
}

/* --- IPv6 (K03) --------------------------------------------------------------------------------- */

/* The stack listens on ::1 under the same condition. */
static bool has_ipv6(void)
{
	char line[128];
	bool found = false;
	FILE *f = fopen("/proc/net/if_inet6", "r");
	while (f != NULL && !found && fgets(line, sizeof(line), f) != NULL)
		found = strncmp(line, "00000000000000000000000000000001 ", 33) == 0;
	if (f != NULL)
		(void) fclose(f);
	return found;
}

Test(connections, ipv6)
{
	relmq_error err = RELMQ_ERROR_INIT;
	char uri[256], at[2][64];
	if (!has_ipv6())
		cr_skip_test("there is no ::1 here");
	(void) snprintf(uri, sizeof(uri), "amqp://%s:%s@[::1]:%lld/%%2F", e.settings.rabbitmq.user,
	    e.settings.rabbitmq.password, (long long) e.settings.rabbitmq.port);
	cr_assert_eq(
	    relmq__uri_rabbitmq(uri, &e.settings.rabbitmq, &err), RELMQ_OK, "%s", err.text);
	cr_expect_eq(try_mq(&err), RELMQ_OK, "%s", err.text);
	(void) snprintf(uri, sizeof(uri), "mysql://%s:%s@[::1]:%lld", e.settings.mysql.user,
	    e.settings.mysql.password, (long long) e.settings.mysql.port);
	cr_assert_eq(relmq__uri_mysql(uri, &e.settings.mysql, &err), RELMQ_OK, "%s", err.text);
	cr_expect_eq(try_db(&err), RELMQ_OK, "%s", err.text);
	/* as fields, host without brackets; then as lists */
	outbox_fill(&e, e.queue, 0, 20, 0);
	env_config(&e, "\"publisher\":{\"lease\":\"2s\"}");
	relay = relay_start(&e, NULL);
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 0);
	cr_expect(proc_said(&relay, "connected to rabbitmq [::1]:"));
	cr_expect_eq(proc_stop(&relay, SOON_MS), 0);
	(void) snprintf(at[0], 64, "[::1]:%lld", (long long) e.settings.mysql.port);
	(void) snprintf(at[1], 64, "[::1]:%lld", (long long) e.settings.rabbitmq.port);
	db_hosts(at[0], NULL);
	mq_hosts(at[1], NULL);
	cr_expect_eq(try_db(&err), RELMQ_OK, "%s", err.text);
	cr_expect_eq(try_mq(&err), RELMQ_OK, "%s", err.text);
}

/* --- frames (P17) --------------------------------------------------------------------------------- */

/* Too small a value is refused when it is read (test_settings); the default and the least that
 * is allowed connect. */
Test(connections, frame_max)
{
	static const int64_t sizes[] = { 8192, 131072, 1048576 };
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		relmq_error err = RELMQ_ERROR_INIT;
		e.settings.rabbitmq.frame_max = sizes[i];
		cr_expect_eq(try_mq(&err), RELMQ_OK, "%lld: %s", (long long) sizes[i], err.text);
	}
}
