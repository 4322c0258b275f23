/* test_publisher_breaker.c - a destination that refuses everything is left alone: its rows are
 * charged nothing and keep their order, the others do not notice, and it comes back by
 * itself. And the rate limit. */
#include <criterion/criterion.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/testoutbox.h"

enum { SOON_MS = 20000, AFTER = 5 };

static env e;
static proc relay;
static arrived got;
static char down[128]; /* a queue that is not there, yet */

static void start(void)
{
	env_open(&e);
	env_declare(&e, e.queue, NULL);
	(void) snprintf(down, sizeof(down), "%s.down", e.name);
	env_config(&e,
	    "\"publisher\":{\"lease\":\"2s\",\"retry_delays\":[\"50ms\"],\"max_attempts\":3,"
	    "\"breaker_after\":%d,\"breaker_pause\":\"100ms\",\"breaker_pause_max\":\"200ms\"}",
	    AFTER);
}

static void stop(void)
{
	proc_kill(&relay);
	arrived_free(&got);
	env_delete_queue(&e, down);
	env_close(&e);
}

TestSuite(breaker, .init = start, .fini = stop, .timeout = 120);

static int64_t attempts_charged(void)
{
	return env_number(&e, "SELECT COALESCE(SUM(retry_count), 0) FROM message_outbox");
}

static void expect_stopped(void)
{
	int status = proc_stop(&relay, SOON_MS);
	cr_expect_eq(status, 0, "exit status %d", status);
}

/* How often the relay has sent something and had it returned, as its status says. */
static int64_t returned(void)
{
	return env_number(&e,
	    "SELECT COALESCE(SUM(JSON_VALUE(report, '$.stats.refused_returned')), 0)"
	    " FROM outbox_relay");
}

/* A person sees which destination is left alone, and why. */
static void expect_status(void)
{
	char *text = NULL;
	char *const plain[] = { "status", NULL };
	char *const json[] = { "status", "--json", NULL };
	cr_expect_eq(env_run(&e, &text, "relmq", plain), 0);
	cr_expect_not_null(strstr(text, "left alone: exchange \"\" routing key"), "%s", text);
	cr_expect_not_null(strstr(text, "312 NO_ROUTE"), "%s", text);
	free(text);
	cr_expect_eq(env_run(&e, &text, "relmq", json), 0);
	json_t *root = json_loads(text, 0, NULL);
	json_t *relays = json_object_get(root, "relays");
	json_t *report = json_object_get(json_array_get(relays, 0), "report");
	cr_expect_eq(json_array_size(json_object_get(report, "breakers")), 1, "%s", text);
	json_decref(root);
	free(text);
}

/* Many probes later the rows have no more attempts than opened the breaker. */
Test(breaker, an_outage_of_a_destination_uses_up_nobodys_attempts)
{
	outbox_fill(&e, down, 0, 2000, 0);
	relay = relay_start(&e, NULL);
	EVENTUALLY(SOON_MS, returned() > AFTER + 15);
	cr_expect_eq(attempts_charged(), AFTER);
	cr_expect_eq(env_number(&e, "SELECT COUNT(*) FROM message_outbox WHERE status = 3"), 0);
	cr_expect_eq(outbox_rows(&e), 2000);
	expect_status();
	env_declare(&e, down, NULL);
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 0);
	expect_stopped();
	cr_expect(proc_said(&relay, "5 refusals in a row (returned: 312 NO_ROUTE)"));
	cr_expect(proc_said(&relay, "accepts messages again"));
	queue_take(&e, down, &got);
	arrived_check(&got, 0, 2000, 1, 1);
}

/* The rows of the dead destination stand in front, twenty thousand of them, each with a key of
 * its own. */
Test(breaker, the_others_go_on)
{
	outbox_fill(&e, down, 100000, 20000, 0);
	relay = relay_start(&e, NULL);
	EVENTUALLY(60000,
	    env_number(&e,
	        "SELECT COALESCE(SUM(JSON_VALUE(report, '$.breakers[0].held')), 0)"
	        " FROM outbox_relay") > 19000);
	outbox_fill(&e, e.queue, 0, 5000, 1000);
	EVENTUALLY(SOON_MS, env_ready(&e, e.queue) == 5000);
	cr_expect_eq(attempts_charged(), AFTER);
	expect_stopped();
	queue_take(&e, e.queue, &got);
	arrived_check(&got, 0, 5000, 1, 1);
	arrived_in_order(&got);
}

/* Row N goes to the dead destination if N is even, and there are ten keys: each key has rows of
 * both. None may pass another of its key. */
