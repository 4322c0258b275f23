/* test_publisher_refused.c - rows that the broker refuses: charged to nobody else, visible,
 * and sent as soon as that can be. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/testoutbox.h"

enum { SOON_MS = 15000 };

static env e;
static proc relay;
static arrived got;

static void start(void)
{
	env_open(&e);
	env_declare(&e, e.queue, NULL);
	env_config(&e,
	    "\"publisher\":{\"lease\":\"2s\",\"retry_delays\":[\"200ms\"],\"max_attempts\":1000}");
}

static void stop(void)
{
	proc_kill(&relay);
	arrived_free(&got);
	env_close(&e);
}

TestSuite(refused, .init = start, .fini = stop, .timeout = 90);

static int64_t in_state(int status)
{
	return env_number(&e, "SELECT COUNT(*) FROM message_outbox WHERE status = %d", status);
}

static int64_t attempts(const char *id)
{
	return env_number(&e, "SELECT retry_count FROM message_outbox WHERE msg_id = '%s'", id);
}

static void expect_error(const char *id, const char *text)
{
	char *error = env_text(&e, "SELECT last_error FROM message_outbox WHERE msg_id = '%s'", id);
	cr_expect_not_null(strstr(error, text), "%s: '%s'", id, error);
	free(error);
}

static void expect_stopped(void)
{
	int status = proc_stop(&relay, SOON_MS);
	cr_expect_eq(status, 0, "exit status %d", status);
}

/* Row `id` of key `key` to a queue of this test that is called NAME.`suffix`. */
static void row_to(const char *id, const char *suffix, const char *key)
{
	char queue[128];
	char values[64];
	(void) snprintf(queue, sizeof(queue), "%s.%s", e.name, suffix);
	(void) snprintf(values, sizeof(values), "'%s'", key);
	outbox_row(&e, id, queue, "business_key", values);
}

static char *queue_called(const char *suffix)
{
	static char name[128];
	(void) snprintf(name, sizeof(name), "%s.%s", e.name, suffix);
	return name;
}

/* --- returned ---------------------------------------------------------------------------- */

Test(refused, an_unroutable_row_is_acked_by_the_broker_and_kept_all_the_same)
{
	outbox_fill(&e, e.queue, 0, 50, 0);
	row_to("lost", "nowhere", "k");
	outbox_fill(&e, e.queue, 50, 50, 0);
	relay = relay_start(&e, NULL);
	EVENTUALLY(SOON_MS, attempts("lost") >= 2 && outbox_rows(&e) == 1);
	expect_error("lost", "312");
	cr_expect_eq(in_state(2), 1);
	env_declare(&e, queue_called("nowhere"), NULL);
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 0);
	expect_stopped();
	cr_expect_eq(relay_confirmed(&relay), 101);
	queue_take(&e, e.queue, &got);
	arrived_check(&got, 0, 100, 1, 1);
	cr_expect_eq(env_ready(&e, queue_called("nowhere")), 1);
	env_delete_queue(&e, queue_called("nowhere"));
}

Test(refused, a_key_goes_on_behind_an_abandoned_row)
{
	env_config(
	    &e, "\"publisher\":{\"lease\":\"2s\",\"retry_delays\":[\"50ms\"],\"max_attempts\":3}");
	row_to("first", "nowhere", "k");
	row_to("second", "q", "k");
	relay = relay_start(&e, NULL);
	EVENTUALLY(SOON_MS, in_state(3) == 1 && outbox_rows(&e) == 1);
	cr_expect_eq(attempts("first"), 3);
	expect_error("first", "312");
	cr_expect_eq(env_number(&e, "SELECT next_retry_at IS NULL FROM message_outbox"), 1);
	expect_stopped();
	cr_expect(proc_said(&relay, "ABANDONED after 3 attempts"));
	queue_take(&e, e.queue, &got);
	cr_expect_eq(got.count, 1);
	cr_expect_eq(arrived_times(&got, "second"), 1);
}

/* The wait between two attempts is the configured one, whatever else is going on. */
Test(refused, attempts_keep_their_distance)
{
	env_config(&e, "\"publisher\":{\"lease\":\"2s\",\"retry_delays\":[\"50ms\",\"1h\"]}");
	row_to("first", "nowhere", "k");
	relay = relay_start(&e, NULL);
	EVENTUALLY(SOON_MS, attempts("first") == 2);
	cr_expect_eq(env_number(&e,
	                 "SELECT TIMESTAMPDIFF(MINUTE, NOW(6), next_retry_at) BETWEEN 45 AND 75"
	                 " FROM message_outbox"),
	    1);
	outbox_fill(&e, e.queue, 0, 2000, 10);
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 1);
	cr_expect_eq(attempts("first"), 2);
}

/* --- nack -------------------------------------------------------------------------------- */

