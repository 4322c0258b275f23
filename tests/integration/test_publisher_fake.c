/* test_publisher_fake.c - the relay, on a real database, against a broker that does what
 * real ones do rarely: nothing is lost, nobody is charged for another, no wait is endless. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/fakebroker.h"
#include "support/testoutbox.h"

enum { SOON_MS = 15000, QUICK_MS = 5000 };

static env e;
static proc relay;
static fake f;

/* What the broker does by itself with a publish; under its lock. */
static struct {
	bool acks;
	const char *mute;    /* routing key that gets no answer              */
	const char *culprit; /* id of the message that it closes for */
	int code;            /* with this                            */
	bool whole;          /* the connection, not the channel      */
	int closes;
} habit;

static void on_publish(void *arg, const fake_publish *p)
{
	(void) arg;
	if (habit.culprit != NULL && strcmp(p->id, habit.culprit) == 0) {
		habit.closes++;
		(void) (habit.whole ? fake_close_connection(&f, habit.code, "because of you")
		                    : fake_close_channel(&f, habit.code, "because of you"));
	} else if (habit.mute != NULL && strcmp(p->routing_key, habit.mute) == 0) {
		return;
	} else if (habit.acks) {
		(void) fake_confirm(&f, p, false, true);
	}
}

static void start(void)
{
	env_open(&e);
	f.on_publish = on_publish;
	fake_start(&f);
	e.settings.rabbitmq.port = f.port;
}

static void stop(void)
{
	proc_kill(&relay);
	fake_stop(&f);
	env_close(&e);
}

TestSuite(fake, .init = start, .fini = stop, .timeout = 90);

static void set_acks(bool acks)
{
	fake_lock(&f);
	habit.acks = acks;
	fake_unlock(&f);
}

static const fake_publish *next(void)
{
	const fake_publish *p = fake_next(&f, SOON_MS);
	cr_assert_not_null(p, "no publish");
	return p;
}

/* COUNT publishes come and are left alone; the last of them. */
static const fake_publish *await(int count)
{
	const fake_publish *p = NULL;
	while (count-- > 0)
		p = next();
	return p;
}

static int64_t in_state(int status)
{
	return env_number(&e, "SELECT COUNT(*) FROM message_outbox WHERE status = %d", status);
}

/* Rows that are as they were written. */
static int64_t untouched(void)
{
	return env_number(&e,
	    "SELECT COUNT(*) FROM message_outbox WHERE status = 0 AND retry_count = 0"
	    " AND last_error IS NULL");
}

/* It ends by itself in time, and its last words say this. */
static void expect_stopped(const char *totals)
{
	(void) proc_stop(&relay, SOON_MS);
	char *log = proc_log(&relay);
	cr_expect_not_null(strstr(log, totals), "not %s:\n%s", totals, log);
	free(log);
}

/* --- confirms and returns ------------------------------------------------------------------ */

/* The others settle, its own row goes again under the same id, and alone. (P07) */
Test(fake, a_swallowed_confirm_sends_its_row_again)
{
	enum { ROWS = 50, SWALLOWED = 7 };
	env_config(&e, "\"publisher\":{\"confirm_timeout\":\"2s\"}");
	outbox_fill(&e, "q", 0, ROWS, 0);
	relay = relay_start(&e, NULL);
	for (int i = 0; i < ROWS; i++) {
		const fake_publish *p = next();
		if (i != SWALLOWED)
			cr_assert(fake_confirm(&f, p, false, true));
	}
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 1);
	const fake_publish *again = next();
	cr_expect_eq(again->session, 2);
	char *id = env_text(&e, "SELECT msg_id FROM message_outbox");
	cr_expect_str_eq(again->id, id);
	free(id);
	cr_assert(fake_confirm(&f, again, false, true));
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 0);
	expect_stopped(" 50 confirmed, 0 refused, 0 abandoned, 1 in doubt");
	cr_expect_eq(fake_published(&f), ROWS + 1);
}

/* (P02, P04) */
/* More than half of the window waits for its confirm, long before that is overdue, and rows wait
 * behind it for their keys: what is left of the window is for the others, at once. */
