/* test_sender_frames.c - how the broker's bytes come: in pieces, all at once, cut as agreed, or
 * as nonsense, which settles nothing. */
#include <stdlib.h>

#include "sender_rig.h"

TestSuite(sender, .init = start, .fini = stop, .timeout = 60);

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

/* Whole frames, none, and a piece; there and back again. */
static void exchange_bodies(size_t part)
{
	const size_t sizes[] = { 0, 1, part - 1, part, part + 1, 2 * part, 5 * part / 2 };
	enum { COUNT = sizeof(sizes) / sizeof(sizes[0]) };
	char *body = calloc(3, part);
	int before = settled;
	for (int i = 0; i < COUNT; i++)
		items[i].item.body = (amqp_bytes_t){ sizes[i], body };
	(void) publish(0, COUNT);
	for (int i = 0; i < COUNT; i++) {
		cr_expect_eq(came[i]->body.len, sizes[i]);
		(void) fake_return(&f, came[i], 312, "NO_ROUTE");
	}
	(void) fake_ack(&f, COUNT, true);
	PUMP_UNTIL(settled == before + COUNT);
	expect(0, COUNT, RELMQ__REFUSED);
	free(body);
}

Test(sender, frames_are_as_large_as_agreed)
{
	static const uint32_t agreed[] = { 4096, 8192, 131072, 1 << 20 };
	for (size_t i = 0; i < sizeof(agreed) / sizeof(agreed[0]); i++) {
		f.frame_max =
		    agreed[i] < settings.frame_max ? agreed[i] : (uint32_t) settings.frame_max;
		open_sender();
		exchange_bodies(f.frame_max - 8);
		relmq__sender_close(&s);
	}
}

/* Less than AMQP's least holds nothing. Newer versions of rabbitmq-c take the least instead. */
Test(sender, frames_are_never_smaller_than_the_least)
{
	static const uint32_t offers[] = { 1, 7, 8, 9, 4095 };
	relmq_error err;
	for (size_t i = 0; i < sizeof(offers) / sizeof(offers[0]); i++) {
		f.frame_max = offers[i];
		relmq_code code = relmq__sender_open(&s, &settings, "test", &err);
		cr_expect(code == RELMQ_EBROKER ||
		        (code == RELMQ_OK && amqp_get_frame_max(s.conn.state) >= 4096),
		    "frames of %u bytes", (unsigned) offers[i]);
		relmq__sender_lost(&s);
	}
}

/* A body that ends with its frame is sent at once, and not by the kernel's timer. */
Test(sender, a_body_of_whole_frames_is_not_held_back)
{
	size_t part = 8192 - 8; /* a packet or less: acknowledgements of others push the rest */
	char *body = calloc(1, part);
	int64_t best_ms = INT64_MAX;
	f.frame_max = 8192;
	open_sender();
	items[0].item.body = (amqp_bytes_t){ part, body };
	for (int i = 0; i < 5; i++) {
		int64_t begin_ms = relmq__now_ms();
		(void) fake_ack(&f, publish(0, 1)->tag, false);
		int64_t ms = relmq__now_ms() - begin_ms;
		best_ms = ms < best_ms ? ms : best_ms;
		PUMP_UNTIL(items[0].outcomes == 1);
	}
	cr_expect_lt(best_ms, 150);
	free(body);
}
