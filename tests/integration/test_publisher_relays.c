/* test_publisher_relays.c - several relays on one outbox: each row once, work shared, and a
 * dead one's share taken over within its lease. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/testoutbox.h"

enum { RELAYS = 4, SHARDS = 16, SOON_MS = 15000, LEASE_MS = 2000, TAKEOVER_MS = 1500 };

static env e;
static proc relays[RELAYS];
static arrived got;

static void start(void)
{
	env_open(&e);
	env_declare(&e, e.queue, NULL);
	env_config(&e, "\"publisher\":{\"lease\":\"2s\"}");
}

static void stop(void)
{
	for (int i = 0; i < RELAYS; i++)
		proc_kill(&relays[i]);
	arrived_free(&got);
	env_close(&e);
}

TestSuite(relays, .init = start, .fini = stop, .timeout = 90);

static void start_relays(int count)
{
	for (int i = 0; i < count; i++)
		relays[i] = relay_start(&e, NULL);
	/* A fair share each: 16 over their number. */
	EVENTUALLY(SOON_MS,
	    env_number(&e,
	        "SELECT COUNT(*) FROM (SELECT owner FROM outbox_lease WHERE owner <> '' AND"
	        " expires_at > NOW(6) GROUP BY owner HAVING COUNT(*) = %d) AS fair",
	        SHARDS / count) == count);
}

static int64_t stop_relay(proc *relay)
{
	int status = proc_stop(relay, SOON_MS);
	cr_expect_eq(status, 0, "exit status %d", status);
	return relay_confirmed(relay);
}

Test(relays, four_share_the_work_and_send_each_row_once)
{
	int64_t sum = 0;
	start_relays(RELAYS);
	outbox_fill(&e, e.queue, 0, 5000, 500);
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 0);
	for (int i = 0; i < RELAYS; i++) {
		int64_t confirmed = stop_relay(&relays[i]);
		cr_expect_gt(confirmed, 0, "relay %d did nothing", i);
		sum += confirmed;
	}
	cr_expect_eq(sum, 5000);
	queue_take(&e, e.queue, &got);
	arrived_check(&got, 0, 5000, 1, 1);
	arrived_in_order(&got);
}

/* Somebody holds the rows that a relay has sent, for longer than its lock wait time: settling is
 * tried again, nothing goes twice, no loop ends; and the others settle and purge around it. */
Test(relays, strangers_hold_locks_for_longer_than_the_lock_wait)
{
	relmq__db stranger;
	relmq_error err;
	env_config(&e, "\"publisher\":{\"lease\":\"2s\",\"keep_sent\":true}");
	start_relays(RELAYS);
	for (int n = 0; n < 50; n++) {
		char id[16];
		char values[64];
		(void) snprintf(id, sizeof(id), "m-%06d", n);
		(void) snprintf(values, sizeof(values), "'k-%d', NOW(6) + INTERVAL 2 SECOND", n);
		outbox_row(&e, id, e.queue, "business_key, next_retry_at", values);
	}
	env_session(&e, &stranger);
	cr_assert_eq(relmq__db_execf(&stranger, NULL, &err, "START TRANSACTION"), RELMQ_OK);
	cr_assert_eq(relmq__db_execf(&stranger, NULL, &err,
	                 "UPDATE message_outbox SET last_error = 'mine' WHERE status = 4"),
	    RELMQ_OK, "%s", err.text);
	outbox_fill(&e, e.queue, 50, 2450, 100);
	bool waited = false;
	EVENTUALLY(SOON_MS, env_ready(&e, e.queue) == 2500);
	for (int64_t end = now_ms() + SOON_MS; !waited && now_ms() < end; pause_ms(10))
		for (int i = 0; i < RELAYS; i++)
			waited = waited || proc_said(&relays[i], "1205");
	cr_expect(waited, "nobody met the lock");
	cr_assert_eq(relmq__db_execf(&stranger, NULL, &err, "ROLLBACK"), RELMQ_OK);
	EVENTUALLY(SOON_MS,
	    env_number(&e, "SELECT COUNT(*) FROM message_outbox WHERE status = 1") == 2500);
	for (int i = 0; i < RELAYS; i++)
		(void) stop_relay(&relays[i]);
	queue_take(&e, e.queue, &got);
	arrived_check(&got, 0, 2500, 1, 1);
	relmq__db_close(&stranger);
}

/* They come while the first one is at work, which has to give shards away. */
Test(relays, four_that_come_one_by_one_send_each_row_once)
{
	outbox_fill(&e, e.queue, 0, 4000, 400);
	for (int i = 0; i < RELAYS; i++) {
		relays[i] = relay_start(&e, NULL);
		EVENTUALLY(SOON_MS, outbox_owners(&e) >= i + 1);
		outbox_fill(&e, e.queue, 4000 + i * 500, 500, 400);
	}
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 0);
	for (int i = 0; i < RELAYS; i++)
		(void) stop_relay(&relays[i]);
	queue_take(&e, e.queue, &got);
	arrived_check(&got, 0, 6000, 1, 1);
	arrived_in_order(&got);
}

