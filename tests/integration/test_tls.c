/* test_tls.c - both servers by TLS: what is refused and why, that nothing is ever said in plain
 * text instead, that every wait stays bounded, and relay and consumer end to end (cases K05,
 * K06, P15). The servers' certificate is for the name localhost only. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <relmq/consumer.h>
#include <relmq/publisher.h>

#include "support/testconsumer.h"
#include "support/testgate.h"
#include "support/testoutbox.h"

enum { SOON_MS = 20000, LONG_MS = 90000, LOCK_WAIT_S = 5, MIB = 1 << 20 };

static env e;
static proc relay, consumer;

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

static void set(char **at, const char *text)
{
	free(*at);
	*at = strdup(text);
	cr_assert_not_null(*at);
}

static const char *in_tls_folder(const char *file)
{
	static char path[2][512];
	static int turn;
	turn ^= 1;
	(void) snprintf(path[turn], sizeof(path[turn]), "%s/%s", getenv("RELMQ_TLS_DIR"), file);
	return path[turn];
}

/* --- names and certificates (K05) ---------------------------------------------------------- */

/* False: the database does not change it, because MySQL looks at the date itself. */
static bool show_certificate(const char *file)
{
	char line[1200];
	(void) snprintf(
	    line, sizeof(line), "cp %s %s", in_tls_folder(file), in_tls_folder("server.pem"));
	cr_assert_eq(system(line), 0);
	cr_assert_eq(env_ctl("eval 'ssl:clear_pem_cache().'"), 0);
	relmq__settings plain = e.settings;
	plain.mysql.tls.enabled = false;
	relmq__db db = { 0 };
	relmq_error err;
	plain.mysql.user = getenv("RELMQ_MYSQL_ADMIN_USER");
	plain.mysql.password = getenv("RELMQ_MYSQL_ADMIN_PASSWORD");
	cr_assert_eq(
	    relmq__db_open(&db, &plain.mysql, LOCK_WAIT_S, &err), RELMQ_OK, "%s", err.text);
	bool changes = db.is_mariadb;
	if (changes)
		cr_assert_eq(
		    relmq__db_execf(&db, NULL, &err, "FLUSH SSL"), RELMQ_OK, "%s", err.text);
	relmq__db_close(&db);
	return changes;
}

static void start(void)
{
	env_open(&e);
	env_use_tls(&e.settings);
}

static void stop(void)
{
	proc_kill(&relay);
	env_close(&e);
}

static void restore(void) /* and then stop() */
{
	(void) show_certificate("good.pem");
}

TestSuite(tls, .init = start, .fini = stop, .timeout = 120);

static void expect_mq_refused(const char *what, const char *reason)
{
	relmq_error err = RELMQ_ERROR_INIT;
	cr_expect_eq(try_mq(&err), RELMQ_EBROKER, "%s: the broker was believed", what);
	cr_expect_not_null(strstr(err.text, "TLS refused: "), "%s: %s", what, err.text);
	cr_expect_not_null(strstr(err.text, reason), "%s: %s", what, err.text);
}

static void expect_db_refused(const char *what, const char *reason)
{
	relmq_error err = RELMQ_ERROR_INIT;
	cr_expect_eq(try_db(&err), RELMQ_EDB, "%s: the database was believed", what);
	cr_expect_eq(err.native, 2026, "%s: %s", what, err.text);
	cr_expect_not_null(strstr(err.text, reason), "%s: %s", what, err.text);
}

static void expect_refused(const char *what, const char *mq_reason, const char *db_reason)
{
	expect_mq_refused(what, mq_reason);
	expect_db_refused(what, db_reason);
}

static void expect_accepted(const char *what)
{
	relmq_error err = RELMQ_ERROR_INIT;
	cr_expect_eq(try_mq(&err), RELMQ_OK, "%s: %s", what, err.text);
	cr_expect_eq(try_db(&err), RELMQ_OK, "%s: %s", what, err.text);
}

