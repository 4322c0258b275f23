/* test_consumer_retry.c - what cannot be processed: attempts and delays, parking and its
 * reasons, neighbours that pay nothing, ladders that are missing or full. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/testconsumer.h"
#include "support/testoutbox.h"

static env e;

static void close_env(void)
{
	consumer_close(&e);
}

TestSuite(consumer_retry, .fini = close_env, .timeout = 120);

#define BYTES(literal)                                                \
	{                                                             \
		.len = sizeof(literal) - 1, .bytes = (char *) literal \
	}

/* Take the one parked message: its id, attempts, and a part of its reason. */
static void expect_parked(const char *id, int attempts, const char *reason)
{
	relmq__msg *msg = env_get(&e, parked(&e));
	cr_assert_not_null(msg, "nothing is parked");
	cr_assert_str_eq(text_of(msg->props.message_id), id);
	cr_assert_eq(relmq__msg_header_int(msg, "x-relmq-attempt", 0), attempts);
	cr_assert_not_null(strstr(header_of(msg, "x-relmq-reason"), reason), "reason: %s",
	    header_of(msg, "x-relmq-reason"));
	cr_assert_str_eq(header_of(msg, "x-relmq-queue"), e.queue);
	cr_assert_str_eq(header_of(msg, "x-relmq-routing-key"), e.queue);
	cr_assert_eq(msg->props.delivery_mode, AMQP_DELIVERY_PERSISTENT);
	relmq__msg_free(msg);
}

/* --- attempts ----------------------------------------------------------------------------- */

/* Three calls with the delays between them, parked with its reason, and replayed: once, and
 * counted anew (D11). */
Test(consumer_retry, parked_after_its_attempts_and_replayed)
{
	char *output;
	consumer_open(&e,
	    &(setup){ .tiers = "\"200ms\",\"300ms\"",
	        .queue = "\"max_attempts\":3",
	        .handler = PLUGIN_LATE });
	put(&e, e.queue, &(note){ .id = "early", .key = "k" }, 1);
	int64_t from = now_ms();
	proc p = consumer_start(&e, NULL);
	EVENTUALLY(15000, env_ready(&e, parked(&e)) == 1);
	cr_assert_geq(now_ms() - from, 500, "both delays must have passed");
	proc_signal(&p, SIGTERM);
	cr_assert_eq(proc_wait(&p, 10000), 0);
	cr_assert_eq(consumer_total(&p, "received"), 3);
	cr_assert_eq(consumer_total(&p, "retried"), 2);
	cr_assert_eq(consumer_total(&p, "parked"), 1);

	env_sql(&e, "CREATE TABLE late LIKE effects");
	p = consumer_start(&e, NULL);
	cr_assert_eq(dlx(&e, &output, "replay", NULL), 0);
	cr_assert_not_null(strstr(output, "1 of 1 parked message(s) would be replayed"));
	cr_assert_not_null(strstr(output, "early"));
	free(output);
	EVENTUALLY(5000, env_ready(&e, parked(&e)) == 1); /* a dry run gives back what it saw */
	cr_assert_eq(dlx(&e, &output, "replay", "--yes", NULL), 0, "%s", output);
	cr_assert_not_null(strstr(output, "1 of 1 parked message(s) replayed"));
	free(output);
	EVENTUALLY(10000, env_number(&e, "SELECT COUNT(*) FROM late") == 1);
	consumer_stop(&p);
	cr_assert_eq(env_number(&e, "SELECT attempt FROM late WHERE id = 'early'"), 1);
	cr_assert_eq(env_ready(&e, parked(&e)), 0);
	cr_assert_eq(env_ready(&e, e.queue), 0);
}

Test(consumer_retry, third_attempt_succeeds)
{
	consumer_open(
	    &e, &(setup){ .tiers = "\"200ms\",\"300ms\"", .queue = "\"max_attempts\":3" });
	put(&e, e.queue, &(note){ .id = "slow starter", .order = "until:3" }, 1);
	proc p = consumer_start(&e, NULL);
	EVENTUALLY(15000, effects(&e) == 1);
	consumer_stop(&p);
	cr_assert_eq(env_number(&e, "SELECT attempt FROM effects"), 3);
	cr_assert_eq(consumer_total(&p, "retried"), 2);
	cr_assert_eq(env_ready(&e, parked(&e)), 0);
}

