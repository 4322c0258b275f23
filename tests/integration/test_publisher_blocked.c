/* test_publisher_blocked.c - an alarm of the broker: it reads nothing from publishers any more. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/testoutbox.h"

enum { SOON_MS = 20000, ROWS = 20000 };

static env e;
static proc relay;
static arrived got;

static void alarm_off(void)
{
	cr_expect_eq(env_ctl("set_vm_memory_high_watermark 0.6"), 0);
}

static void start(void)
{
	env_open(&e);
	env_declare(&e, e.queue, NULL);
	env_config(&e,
	    "\"publisher\":{\"lease\":\"2s\",\"confirm_timeout\":\"1s\",\"shutdown_timeout\":\"2s\"}");
}

static void stop(void)
{
	alarm_off();
	proc_kill(&relay);
	arrived_free(&got);
	env_close(&e);
}

TestSuite(blocked, .init = start, .fini = stop, .timeout = 120);

static int64_t told(const char *member)
{
	return env_number(&e,
	    "SELECT COALESCE(MAX(JSON_VALUE(report, '$.stats.%s')), -1) FROM outbox_relay"
	    " WHERE expires_at > NOW(6)",
	    member);
}

/* No transaction is open while the broker is awaited, so nobody's ALTER TABLE waits for it. */
static void expect_ddl_to_pass(void)
{
	int64_t began = now_ms();
	env_sql(&e, "SET SESSION lock_wait_timeout = 5");
	env_sql(&e, "ALTER TABLE message_outbox ADD COLUMN note INT NULL");
	cr_expect_lt(now_ms() - began, 5000);
}

/* Longer than confirm_timeout, and longer than a lease: nothing is sent again, nothing is
 * charged, nothing more is read. */
Test(blocked, an_alarm_is_waited_out)
{
	outbox_fill(&e, e.queue, 0, ROWS, 100);
	relay = relay_start(&e, NULL);
	EVENTUALLY(SOON_MS, env_ready(&e, e.queue) > 100);
	cr_assert_eq(env_ctl("set_vm_memory_high_watermark 0"), 0);
	EVENTUALLY(SOON_MS, told("blocked") == 1);
	cr_expect(proc_said(&relay, "rabbitmq blocks publishers"));
	int64_t before = told("read");
	int64_t until = now_ms() + 4000;
	EVENTUALLY(SOON_MS, now_ms() > until);
	cr_expect_eq(told("read"), before);
	cr_expect_eq(told("in_doubt"), 0);
	cr_expect_eq(outbox_owned(&e), 16, "it keeps its leases");
	cr_expect_eq(env_number(&e, "SELECT COUNT(*) FROM message_outbox WHERE status <> 0"), 0);
	expect_ddl_to_pass();
	alarm_off();
	EVENTUALLY(60000, outbox_rows(&e) == 0);
	int status = proc_stop(&relay, SOON_MS);
	cr_expect_eq(status, 0, "exit status %d", status);
	queue_take(&e, e.queue, &got);
	arrived_check(&got, 0, ROWS, 1, 1);
	arrived_in_order(&got);
}

/* Stopped meanwhile it ends within its bound, and what it could not settle goes again. */
Test(blocked, sigterm_during_an_alarm)
{
	outbox_fill(&e, e.queue, 0, ROWS, 100);
	relay = relay_start(&e, NULL);
	EVENTUALLY(SOON_MS, env_ready(&e, e.queue) > 100);
	cr_assert_eq(env_ctl("set_vm_memory_high_watermark 0"), 0);
	EVENTUALLY(SOON_MS, told("blocked") == 1);
	int64_t in_flight = told("in_flight");
	int64_t began = now_ms();
	(void) proc_stop(&relay, SOON_MS);
	cr_expect_lt(now_ms() - began, 6000);
	cr_expect_eq(outbox_owned(&e), 0, "its leases are free at once");
	alarm_off();
	relay = relay_start(&e, NULL);
	EVENTUALLY(60000, outbox_rows(&e) == 0);
	(void) proc_stop(&relay, SOON_MS);
	queue_take(&e, e.queue, &got);
	arrived_check(&got, 0, ROWS, 1, 2);
	cr_expect_leq((int64_t) got.count, ROWS + in_flight, "no more than were in flight: %lld",
	    (long long) in_flight);
}
