/* test_consumer_crash.c - consumers that die between any two lines, and consumers that are
 * asked to stop: one effect each, at most one more copy on the ladder, order kept. */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mq/topology.h"
#include "support/testconsumer.h"
#include "support/testoutbox.h"

enum { KILLED = 128 + SIGKILL };

static env e;

static void close_env(void)
{
	consumer_close(&e);
}

TestSuite(consumer_crash, .fini = close_env, .timeout = 120);

/* --- kill -9 around COMMIT and ack ------------------------------------------------------ */

typedef struct blow {
	char fail[48];
	bool batch;   /* it strikes many messages in one transaction, else one alone */
	bool durable; /* behind COMMIT */
} blow;

ParameterizedTestParameters(consumer_crash, killed_around_commit)
{
	static blow blows[] = {
		{ "consumer.claimed=kill", false, false },
		{ "consumer.before_commit=kill", false, false },
		{ "consumer.before_commit=kill@2", true, false },
		{ "consumer.committed=kill", false, true },
		{ "consumer.committed=kill@2", true, true },
		{ "consumer.before_ack=kill", false, true },
		{ "consumer.before_ack=kill@2", true, true },
	};
	return cr_make_param_array(blow, blows, sizeof(blows) / sizeof(blows[0]));
}

ParameterizedTest(blow *b, consumer_crash, killed_around_commit)
{
	int total = b->batch ? 51 : 1;
	consumer_open(&e, &(setup){ .consumer = "\"workers\":1", .queue = "\"max_attempts\":1" });
	put_numbered(&e, e.queue, 1, 1, 1, b->batch ? "sleep:400" : NULL);
	proc p = consumer_start(&e, b->fail);
	if (b->batch) { /* while the first one runs, they gather */
		EVENTUALLY(10000, effects_begun(&e) == 1);
		put_numbered(&e, e.queue, 2, 50, 1, NULL);
	}
	cr_assert_eq(proc_wait(&p, 15000), KILLED);
	int64_t committed = effects(&e);
	cr_assert_eq(committed, b->durable ? total : total - (b->batch ? 50 : 1));
	EVENTUALLY(10000, env_ready(&e, e.queue) >= (b->batch ? 50 : 1));
	int64_t returned = env_ready(&e, e.queue); /* the ack of the first may have been out */

	p = consumer_start(&e, NULL);
	consumer_consumes(&p);
	EVENTUALLY(10000, env_ready(&e, e.queue) == 0);
	put_numbered(&e, e.queue, total + 1, 1, 1, NULL); /* behind them */
	EVENTUALLY(15000, effects(&e) == total + 1);
	consumer_stop(&p);
	effects_are(&e, 1, total + 1);
	cr_assert_eq(consumer_total(&p, "duplicates"), returned - (total - committed));
	cr_assert_eq(env_ready(&e, e.queue), 0);
	cr_assert_eq(env_ready(&e, parked(&e)), 0, "no attempt was charged");
}

/* A start was recorded, and nothing more: it still runs. */
Test(consumer_crash, killed_after_a_recorded_start)
{
	consumer_open(&e, &(setup){ .consumer = "\"workers\":1" });
	put_numbered(&e, e.queue, 1, 3, 1, NULL);
	proc p = consumer_start(&e, "consumer.before_commit=kill");
	cr_assert_eq(proc_wait(&p, 15000), KILLED);
	p = consumer_start(&e, "consumer.start_recorded=kill"); /* now they are redelivered */
	cr_assert_eq(proc_wait(&p, 15000), KILLED);
	cr_assert_eq(effects(&e), 0);
	cr_assert_eq(env_number(&e, "SELECT state FROM message_inbox"), 2);
	p = consumer_start(&e, NULL);
	EVENTUALLY(15000, effects(&e) == 3);
	consumer_stop(&p);
	effects_are(&e, 1, 3);
	cr_assert_eq(env_number(&e, "SELECT COUNT(*) FROM message_inbox WHERE state = 1"), 3);
	cr_assert_eq(env_ready(&e, e.queue), 0);
}

/* C07: what a dead consumer had begun is neither visible nor in the way. */
Test(consumer_crash, killed_inside_the_handler)
{
	consumer_open(&e, &(setup){ 0 });
	put(&e, e.queue, &(note){ .id = "long", .order = "sleep:2000" }, 1);
	proc p = consumer_start(&e, NULL);
	EVENTUALLY(10000, effects_begun(&e) == 1);
	proc_kill(&p);
	EVENTUALLY(10000, effects_begun(&e) == 0);
	cr_assert_eq(env_number(&e, "SELECT COUNT(*) FROM message_inbox WHERE state = 1"), 0);
	p = consumer_start(&e, NULL);
	EVENTUALLY(15000, effects(&e) == 1);
	consumer_stop(&p);
	cr_assert_eq(effects_of(&e, "long"), 1);
	cr_assert_eq(env_ready(&e, e.queue), 0);
}