/* A reject-publish queue takes a little more than its limit; how much is its own affair. */
Test(refused, a_full_queue_holds_its_keys_and_nothing_else)
{
	char id[16];
	const queue_args full = { .max_length = 1 };
	char *queue = queue_called("full");
	enum { ROWS = 12 };
	env_declare(&e, queue, &full);
	for (int i = 0; i < ROWS; i++) {
		(void) snprintf(id, sizeof(id), "a-%02d", i);
		row_to(id, "full", "a");
		(void) snprintf(id, sizeof(id), "b-%02d", i);
		row_to(id, "q", "b");
	}
	relay = relay_start(&e, NULL);
	EVENTUALLY(SOON_MS,
	    env_number(&e, "SELECT COALESCE(MAX(retry_count), 0) FROM message_outbox") >= 2);
	EVENTUALLY(SOON_MS, env_ready(&e, e.queue) == ROWS);
	cr_expect_eq(in_state(2), 1, "only the head of the key is FAILED");
	cr_expect_eq(env_number(&e,
	                 "SELECT MIN(id) = MIN(CASE WHEN status = 2 THEN id END)"
	                 " FROM message_outbox"),
	    1);
	cr_expect_eq(env_number(&e,
	                 "SELECT COUNT(*) FROM message_outbox"
	                 " WHERE status = 0 AND retry_count > 0"),
	    0);
	char *error = env_text(&e, "SELECT last_error FROM message_outbox WHERE status = 2");
	cr_expect_not_null(strstr(error, "nack"), "%s", error);
	free(error);
	for (int i = 0; i < ROWS; i++) {
		(void) snprintf(id, sizeof(id), "a-%02d", i);
		relmq__msg *msg = queue_wait(&e, queue, SOON_MS);
		cr_assert(bytes_are(msg->body, id), "%.*s came, not %s", (int) msg->body.len,
		    (char *) msg->body.bytes, id);
		relmq__msg_free(msg);
	}
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 0);
	cr_expect_eq(env_ready(&e, queue), 0);
	env_delete_queue(&e, queue);
}

/* --- a row that breaks the channel ---------------------------------------------------------- */

static void insert_poison(const char *id)
{
	outbox_row(&e, id, e.queue, "exchange, business_key", "'no.such.exchange', 'poison'");
}

Test(refused, one_poison_row_among_hundreds_of_good_ones)
{
	env_config(
	    &e, "\"publisher\":{\"lease\":\"2s\",\"retry_delays\":[\"1h\"],\"keep_sent\":true}");
	outbox_fill(&e, e.queue, 0, 300, 0);
	insert_poison("poison");
	outbox_fill(&e, e.queue, 300, 300, 0);
	relay = relay_start(&e, NULL);
	EVENTUALLY(SOON_MS, in_state(1) == 600 && in_state(2) == 1);
	cr_expect_eq(attempts("poison"), 1);
	expect_error("poison", "404");
	cr_expect_eq(env_number(&e,
	                 "SELECT COUNT(*) FROM message_outbox"
	                 " WHERE retry_count > 0 OR last_error IS NOT NULL"),
	    1, "a neighbour was charged");
	outbox_fill(&e, e.queue, 600, 100, 0);
	EVENTUALLY(SOON_MS, in_state(1) == 700);
	expect_stopped();
	/* What the broker took and had not yet confirmed when it closed the channel goes
	 * again: at most once more. */
	queue_take(&e, e.queue, &got);
	arrived_check(&got, 0, 700, 1, 2);
}

Test(refused, several_poison_rows_are_found_one_by_one)
{
	char id[16];
	env_config(&e, "\"publisher\":{\"lease\":\"2s\",\"retry_delays\":[\"1h\"]}");
	for (int i = 0; i < 5; i++) {
		(void) snprintf(id, sizeof(id), "poison-%d", i);
		insert_poison(id);
		outbox_fill(&e, e.queue, i * 40, 40, 0);
	}
	env_sql(&e, "UPDATE message_outbox SET business_key = '' WHERE exchange <> ''");
	relay = relay_start(&e, NULL);
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 5 && in_state(2) == 5);
	cr_expect_eq(env_number(&e, "SELECT MAX(retry_count) FROM message_outbox"), 1);
	expect_stopped();
	queue_take(&e, e.queue, &got);
	arrived_check(&got, 0, 200, 1, 2);
}

/* --- rows that AMQP cannot carry ------------------------------------------------------------- */

