/* test_sender_waits.c - the sender and a broker that is silent, deaf or alarmed: nothing is
 * waited for without a bound. */
#include <stdlib.h>

#include "sender_rig.h"

TestSuite(sender, .init = start, .fini = stop, .timeout = 60);

/* --- waits ------------------------------------------------------------------------------------ */

Test(sender, a_handshake_may_stop_anywhere)
{
	relmq_error err;
	settings.connect_timeout_ms = 300;
	for (fake_answer last = FAKE_START; last <= FAKE_SELECT_OK; last++) {
		fake_silent_from(&f, last);
		int64_t begin_ms = relmq__now_ms();
		cr_assert_eq(relmq__sender_open(&s, &settings, "test", &err), RELMQ_EBROKER,
		    "without answer %d", (int) last);
		cr_expect_leq(relmq__now_ms() - begin_ms, 2000, "without answer %d: %lld ms",
		    (int) last, (long long) (relmq__now_ms() - begin_ms));
		cr_expect((err.flags & RELMQ_F_RETRY) != 0);
	}
	fake_silent_from(&f, FAKE_ALL);
	open_sender();
}

/* Nor do heartbeats make it longer. */
Test(sender, a_broker_that_only_beats_is_no_broker)
{
	relmq_error err;
	settings.connect_timeout_ms = 1500;
	settings.send_timeout_ms = 60000;
	for (fake_answer last = FAKE_CHANNEL_OPEN_OK; last <= FAKE_SELECT_OK; last++) {
		fake_silent_from(&f, last);
		int64_t begin_ms = relmq__now_ms();
		cr_assert_eq(relmq__sender_open(&s, &settings, "test", &err), RELMQ_EBROKER);
		cr_expect_leq(relmq__now_ms() - begin_ms, 3000);
	}
}

/* A farewell too. */
Test(sender, a_close_without_answer_is_bounded)
{
	settings.connect_timeout_ms = 300;
	open_sender();
	fake_silent_from(&f, FAKE_CLOSE_OK);
	int64_t begin_ms = relmq__now_ms();
	relmq__sender_close(&s);
	cr_expect_leq(relmq__now_ms() - begin_ms, 2000);
}

/* The broker is alive, as its heartbeats say, and reads nothing. */
Test(sender, a_full_socket_is_bounded_by_send_timeout)
{
	enum { LARGE = 4 << 20, MANY = 64 };
	relmq_error err;
	relmq_code code = RELMQ_OK;
	char *body = calloc(1, LARGE);
	int i = 0;
	open_sender();
	fake_stop_reading(&f);
	int64_t begin_ms = relmq__now_ms();
	for (; i < MANY && code == RELMQ_OK; i++) {
		items[i].item.body = (amqp_bytes_t){ LARGE, body };
		begin_ms = relmq__now_ms();
		code = relmq__sender_publish(&s, &items[i].item, &err);
	}
	cr_expect_eq(code, RELMQ_EBROKER);
	cr_expect_leq(relmq__now_ms() - begin_ms, 3000);
	relmq__sender_lost(&s);
	expect(0, i, RELMQ__UNKNOWN);
	free(body);
}

/* Nothing is in flight, so that only its silence tells. (K06) */
Test(sender, a_peer_without_heartbeats_is_dead)
{
	settings.heartbeat_ms = 1000;
	open_sender();
	(void) publish(0, 1);
	(void) fake_ack(&f, 1, false);
	PUMP_UNTIL(settled == 1);
	fake_mute(&f, true);
	int64_t ms = pump_until_lost();
	cr_expect(ms > 1000 && ms < 4000, "noticed after %lld ms", (long long) ms);
}

/* And ours are sent, whatever else there is to do: nothing, or an alarm. */
Test(sender, heartbeats_are_sent)
{
	settings.heartbeat_ms = 1000;
	open_sender();
	PUMP_UNTIL(fake_heartbeats(&f) >= 2);
	(void) publish(0, 1);
	(void) fake_blocked(&f, true);
	int before = fake_heartbeats(&f);
	PUMP_UNTIL(fake_heartbeats(&f) >= before + 2);
	cr_expect(s.blocked);
	expect_open(0, 1);
}

/* An alarm stops the confirm clock, and the publishing. (P06) */
Test(sender, nothing_is_overdue_while_blocked)
{
	s.confirm_timeout_ms = 1000;
	open_sender();
	(void) publish(0, 2);
	(void) fake_blocked(&f, true);
	PUMP_UNTIL(s.blocked);
	cr_expect_not(relmq__sender_ready(&s));
	int64_t end_ms = relmq__now_ms() + 2 * s.confirm_timeout_ms;
	PUMP_UNTIL(relmq__now_ms() >= end_ms);
	expect_open(0, 2);
	(void) fake_blocked(&f, false);
	(void) fake_ack(&f, 1, false);
	PUMP_UNTIL(settled == 1);
	cr_expect(relmq__sender_ready(&s));
	expect(0, 1, RELMQ__CONFIRMED);
	cr_expect_geq(pump_until_lost(), 100, "the clock begins anew");
	expect(1, 1, RELMQ__UNKNOWN);
}