/* --- D07: the ladder's path -------------------------------------------------------------- */

static void expect_copies(const char *queue, size_t count, int attempt, const char *reason)
{
	arrived got = { 0 };
	queue_take(&e, queue, &got);
	cr_assert_eq(got.count, count, "%zu copies in %s", got.count, queue);
	for (size_t i = 0; i < got.count; i++) {
		const relmq__msg *msg = got.msgs[i];
		cr_assert_str_eq(text_of(msg->props.message_id), "bad");
		cr_assert_eq(relmq__msg_header_int(msg, "x-relmq-attempt", 0), attempt);
		cr_assert_str_eq(header_of(msg, "x-relmq-reason"), reason);
		cr_assert_str_eq(text_of(msg->body), "bad");
	}
	arrived_free(&got);
}

static void killed_on_the_ladder(
    const char *fail, const char *order, const char *to, size_t copies_then)
{
	put(&e, e.queue, &(note){ .id = "bad", .key = "k", .order = order }, 1);
	proc p = consumer_start(&e, fail);
	cr_assert_eq(proc_wait(&p, 15000), KILLED);
	EVENTUALLY(10000, env_ready(&e, e.queue) == 1);
	cr_assert_eq(env_ready(&e, to), (int64_t) copies_then);
	p = consumer_start(&e, NULL);
	EVENTUALLY(15000, env_ready(&e, to) == (int64_t) copies_then + 1);
	consumer_stop(&p);
	cr_assert_eq(env_ready(&e, e.queue), 0);
	cr_assert_eq(effects(&e), 0);
}

Test(consumer_crash, killed_before_the_ladder)
{
	consumer_open(&e, &(setup){ .tiers = "\"1h\"" });
	killed_on_the_ladder("consumer.refused=kill", "retry", tier(&e, "1h"), 0);
	expect_copies(tier(&e, "1h"), 1, 2, "told to retry");
}

Test(consumer_crash, killed_between_the_ladder_and_the_ack)
{
	consumer_open(&e, &(setup){ .tiers = "\"1h\"" });
	killed_on_the_ladder("consumer.forwarded=kill", "retry", tier(&e, "1h"), 1);
	expect_copies(tier(&e, "1h"), 2, 2, "told to retry");
}

Test(consumer_crash, killed_between_parking_and_the_ack)
{
	consumer_open(&e, &(setup){ .tiers = "\"1h\"" });
	killed_on_the_ladder("consumer.forwarded=kill", "reject", parked(&e), 1);
	expect_copies(parked(&e), 2, 1, "told to reject");
}

/* Two copies of one id come back from the ladder: one effect. */
Test(consumer_crash, both_copies_come_back_to_one_effect)
{
	consumer_open(&e, &(setup){ .tiers = "\"1s\"", .consumer = "\"workers\":1" });
	put(&e, e.queue, &(note){ .id = "bad", .order = "until:2" }, 1);
	proc p = consumer_start(&e, "consumer.forwarded=kill");
	cr_assert_eq(proc_wait(&p, 15000), KILLED);
	EVENTUALLY(10000, env_ready(&e, tier(&e, "1s")) == 0); /* the copy is back, too */
	EVENTUALLY(10000, env_ready(&e, e.queue) == 2);
	p = consumer_start(&e, NULL);
	EVENTUALLY(15000, effects(&e) == 1);
	put(&e, e.queue, &(note){ .id = "last" }, 1);
	EVENTUALLY(15000, effects_of(&e, "last") == 1 && env_ready(&e, tier(&e, "1s")) == 0);
	consumer_stop(&p);
	cr_assert_eq(effects_of(&e, "bad"), 1);
	cr_assert_eq(env_ready(&e, parked(&e)), 0);
}

/* --- C18: a message that kills its process ------------------------------------------------ */

