/* test_publisher.c - the relay's plain work: committed rows become messages, and only those. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "support/testoutbox.h"

enum { SOON_MS = 10000 };

static env e;
static proc relay;
static arrived got;

static void start(void)
{
	env_open(&e);
	env_declare(&e, e.queue, NULL);
	env_config(&e, "\"publisher\":{\"lease\":\"2s\",\"retry_delays\":[\"200ms\"]}");
}

static void stop(void)
{
	proc_kill(&relay);
	arrived_free(&got);
	env_close(&e);
}

TestSuite(publisher, .init = start, .fini = stop, .timeout = 60);

static void expect_text(amqp_bytes_t bytes, const char *text)
{
	cr_expect(
	    bytes_are(bytes, text), "%.*s, not %s", (int) bytes.len, (char *) bytes.bytes, text);
}

static void expect_stopped(void)
{
	int status = proc_stop(&relay, SOON_MS);
	cr_expect_eq(status, 0, "exit status %d", status);
}

Test(publisher, publishes_each_row_once_and_deletes_it)
{
	outbox_fill(&e, e.queue, 0, 500, 50);
	relay = relay_start(&e, NULL);
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 0);
	outbox_fill(&e, e.queue, 500, 500, 0);
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 0);
	expect_stopped();
	cr_expect_eq(relay_confirmed(&relay), 1000);
	queue_take(&e, e.queue, &got);
	arrived_check(&got, 0, 1000, 1, 1);
}

Test(publisher, the_message_says_what_the_row_said)
{
	env_sql(&e,
	    "INSERT INTO message_outbox (msg_id, business_key, routing_key, type, content_type,"
	    " headers, properties, payload, created_at) VALUES ('id-1', 'k-1', '%s', 'order.placed',"
	    " 'application/json', '{\"traceparent\":\"00-ab-cd-01\",\"n\":7}',"
	    " '{\"reply_to\":\"r\",\"priority\":3,\"app_id\":\"shop\",\"expiration\":60000}',"
	    " '{\"a\":1}', '2026-01-02 03:04:05.678901')",
	    e.queue);
	relay = relay_start(&e, NULL);
	relmq__msg *msg = queue_wait(&e, e.queue, SOON_MS);
	const amqp_basic_properties_t *p = &msg->props;
	expect_text(p->message_id, "id-1");
	expect_text(p->correlation_id, "id-1");
	expect_text(p->type, "order.placed");
	expect_text(p->content_type, "application/json");
	expect_text(p->reply_to, "r");
	expect_text(p->app_id, "shop");
	expect_text(p->expiration, "60000");
	expect_text(msg->body, "{\"a\":1}");
	cr_expect_eq(p->delivery_mode, AMQP_DELIVERY_PERSISTENT);
	cr_expect_eq(p->priority, 3);
	cr_expect_eq(p->timestamp, 1767323045);
	expect_text(relmq__msg_header_bytes(msg, "x-relmq-key"), "k-1");
	expect_text(relmq__msg_header_bytes(msg, "traceparent"), "00-ab-cd-01");
	cr_expect_eq(relmq__msg_header_int(msg, "x-relmq-created-us", 0), 1767323045678901);
	cr_expect_eq(relmq__msg_header_int(msg, "n", 0), 7);
	relmq__msg_free(msg);
}

Test(publisher, the_least_a_row_gives_and_a_correlation_id_of_its_own)
{
	env_sql(
	    &e, "INSERT INTO message_outbox (routing_key, payload) VALUES ('%s', 'x')", e.queue);
	char *id = env_text(&e, "SELECT msg_id FROM message_outbox");
	relay = relay_start(&e, NULL);
	relmq__msg *msg = queue_wait(&e, e.queue, SOON_MS);
	expect_text(msg->props.message_id, id);
	expect_text(msg->props.content_type, "application/octet-stream");
	cr_expect_eq(msg->props._flags & AMQP_BASIC_TYPE_FLAG, 0);
	cr_expect_null(relmq__msg_header(msg, "x-relmq-key"));
	relmq__msg_free(msg);
	free(id);
	outbox_row(&e, "id-2", e.queue, "properties", "'{\"correlation_id\":\"request-9\"}'");
	msg = queue_wait(&e, e.queue, SOON_MS);
	expect_text(msg->props.message_id, "id-2");
	expect_text(msg->props.correlation_id, "request-9");
	relmq__msg_free(msg);
}

Test(publisher, publishes_to_an_exchange)
{
	char command[256];
	(void) snprintf(command, sizeof(command), "%s.x", e.name);
	cr_assert_not_null(
	    amqp_exchange_declare(e.mq.state, RELMQ__CHANNEL, amqp_cstring_bytes(command),
	        amqp_cstring_bytes("topic"), 0, 1, 1, 0, amqp_empty_table));
	cr_assert_not_null(amqp_queue_bind(e.mq.state, RELMQ__CHANNEL, amqp_cstring_bytes(e.queue),
	    amqp_cstring_bytes(command), amqp_cstring_bytes("order.*"), amqp_empty_table));
	env_sql(&e,
	    "INSERT INTO message_outbox (msg_id, exchange, routing_key, payload)"
	    " VALUES ('by-exchange', '%s', 'order.placed', 'x')",
	    command);
	relay = relay_start(&e, NULL);
	relmq__msg *msg = queue_wait(&e, e.queue, SOON_MS);
	expect_text(msg->props.message_id, "by-exchange");
	relmq__msg_free(msg);
}

Test(publisher, keep_sent_marks_rows_and_never_sends_them_again)
{
	env_config(&e, "\"publisher\":{\"lease\":\"1s\",\"keep_sent\":true}");
	outbox_fill(&e, e.queue, 0, 300, 30);
	relay = relay_start(&e, NULL);
	EVENTUALLY(
	    SOON_MS, env_number(&e, "SELECT COUNT(*) FROM message_outbox WHERE status = 1") == 300);
	expect_stopped();
	relay = relay_start(&e, NULL);
	outbox_fill(&e, e.queue, 300, 1, 0);
	EVENTUALLY(
	    SOON_MS, env_number(&e, "SELECT COUNT(*) FROM message_outbox WHERE status = 1") == 301);
	expect_stopped();
	cr_expect_eq(relay_confirmed(&relay), 1);
	queue_take(&e, e.queue, &got);
	arrived_check(&got, 0, 301, 1, 1);
}

Test(publisher, a_scheduled_row_waits_for_its_time)
{
	outbox_row(&e, "later", e.queue, "next_retry_at", "NOW(6) + INTERVAL 1 HOUR");
	outbox_row(&e, "soon", e.queue, "next_retry_at", "NOW(6) + INTERVAL 700000 MICROSECOND");
	relay = relay_start(&e, NULL);
	relmq__msg *msg = queue_wait(&e, e.queue, SOON_MS);
	expect_text(msg->props.message_id, "soon");
	cr_expect_eq(env_number(&e,
	                 "SELECT NOW(6) < FROM_UNIXTIME(%lld / 1000000) + INTERVAL 700 * 1000"
	                 " MICROSECOND",
	                 (long long) relmq__msg_header_int(msg, "x-relmq-created-us", 0)),
	    0, "it came before its time");
	relmq__msg_free(msg);
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 1);
	cr_expect_eq(env_number(&e, "SELECT status FROM message_outbox"), 4);
}

/* --- commit and rollback ----------------------------------------------------------------- */