/* C17: one of a hundred fails for ever; nobody waits for it, and it makes no storm. */
Test(consumer_retry, one_that_always_fails_is_called_with_delay)
{
	consumer_open(&e,
	    &(setup){ .tiers = "\"300ms\"",
	        .consumer = "\"workers\":1,\"prefetch\":1",
	        .queue = "\"max_attempts\":3" });
	put(&e, e.queue, &(note){ .id = "bad", .order = "retry" }, 1);
	put_numbered(&e, e.queue, 1, 99, 10, NULL);
	int64_t from = now_ms();
	proc p = consumer_start(&e, NULL);
	EVENTUALLY(15000, effects(&e) == 99);
	EVENTUALLY(15000, env_ready(&e, parked(&e)) == 1);
	int64_t took = now_ms() - from;
	consumer_stop(&p);
	expect_parked("bad", 3, "told to retry");
	cr_assert_eq(consumer_total(&p, "received"), 99 + 3, "three calls of the bad one");
	cr_assert_eq(consumer_total(&p, "retried"), 2);
	cr_assert_geq(took, 2 * 300, "the tier's delay lies between its calls");
	cr_assert_eq(env_ready(&e, e.queue), 0);
}

typedef struct refusal {
	char order[16], reason[64];
	int attempts, retried;
} refusal;

ParameterizedTestParameters(consumer_retry, verdicts_park)
{
	static refusal refusals[] = {
		{ "reject", "told to reject", 1, 0 }, /* at once */
		{ "none", "handler returned no verdict", 2, 1 },
		{ "error", "(1054) ", 2, 1 },
	};
	return cr_make_param_array(refusal, refusals, sizeof(refusals) / sizeof(refusals[0]));
}

ParameterizedTest(refusal *r, consumer_retry, verdicts_park)
{
	consumer_open(&e, &(setup){ .queue = "\"max_attempts\":2" });
	put(&e, e.queue, &(note){ .id = "bad", .key = "k", .order = r->order }, 1);
	proc p = consumer_start(&e, NULL);
	EVENTUALLY(15000, env_ready(&e, parked(&e)) == 1);
	consumer_stop(&p);
	cr_assert_eq(consumer_total(&p, "retried"), r->retried);
	cr_assert_eq(consumer_total(&p, "parked"), 1);
	expect_parked("bad", r->attempts, r->reason);
	cr_assert_eq(effects(&e), 0, "what it wrote is rolled back");
	cr_assert_eq(env_number(&e, "SELECT COUNT(*) FROM message_inbox WHERE state = 1"), 0);
	cr_assert_eq(env_ready(&e, e.queue), 0);
}

Test(consumer_retry, wrong_statement_parks_with_the_databases_words)
{
	consumer_open(&e,
	    &(setup){ .queue = "\"max_attempts\":2",
	        .handler = "{\"kind\":\"sql\",\"statements\":"
	                   "[\"INSERT INTO effects (id, nowhere) VALUES (:msg_id, 1)\"]}" });
	put(&e, e.queue, &(note){ .id = "a" }, 1);
	proc p = consumer_start(&e, NULL);
	EVENTUALLY(15000, env_ready(&e, parked(&e)) == 1);
	consumer_stop(&p);
	expect_parked("a", 2, "statement 1: (1054) ");
	cr_assert_eq(effects(&e), 0);
}

/* --- neighbours ----------------------------------------------------------------------------- */

Test(consumer_retry, bad_ones_in_a_batch_cost_the_others_nothing)
{
	consumer_open(&e,
	    &(setup){
	        .tiers = "\"200ms\"", .consumer = "\"workers\":1", .queue = "\"max_attempts\":2" });
	put_numbered(&e, e.queue, 1, 20, 5, NULL);
	put(&e, e.queue, &(note){ .id = "refused", .order = "reject" }, 1);
	put_numbered(&e, e.queue, 21, 20, 5, NULL);
	put(&e, e.queue, &(note){ .id = "failing", .order = "retry" }, 1);
	put(&e, e.queue, &(note){ .id = "second time", .order = "until:2" }, 1);
	put_numbered(&e, e.queue, 41, 20, 5, NULL);
	proc p = consumer_start(&e, NULL);
	EVENTUALLY(15000, effects(&e) == 61 && env_ready(&e, parked(&e)) == 2);
	consumer_stop(&p);
	cr_assert_eq(effects_of(&e, "second time"), 1);
	env_sql(&e, "DELETE FROM effects WHERE id = 'second time'");
	effects_are(&e, 1, 60);
	effects_in_order(&e);
	cr_assert_eq(env_number(&e, "SELECT MAX(attempt) FROM effects"), 1);
	cr_assert_eq(consumer_total(&p, "retried"), 2);
	cr_assert_eq(consumer_total(&p, "parked"), 2);
	cr_assert_eq(consumer_total(&p, "duplicates"), 0);
	expect_parked("refused", 1, "told to reject");
	expect_parked("failing", 2, "told to retry");
	cr_assert_eq(env_ready(&e, e.queue), 0);
}

