/* test_consumer_outage.c - brokers and databases that restart or die in mid-run: effects
 * are exactly the ids, each key keeps its order, and no attempt is charged. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include "support/testconsumer.h"

enum { KEYS = 23, MESSAGES = 1500, ENOUGH_MS = 60000 };

static env e;

static void close_env(void)
{
	consumer_close(&e);
}

TestSuite(consumer_outage, .fini = close_env, .timeout = 180);

/* Both servers in turn, each while messages flow; then everything arrives. */
static void run_through(bool killed)
{
	consumer_open(&e,
	    &(setup){ .consumer = "\"workers\":3,\"batch_max\":20,\"prefetch\":100",
	        .queue = "\"max_attempts\":1",
	        .keeps_order = true });
	put_numbered(&e, e.queue, 1, MESSAGES, KEYS, "sleep:8");
	proc p = consumer_start(&e, NULL);
	EVENTUALLY(ENOUGH_MS, effects(&e) > MESSAGES / 10);
	env_stack(killed ? "kill-broker" : "stop-broker");
	cr_assert_lt(effects(&e), MESSAGES / 2, "the blow must fall while messages flow");
	env_stack("start-broker");
	EVENTUALLY(ENOUGH_MS, effects(&e) > MESSAGES / 2);
	env_stack(killed ? "kill-db" : "stop-db");
	env_stack("start-db");
	env_reopen_db(&e);
	EVENTUALLY(ENOUGH_MS, effects(&e) == MESSAGES);
	cr_assert(proc_said(&p, "rabbitmq is back after"));
	cr_assert(proc_said(&p, "the database is back after"), "the second blow fell too late");
	consumer_stop(&p);
	env_reopen_mq(&e);
	effects_are(&e, 1, MESSAGES);
	effects_in_order(&e);
	EVENTUALLY(10000, env_ready(&e, e.queue) == 0);
	cr_assert_eq(env_ready(&e, parked(&e)), 0, "an outage is nobody's fault");
	cr_assert_eq(env_ready(&e, tier(&e, "200ms")), 0);
}

Test(consumer_outage, servers_restart)
{
	run_through(false);
}

Test(consumer_outage, servers_are_killed)
{
	run_through(true);
}

/* A session that dies inside the handler's transaction costs the message nothing. */
Test(consumer_outage, session_is_killed_in_the_handler)
{
	consumer_open(&e, &(setup){ .consumer = "\"workers\":1", .queue = "\"max_attempts\":1" });
	put(&e, e.queue, &(note){ .id = "slow", .order = "sleep:1000" }, 1);
	proc p = consumer_start(&e, NULL);
	EVENTUALLY(10000, effects_begun(&e) == 1);
	int64_t session = env_number(&e,
	    "SELECT id FROM information_schema.processlist"
	    " WHERE db = '%s' AND id <> CONNECTION_ID() LIMIT 1",
	    e.name);
	env_sql(&e, "KILL %lld", (long long) session);
	EVENTUALLY(15000, effects(&e) == 1);
	consumer_stop(&p);
	cr_assert_eq(effects_of(&e, "slow"), 1);
	cr_assert_eq(env_ready(&e, parked(&e)), 0);
	cr_assert_eq(env_ready(&e, e.queue), 0);
}

/* P14: what goes to the ladder and to parking is persistent, too. */
Test(consumer_outage, parked_and_waiting_messages_survive_the_broker)
{
	consumer_open(&e, &(setup){ .tiers = "\"1h\"" });
	put_numbered(&e, e.queue, 1, 20, 5, "reject");
	put_numbered(&e, e.queue, 21, 20, 5, "retry");
	proc p = consumer_start(&e, NULL);
	EVENTUALLY(15000, env_ready(&e, parked(&e)) == 20 && env_ready(&e, tier(&e, "1h")) == 20);
	consumer_stop(&p);
	env_stack("kill-broker");
	env_stack("start-broker");
	env_reopen_mq(&e);
	EVENTUALLY(20000, env_ready(&e, parked(&e)) == 20 && env_ready(&e, tier(&e, "1h")) == 20);
	relmq__msg *msg = env_get(&e, parked(&e));
	cr_assert_eq(msg->props.delivery_mode, AMQP_DELIVERY_PERSISTENT);
	relmq__msg_free(msg);
	msg = env_get(&e, tier(&e, "1h"));
	cr_assert_eq(msg->props.delivery_mode, AMQP_DELIVERY_PERSISTENT);
	relmq__msg_free(msg);
}
