/* test_sender.c - the sender alone against a scripted broker: whatever the broker says, each
 * item has one outcome, the right one, and nothing is waited for without a bound. */
#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "mq/sender.h"
#include "support/fakebroker.h"

enum { ITEMS = 256, SOON_MS = 10000, CHANNEL = 1 };

typedef struct sent {
	relmq__item item; /* first: the callback gets it back */
	amqp_basic_properties_t props;
	char id[16], body[16];
	int outcomes;
	relmq__outcome outcome;
} sent;

static fake f;
static relmq__sender s;
static relmq__rabbitmq_settings settings;
static sent items[ITEMS];
static int settled; /* outcomes that came */

static void on_outcome(void *arg, relmq__item *item, relmq__outcome outcome)
{
	sent *one = (sent *) item;
	(void) arg;
	one->outcomes++;
	one->outcome = outcome;
	settled++;
}

static void start(void)
{
	fake_start(&f);
	settings = (relmq__rabbitmq_settings){ .host = (char *) "127.0.0.1",
		.vhost = (char *) "/",
		.user = (char *) "u",
		.password = (char *) "p",
		.port = f.port,
		.connect_timeout_ms = 2000,
		.send_timeout_ms = 1000,
		.heartbeat_ms = 10000,
		.frame_max = 131072 };
	s = (relmq__sender){ .max_count = ITEMS,
		.max_bytes = SIZE_MAX,
		.confirm_timeout_ms = SOON_MS,
		.outcome = on_outcome,
		.subject = "test" };
	cr_assert(relmq__sender_init(&s));
	for (int i = 0; i < ITEMS; i++) {
		sent *one = &items[i];
		(void) snprintf(one->id, sizeof(one->id), "m-%d", i);
		(void) snprintf(one->body, sizeof(one->body), "body %d", i);
		one->props._flags = AMQP_BASIC_MESSAGE_ID_FLAG;
		one->props.message_id = amqp_cstring_bytes(one->id);
		one->item.routing_key = amqp_cstring_bytes("q");
		one->item.body = amqp_cstring_bytes(one->body);
		one->item.props = &one->props;
	}
}

static void stop(void)
{
	relmq__sender_free(&s);
	fake_stop(&f);
}

TestSuite(sender, .init = start, .fini = stop, .timeout = 60);

static void open_sender(void)
{
	relmq_error err;
	cr_assert_eq(relmq__sender_open(&s, &settings, "test", &err), RELMQ_OK, "%s", err.text);
}

/* Hand over items FIRST to FIRST + COUNT - 1 and wait until the broker has them all; returns
 * the first of them there. */
static const fake_publish *publish(int first, int count)
{
	relmq_error err;
	const fake_publish *at_first = NULL;
	for (int i = first; i < first + count; i++) {
		items[i].outcomes = 0;
		cr_assert_eq(
		    relmq__sender_publish(&s, &items[i].item, &err), RELMQ_OK, "%s", err.text);
	}
	for (int i = first; i < first + count; i++) {
		const fake_publish *p = fake_next(&f, SOON_MS);
		cr_assert(p != NULL && strcmp(p->id, items[i].id) == 0, "the broker has %s",
		    p != NULL ? p->id : "nothing");
		at_first = i == first ? p : at_first;
	}
	return at_first;
}

static relmq_code pump(int wait_ms, relmq_error *err)
{
	struct pollfd fd = { .fd = relmq__conn_fd(&s.conn), .events = POLLIN };
	if (!relmq__conn_has_buffered(&s.conn))
		(void) poll(&fd, 1, wait_ms);
	return relmq__sender_pump(&s, err);
}

static void pump_well(int64_t deadline_ms, const char *what)
{
	relmq_error err;
	cr_assert_lt(relmq__now_ms(), deadline_ms, "not soon: %s", what);
	cr_assert_eq(pump(20, &err), RELMQ_OK, "%s", err.text);
}