/* A handler that commits breaks its contract: that is said, and the others of the batch,
 * whose claims it committed, still have their effect. */
Test(consumer_retry, handler_that_commits_is_found_out)
{
	consumer_open(&e, &(setup){ .consumer = "\"workers\":1", .queue = "\"max_attempts\":2" });
	put(&e, e.queue, &(note){ .id = "first", .order = "sleep:400" }, 1);
	proc p = consumer_start(&e, NULL);
	EVENTUALLY(10000, effects_begun(&e) == 1); /* while it runs, a batch gathers */
	put_numbered(&e, e.queue, 1, 10, 5, NULL);
	put(&e, e.queue, &(note){ .id = "commits", .order = "commit" }, 1);
	put_numbered(&e, e.queue, 11, 10, 5, NULL);
	put(&e, e.queue, &(note){ .id = "last" }, 1);
	EVENTUALLY(15000, effects_of(&e, "last") == 1);
	EVENTUALLY(15000, effects(&e) == 23);
	consumer_stop(&p);
	cr_assert(
	    proc_said(&p, "the handler ended the transaction it was given (message commits)"));
	cr_assert_eq(effects_of(&e, "commits"), 1);
	env_sql(&e, "DELETE FROM effects WHERE id IN ('first', 'commits', 'last')");
	effects_are(&e, 1, 20);
	cr_assert_eq(env_ready(&e, e.queue), 0);
	cr_assert_eq(env_ready(&e, parked(&e)), 0);
}

/* --- bytes ------------------------------------------------------------------------------------ */

/* C15: no UTF-8 anywhere, first in the queue; also in the database's error text. */
Test(consumer_retry, strange_bytes_are_parked_as_they_came)
{
	static const amqp_bytes_t strange = BYTES("\xff\xfe\x80\0'\"\\");
	amqp_table_entry_t header = { .key = BYTES("x-strange") };
	header.value.kind = AMQP_FIELD_KIND_UTF8;
	header.value.value.bytes = strange;
	consumer_open(&e,
	    &(setup){ .queue = "\"max_attempts\":1",
	        .handler = "{\"kind\":\"sql\",\"statements\":[\"INSERT INTO numbers (n, id)"
	                   " VALUES (:payload, :msg_id)\"]}" });
	env_sql(&e, "CREATE TABLE numbers (n INT, id VARBINARY(255))");
	const note bad = { .id = "id-\xff\xfe",
		.key = "key-\xff\xfe",
		.type = strange,
		.body = strange,
		.header = &header };
	const note good = { .id = "good", .body = BYTES("42") };
	put(&e, e.queue, (note[]){ bad, good }, 2);
	proc p = consumer_start(&e, NULL);
	EVENTUALLY(15000, env_ready(&e, parked(&e)) == 1);
	EVENTUALLY(15000, env_number(&e, "SELECT COUNT(*) FROM numbers WHERE n = 42") == 1);
	consumer_stop(&p);
	relmq__msg *msg = env_get(&e, parked(&e));
	amqp_bytes_t kept = relmq__msg_header_bytes(msg, "x-strange");
	cr_assert_str_eq(text_of(msg->props.message_id), bad.id);
	cr_assert_str_eq(header_of(msg, "x-relmq-key"), bad.key);
	cr_assert(
	    msg->body.len == strange.len && !memcmp(msg->body.bytes, strange.bytes, strange.len));
	cr_assert(kept.len == strange.len && !memcmp(kept.bytes, strange.bytes, strange.len));
	cr_assert(msg->props.type.len == strange.len &&
	    !memcmp(msg->props.type.bytes, strange.bytes, strange.len));
	relmq__msg_free(msg);
	cr_assert_eq(env_ready(&e, e.queue), 0);
}

typedef struct way {
	char handler[400];
} way;

ParameterizedTestParameters(consumer_retry, bodies_arrive_as_they_were_sent)
{
	static way ways[] = { { PLUGIN_LATE },
		{ "{\"kind\":\"sql\",\"statements\":"
		  "[\"INSERT INTO late (id, body) VALUES (:msg_id, :payload)\"]}" } };
	return cr_make_param_array(way, ways, 2);
}