static void run(relmq__db *db, const char *fmt, const char *arg)
{
	relmq_error err;
	cr_assert_eq(relmq__db_execf(db, NULL, &err, fmt, arg), RELMQ_OK, "%s: %s", fmt, err.text);
}

/* Messages that prove how far the relay has looked: each is later than what is open. */
static void pass_by(const char *id)
{
	outbox_row(&e, id, e.queue, "", "");
	relmq__msg *msg = queue_wait(&e, e.queue, SOON_MS);
	expect_text(msg->props.message_id, id);
	relmq__msg_free(msg);
}

static void commits_and_rollbacks(void)
{
	relmq__db app;
	env_session(&e, &app);
	relay = relay_start(&e, NULL);
	run(&app, "START TRANSACTION", NULL);
	run(&app,
	    "INSERT INTO message_outbox (msg_id, routing_key, payload)"
	    " VALUES ('rolled-back', '%s', 'x')",
	    e.queue);
	pass_by("one");
	pass_by("two");
	run(&app, "ROLLBACK", NULL);
	pass_by("three");
	run(&app, "START TRANSACTION", NULL);
	run(&app,
	    "INSERT INTO message_outbox (msg_id, routing_key, payload)"
	    " VALUES ('committed', '%s', 'x')",
	    e.queue);
	pass_by("four");
	run(&app, "COMMIT", NULL);
	relmq__msg *msg = queue_wait(&e, e.queue, SOON_MS);
	expect_text(msg->props.message_id, "committed");
	relmq__msg_free(msg);
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 0);
	expect_stopped();
	cr_expect_eq(env_ready(&e, e.queue), 0);
	relmq__db_close(&app);
}