static void kills_its_process(void)
{
	int ends = 0;
	put_numbered(&e, e.queue, 1, 10, 5, NULL);
	put(&e, e.queue, &(note){ .id = "deadly", .order = "abort" }, 1);
	put_numbered(&e, e.queue, 11, 10, 5, NULL);
	proc p = { 0 };
	int64_t until = now_ms() + 60000;
	while (env_ready(&e, parked(&e)) == 0 || effects(&e) < 20) {
		cr_assert_lt(now_ms(), until, "not parked after %d ends", ends);
		if (p.pid == 0)
			p = consumer_start(&e, NULL); /* a supervisor */
		if (!proc_running(&p))
			ends++;
		pause_ms(10);
	}
	consumer_stop(&p);
	/* once in a batch, which charges nobody, and then as often as it may be started */
	cr_assert_eq(ends, 1 + 3, "it ended %d times", ends);
	relmq__msg *msg = env_get(&e, parked(&e));
	cr_assert_str_eq(text_of(msg->props.message_id), "deadly");
	cr_assert_str_eq(header_of(msg, "x-relmq-reason"),
	    "the consumer ended 3 times while this message was with it");
	relmq__msg_free(msg);
	effects_are(&e, 1, 20);
	cr_assert_eq(env_ready(&e, parked(&e)), 0, "it alone");
	cr_assert_eq(
	    env_number(&e, "SELECT MAX(attempts) FROM message_inbox WHERE msg_id <> 'deadly'"), 1,
	    "a neighbour was charged");
	cr_assert_eq(env_ready(&e, e.queue), 0);
}

static const setup mortal = { .consumer = "\"workers\":1", .queue = "\"max_attempts\":3" };

Test(consumer_crash, message_that_kills_its_process)
{
	consumer_open(&e, &mortal);
	kills_its_process();
}

Test(consumer_crash, message_that_kills_its_process_on_a_classic_queue)
{
	relmq_error err;
	setup s = mortal;
	s.undeclared = true;
	consumer_open(&e, &s);
	cr_assert_eq(
	    relmq__queue_declare(&e.mq, e.queue, amqp_empty_table, &err), RELMQ_OK, "%s", err.text);
	env_declare(&e, parked(&e), NULL);
	env_declare(&e, tier(&e, "200ms"), NULL);
	kills_its_process();
}

/* --- C20: asked to stop -------------------------------------------------------------------- */

Test(consumer_crash, stop_finishes_what_runs_and_returns_the_rest)
{
	consumer_open(
	    &e, &(setup){ .consumer = "\"workers\":2,\"prefetch\":50", .keeps_order = true });
	put_numbered(&e, e.queue, 1, 60, 7, "sleep:120");
	proc p = consumer_start(&e, NULL);
	EVENTUALLY(15000, effects_begun(&e) >= 3);
	int64_t from = now_ms();
	consumer_stop(&p);
	cr_assert_lt(now_ms() - from, 2000, "it must not work through what was prefetched");
	int64_t done = effects(&e);
	cr_assert(done >= 1 && done < 20, "%lld done", (long long) done);
	cr_assert_eq(effects_begun(&e), done, "what ran is finished");
	cr_assert_eq(consumer_total(&p, "effects"), done);
	EVENTUALLY(10000, env_ready(&e, e.queue) == 60 - done); /* those that ran are acked */
	p = consumer_start(&e, NULL);
	EVENTUALLY(30000, effects(&e) == 60);
	consumer_stop(&p);
	effects_are(&e, 1, 60);
	effects_in_order(&e);
	cr_assert_eq(consumer_total(&p, "duplicates"), 0);
	cr_assert_eq(env_ready(&e, e.queue), 0);
	cr_assert_eq(env_ready(&e, parked(&e)), 0);
}

Test(consumer_crash, second_signal_ends_at_once)
{
	consumer_open(&e, &(setup){ 0 });
	put(&e, e.queue, &(note){ .id = "long", .order = "sleep:60000" }, 1);
	proc p = consumer_start(&e, NULL);
	EVENTUALLY(10000, effects_begun(&e) == 1);
	proc_signal(&p, SIGTERM);
	EVENTUALLY(5000, proc_said(&p, "stopping"));
	proc_signal(&p, SIGTERM);
	cr_assert_eq(proc_wait(&p, 1000), 3);
	EVENTUALLY(10000, env_ready(&e, e.queue) == 1);
	EVENTUALLY(10000, effects_begun(&e) == 0);
}

Test(consumer_crash, handler_that_outlives_the_bound)
{
	consumer_open(&e, &(setup){ .consumer = "\"shutdown_timeout\":\"300ms\"" });
	put(&e, e.queue, &(note){ .id = "long", .order = "sleep:60000" }, 1);
	proc p = consumer_start(&e, NULL);
	EVENTUALLY(10000, effects_begun(&e) == 1);
	cr_assert_eq(proc_stop(&p, 5000), 1);
	cr_assert(proc_said(&p, "not finished within shutdown_timeout"));
	EVENTUALLY(10000, env_ready(&e, e.queue) == 1);
	EVENTUALLY(10000, effects_begun(&e) == 0);
}