#define PUMP_UNTIL(condition)                                             \
	for (int64_t until_ms = relmq__now_ms() + SOON_MS; !(condition);) \
	pump_well(until_ms, #condition)

/* All that was said before has been heard when this has. */
static void pump_all(void)
{
	(void) fake_blocked(&f, true);
	PUMP_UNTIL(s.blocked);
	(void) fake_blocked(&f, false);
	PUMP_UNTIL(!s.blocked);
}

/* Until the connection is lost, as its owner does; returns after how long. */
static int64_t pump_until_lost(void)
{
	relmq_error err;
	int64_t begin_ms = relmq__now_ms();
	while (pump(20, &err) == RELMQ_OK)
		cr_assert_lt(relmq__now_ms(), begin_ms + SOON_MS, "not lost");
	relmq__sender_lost(&s);
	return relmq__now_ms() - begin_ms;
}

static void expect(int first, int count, relmq__outcome outcome)
{
	for (int i = first; i < first + count; i++)
		cr_expect(items[i].outcomes == 1 && items[i].outcome == outcome,
		    "%s: %d outcomes, the last is %d, not %d (%s)", items[i].id, items[i].outcomes,
		    (int) items[i].outcome, (int) outcome, items[i].item.reason);
}

static void expect_open(int first, int count)
{
	for (int i = first; i < first + count; i++)
		cr_expect_eq(
		    items[i].outcomes, 0, "%s has outcome %d", items[i].id, items[i].outcome);
}

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
	s.confirm_timeout_ms = 1000;
	open_sender();
	(void) publish(0, 1);
	for (int i = 1; i < 100; i++) {
		(void) publish(i, 1);
		(void) fake_ack(&f, (uint64_t) i + 1, false);
		PUMP_UNTIL(items[i].outcomes == 1);
	}
	cr_expect_leq(pump_until_lost(), 3000);
	expect(0, 1, RELMQ__UNKNOWN);
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

/* --- frames --------------------------------------------------------------------------------- */

/* Everything the broker says after login, one byte a look. */
Test(sender, frames_are_split_at_every_byte)
{
	relmq__buf talk = { 0 };
	relmq_error err;
	fake_split(&f, 1); /* the handshake too */
	open_sender();
	fake_mute(&f, true);
	const fake_publish *p = publish(0, 6);
	fake_batch(&f, true);
	(void) fake_frame(&f, AMQP_FRAME_HEARTBEAT, 0, NULL, 0);
	(void) fake_return(&f, p, 312, "NO_ROUTE");
	(void) fake_nack(&f, 2, false);
	(void) fake_blocked(&f, true);
	(void) fake_ack(&f, 4, true);
	(void) fake_blocked(&f, false);
	(void) fake_ack(&f, 5, false);
	(void) fake_close_channel(&f, 404, "gone");
	fake_take_batch(&f, &talk);
	for (size_t i = 0; i < talk.len; i++) {
		cr_assert(fake_raw(&f, talk.data + i, 1));
		cr_assert_eq(pump(SOON_MS, &err), RELMQ_OK, "%s", err.text);
	}
	PUMP_UNTIL(fake_session(&f) == 2);
	expect(0, 2, RELMQ__REFUSED);
	expect(2, 3, RELMQ__CONFIRMED);
	expect(5, 1, RELMQ__REFUSED);
	relmq__buf_free(&talk);
}

Test(sender, a_whole_conversation_is_one_packet)
{
	open_sender();
	const fake_publish *p = publish(0, 100);
	fake_batch(&f, true);
	for (uint64_t tag = 1; tag <= 50; tag++)
		(void) fake_ack(&f, tag * 2, false);
	(void) fake_return(&f, p, 312, "NO_ROUTE");
	(void) fake_nack(&f, 49, true);
	(void) fake_ack(&f, 99, true);
	(void) fake_close_connection(&f, 320, "CONNECTION_FORCED");
	fake_batch(&f, false);
	(void) pump_until_lost();
	for (int i = 0; i < 100; i++)
		expect(i, 1, i % 2 == 0 && i < 50 ? RELMQ__REFUSED : RELMQ__CONFIRMED);
}

typedef struct nonsense {
	const char *what;
	const char *bytes;
	size_t len;
} nonsense;

#define NONSENSE(what, bytes)                   \
	{                                       \
		what, bytes, sizeof(bytes) - 1U \
	}

/* Each would confirm tag 1 if it were taken for what it is not, or is nothing at all. */
static const nonsense nonsenses[] = {
	NONSENSE("another protocol", "HTTP/1.1 400 Bad Request\r\n\r\n"),
	NONSENSE("another version", "AMQP\0\0\11\1"),
	NONSENSE("zeros", "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
	NONSENSE("a frame that does not end", "\1\0\1\0\0\0\15\0\74\0\120\0\0\0\0\0\0\0\1\0\0"),
	NONSENSE("an ack cut short", "\1\0\1\0\0\0\6\0\74\0\120\0\0\316"),
	NONSENSE("no method", "\1\0\1\0\0\0\0\316"),
	NONSENSE("a method that there is not", "\1\0\1\0\0\0\4\0\377\0\377\316"),
	NONSENSE("a frame larger than agreed", "\1\0\1\0\377\0\0\0\74\0\120\0\0\0\0\0\0\0\1\0\316"),
	NONSENSE("a frame larger than memory", "\1\0\1\377\377\377\360\0\74\0\120\0"),
	NONSENSE(
	    "an ack for a channel of nobody's", "\1\0\2\0\0\0\15\0\74\0\120\0\0\0\0\0\0\0\1\0\316"),
	NONSENSE("an ack for the connection", "\1\0\0\0\0\0\15\0\74\0\120\0\0\0\0\0\0\0\1\0\316"),
	NONSENSE(
	    "the close of a channel of nobody's", "\1\0\7\0\0\0\13\0\24\0\50\1\224\0\0\0\0\0\316"),
	NONSENSE("a close of the connection, on the channel",
	    "\1\0\1\0\0\0\13\0\12\0\62\1\224\0\0\0\0\0\316"),
};

/* It ends: at once, or when the confirm is overdue; and nothing is settled by it. */
Test(sender, nonsense_loses_the_connection_and_settles_nothing)
{
	s.confirm_timeout_ms = 1000;
	for (size_t i = 0; i < sizeof(nonsenses) / sizeof(nonsenses[0]); i++) {
		open_sender();
		fake_mute(&f, true);
		(void) publish(0, 1);
		(void) fake_raw(&f, nonsenses[i].bytes, nonsenses[i].len);
		cr_expect_leq(pump_until_lost(), 3000, "%s", nonsenses[i].what);
		cr_expect(items[0].outcomes == 1 && items[0].outcome == RELMQ__UNKNOWN,
		    "%s: outcome %d", nonsenses[i].what, (int) items[0].outcome);
		fake_mute(&f, false);
	}
}

Test(sender, content_that_nobody_announced_is_ignored)
{
	open_sender();
	const fake_publish *p = publish(0, 2);
	(void) fake_frame(&f, AMQP_FRAME_BODY, CHANNEL, "body", 4);
	(void) fake_frame(&f, AMQP_FRAME_HEADER, CHANNEL, p->header.data, p->header.len);
	(void) fake_frame(&f, AMQP_FRAME_BODY, CHANNEL, p->body.data, p->body.len);
	(void) fake_ack(&f, 2, true);
	PUMP_UNTIL(settled == 2);
	expect(0, 2, RELMQ__CONFIRMED);
}

Test(sender, more_body_than_announced_loses_the_connection)
{
	open_sender();
	const fake_publish *p = publish(0, 1);
	(void) fake_return_bare(&f, p, 312, "NO_ROUTE");
	(void) fake_frame(&f, AMQP_FRAME_HEADER, CHANNEL, p->header.data, p->header.len);
	(void) fake_frame(&f, AMQP_FRAME_BODY, CHANNEL, "longer than that", 16);
	cr_expect_leq(pump_until_lost(), 3000);
	expect(0, 1, RELMQ__UNKNOWN);
}

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

/* An alarm stops the confirm clock, and the publishing. (P06) */
Test(sender, nothing_is_overdue_while_blocked)
{
	s.confirm_timeout_ms = 500;
	open_sender();
	(void) publish(0, 2);
	(void) fake_blocked(&f, true);
	PUMP_UNTIL(s.blocked);
	cr_expect_not(relmq__sender_ready(&s));
	int64_t end_ms = relmq__now_ms() + 3 * s.confirm_timeout_ms;
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
