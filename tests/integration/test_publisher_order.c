/* test_publisher_order.c - ids are given at INSERT and seen at COMMIT: rows that come late
 * are sent all the same, keys keep their order, and nobody's open transaction is waited for. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "support/testoutbox.h"

enum { SOON_MS = 15000, LOAD_MS = 40000 };

static env e;
static proc relay;
static arrived got;

static void start(void)
{
	env_open(&e);
	env_declare(&e, e.queue, NULL);
	env_config(&e, "\"publisher\":{\"lease\":\"2s\",\"retry_delays\":[\"100ms\"]}");
}

static void stop(void)
{
	proc_kill(&relay);
	arrived_free(&got);
	env_close(&e);
}

TestSuite(order, .init = start, .fini = stop, .timeout = 90);

static void run(relmq__db *db, const char *sql)
{
	relmq_error err;
	cr_assert_eq(
	    relmq__db_exec(db, sql, strlen(sql), NULL, &err), RELMQ_OK, "%s: %s", sql, err.text);
}

/* An open transaction with a row of its own; the lowest id of all that come after it. */
static void open_stranger(relmq__db *db, const char *id, const char *key)
{
	relmq_error err;
	env_session(&e, db);
	run(db, "START TRANSACTION");
	cr_assert_eq(relmq__db_execf(db, NULL, &err,
	                 "INSERT INTO message_outbox (msg_id, routing_key, payload, business_key)"
	                 " VALUES ('%s', '%s', '%s', '%s')",
	                 id, e.queue, id, key),
	    RELMQ_OK, "%s", err.text);
}

static void expect_stopped(void)
{
	int status = proc_stop(&relay, SOON_MS);
	cr_expect_eq(status, 0, "exit status %d", status);
}

Test(order, a_lower_id_that_is_committed_late_is_sent)
{
	relmq__db stranger;
	relay = relay_start(&e, NULL);
	open_stranger(&stranger, "m-000000", "k-0");
	outbox_fill(&e, e.queue, 1, 3000, 100);
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 0);
	cr_expect_eq(env_ready(&e, e.queue), 3000);
	run(&stranger, "COMMIT");
	EVENTUALLY(SOON_MS, env_ready(&e, e.queue) == 3001);
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 0);
	expect_stopped();
	queue_take(&e, e.queue, &got);
	arrived_check(&got, 0, 3001, 1, 1);
	relmq__db_close(&stranger);
}

/* A DELETE that looks at more than its own rows waits here for as long as the stranger
 * likes, or for the lock wait time, which this lease makes fifteen seconds. */
Test(order, settling_waits_for_no_strangers_insert)
{
	relmq__db below;
	relmq__db among;
	env_config(&e, "\"publisher\":{\"lease\":\"60s\"}");
	open_stranger(&below, "m-000000", "");
	outbox_fill(&e, e.queue, 1, 500, 0);
	open_stranger(&among, "m-001001", "");
	outbox_fill(&e, e.queue, 501, 500, 0);
	relay = relay_start(&e, NULL);
	EVENTUALLY(5000, outbox_rows(&e) == 0);
	cr_expect_eq(env_ready(&e, e.queue), 1000);
	run(&below, "COMMIT");
	run(&among, "COMMIT");
	EVENTUALLY(SOON_MS, env_ready(&e, e.queue) == 1002 && outbox_rows(&e) == 0);
	expect_stopped();
	queue_take(&e, e.queue, &got);
	arrived_check(&got, 0, 1002, 1, 1);
	relmq__db_close(&below);
	relmq__db_close(&among);
}

/* The same for rows that are refused: marking them FAILED waits for nobody either. */
Test(order, marking_rows_failed_waits_for_no_strangers_insert)
{
	relmq__db below;
	env_config(
	    &e, "\"publisher\":{\"lease\":\"60s\",\"retry_delays\":[\"1h\"],\"breaker_after\":0}");
	open_stranger(&below, "m-000000", "");
	outbox_fill(&e, "no.such.queue", 1, 1000, 0);
	relay = relay_start(&e, NULL);
	EVENTUALLY(
	    5000, env_number(&e, "SELECT COUNT(*) FROM message_outbox WHERE status = 2") == 1000);
	run(&below, "ROLLBACK");
	relmq__db_close(&below);
}