Test(tls, only_the_right_name_passes)
{
	expect_accepted("localhost");
	set(&e.settings.mysql.host, "127.0.0.1");
	set(&e.settings.rabbitmq.host, "127.0.0.1");
	expect_refused("an address", "IP address mismatch", "certificate for 127.0.0.1");
	/* a name that leads there and is not in the certificate */
	set(&e.settings.mysql.host, "127.1");
	set(&e.settings.rabbitmq.host, "127.1");
	expect_refused("another name", "hostname mismatch", "certificate for 127.1");
	e.settings.mysql.tls.verify = e.settings.rabbitmq.tls.verify = false;
	expect_accepted("not verified");
}

Test(tls, only_a_known_authority_passes)
{
	set(&e.settings.mysql.tls.ca_file, in_tls_folder("other-ca.pem"));
	set(&e.settings.rabbitmq.tls.ca_file, in_tls_folder("other-ca.pem"));
	expect_refused("a stranger", "certificate", "certificate");
	/* the system's authorities do not know ours */
	set(&e.settings.mysql.tls.ca_file, "");
	set(&e.settings.rabbitmq.tls.ca_file, "");
	expect_refused("the system", "certificate", "certificate");
	/* but where the environment says so */
	(void) setenv("SSL_CERT_FILE", in_tls_folder("ca.pem"), 1);
	expect_accepted("the environment");
}

Test(tls, an_expired_certificate_is_refused, .fini = restore)
{
	bool both = show_certificate("expired.pem");
	expect_mq_refused("expired", "certificate has expired");
	if (both)
		expect_db_refused("expired", "certificate has expired");
	(void) show_certificate("good.pem");
	expect_accepted("renewed");
}

Test(tls, the_programs_own_certificate)
{
	relmq__tls_settings *both[] = { &e.settings.mysql.tls, &e.settings.rabbitmq.tls };
	for (int i = 0; i < 2; i++) {
		set(&both[i]->cert_file, in_tls_folder("client.pem"));
		set(&both[i]->key_file, in_tls_folder("client.key"));
	}
	expect_accepted("with a certificate");
	relmq_error err = RELMQ_ERROR_INIT;
	for (int i = 0; i < 2; i++)
		set(&both[i]->key_file, in_tls_folder("server.key"));
	cr_expect_eq(try_mq(&err), RELMQ_EBROKER);
	cr_expect_not_null(strstr(err.text, "tls.key_file"), "%s", err.text);
	cr_expect_not_null(strstr(err.text, "mismatch"), "%s", err.text);
	cr_expect_eq(try_db(&err), RELMQ_EDB);
	cr_expect_not_null(strstr(err.text, "key"), "%s", err.text);
	/* the file was looked at when it was read; a passphrase is not asked for later either */
	for (int i = 0; i < 2; i++)
		set(&both[i]->key_file, in_tls_folder("encrypted.key"));
	cr_expect_eq(try_mq(&err), RELMQ_EBROKER);
	cr_expect_not_null(strstr(err.text, "tls.key_file"), "%s", err.text);
}

/* --- no plain text instead ------------------------------------------------------------------- */

static const char *const secrets[] = { "AMQP", "PLAIN", "relmq" };

static void expect_nothing_said(gate *g)
{
	for (size_t i = 0; i < sizeof(secrets) / sizeof(secrets[0]); i++)
		cr_expect_not(
		    gate_heard(g, secrets[i]), "\"%s\" was said in plain text", secrets[i]);
	cr_expect_not(gate_heard(g, e.settings.mysql.password));
	cr_expect_not(gate_heard(g, e.settings.rabbitmq.password));
}

Test(tls, a_broker_without_tls_is_told_nothing)
{
	gate g;
	relmq_error err = RELMQ_ERROR_INIT;
	gate_start(&g, strtoll(getenv("RELMQ_AMQP_PORT"), NULL, 10));
	gate_set(&g, true);
	e.settings.rabbitmq.port = g.port;
	for (int verify = 0; verify < 2; verify++) {
		e.settings.rabbitmq.tls.verify = verify;
		cr_expect_eq(try_mq(&err), RELMQ_EBROKER);
		cr_expect_not_null(
		    strstr(err.text, "the server does not speak TLS on this port"), "%s", err.text);
	}
	cr_expect_gt(g.heard_len, 0);
	cr_expect_eq(g.heard[0], 0x16, "the first byte is no TLS handshake");
	gate_stop(&g);
	expect_nothing_said(&g);
}

