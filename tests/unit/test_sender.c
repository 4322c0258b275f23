/* test_sender.c - the sender alone against a scripted broker: whatever the broker says, each
 * item has one outcome, and the right one. */
#include <stdlib.h>

#include "sender_rig.h"

TestSuite(sender, .init = start, .fini = stop, .timeout = 60);

/* --- confirms ---------------------------------------------------------------------------- */

Test(sender, announces_what_it_can_do)
{
	open_sender();
	cr_expect(fake_announced(&f, "publisher_confirms"));
	cr_expect(fake_announced(&f, "basic.nack"));
	cr_expect(fake_announced(&f, "connection.blocked"));
	cr_expect_not(fake_announced(&f, "connection.unblocked"));
}

/* A model of the window: what every single item is at the end. */
static void confirm_at_random(unsigned *seed, int count)
{
	int want[ITEMS]; /* -1: open */
	int left = count;
	for (int i = 0; i < count; i++)
		want[i] = -1;
	fake_batch(&f, true);
	while (left > 0) {
		bool ack = rand_r(seed) % 3 != 0;
		bool multiple = rand_r(seed) % 4 == 0;
		int tag = rand_r(seed) % count + 1; /* perhaps one that was settled already */
		(void) (ack ? fake_ack(&f, (uint64_t) tag, multiple)
		            : fake_nack(&f, (uint64_t) tag, multiple));
		for (int i = multiple ? 0 : tag - 1; i < tag; i++) {
			left -= want[i] < 0;
			if (want[i] < 0)
				want[i] = ack ? RELMQ__CONFIRMED : RELMQ__REFUSED;
		}
	}
	fake_batch(&f, false);
	PUMP_UNTIL(s.window.count == 0);
	for (int i = 0; i < count; i++)
		expect(i, 1, (relmq__outcome) want[i]);
}

/* Out of order, single and multiple, acks and nacks mixed, and much of it said twice; many
 * frames a packet. Tags begin at 1 again with each connection. (P04, P08) */
Test(sender, confirms_come_in_any_order)
{
	for (unsigned seed = 1; seed <= 40; seed++) {
		unsigned state = seed;
		int count = rand_r(&state) % (ITEMS - 1) + 1;
		open_sender();
		(void) publish(0, count);
		confirm_at_random(&state, count);
		cr_assert_eq(s.bytes, 0);
		relmq__sender_close(&s);
	}
}

Test(sender, tag_zero_with_multiple_means_all)
{
	open_sender();
	(void) publish(0, 5);
	(void) fake_ack(&f, 0, false); /* means nothing */
	(void) fake_nack(&f, 2, false);
	(void) fake_ack(&f, 0, true);
	PUMP_UNTIL(settled == 5);
	expect(0, 1, RELMQ__CONFIRMED);
	expect(1, 1, RELMQ__REFUSED);
	expect(2, 3, RELMQ__CONFIRMED);
	(void) fake_ack(&f, 0, true); /* of none */
	pump_all();
	(void) publish(5, 3);
	(void) fake_nack(&f, 0, true);
	PUMP_UNTIL(settled == 8);
	expect(5, 3, RELMQ__REFUSED);
}

Test(sender, confirms_of_what_is_not_in_flight_change_nothing)
{
	open_sender();
	(void) fake_ack(&f, 1, true); /* future: nothing was published */
	pump_all();
	(void) publish(0, 3);
	(void) fake_ack(&f, 4, false);
	(void) fake_ack(&f, 4, true);
	(void) fake_nack(&f, UINT64_MAX, true);
	(void) fake_nack(&f, UINT64_MAX, false);
	(void) fake_ack(&f, 2, false);
	(void) fake_nack(&f, 2, false); /* settled */
	PUMP_UNTIL(settled == 1);
	(void) fake_ack(&f, 3, false);
	PUMP_UNTIL(settled == 2);
	expect(1, 2, RELMQ__CONFIRMED);
	expect_open(0, 1);
}

Test(sender, a_new_channel_counts_from_one)
{
	open_sender();
	(void) publish(0, 5);
	(void) fake_ack(&f, 4, true);
	PUMP_UNTIL(settled == 4);
	(void) fake_close_channel(&f, 404, "gone");
	PUMP_UNTIL(settled == 5 && fake_session(&f) == 2);
	(void) publish(10, 3);
	(void) fake_ack(&f, 5, false); /* of the channel that was */
	(void) fake_ack(&f, 2, false);
	PUMP_UNTIL(settled == 6);
	expect(11, 1, RELMQ__CONFIRMED);
	expect_open(10, 1);
	expect_open(12, 1);
}