Test(refused, what_amqp_cannot_carry_is_abandoned_at_once)
{
	env_config(&e, "\"publisher\":{\"lease\":\"2s\",\"max_message_bytes\":100000}");
	outbox_fill(&e, e.queue, 0, 10, 0);
	outbox_row(&e, "expiration", e.queue, "properties", "'{\"expiration\":\"later\"}'");
	outbox_row(&e, "cc", e.queue, "headers", "'{\"CC\":\"x\"}'");
	outbox_row(&e, "property", e.queue, "properties", "'{\"color\":\"red\"}'");
	outbox_row(
	    &e, "headers", e.queue, "headers", "CONCAT('{\"h\":\"', REPEAT('x', 200000), '\"}')");
	outbox_row(
	    &e, "huge", e.queue, "headers", "CONCAT('{\"h\":\"', REPEAT('x', 2000000), '\"}')");
	outbox_row(&e, "body", e.queue, "", "");
	env_sql(
	    &e, "UPDATE message_outbox SET payload = REPEAT('x', 100001) WHERE msg_id = 'body'");
	outbox_fill(&e, e.queue, 10, 10, 0);
	relay = relay_start(&e, NULL);
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 6 && in_state(3) == 6);
	cr_expect_eq(env_number(&e, "SELECT SUM(retry_count) FROM message_outbox"), 6);
	expect_error("expiration", "expiration");
	expect_error("cc", "CC");
	expect_error("property", "color");
	expect_error("headers", "headers take");
	expect_error("huge", "headers");
	expect_error("body", "max_message_bytes");
	expect_stopped();
	cr_expect_not(proc_said(&relay, "closed the"), "the broker was bothered with it");
	queue_take(&e, e.queue, &got);
	arrived_check(&got, 0, 20, 1, 1);
}

/* --- permission -------------------------------------------------------------------------------- */

/* Nothing is asserted while the permission is gone: later tests need it back. */
Test(refused, a_permission_that_is_missing_is_an_outage_and_charges_nothing)
{
	cr_assert_eq(env_ctl("set_permissions relmq \".*\" \"^$\" \".*\""), 0);
	outbox_fill(&e, e.queue, 0, 100, 10);
	relay = relay_start(&e, NULL);
	int64_t end = now_ms() + SOON_MS;
	while (!proc_said(&relay, "403") && now_ms() < end)
		pause_ms(10);
	end = now_ms() + 1000; /* several attempts, with backoff */
	while (now_ms() < end)
		pause_ms(50);
	int64_t waiting = env_number(
	    &e, "SELECT COUNT(*) FROM message_outbox WHERE status = 0 AND retry_count = 0");
	int granted = env_ctl("set_permissions relmq \".*\" \".*\" \".*\"");
	cr_assert_eq(granted, 0);
	cr_expect_eq(waiting, 100);
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 0);
	expect_stopped();
	queue_take(&e, e.queue, &got);
	arrived_check(&got, 0, 100, 1, 1);
	char *log = proc_log(&relay);
	int lines = 0;
	for (char *at = log; (at = strstr(at, "403")) != NULL; at++)
		lines++;
	cr_expect_leq(lines, 2, "a line an attempt:\n%s", log);
	free(log);
}

/* --- several queues ------------------------------------------------------------------------- */

static void bind_to_fan(const char *queue, const char *exchange)
{
	cr_assert_not_null(amqp_queue_bind(e.mq.state, RELMQ__CHANNEL, amqp_cstring_bytes(queue),
	    amqp_cstring_bytes(exchange), amqp_empty_bytes, amqp_empty_table));
}

/* One of two queues is full: the broker nacks what the other one has stored. The row goes again
 * under the same id, which an inbox absorbs, until both have it. (P05) */
Test(refused, a_fan_out_of_which_one_queue_is_full)
{
	enum { ROWS = 100 }; /* the limit of a quorum queue is a soft one */
	const queue_args tight = { .max_length = 1 };
	arrived full = { 0 };
	char exchange[128];
	char full_queue[128];
	(void) snprintf(exchange, sizeof(exchange), "%s.fan", e.name);
	(void) snprintf(full_queue, sizeof(full_queue), "%s.full", e.name);
	env_declare(&e, full_queue, &tight);
	cr_assert_not_null(
	    amqp_exchange_declare(e.mq.state, RELMQ__CHANNEL, amqp_cstring_bytes(exchange),
	        amqp_cstring_bytes("fanout"), 0, 1, 0, 0, amqp_empty_table));
	bind_to_fan(e.queue, exchange);
	bind_to_fan(full_queue, exchange);
	env_config(&e,
	    "\"publisher\":{\"lease\":\"2s\",\"retry_delays\":[\"50ms\"],\"max_attempts\":1000,"
	    "\"breaker_after\":0,\"window\":5}");
	for (int n = 0; n < ROWS; n++)
		env_sql(&e,
		    "INSERT INTO message_outbox (msg_id, exchange, routing_key, payload)"
		    " VALUES ('m-%06d', '%s', 'any', 'm-%06d')",
		    n, exchange, n);
	relay = relay_start(&e, NULL);
	EVENTUALLY(SOON_MS, in_state(2) > 0);
	for (int64_t end = now_ms() + 30000; outbox_rows(&e) > 0; pause_ms(10)) {
		cr_assert_lt(now_ms(), end);
		queue_sip(&e, full_queue, &full);
	}
	expect_stopped();
	queue_take(&e, full_queue, &full);
	queue_take(&e, e.queue, &got);
	arrived_check(&got, 0, ROWS, 1, 1000);
	arrived_check(&full, 0, ROWS, 1, 1000);
	cr_expect_gt(got.count, ROWS, "nothing was refused");
	arrived_free(&full);
	env_delete_queue(&e, full_queue);
	(void) amqp_exchange_delete(e.mq.state, RELMQ__CHANNEL, amqp_cstring_bytes(exchange), 0);
}