/* --- writers that serialise on a key -------------------------------------------------------- */

enum { WRITERS = 4, KEYS = 8, WRITER_ROWS = 500 };

typedef struct writer {
	pthread_t thread;
	relmq__db db;
	int committed;
	char failed[300];
} writer;

/* One transaction: the key's row is locked, the sequence read, a message of that number
 * written; one in six is rolled back. The number is the id, so that it says the order. */
static bool write_one(writer *w, relmq_error *err)
{
	unsigned key = (unsigned) relmq__random_below(KEYS);
	bool keep = relmq__random_below(6) != 0;
	bool ok = relmq__db_execf(&w->db, NULL, err, "START TRANSACTION") == RELMQ_OK &&
	    relmq__db_execf(&w->db, NULL, err,
	        "UPDATE customer SET n = LAST_INSERT_ID(n + %d) WHERE k = %u", KEYS,
	        key) == RELMQ_OK &&
	    relmq__db_execf(&w->db, NULL, err,
	        "INSERT INTO message_outbox (msg_id, routing_key, payload, business_key) SELECT"
	        " CONCAT('m-', LPAD(LAST_INSERT_ID(), 6, '0')), '%s',"
	        " CONCAT('m-', LPAD(LAST_INSERT_ID(), 6, '0')), 'k-%u'",
	        e.queue, key) == RELMQ_OK;
	if (relmq__random_below(4) == 0)
		pause_ms(1); /* others pass by */
	ok = ok && relmq__db_execf(&w->db, NULL, err, keep ? "COMMIT" : "ROLLBACK") == RELMQ_OK;
	w->committed += ok && keep;
	return ok;
}

static void *write_many(void *arg)
{
	writer *w = arg;
	relmq_error err;
	for (int i = 0; i < WRITER_ROWS; i++)
		if (!write_one(w, &err)) {
			(void) snprintf(w->failed, sizeof(w->failed), "%s", err.text);
			break;
		}
	return NULL;
}

static int run_writers(void)
{
	static writer writers[WRITERS];
	int committed = 0;
	env_sql(&e, "CREATE TABLE customer (k INT PRIMARY KEY, n INT NOT NULL)");
	for (int k = 0; k < KEYS; k++)
		env_sql(&e, "INSERT INTO customer VALUES (%d, %d)", k, k);
	for (int i = 0; i < WRITERS; i++) {
		env_session(&e, &writers[i].db);
		cr_assert_eq(pthread_create(&writers[i].thread, NULL, write_many, &writers[i]), 0);
	}
	for (int i = 0; i < WRITERS; i++) {
		(void) pthread_join(writers[i].thread, NULL);
		relmq__db_close(&writers[i].db);
		cr_assert_str_empty(writers[i].failed, "%s", writers[i].failed);
		committed += writers[i].committed;
	}
	return committed;
}

/* What the customers counted is what was committed: number N of key K is N * KEYS + K. */
static void expect_all_in_order(int committed)
{
	cr_expect_eq(env_number(&e, "SELECT SUM((n - k) DIV %d) FROM customer", KEYS), committed);
	cr_assert_eq(got.count, (size_t) committed);
	arrived_in_order(&got);
	for (size_t i = 0; i < got.count; i++)
		cr_assert_eq(arrived_times(&got, got.msgs[i]->props.message_id.bytes), 1);
}

Test(order, a_key_keeps_its_order_below_an_open_transaction_and_rollbacks_leave_nothing)
{
	relmq__db stranger;
	relay = relay_start(&e, NULL);
	open_stranger(&stranger, "stranger", "other");
	int committed = run_writers();
	EVENTUALLY(LOAD_MS, outbox_rows(&e) == 0);
	run(&stranger, "ROLLBACK");
	expect_stopped();
	queue_take(&e, e.queue, &got);
	expect_all_in_order(committed);
	relmq__db_close(&stranger);
}