/* One hole costs its own connection and nobody's outcome; behind it things go on. (P07) */
Test(sender, a_swallowed_confirm_is_overdue)
{
	s.confirm_timeout_ms = 2000;
	open_sender();
	(void) publish(0, 1);
	for (int i = 1; i < 100; i++) {
		(void) publish(i, 1);
		(void) fake_ack(&f, (uint64_t) i + 1, false);
		PUMP_UNTIL(items[i].outcomes == 1);
	}
	cr_expect_leq(pump_until_lost(), 4000);
	expect(0, 1, RELMQ__UNKNOWN);
	cr_expect(items[0].item.overdue, "others were answered");
	expect(1, 99, RELMQ__CONFIRMED);
	cr_expect(s.window.count == 0 && s.bytes == 0, "a slot leaks");
}

/* --- returns ------------------------------------------------------------------------------ */

Test(sender, a_return_wins_over_the_ack_that_follows)
{
	open_sender();
	const fake_publish *p = publish(0, 3);
	(void) fake_return(&f, p, 312, "NO_ROUTE");
	(void) fake_ack(&f, 3, true);
	PUMP_UNTIL(settled == 3);
	expect(0, 1, RELMQ__REFUSED);
	cr_expect_eq(items[0].item.code, 312);
	cr_expect_str_eq(items[0].item.reason, "returned: 312 NO_ROUTE");
	expect(1, 2, RELMQ__CONFIRMED);
	/* and over a nack: the reason is the return's */
	p = publish(3, 1);
	(void) fake_return(&f, p, 312, "NO_ROUTE");
	(void) fake_nack(&f, p->tag, false);
	PUMP_UNTIL(settled == 4);
	expect(3, 1, RELMQ__REFUSED);
	cr_expect_eq(items[3].item.code, 312);
}

Test(sender, a_return_survives_the_loss_of_the_connection)
{
	open_sender();
	const fake_publish *p = publish(0, 2);
	(void) fake_return(&f, p, 312, "NO_ROUTE");
	fake_hang_up(&f);
	(void) pump_until_lost();
	expect(0, 1, RELMQ__REFUSED);
	expect(1, 1, RELMQ__UNKNOWN);
}

Test(sender, a_return_of_what_is_not_in_flight_is_ignored)
{
	open_sender();
	const fake_publish *p = publish(0, 1);
	(void) fake_ack(&f, 1, false);
	PUMP_UNTIL(settled == 1);
	(void) fake_return(&f, p, 312, "NO_ROUTE");
	(void) publish(1, 1);
	(void) fake_return(&f, p, 312, "NO_ROUTE");
	(void) fake_ack(&f, 2, false);
	PUMP_UNTIL(settled == 2);
	expect(0, 2, RELMQ__CONFIRMED);
}

/* Where the content of a return ought to come, something else does. */
typedef enum { STALL, RESET, HANG_UP, ACK, RETURN, CHANNEL_CLOSE, CONNECTION_CLOSE } instead;

static void broken_return(const fake_publish *p, int parts, instead what)
{
	(void) fake_return_bare(&f, p, 312, "NO_ROUTE");
	if (parts > 0)
		(void) fake_frame(&f, AMQP_FRAME_HEADER, CHANNEL, p->header.data, p->header.len);
	if (parts > 1)
		(void) fake_frame(&f, AMQP_FRAME_BODY, CHANNEL, p->body.data, p->body.len - 1);
	if (what == RESET)
		fake_reset(&f);
	else if (what == HANG_UP)
		fake_hang_up(&f);
	else if (what == ACK)
		(void) fake_ack(&f, p->tag, false);
	else if (what == RETURN)
		(void) fake_return(&f, p, 312, "NO_ROUTE");
	else if (what == CHANNEL_CLOSE)
		(void) fake_close_channel(&f, 404, "gone");
	else if (what == CONNECTION_CLOSE)
		(void) fake_close_connection(&f, 320, "CONNECTION_FORCED");
}

/* Above all: an ack behind the piece of a return confirms nothing, whichever message the
 * return was for. */
Test(sender, a_return_without_its_content_loses_the_connection)
{
	s.confirm_timeout_ms = 1000;
	for (int parts = 0; parts <= 2; parts++) {
		for (instead what = STALL; what <= CONNECTION_CLOSE; what++) {
			if (what == CHANNEL_CLOSE)
				continue;
			open_sender();
			broken_return(publish(0, 1), parts, what);
			cr_expect_leq(pump_until_lost(), 3000);
			expect(0, 1, RELMQ__UNKNOWN);
		}
	}
}

/* A channel may be closed at any time; what was half-read is forgotten. */
Test(sender, a_channel_closes_in_the_middle_of_a_return)
{
	open_sender();
	for (int parts = 0; parts <= 2; parts++) {
		int session = fake_session(&f);
		broken_return(publish(0, 1), parts, CHANNEL_CLOSE);
		PUMP_UNTIL(fake_session(&f) == session + 1);
		expect(0, 1, RELMQ__REFUSED);
		cr_expect_eq(items[0].item.code, 404);
		const fake_publish *p = publish(1, 2);
		int before = settled;
		(void) fake_return(&f, p, 312, "NO_ROUTE");
		(void) fake_ack(&f, 2, true);
		PUMP_UNTIL(settled == before + 2);
		expect(1, 1, RELMQ__REFUSED);
		expect(2, 1, RELMQ__CONFIRMED);
	}
}