Test(breaker, keys_keep_their_order)
{
	enum { ROWS = 400, KEYS = 10 };
	for (int n = 0; n < ROWS; n++) {
		char id[16];
		char key[16];
		(void) snprintf(id, sizeof(id), "m-%06d", n);
		(void) snprintf(key, sizeof(key), "'k-%d'", n % KEYS);
		outbox_row(&e, id, n / KEYS % 2 == 0 ? down : e.queue, "business_key", key);
	}
	relay = relay_start(&e, NULL);
	EVENTUALLY(SOON_MS, returned() > AFTER + 5);
	cr_expect_eq(env_ready(&e, e.queue), 0, "each key begins with a row that cannot go");
	cr_expect_eq(outbox_rows(&e), ROWS);
	cr_expect_leq(attempts_charged(), AFTER);
	env_declare(&e, down, NULL);
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 0);
	expect_stopped();
	queue_take(&e, e.queue, &got);
	cr_expect_eq(got.count, ROWS / 2);
	arrived_in_order(&got);
	arrived_free(&got);
	got = (arrived){ 0 };
	queue_take(&e, down, &got);
	cr_expect_eq(got.count, ROWS / 2);
	arrived_in_order(&got);
}

/* An exchange that is missing closes the channel over each row: found once, left alone then. */
Test(breaker, an_exchange_that_is_missing)
{
	for (int n = 0; n < 200; n++)
		env_sql(&e,
		    "INSERT INTO message_outbox (exchange, routing_key, payload)"
		    " VALUES ('%s.nope', 'k', 'x')",
		    e.name);
	relay = relay_start(&e, NULL);
	EVENTUALLY(SOON_MS,
	    env_number(&e,
	        "SELECT COALESCE(SUM(JSON_VALUE(report, '$.stats.breakers_open')), 0)"
	        " FROM outbox_relay") == 1);
	outbox_fill(&e, e.queue, 0, 1000, 10);
	EVENTUALLY(SOON_MS, env_ready(&e, e.queue) == 1000);
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 200);
	cr_expect_eq(attempts_charged(), AFTER);
	expect_stopped();
}

/* A queue that is full, with reject-publish: what waits is charged nothing, and all of it arrives. */
Test(breaker, a_full_queue)
{
	const queue_args tight = { .max_length = 10 };
	env_declare(&e, down, &tight);
	outbox_fill(&e, down, 0, 300, 0);
	relay = relay_start(&e, NULL);
	int64_t end = now_ms() + 60000;
	while (outbox_rows(&e) > 0 || env_ready(&e, down) > 0) {
		cr_assert_lt(now_ms(), end);
		queue_sip(&e, down, &got);
	}
	cr_expect_eq(env_number(&e, "SELECT COUNT(*) FROM message_outbox WHERE status = 3"), 0);
	expect_stopped();
	arrived_check(&got, 0, 300, 1, 1);
}

/* Scheduled rows that come due behind an open breaker leave room for the others that do. */
Test(breaker, scheduled_rows_of_a_dead_destination_hide_no_other)
{
	outbox_fill(&e, down, 100000, 20, 0);
	relay = relay_start(&e, NULL);
	EVENTUALLY(SOON_MS, returned() >= AFTER);
	env_sql(&e,
	    "INSERT INTO message_outbox (routing_key, payload, next_retry_at)"
	    " SELECT '%s', 'x', NOW(6) - INTERVAL 1 HOUR FROM"
	    " (SELECT 1 FROM message_outbox a, message_outbox b, message_outbox c LIMIT 3000) n",
	    down);
	env_sql(&e,
	    "INSERT INTO message_outbox (routing_key, payload, next_retry_at)"
	    " VALUES ('%s', 'x', NOW(6))",
	    e.queue);
	EVENTUALLY(SOON_MS, env_ready(&e, e.queue) == 1);
	cr_expect_eq(attempts_charged(), AFTER);
	expect_stopped();
}

/* --- rate limit ---------------------------------------------------------------------------- */

Test(breaker, no_more_than_so_many_a_second)
{
	env_config(&e, "\"publisher\":{\"lease\":\"2s\",\"rate_limit\":200}");
	outbox_fill(&e, e.queue, 0, 600, 10);
	int64_t began = now_ms();
	relay = relay_start(&e, NULL);
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 0);
	cr_expect_gt(now_ms() - began, 2800, "600 rows at 200/s take three seconds");
	outbox_fill(&e, e.queue, 600, 2000, 10);
	EVENTUALLY(SOON_MS, env_ready(&e, e.queue) > 700);
	began = now_ms();
	expect_stopped(); /* what is read ahead is given back, not waited for */
	cr_expect_lt(now_ms() - began, 3000);
	cr_expect_gt(outbox_rows(&e), 0);
}
