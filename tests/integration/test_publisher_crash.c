/* test_publisher_crash.c - the relay dies between any two lines, and is told to stop in the
 * midst of work: every committed row arrives, under its own id, and in the order of its key. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/testoutbox.h"

enum { SOON_MS = 15000, LOAD_MS = 40000, KILLED = 128 + SIGKILL, SECOND_SIGNAL = 3 };

static env e;
static proc relay;
static arrived got;

static void start(void)
{
	env_open(&e);
	env_declare(&e, e.queue, NULL);
	env_config(&e, "\"publisher\":{\"lease\":\"1s\",\"retry_delays\":[\"100ms\"]}");
}

static void stop(void)
{
	proc_kill(&relay);
	arrived_free(&got);
	env_close(&e);
}

TestSuite(crash, .init = start, .fini = stop, .timeout = 120);

static void expect_stopped(void)
{
	int status = proc_stop(&relay, SOON_MS);
	cr_expect_eq(status, 0, "exit status %d", status);
}

/* Start it to die at a fail point; the row or rows are there before. */
static void die_at(const char *fail)
{
	relay = relay_start(&e, fail);
	int status = proc_wait(&relay, SOON_MS);
	cr_assert_eq(status, KILLED, "%s: exit status %d", fail, status);
}

static void run_to_the_end(void)
{
	relay = relay_start(&e, NULL);
	EVENTUALLY(LOAD_MS, outbox_rows(&e) == 0 && proc_said(&relay, "16 of 16 shards"));
	expect_stopped();
}

/* --- kill -9 between two lines -------------------------------------------------------------- */

Test(crash, between_ack_and_delete_the_row_goes_again_under_its_id)
{
	outbox_fill(&e, e.queue, 0, 1, 1);
	die_at("publisher.acked=kill");
	cr_assert_eq(outbox_rows(&e), 1);
	run_to_the_end();
	queue_take(&e, e.queue, &got);
	cr_assert_eq(got.count, 2);
	arrived_check(&got, 0, 1, 2, 2);
}

Test(crash, after_the_delete_nothing_goes_again)
{
	outbox_fill(&e, e.queue, 0, 1, 1);
	die_at("publisher.settled=kill");
	cr_assert_eq(outbox_rows(&e), 0);
	run_to_the_end();
	queue_take(&e, e.queue, &got);
	arrived_check(&got, 0, 1, 1, 1);
}

/* Not recorded, not charged; the next relay finds out by itself. */
Test(crash, before_a_refusal_is_recorded)
{
	outbox_fill(&e, "no.such.queue", 0, 1, 1);
	die_at("publisher.refused=kill");
	cr_expect_eq(
	    env_number(&e, "SELECT status = 0 AND retry_count = 0 FROM message_outbox"), 1);
	env_config(&e, "\"publisher\":{\"lease\":\"1s\",\"retry_delays\":[\"1h\"]}");
	relay = relay_start(&e, NULL);
	EVENTUALLY(SOON_MS,
	    env_number(&e, "SELECT status = 2 AND retry_count = 1 FROM message_outbox") == 1);
}

static const char *const fail_points[] = {
	"publisher.sent=kill@1",
	"publisher.sent=kill@200",
	"publisher.confirmed=kill@1",
	"publisher.confirmed=kill@150",
	"publisher.acked=kill@1",
	"publisher.acked=kill@3",
	"publisher.settled=kill@1",
	"publisher.settled=kill@3",
};

Test(crash, wherever_it_dies_nothing_is_lost_and_keys_keep_their_order)
{
	const int points = (int) (sizeof(fail_points) / sizeof(fail_points[0]));
	for (int i = 0; i < points; i++) {
		outbox_fill(&e, e.queue, i * 400, 400, 200);
		die_at(fail_points[i]);
	}
	run_to_the_end();
	queue_take(&e, e.queue, &got);
	arrived_check(&got, 0, points * 400, 1, (size_t) points + 1);
	arrived_in_order(&got);
}

/* Killed at no particular place, again and again. */
Test(crash, killed_while_it_works)
{
	enum { ROWS = 10000, KILLS = 4 };
	outbox_fill(&e, e.queue, 0, ROWS, 1000);
	for (int i = 1; i <= KILLS; i++) {
		relay = relay_start(&e, NULL);
		EVENTUALLY(LOAD_MS, outbox_rows(&e) <= ROWS - i * (ROWS / (KILLS + 1)));
		proc_kill(&relay);
	}
	run_to_the_end();
	queue_take(&e, e.queue, &got);
	arrived_check(&got, 0, ROWS, 1, KILLS + 1);
	arrived_in_order(&got);
}