/* As an attacker on the way would do it: the greeting says that the server has no TLS. */
Test(tls, a_database_that_seems_to_have_no_tls_is_told_nothing)
{
	gate g;
	relmq_error err = RELMQ_ERROR_INIT;
	gate_start(&g, e.settings.mysql.port);
	gate_set(&g, true);
	gate_misbehave(&g, GATE_STRIP_TLS);
	e.settings.mysql.port = g.port;
	cr_expect_eq(try_db(&err), RELMQ_EDB);
	cr_expect_eq(err.native, 2026, "%d %s", err.native, err.text);
	cr_expect_gt(g.callers, 0);
	expect_nothing_said(&g);
	/* Unverified, the client library logs in; but no session comes of it. */
	set(&e.settings.mysql.user, getenv("RELMQ_MYSQL_USER"));
	e.settings.mysql.tls.verify = false;
	cr_expect_eq(try_db(&err), RELMQ_EDB);
	cr_expect_eq(err.native, 2026, "%d %s", err.native, err.text);
	cr_expect_not(gate_heard(&g, e.settings.mysql.password));
	cr_expect_not(gate_heard(&g, "SET NAMES"), "a statement in plain text");
	/* The same door without TLS asked for: what is tested above is the refusal. */
	e.settings.mysql.tls.enabled = false;
	cr_expect_eq(try_db(&err), RELMQ_OK, "%s", err.text);
	cr_expect(gate_heard(&g, "SET NAMES"));
	gate_stop(&g);
}

/* --- bounds (K06) ------------------------------------------------------------------------------ */

Test(tls, a_handshake_that_never_ends_is_bounded)
{
	gate mq, db;
	relmq_error err = RELMQ_ERROR_INIT;
	gate_start(&mq, e.settings.rabbitmq.port);
	gate_start(&db, e.settings.mysql.port);
	gate_set(&mq, true);
	gate_set(&db, true);
	e.settings.rabbitmq.port = mq.port;
	e.settings.mysql.port = db.port;
	e.settings.rabbitmq.connect_timeout_ms = 1000;
	e.settings.mysql.connect_timeout_ms = 1000;
	e.settings.mysql.read_timeout_ms = 2000;
	static const gate_fault faults[] = { GATE_SILENT, GATE_DEAF };
	for (int i = 0; i < 2; i++) {
		gate_misbehave(&mq, faults[i]);
		gate_misbehave(&db, faults[i]);
		int64_t began = now_ms();
		cr_expect_eq(try_mq(&err), RELMQ_EBROKER);
		cr_expect_lt(now_ms() - began, 3000, "fault %d: %s", i, err.text);
		began = now_ms();
		cr_expect_eq(try_db(&err), RELMQ_EDB);
		cr_expect_lt(now_ms() - began, 5000, "fault %d: %s", i, err.text);
	}
	gate_misbehave(&mq, GATE_FAIR);
	gate_misbehave(&db, GATE_FAIR);
	expect_accepted("fair again");
	gate_stop(&mq);
	gate_stop(&db);
}

/* A peer that takes nothing any more while we have much to say: the watchdog ends it, TLS or
 * not; and what is written to a socket that is gone kills nobody, though nothing ignores
 * SIGPIPE here. */
static int publish_until_it_fails(relmq__conn *c, relmq_error *err)
{
	static char body[MIB];
	amqp_bytes_t bytes = { sizeof(body), body };
	for (int i = 0; i < 1000; i++) {
		relmq__conn_begin(c);
		int rc = amqp_basic_publish(c->state, RELMQ__CHANNEL, amqp_empty_bytes,
		    amqp_cstring_bytes("relmq-no-such-queue"), 0, 0, NULL, bytes);
		relmq__conn_end(c);
		if (rc != AMQP_STATUS_OK) {
			(void) relmq__conn_fail_status(c, rc, "publish", err);
			return i;
		}
	}
	return 1000;
}