Test(fake, what_has_no_answer_yet_leaves_the_rest_of_the_window_to_others)
{
	enum { MUTE = 15, OTHERS = 100 };
	env_config(&e, "\"publisher\":{\"window\":20}");
	habit.mute = "mute";
	set_acks(true);
	outbox_fill(&e, "mute", 1000, 2 * MUTE, MUTE);
	relay = relay_start(&e, NULL);
	(void) await(MUTE);
	outbox_fill(&e, "q", 0, OTHERS, 0);
	int64_t began = now_ms();
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 2 * MUTE);
	cr_expect_lt(now_ms() - began, QUICK_MS);
	cr_expect_eq(fake_callers(&f), 1);
}

/* A queue that gives no answer, as a quorum queue without its majority: the others go on as soon
 * as that is known, and nobody is charged. */
Test(fake, a_destination_without_an_answer_does_not_fill_the_window_for_all)
{
	enum { MUTE = 40, OTHERS = 200 };
	env_config(&e,
	    "\"publisher\":{\"confirm_timeout\":\"1s\",\"window\":20,\"breaker_after\":5,"
	    "\"breaker_pause\":\"1h\",\"breaker_pause_max\":\"1h\"}");
	habit.mute = "mute";
	set_acks(true);
	outbox_fill(&e, "q", 0, 10, 0);
	outbox_fill(&e, "mute", 1000, MUTE, 0);
	outbox_fill(&e, "q", 10, OTHERS - 10, 0);
	relay = relay_start(&e, NULL);
	EVENTUALLY(SOON_MS, proc_said(&relay, "no answer within confirm_timeout"));
	EVENTUALLY(SOON_MS, outbox_rows(&e) == MUTE);
	cr_expect_eq(untouched(), MUTE);
	cr_expect_leq(fake_callers(&f), 4, "a connection lost is the price, but not each second");
	fake_lock(&f);
	habit.mute = NULL;
	fake_unlock(&f);
}

Test(fake, a_row_that_was_returned_and_acked_is_kept)
{
	env_config(&e, "\"publisher\":{\"retry_delays\":[\"1h\"]}");
	outbox_fill(&e, "q", 0, 3, 0);
	relay = relay_start(&e, NULL);
	const fake_publish *p = next();
	const fake_publish *last = await(2);
	(void) fake_return(&f, p, 312, "NO_ROUTE");
	(void) fake_confirm(&f, last, true, true);
	EVENTUALLY(SOON_MS, in_state(2) == 1 && outbox_rows(&e) == 1);
	char *row = env_text(
	    &e, "SELECT CONCAT(msg_id, ' ', retry_count, ' ', last_error) FROM message_outbox");
	char want[320];
	(void) snprintf(want, sizeof(want), "%s 1 returned: 312 NO_ROUTE", p->id);
	cr_expect_str_eq(row, want);
	free(row);
	expect_stopped(" 2 confirmed, 1 refused");
}

/* Return, and then silence: its row is not sure to have been refused, and goes again. */
Test(fake, a_return_without_its_content_is_no_end)
{
	env_config(&e, "\"publisher\":{\"confirm_timeout\":\"1s\"}");
	outbox_fill(&e, "q", 0, 2, 0);
	relay = relay_start(&e, NULL);
	(void) fake_return_bare(&f, await(2), 312, "NO_ROUTE");
	set_acks(true);
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 0);
	cr_expect_eq(fake_published(&f), 4);
	expect_stopped(" 2 confirmed, 0 refused, 0 abandoned, 2 in doubt");
}

Test(fake, a_conversation_in_single_bytes)
{
	enum { ROWS = 300 };
	env_config(&e, "\"publisher\":{}");
	outbox_fill(&e, "q", 0, ROWS, 0);
	fake_split(&f, 1);
	set_acks(true);
	relay = relay_start(&e, NULL);
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 0);
	cr_expect_eq(fake_published(&f), ROWS);
	expect_stopped(" 300 confirmed, 0 refused");
}

/* --- waits ----------------------------------------------------------------------------------- */