Test(relays, the_share_of_a_killed_one_is_taken_over_within_its_lease)
{
	start_relays(2);
	proc_kill(&relays[0]);
	outbox_fill(&e, e.queue, 0, 400, 100);
	EVENTUALLY(LEASE_MS + TAKEOVER_MS, outbox_rows(&e) == 0);
	(void) stop_relay(&relays[1]);
	queue_take(&e, e.queue, &got);
	arrived_check(&got, 0, 400, 1, 1);
}

Test(relays, a_clean_stop_hands_over_at_once)
{
	env_config(&e, "\"publisher\":{\"lease\":\"10m\"}");
	start_relays(1);
	(void) stop_relay(&relays[0]);
	cr_expect_eq(outbox_owned(&e), 0);
	cr_expect_eq(env_number(&e, "SELECT COUNT(*) FROM outbox_relay"), 0);
	relays[1] = relay_start(&e, NULL);
	outbox_fill(&e, e.queue, 0, 100, 100);
	EVENTUALLY(5000, outbox_rows(&e) == 0);
}

/* Alive and slow, within its lease: its rows are its own. */
Test(relays, a_live_claim_is_left_alone)
{
	env_config(&e, "\"publisher\":{\"lease\":\"10m\"}");
	start_relays(1);
	proc_signal(&relays[0], SIGSTOP);
	relays[1] = relay_start(&e, NULL);
	outbox_fill(&e, e.queue, 0, 200, 100);
	EVENTUALLY(SOON_MS, env_number(&e, "SELECT COUNT(*) FROM outbox_relay") == 2);
	for (int64_t end = now_ms() + 1000; now_ms() < end; pause_ms(50))
		cr_assert_eq(env_ready(&e, e.queue), 0, "somebody else's rows were sent");
	proc_signal(&relays[0], SIGCONT);
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 0);
	for (int i = 0; i < 2; i++)
		(void) stop_relay(&relays[i]);
	queue_take(&e, e.queue, &got);
	arrived_check(&got, 0, 200, 1, 1);
}

/* --- one that sleeps past its lease with rows in its hands ---------------------------------- */

static char hold[320];

/* It holds its breath between the ack and the DELETE for as long as a file exists. */
static void start_holding(void)
{
	char fail[400];
	(void) snprintf(hold, sizeof(hold), "%s/%s.hold", e.dir, e.name);
	(void) snprintf(fail, sizeof(fail), "publisher.acked=hold:%s", hold);
	FILE *f = fopen(hold, "w");
	cr_assert(f != NULL && fclose(f) == 0);
	relays[0] = relay_start(&e, fail);
	EVENTUALLY(SOON_MS, outbox_owned(&e) == SHARDS);
}

Test(relays, one_that_wakes_up_after_its_lease_does_no_harm)
{
	start_holding();
	outbox_fill(&e, e.queue, 0, 200, 100);
	EVENTUALLY(SOON_MS, env_ready(&e, e.queue) > 0);
	relays[1] = relay_start(&e, NULL);
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 0);
	cr_assert_eq(unlink(hold), 0);
	EVENTUALLY(SOON_MS, proc_said(&relays[0], "already gone"));
	outbox_fill(&e, e.queue, 200, 200, 100);
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 0);
	for (int i = 0; i < 2; i++)
		(void) stop_relay(&relays[i]);
	queue_take(&e, e.queue, &got);
	arrived_check(&got, 0, 400, 1, 2);
	arrived_in_order(&got);
}

/* The rows belong to another now, or to itself under a later epoch, with another between. */
static void expect_fenced(const char *taken_over)
{
	start_holding();
	outbox_fill(&e, e.queue, 0, 100, 0);
	EVENTUALLY(SOON_MS, env_ready(&e, e.queue) == 100);
	env_sql(
	    &e, "UPDATE outbox_lease SET %s, expires_at = NOW(6) + INTERVAL 1 HOUR", taken_over);
	cr_assert_eq(unlink(hold), 0);
	EVENTUALLY(SOON_MS, proc_said(&relays[0], "already gone"));
	cr_expect_eq(outbox_rows(&e), 100, "it settled what was not its own any more");
	env_sql(&e, "UPDATE outbox_lease SET owner = 'other', expires_at = NOW(6)");
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 0);
	(void) stop_relay(&relays[0]);
	queue_take(&e, e.queue, &got);
	arrived_check(&got, 0, 100, 1, 2);
}

Test(relays, what_it_settles_is_fenced_by_owner)
{
	expect_fenced("owner = 'other'");
}

Test(relays, and_by_epoch)
{
	expect_fenced("epoch = epoch + 2");
}

/* Leases are judged by the database's clock alone: rows and shards of a relay that has
 * never been heard of are taken when they expire, and its claim may be from any time. */
Test(relays, an_expired_claim_of_a_stranger_is_won_by_one)
{
	env_sql(&e, "UPDATE outbox_lease SET owner = 'gone', epoch = 7, expires_at = NOW(6)");
	outbox_fill(&e, e.queue, 0, 1000, 100);
	start_relays(RELAYS);
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 0);
	cr_expect_eq(env_number(&e, "SELECT MIN(epoch) > 7 FROM outbox_lease"), 1);
	for (int i = 0; i < RELAYS; i++)
		(void) stop_relay(&relays[i]);
	queue_take(&e, e.queue, &got);
	arrived_check(&got, 0, 1000, 1, 1);
}