Test(tls, a_peer_that_stands_still_ends_a_send)
{
	gate g;
	relmq_error err = RELMQ_ERROR_INIT;
	relmq__conn conn = { 0 };
	gate_start(&g, e.settings.rabbitmq.port);
	gate_set(&g, true);
	e.settings.rabbitmq.port = g.port;
	e.settings.rabbitmq.send_timeout_ms = 1000;
	(void) signal(SIGPIPE, SIG_DFL);
	for (int hangs_up = 0; hangs_up < 2; hangs_up++) {
		cr_assert_eq(relmq__conn_open(&conn, &e.settings.rabbitmq, "test", &err), RELMQ_OK,
		    "%s", err.text);
		if (hangs_up)
			gate_set(&g, false);
		else
			gate_misbehave(&g, GATE_SILENT);
		int64_t began = now_ms();
		cr_expect_lt(publish_until_it_fails(&conn, &err), 1000);
		cr_expect_lt(now_ms() - began, 5000, "%s", err.text);
		began = now_ms();
		relmq__conn_close(&conn, true);
		cr_expect_lt(now_ms() - began, 8000, "closing took long");
		gate_misbehave(&g, GATE_FAIR);
	}
	gate_stop(&g);
}

Test(tls, a_database_that_hangs_up_or_stands_still_ends_a_statement)
{
	gate g;
	relmq_error err = RELMQ_ERROR_INIT;
	relmq__db db = { 0 };
	gate_start(&g, e.settings.mysql.port);
	gate_set(&g, true);
	e.settings.mysql.port = g.port;
	e.settings.mysql.read_timeout_ms = 1000;
	(void) signal(SIGPIPE, SIG_IGN); /* see base/sigpipe.h */
	for (int hangs_up = 0; hangs_up < 2; hangs_up++) {
		cr_assert_eq(relmq__db_open(&db, &e.settings.mysql, LOCK_WAIT_S, &err), RELMQ_OK,
		    "%s", err.text);
		if (hangs_up)
			gate_set(&g, false);
		else
			gate_misbehave(&g, GATE_SILENT);
		int64_t began = now_ms();
		for (int i = 0; i < 2; i++) {
			cr_expect_eq(relmq__db_execf(&db, NULL, &err, "DO 1"), RELMQ_EDB);
			cr_expect_eq(db.class, RELMQ__DB_RECONNECT, "%d %s", err.native, err.text);
		}
		cr_expect_lt(now_ms() - began, 8000, "%s", err.text);
		relmq__db_close(&db);
		gate_misbehave(&g, GATE_FAIR);
	}
	gate_stop(&g);
}

/* --- end to end ------------------------------------------------------------------------------------ */

static gate mq_door, db_door;

static const setup through = { .consumer = "\"workers\":2,\"prefetch\":200",
	.queue = "\"max_attempts\":1",
	.keeps_order = true };

/* The programs go by the doors, the test itself around them. */
static void open_doors(void)
{
	(void) setenv("RELMQ_TEST_TLS", "1", 1);
	consumer_open(&e, &through);
	gate_start(&mq_door, e.settings.rabbitmq.port);
	gate_start(&db_door, e.settings.mysql.port);
	gate_set(&mq_door, true);
	gate_set(&db_door, true);
	relmq__settings own = e.settings;
	e.settings.rabbitmq.port = mq_door.port;
	e.settings.mysql.port = db_door.port;
	e.settings.rabbitmq.heartbeat_ms = 1000;
	e.settings.rabbitmq.connect_timeout_ms = 2000;
	e.settings.mysql.connect_timeout_ms = 2000;
	e.settings.mysql.read_timeout_ms = 2000;
	consumer_config(&e, &through);
	e.settings = own;
}

static void close_doors(void)
{
	proc_kill(&relay);
	proc_kill(&consumer);
	gate_stop(&mq_door);
	gate_stop(&db_door);
	consumer_close(&e);
}

TestSuite(tls_through, .init = open_doors, .fini = close_doors, .timeout = 240);

static void start_both(void)
{
	relay = relay_start(&e, NULL);
	consumer = consumer_start(&e, NULL);
}