/* Each time it tries again, and can be stopped. */
Test(fake, a_handshake_may_stop_anywhere)
{
	e.settings.rabbitmq.connect_timeout_ms = 300;
	env_config(&e, "\"publisher\":{}");
	outbox_fill(&e, "q", 0, 1, 0);
	for (fake_answer last = FAKE_START; last <= FAKE_SELECT_OK; last++) {
		int callers = fake_callers(&f);
		fake_silent_from(&f, last);
		relay = relay_start(&e, NULL);
		EVENTUALLY(SOON_MS, fake_callers(&f) >= callers + 3);
		int64_t begin_ms = now_ms();
		cr_expect_eq(proc_stop(&relay, SOON_MS), 0);
		cr_expect_leq(now_ms() - begin_ms, 2000, "without answer %d", (int) last);
	}
	cr_expect_eq(untouched(), 1);
	fake_silent_from(&f, FAKE_ALL);
	set_acks(true);
	relay = relay_start(&e, NULL);
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 0);
}

/* The peer reads nothing and says nothing, and its kernel acknowledges every byte. (K06) */
Test(fake, a_peer_that_is_half_gone_is_noticed_by_its_heartbeats)
{
	enum { ROWS = 10 };
	e.settings.rabbitmq.heartbeat_ms = 1000;
	env_config(&e, "\"publisher\":{}");
	outbox_fill(&e, "q", 0, ROWS, 0);
	relay = relay_start(&e, NULL);
	(void) await(ROWS);
	fake_mute(&f, true);
	fake_stop_reading(&f);
	set_acks(true);
	int64_t begin_ms = now_ms();
	EVENTUALLY(QUICK_MS, fake_callers(&f) == 2);
	cr_expect_geq(now_ms() - begin_ms, 900);
	fake_mute(&f, false);
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 0);
	cr_expect_eq(fake_published(&f), 2 * ROWS);
	expect_stopped(" 10 confirmed, 0 refused, 0 abandoned, 10 in doubt");
}

/* The broker is alive, as its heartbeats say, and reads nothing: a send ends it. */
Test(fake, a_full_socket_is_noticed_by_send_timeout)
{
	enum { ROWS = 100, BYTES = 400000 };
	e.settings.rabbitmq.send_timeout_ms = 1000;
	env_config(&e, "\"publisher\":{\"window_bytes\":100000000}");
	relay = relay_start(&e, NULL);
	EVENTUALLY(SOON_MS, fake_session(&f) == 1);
	fake_stop_reading(&f);
	set_acks(true);
	env_sql(&e,
	    "INSERT INTO message_outbox (routing_key, payload)"
	    " WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)"
	    " SELECT 'q', REPEAT('x', %d) FROM n",
	    ROWS, BYTES);
	EVENTUALLY(SOON_MS, fake_callers(&f) >= 2);
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 0);
	cr_expect(proc_said(&relay, "no progress within send_timeout") ||
	    proc_said(&relay, "timed out") || proc_said(&relay, "a socket error occurred"));
	expect_stopped(" 100 confirmed, 0 refused, 0 abandoned");
}

/* --- alarms (P06) ------------------------------------------------------------------------------ */

static void block_with_in_flight(int rows)
{
	outbox_fill(&e, "q", 0, rows, 0);
	relay = relay_start(&e, NULL);
	(void) await(rows);
	(void) fake_blocked(&f, true);
	EVENTUALLY(SOON_MS, proc_said(&relay, "blocks publishers"));
}

Test(fake, an_alarm_charges_nobody_and_makes_nothing_overdue)
{
	enum { IN_FLIGHT = 5, LATER = 100 };
	env_config(&e, "\"publisher\":{\"confirm_timeout\":\"1s\",\"window\":20}");
	block_with_in_flight(IN_FLIGHT);
	outbox_fill(&e, "q", IN_FLIGHT, LATER, 0);
	for (int64_t end = now_ms() + 2500; now_ms() < end;) /* longer than the confirms may take */
		pause_ms(50);
	cr_expect_eq(fake_published(&f), IN_FLIGHT, "it publishes while blocked");
	cr_expect_eq(fake_callers(&f), 1);
	set_acks(true);
	(void) fake_blocked(&f, false);
	(void) fake_ack(&f, IN_FLIGHT, true);
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 0);
	cr_expect_eq(fake_published(&f), IN_FLIGHT + LATER);
	expect_stopped(" 105 confirmed, 0 refused, 0 abandoned, 0 in doubt");
}