/* O26: through parking, replay and handler. */
ParameterizedTest(way *w, consumer_retry, bodies_arrive_as_they_were_sent)
{
	enum { BIG = 1 << 20 };
	char *big = malloc(BIG);
	unsigned long x = 88172645463325252UL;
	for (size_t i = 0; i < BIG; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
		big[i] = (char) x;
	}
	const note notes[] = { { .id = "nul", .body = BYTES("\0\1\0\xff\0") },
		{ .id = "empty", .hollow = true }, { .id = "big", .body = { BIG, big } } };
	consumer_open(&e, &(setup){ .queue = "\"max_attempts\":1", .handler = w->handler });
	put(&e, e.queue, notes, 3);
	proc p = consumer_start(&e, NULL);
	EVENTUALLY(20000, env_ready(&e, parked(&e)) == 3);
	env_sql(&e, "CREATE TABLE late LIKE effects");
	cr_assert_eq(dlx(&e, NULL, "replay", "--yes", NULL), 0);
	EVENTUALLY(20000, env_number(&e, "SELECT COUNT(*) FROM late") == 3);
	consumer_stop(&p);
	for (size_t i = 0; i < 3; i++) {
		relmq__buf sql = { 0 };
		int64_t same = 0;
		relmq_error err;
		relmq__buf_addf(
		    &sql, "SELECT COUNT(*) FROM late WHERE id = '%s' AND body = ", notes[i].id);
		relmq__sql_bytes(&sql, notes[i].body.bytes, notes[i].body.len);
		cr_assert_eq(
		    relmq__db_number(&e.db, sql.data, 0, &same, &err), RELMQ_OK, "%s", err.text);
		cr_assert_eq(same, 1, "%s is not what was sent", notes[i].id);
		relmq__buf_free(&sql);
	}
	free(big);
}

/* --- the ladder is not there ------------------------------------------------------------------ */

/* D07: the failed ones wait, unacked; the good ones go on; nothing is lost. */
Test(consumer_retry, missing_ladder_holds_the_failed_ones_only)
{
	consumer_open(&e, &(setup){ .tiers = "\"300ms\"", .queue = "\"max_attempts\":2" });
	proc p = consumer_start(&e, NULL);
	consumer_consumes(&p);
	env_delete_queue(&e, tier(&e, "300ms"));
	env_delete_queue(&e, parked(&e));
	put_numbered(&e, e.queue, 1001, 5, 5, "retry");
	put_numbered(&e, e.queue, 2001, 5, 5, "reject");
	put_numbered(&e, e.queue, 1, 100, 10, NULL);
	EVENTUALLY(15000, effects(&e) == 100);
	EVENTUALLY(15000, proc_said(&p, "refused message"));
	cr_assert(proc_running(&p));
	cr_assert_eq(dlx(&e, NULL, "declare", NULL), 0);
	EVENTUALLY(30000, env_ready(&e, parked(&e)) == 10);
	consumer_stop(&p);
	effects_are(&e, 1, 100);
	cr_assert_eq(env_ready(&e, e.queue), 0);
}

static int64_t numbered_from(const arrived *got, int first)
{
	int64_t n = 0;
	for (size_t i = 0; i < got->count; i++)
		n += strtol(text_of(got->msgs[i]->body) + 2, NULL, 10) >= first;
	return n;
}

enum { STUFFED = 4 }; /* one more than the tier's length */

/* The same when it is full, and a stop in the middle of it: what waits goes back.
 * (A quorum queue may forget acks that came in a burst just before the channel's end, so
 * some of the good ones can be there too; they would be duplicates.) */
Test(consumer_retry, full_ladder_holds_the_failed_ones_only)
{
	consumer_open(&e, &(setup){ .undeclared = true });
	env_declare(&e, e.queue, NULL);
	env_declare(&e, parked(&e), NULL);
	env_declare(&e, tier(&e, "200ms"), &(queue_args){ .max_length = 3 });
	/* Over its length before the first comes: what arrives in one burst is all let in. */
	for (int i = 0; i < STUFFED; i++)
		put_numbered(&e, tier(&e, "200ms"), 5001 + i, 1, 1, NULL);
	put_numbered(&e, e.queue, 1001, 30, 5, "retry");
	put_numbered(&e, e.queue, 1, 100, 10, NULL);
	proc p = consumer_start(&e, NULL);
	EVENTUALLY(15000, effects(&e) == 100);
	EVENTUALLY(15000, proc_said(&p, "refused message"));
	int64_t in_tier = env_ready(&e, tier(&e, "200ms")) - STUFFED;
	cr_assert(in_tier >= 0 && in_tier < 30, "%lld in the tier", (long long) in_tier);
	int64_t from = now_ms();
	consumer_stop(&p);
	cr_assert_lt(now_ms() - from, 5000, "a full ladder must not hold up the end");
	in_tier = env_ready(&e, tier(&e, "200ms")) - STUFFED;
	effects_are(&e, 1, 100);
	EVENTUALLY(10000, env_ready(&e, e.queue) >= 30 - in_tier);
	arrived got = { 0 };
	queue_take(&e, e.queue, &got);
	cr_assert_eq(numbered_from(&got, 1001), 30 - in_tier, "lost, or kept in both queues");
	arrived_free(&got);
}