/* --- told to stop --------------------------------------------------------------------------- */

static void check_split(int rows)
{
	int64_t left = outbox_rows(&e);
	queue_take(&e, e.queue, &got);
	cr_expect_eq((int64_t) got.count + left, rows, "%lld left, %zu arrived, of %d",
	    (long long) left, got.count, rows);
	for (size_t i = 0; i < got.count; i += 97)
		cr_expect_eq(
		    env_number(&e, "SELECT COUNT(*) FROM message_outbox WHERE msg_id = '%s'",
		        (char *) got.msgs[i]->props.message_id.bytes),
		    0, "%s arrived and was kept", (char *) got.msgs[i]->props.message_id.bytes);
}

Test(crash, sigterm_under_load_finishes_what_is_in_flight)
{
	enum { ROWS = 30000 };
	outbox_fill(&e, e.queue, 0, ROWS, 1000);
	relay = relay_start(&e, NULL);
	EVENTUALLY(LOAD_MS, outbox_rows(&e) <= ROWS - 2000);
	cr_expect_eq(proc_stop(&relay, 5000), 0);
	cr_expect_gt(outbox_rows(&e), 0, "it was not stopped in the midst of work");
	cr_expect(proc_said(&relay, " 0 in doubt"));
	cr_expect_eq(env_number(&e, "SELECT COUNT(*) FROM message_outbox WHERE status <> 0"), 0);
	check_split(ROWS);
	relay = relay_start(&e, NULL);
	EVENTUALLY(LOAD_MS, outbox_rows(&e) == 0);
	expect_stopped();
	queue_take(&e, e.queue, &got);
	arrived_check(&got, 0, ROWS, 1, 1);
	arrived_in_order(&got);
}

Test(crash, sigint_is_the_same)
{
	relay = relay_start(&e, NULL);
	EVENTUALLY(SOON_MS, outbox_owned(&e) == 16);
	proc_signal(&relay, SIGINT);
	cr_expect_eq(proc_wait(&relay, 5000), 0);
	cr_expect_eq(outbox_owned(&e), 0);
}

Test(crash, a_signal_right_after_the_start)
{
	for (int i = 0; i < 10; i++) {
		relay = relay_start(&e, NULL);
		pause_ms(i * 2);
		int status = proc_stop(&relay, SOON_MS);
		/* Before it could catch the signal, it dies of it. */
		cr_expect(status == 0 || status == 128 + SIGTERM, "exit status %d", status);
	}
}

Test(crash, a_second_signal_ends_it_at_once)
{
	char hold[320];
	char fail[400];
	(void) snprintf(hold, sizeof(hold), "%s/%s.hold", e.dir, e.name);
	(void) snprintf(fail, sizeof(fail), "publisher.acked=hold:%s", hold);
	FILE *f = fopen(hold, "w");
	cr_assert(f != NULL && fclose(f) == 0);
	outbox_fill(&e, e.queue, 0, 10, 0);
	relay = relay_start(&e, fail);
	EVENTUALLY(SOON_MS, env_ready(&e, e.queue) == 10);
	proc_signal(&relay, SIGTERM);
	for (int64_t end = now_ms() + 300; now_ms() < end; pause_ms(20))
		cr_assert(proc_running(&relay), "it did not wait for what is in flight");
	proc_signal(&relay, SIGTERM);
	int status = proc_wait(&relay, 2000);
	cr_expect_eq(status, SECOND_SIGNAL, "exit status %d", status);
	cr_assert_eq(unlink(hold), 0);
	cr_expect_eq(outbox_rows(&e), 10);
	run_to_the_end();
	queue_take(&e, e.queue, &got);
	arrived_check(&got, 0, 10, 1, 2);
}

/* Stopping while a server is away: nothing to wait for, nothing lost. */
Test(crash, sigterm_while_the_broker_cannot_be_reached)
{
	e.settings.rabbitmq.port = 1;
	env_config(&e, "\"publisher\":{\"lease\":\"1s\"}");
	outbox_fill(&e, e.queue, 0, 100, 10);
	relay = relay_start(&e, NULL);
	EVENTUALLY(SOON_MS, proc_said(&relay, "trying again"));
	cr_expect_eq(proc_stop(&relay, 8000), 0);
	cr_expect_eq(outbox_rows(&e), 100);
}