Test(publisher, a_rolled_back_transaction_publishes_nothing)
{
	commits_and_rollbacks();
}

Test(publisher, nor_where_the_server_lets_sessions_read_uncommitted_rows)
{
	admin_sql(&e, "SET GLOBAL TRANSACTION ISOLATION LEVEL READ UNCOMMITTED");
	commits_and_rollbacks();
	admin_sql(&e, "SET GLOBAL TRANSACTION ISOLATION LEVEL REPEATABLE READ");
}

/* --- idle ---------------------------------------------------------------------------------- */

static int64_t kill_sessions_of_relay(void)
{
	relmq_error err;
	int64_t killed = 0;
	int64_t id;
	while ((id = env_number(&e,
	            "SELECT id FROM information_schema.processlist WHERE db = '%s'"
	            " AND id <> CONNECTION_ID() ORDER BY id LIMIT 1",
	            e.name)) != 0) {
		killed +=
		    relmq__db_execf(&e.db, NULL, &err, "KILL %lld", (long long) id) == RELMQ_OK;
	}
	return killed;
}

Test(publisher, a_session_that_was_killed_while_idle_costs_nothing)
{
	relay = relay_start(&e, NULL);
	pass_by("first");
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 0);
	for (int i = 0; i < 5; i++) {
		char id[16];
		(void) snprintf(id, sizeof(id), "after-%d", i);
		EVENTUALLY(SOON_MS, kill_sessions_of_relay() > 0);
		pass_by(id);
	}
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 0);
	expect_stopped();
	char *log = proc_log(&relay);
	cr_expect_not_null(strstr(log, " 0 refused, 0 abandoned, 0 in doubt"), "%s", log);
	free(log);
}

/* The server's own idea of how long a session may be idle is overridden. */
Test(publisher, a_short_wait_timeout_of_the_server_does_no_harm)
{
	admin_sql(&e, "SET GLOBAL wait_timeout = 1");
	relay = relay_start(&e, NULL);
	pass_by("first");
	admin_sql(&e, "SET GLOBAL wait_timeout = DEFAULT");
	/* Longer than the server allows by itself; the relay's looks keep no session alive
	 * while it is stopped. */
	proc_signal(&relay, SIGSTOP);
	int64_t end = now_ms() + 1500;
	while (now_ms() < end)
		pause_ms(50);
	proc_signal(&relay, SIGCONT);
	pass_by("second");
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 0);
	cr_expect_not(proc_said(&relay, "trying again"));
	expect_stopped();
}