/* --- blame ------------------------------------------------------------------------------------ */

typedef struct verdict {
	bool channel; /* else the connection */
	int code;
	bool outage; /* nobody's fault */
} verdict;

static const verdict verdicts[] = {
	{ true, 404, false },
	{ true, 406, false },
	{ true, 311, false },
	{ true, 540, false },
	{ true, 403, true },
	{ true, 541, true },
	{ true, 506, true },
	{ false, 501, false },
	{ false, 502, false },
	{ false, 505, false },
	{ false, 320, true },
	{ false, 403, true },
	{ false, 530, true },
	{ false, 541, true },
};

static void close_with(const verdict *v)
{
	cr_assert(v->channel ? fake_close_channel(&f, v->code, "because")
	                     : fake_close_connection(&f, v->code, "because"));
	if (v->channel && !v->outage)
		PUMP_UNTIL(s.window.count == 0);
	else
		(void) pump_until_lost();
	cr_expect_geq(fake_closes_ok(&f), 1);
}

Test(sender, a_close_is_laid_to_the_only_message_in_flight_or_to_nobody)
{
	for (size_t i = 0; i < sizeof(verdicts) / sizeof(verdicts[0]); i++) {
		const verdict *v = &verdicts[i];
		open_sender();
		(void) publish(0, 1);
		close_with(v);
		cr_expect_eq(items[0].outcome, v->outage ? RELMQ__UNKNOWN : RELMQ__REFUSED, "%s %d",
		    v->channel ? "channel" : "connection", v->code);
		cr_expect_eq(items[0].item.code, v->outage ? 0 : v->code);
		cr_expect_eq(s.careful, 0);
		relmq__sender_lost(&s);
	}
}

Test(sender, a_close_with_several_in_flight_charges_none_of_them)
{
	for (size_t i = 0; i < sizeof(verdicts) / sizeof(verdicts[0]); i++) {
		const verdict *v = &verdicts[i];
		s.careful = 0;
		open_sender();
		(void) publish(0, 3);
		close_with(v);
		expect(0, 3, RELMQ__UNKNOWN);
		cr_expect_eq(s.careful > 0, !v->outage, "%s %d",
		    v->channel ? "channel" : "connection", v->code);
		relmq__sender_lost(&s);
	}
}

/* The suspects go one at a time, over as many connections as it takes, until the culprit
 * is alone with its deed. */
Test(sender, suspects_go_one_at_a_time_until_the_culprit_is_found)
{
	for (int by_connection = 0; by_connection <= 1; by_connection++) {
		verdict v = { by_connection == 0, by_connection == 0 ? 406 : 501, false };
		open_sender();
		(void) publish(0, 5);
		close_with(&v);
		for (int i = 0; i < 5; i++) {
			if (!relmq__sender_is_open(&s))
				open_sender();
			cr_assert(relmq__sender_ready(&s));
			const fake_publish *p = publish(i, 1);
			cr_expect_not(relmq__sender_ready(&s), "two at a time");
			if (i == 2) {
				close_with(&v);
				expect(2, 1, RELMQ__REFUSED);
				continue;
			}
			(void) fake_confirm(&f, p, false, true);
			PUMP_UNTIL(items[i].outcomes == 1);
			expect(i, 1, RELMQ__CONFIRMED);
		}
		(void) publish(5, 2); /* together again */
		cr_expect(relmq__sender_ready(&s));
		relmq__sender_lost(&s);
	}
}

/* Two closes in one packet: the second answers the opening of the next channel. */
Test(sender, a_connection_closes_while_a_channel_is_opened)
{
	open_sender();
	(void) publish(0, 1);
	fake_silent_from(&f, FAKE_CHANNEL_OPEN_OK);
	fake_batch(&f, true);
	(void) fake_close_channel(&f, 404, "gone");
	(void) fake_close_connection(&f, 320, "CONNECTION_FORCED");
	fake_batch(&f, false);
	cr_expect_leq(pump_until_lost(), 1000);
	expect(0, 1, RELMQ__REFUSED);
	cr_expect_eq(items[0].item.code, 404);
	fake_silent_from(&f, FAKE_ALL);
	open_sender();
	(void) fake_ack(&f, publish(1, 1)->tag, false);
	PUMP_UNTIL(items[1].outcomes == 1);
}

/* A row may have been skipped by a person: what is sent instead clears nobody, and yet the
 * care ends. */
Test(sender, a_suspect_that_never_comes_back_is_given_up)
{
	verdict v = { true, 404, false };
	int others = 0;
	open_sender();
	(void) publish(0, 4);
	close_with(&v);
	for (; s.careful > 0 && others < 100; others++) {
		(void) fake_confirm(&f, publish(10 + others, 1), false, true);
		PUMP_UNTIL(items[10 + others].outcomes == 1);
	}
	cr_expect(others > 4 && others < 50, "%d others", others);
	(void) publish(150, 2);
	cr_expect(relmq__sender_ready(&s));
}