static void stop_both(void)
{
	cr_expect_eq(proc_stop(&relay, SOON_MS), 0);
	consumer_stop(&consumer);
	char *log = proc_log(&relay);
	cr_expect_not_null(strstr(log, " 0 refused, 0 abandoned"), "%s", log);
	free(log);
}

/* Ten of 1 MiB between three thousand small ones, both ways. */
Test(tls_through, relay_and_consumer_small_messages_and_large)
{
	enum { ROWS = 3000, LARGE = 10 };
	outbox_fill(&e, e.queue, 0, ROWS / 2, 100);
	for (int i = 0; i < LARGE; i++)
		env_sql(&e,
		    "INSERT INTO message_outbox (msg_id, routing_key, payload) VALUES"
		    " ('large-%d', '%s', REPEAT('x', %d))",
		    i, e.queue, MIB + i);
	outbox_fill(&e, e.queue, ROWS / 2, ROWS / 2, 100);
	start_both();
	EVENTUALLY(LONG_MS, effects(&e) == ROWS + LARGE);
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 0);
	stop_both();
	cr_expect_eq(consumer_total(&consumer, "duplicates"), 0);
	cr_expect_not(gate_heard(&mq_door, "AMQP"));
	cr_expect_not(gate_heard(&db_door, "message_outbox"));
}

/* Both halves in a program of somebody else, which knows its servers by their addresses alone,
 * and has not turned SIGPIPE off. */
static relmq_publisher *own_publisher;
static relmq_consumer *own_consumer;

static void *publish_main(void *arg)
{
	relmq_error err = RELMQ_ERROR_INIT;
	(void) arg;
	return relmq_publisher_run(own_publisher, &err) == RELMQ_OK
	    ? NULL
	    : (void *) (uintptr_t) "publisher";
}

static void *consume_main(void *arg)
{
	relmq_error err = RELMQ_ERROR_INIT;
	(void) arg;
	return relmq_consumer_run(own_consumer, &err) == RELMQ_OK ? NULL
	                                                          : (void *) (uintptr_t) "consumer";
}

static relmq_verdict write_effect(relmq_delivery *d, MYSQL *tx, void *arg)
{
	char sql[256];
	(void) arg;
	(void) snprintf(sql, sizeof(sql),
	    "INSERT INTO effects (id, `key`, body, attempt) VALUES ('%s', '', '', 1)",
	    relmq_delivery_id(d));
	return mysql_query(tx, sql) == 0 ? RELMQ_DONE : RELMQ_RETRY;
}

static void open_own(void)
{
	relmq_error err = RELMQ_ERROR_INIT;
	char amqp[1024], mysql[1024];
	relmq_publisher_opts p = RELMQ_PUBLISHER_OPTS_INIT;
	relmq_consumer_opts c = RELMQ_CONSUMER_OPTS_INIT;
	(void) snprintf(amqp, sizeof(amqp), "amqps://%s:%s@localhost:%lld/?cacertfile=%s",
	    e.settings.rabbitmq.user, e.settings.rabbitmq.password, (long long) mq_door.port,
	    e.settings.rabbitmq.tls.ca_file);
	(void) snprintf(mysql, sizeof(mysql),
	    "mysql://%s:%s@localhost:%lld/%s?tls=on&cacertfile=%s", e.settings.mysql.user,
	    e.settings.mysql.password, (long long) db_door.port, e.name,
	    e.settings.mysql.tls.ca_file);
	p.amqp_uri = c.amqp_uri = amqp;
	p.mysql_dsn = c.mysql_dsn = mysql;
	c.retry_tiers = "200ms";
	cr_assert_eq(relmq_publisher_open(&own_publisher, &p, &err), RELMQ_OK, "%s", err.text);
	cr_assert_eq(relmq_consumer_open(&own_consumer, &c, &err), RELMQ_OK, "%s", err.text);
	cr_assert_eq(relmq_consumer_handle(own_consumer, e.queue, write_effect, NULL, &err),
	    RELMQ_OK, "%s", err.text);
}