Test(fake, a_relay_can_be_stopped_while_blocked)
{
	enum { ROWS = 5 };
	env_config(&e, "\"publisher\":{\"shutdown_timeout\":\"1s\"}");
	block_with_in_flight(ROWS);
	fake_stop_reading(&f); /* as a real one does */
	int64_t begin_ms = now_ms();
	(void) proc_stop(&relay, SOON_MS);
	cr_expect_leq(now_ms() - begin_ms, 3000);
	cr_expect_eq(untouched(), ROWS);
	cr_expect_eq(outbox_owned(&e), 0, "leases are kept");
}

/* --- closes ------------------------------------------------------------------------------------ */

/* One message breaks every channel or connection that it is sent on. It is found and charged,
 * and those that were in flight with it are not. (P09) */
static void find_culprit(int code, bool whole)
{
	enum { ROWS = 20 };
	char want[64];
	env_config(&e, "\"publisher\":{\"keep_sent\":true,\"retry_delays\":[\"1h\"]}");
	habit.culprit = "m-000007";
	habit.code = code;
	habit.whole = whole;
	habit.acks = true;
	outbox_fill(&e, "q", 0, ROWS, 0);
	relay = relay_start(&e, NULL);
	EVENTUALLY(SOON_MS, in_state(1) == ROWS - 1 && in_state(2) == 1);
	(void) snprintf(want, sizeof(want), "m-000007 1 channel closed: %d because of you", code);
	char *row = env_text(&e,
	    "SELECT CONCAT(msg_id, ' ', retry_count, ' ', last_error)"
	    " FROM message_outbox WHERE status = 2");
	cr_expect_str_eq(row, want);
	free(row);
	cr_expect_eq(env_number(&e, "SELECT SUM(retry_count) FROM message_outbox"), 1);
	cr_expect_leq(habit.closes, 3);
	expect_stopped(" 19 confirmed, 1 refused");
}

Test(fake, the_message_that_closes_channels_is_found)
{
	find_culprit(404, false);
}

Test(fake, the_message_with_a_bad_property_is_found)
{
	find_culprit(406, false);
}

Test(fake, the_message_that_closes_connections_is_found)
{
	find_culprit(501, true);
}

/* Codes that speak of the broker, the user or the connection. */
Test(fake, an_outage_charges_nobody)
{
	static const struct {
		int code;
		bool whole;
	} outages[] = { { 403, false }, { 541, false }, { 320, true }, { 541, true } };
	enum { ROWS = 10 };
	env_config(&e, "\"publisher\":{}");
	outbox_fill(&e, "q", 0, ROWS, 0);
	relay = relay_start(&e, NULL);
	for (size_t i = 0; i < sizeof(outages) / sizeof(outages[0]); i++) {
		(void) await(ROWS);
		(void) (outages[i].whole ? fake_close_connection(&f, outages[i].code, "sorry")
		                         : fake_close_channel(&f, outages[i].code, "sorry"));
	}
	(void) await(ROWS);
	cr_expect_eq(untouched(), ROWS);
	cr_expect_eq(fake_callers(&f), 5);
	(void) fake_ack(&f, ROWS, true);
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 0);
	expect_stopped(" 10 confirmed, 0 refused, 0 abandoned, 40 in doubt");
}

/* A culprit that was skipped by a person does not leave the others one at a time for ever,
 * nor does a close that was nobody's. */
Test(fake, care_ends_when_the_culprit_does_not_come_back)
{
	enum { ROWS = 10, WINDOW = 50 };
	env_config(&e, "\"publisher\":{\"window\":%d}", WINDOW);
	outbox_fill(&e, "q", 0, ROWS, 0);
	relay = relay_start(&e, NULL);
	(void) await(ROWS);
	env_sql(&e, "UPDATE message_outbox SET status = 3 WHERE msg_id = 'm-000003'");
	set_acks(true);
	(void) fake_close_channel(&f, 404, "because of one");
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 1);
	outbox_fill(&e, "q", ROWS, 200, 0);
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 1);
	while (fake_next(&f, 0) != NULL)
		;
	set_acks(false);
	outbox_fill(&e, "q", 1000, WINDOW, 0);
	const fake_publish *last = await(WINDOW); /* all at once, though none is confirmed */
	(void) fake_confirm(&f, last, true, true);
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 1);
	expect_stopped(" 259 confirmed, 0 refused");
}