/* Refusals in between: a key's head fails, the rest of it waits, nothing overtakes. */
Test(order, a_key_keeps_its_order_through_refusals)
{
	const queue_args tight = { .max_length = 20 };
	env_delete_queue(&e, e.queue);
	env_declare(&e, e.queue, &tight);
	env_config(&e,
	    "\"publisher\":{\"lease\":\"2s\",\"retry_delays\":[\"20ms\"],\"max_attempts\":1000,"
	    "\"breaker_after\":0,\"keep_sent\":true}");
	outbox_fill(&e, e.queue, 0, 600, 10);
	relay = relay_start(&e, NULL);
	EVENTUALLY(
	    SOON_MS, env_number(&e, "SELECT COUNT(*) FROM message_outbox WHERE status = 2") == 10);
	int64_t end = now_ms() + LOAD_MS;
	while (env_number(&e, "SELECT COUNT(*) FROM message_outbox WHERE status <> 1") > 0 ||
	    env_ready(&e, e.queue) > 0) {
		cr_assert_lt(now_ms(), end);
		queue_sip(&e, e.queue, &got);
	}
	cr_expect_eq(env_number(&e, "SELECT COUNT(*) FROM message_outbox WHERE status = 1"), 600);
	arrived_check(&got, 0, 600, 1, 1);
	arrived_in_order(&got);
}

/* Between a refusal and its record in the table the key is not free: the rows behind it
 * must not slip through. Other rows in plenty keep the relay looking for work meanwhile. */
Test(order, nothing_slips_through_while_a_refusal_is_being_recorded)
{
	enum { KEYS_REFUSED = 200 };
	env_config(
	    &e, "\"publisher\":{\"lease\":\"2s\",\"retry_delays\":[\"1h\"],\"breaker_after\":0}");
	for (int i = 0; i < 2; i++)
		for (int k = 0; k < KEYS_REFUSED; k++)
			env_sql(&e,
			    "INSERT INTO message_outbox (business_key, routing_key, payload)"
			    " VALUES ('refused-%d', '%s', 'x')",
			    k, i == 0 ? "no.such.queue" : e.queue);
	outbox_fill(&e, e.queue, 0, 6000, 0);
	relay = relay_start(&e, NULL);
	EVENTUALLY(LOAD_MS, outbox_rows(&e) == 2 * KEYS_REFUSED);
	cr_expect_eq(
	    env_number(&e, "SELECT COUNT(*) FROM message_outbox WHERE status = 2"), KEYS_REFUSED);
	expect_stopped();
	queue_take(&e, e.queue, &got);
	arrived_check(&got, 0, 6000, 1, 1);
}

Test(order, without_order_a_refused_row_holds_nobody)
{
	env_config(&e, "\"publisher\":{\"ordering\":\"none\",\"retry_delays\":[\"1h\"]}");
	outbox_row(&e, "m-000000", "no.such.queue", "business_key", "'k-0'");
	outbox_fill(&e, e.queue, 1, 1, 1);
	relay = relay_start(&e, NULL);
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 1 && env_ready(&e, e.queue) == 1);
	expect_stopped();
}

/* Thousands stand behind a FAILED row of their key, in front of those that can go; and they go, in
 * their order, as soon as a person gives that row up. */
Test(order, a_wall_of_held_rows)
{
	enum { HELD = 5000, OTHERS = 500 };
	env_sql(&e,
	    "INSERT INTO message_outbox (msg_id, routing_key, payload, business_key, status,"
	    " retry_count, next_retry_at)"
	    " VALUES ('head', '%s', 'x', 'k-0', 2, 1, NOW(6) + INTERVAL 1 HOUR)",
	    e.queue);
	outbox_fill(&e, e.queue, 0, HELD, 1);
	outbox_fill(&e, e.queue, 10000, OTHERS, 100000);
	relay = relay_start(&e, NULL);
	EVENTUALLY(SOON_MS, outbox_rows(&e) == HELD + 1);
	cr_expect_eq(env_ready(&e, e.queue), OTHERS);
	env_sql(&e, "UPDATE message_outbox SET status = 3, next_retry_at = NULL WHERE status = 2");
	EVENTUALLY(LOAD_MS, outbox_rows(&e) < HELD - 50);
	env_sql(
	    &e, "DELETE FROM message_outbox WHERE id %% 100 <> 0"); /* the rest takes a minute */
	EVENTUALLY(LOAD_MS, outbox_rows(&e) <= 1);
	expect_stopped();
	queue_take(&e, e.queue, &got);
	cr_expect_gt(got.count, OTHERS + 50);
	arrived_in_order(&got);
}