Test(tls_through, the_libraries_by_address)
{
	enum { ROWS = 2000 };
	pthread_t threads[2];
	void *failed[2];
	(void) signal(SIGPIPE, SIG_DFL);
	open_own();
	outbox_fill(&e, e.queue, 0, ROWS, 100);
	cr_assert_eq(pthread_create(&threads[0], NULL, publish_main, NULL), 0);
	cr_assert_eq(pthread_create(&threads[1], NULL, consume_main, NULL), 0);
	EVENTUALLY(SOON_MS, effects(&e) > 0);
	gate_set(&mq_door, false);
	gate_set(&db_door, false);
	EVENTUALLY(SOON_MS, mq_door.refused > 1 && db_door.refused > 1);
	gate_set(&mq_door, true);
	gate_set(&db_door, true);
	EVENTUALLY(LONG_MS, effects(&e) == ROWS && outbox_rows(&e) == 0);
	relmq_publisher_stop(own_publisher);
	relmq_consumer_stop(own_consumer);
	for (int i = 0; i < 2; i++) {
		(void) pthread_join(threads[i], &failed[i]);
		cr_expect_null(failed[i], "%s", (const char *) failed[i]);
	}
	relmq_publisher_close(own_publisher);
	relmq_consumer_close(own_consumer);
	cr_expect_not(gate_heard(&mq_door, "AMQP"));
	cr_expect_not(gate_heard(&db_door, "message_outbox"));
}

/* Nothing passes and nobody hangs up, again and again: noticed, left, and back when it ends. */
Test(tls_through, a_half_open_peer_is_noticed_in_two_heartbeats)
{
	enum { ROWS = 2000 };
	outbox_fill(&e, e.queue, 0, ROWS, 100);
	start_both();
	EVENTUALLY(SOON_MS, effects(&e) > 0);
	int64_t began = now_ms();
	gate_misbehave(&mq_door, GATE_SILENT);
	EVENTUALLY(
	    SOON_MS, proc_said(&relay, "trying again") && proc_said(&consumer, "intake: rabbitmq"));
	cr_expect_lt(now_ms() - began, 8000);
	gate_misbehave(&mq_door, GATE_FAIR);
	EVENTUALLY(LONG_MS, effects(&e) == ROWS && outbox_rows(&e) == 0);
	outbox_fill(&e, e.queue, ROWS, ROWS, 100);
	began = now_ms();
	gate_misbehave(&db_door, GATE_SILENT);
	EVENTUALLY(SOON_MS, proc_said(&relay, "store: localhost"));
	cr_expect_lt(now_ms() - began, 12000);
	gate_misbehave(&db_door, GATE_FAIR);
	EVENTUALLY(LONG_MS, effects(&e) == 2 * ROWS && outbox_rows(&e) == 0);
	stop_both();
}

/* SIGKILL in the middle of their records: writing to what is gone kills nobody. */
Test(tls_through, both_servers_are_killed)
{
	enum { ROWS = 4000 };
	outbox_fill(&e, e.queue, 0, ROWS, 100);
	start_both();
	EVENTUALLY(SOON_MS, effects(&e) > 0);
	env_stack("kill-broker");
	env_stack("start-broker");
	outbox_fill(&e, e.queue, ROWS, ROWS, 100);
	EVENTUALLY(LONG_MS, effects(&e) > ROWS);
	env_stack("kill-db");
	env_stack("start-db");
	env_reopen_db(&e);
	EVENTUALLY(LONG_MS, effects(&e) == 2 * ROWS && outbox_rows(&e) == 0);
	cr_assert(proc_running(&relay));
	cr_assert(proc_running(&consumer));
	stop_both();
	env_reopen_mq(&e);
	cr_expect_eq(env_ready(&e, parked(&e)), 0);
}

Test(tls, a_connection_that_nobody_verifies_is_told)
{
	char *const status[] = { "status", NULL };
	char *text = NULL;
	e.settings.rabbitmq.tls.enabled = true;
	e.settings.rabbitmq.tls.verify = false;
	env_config(&e, "\"log\":{\"level\":\"warn\"}");
	(void) env_run(&e, &text, "relmq", status);
	cr_expect_not_null(strstr(text, "rabbitmq.tls.verify is false"), "%s", text);
	free(text);
}
