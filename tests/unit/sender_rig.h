/* sender_rig.h - what the tests of the sender stand on: a sender, items to send, and a
 * scripted broker. Included once a program. */
#ifndef RELMQ_TEST_SENDER_RIG_H
#define RELMQ_TEST_SENDER_RIG_H

#include <criterion/criterion.h>
#include <poll.h>
#include <stdio.h>
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
static const fake_publish *came[ITEMS]; /* the last publish of each */
static int settled;                     /* outcomes that came */

static inline void on_outcome(void *arg, relmq__item *item, relmq__outcome outcome)
{
	sent *one = (sent *) item;
	(void) arg;
	one->outcomes++;
	one->outcome = outcome;
	settled++;
}

static inline void start(void)
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

static inline void stop(void)
{
	relmq__sender_free(&s);
	fake_stop(&f);
}

static inline void open_sender(void)
{
	relmq_error err;
	cr_assert_eq(relmq__sender_open(&s, &settings, "test", &err), RELMQ_OK, "%s", err.text);
}

/* Hand over items FIRST to FIRST + COUNT - 1 and wait until the broker has them all; returns
 * the first of them there. */
static inline const fake_publish *publish(int first, int count)
{
	relmq_error err;
	for (int i = first; i < first + count; i++) {
		items[i].outcomes = 0;
		cr_assert_eq(
		    relmq__sender_publish(&s, &items[i].item, &err), RELMQ_OK, "%s", err.text);
	}
	for (int i = first; i < first + count; i++) {
		const fake_publish *p = fake_next(&f, SOON_MS);
		cr_assert(p != NULL && strcmp(p->id, items[i].id) == 0, "the broker has %s",
		    p != NULL ? p->id : "nothing");
		came[i] = p;
	}
	return came[first];
}

static inline relmq_code pump(int wait_ms, relmq_error *err)
{
	struct pollfd fd = { .fd = relmq__conn_fd(&s.conn), .events = POLLIN };
	if (!relmq__conn_has_buffered(&s.conn))
		(void) poll(&fd, 1, wait_ms);
	return relmq__sender_pump(&s, err);
}

static inline void pump_well(int64_t deadline_ms, const char *what)
{
	relmq_error err;
	cr_assert_lt(relmq__now_ms(), deadline_ms, "not soon: %s", what);
	cr_assert_eq(pump(20, &err), RELMQ_OK, "%s", err.text);
}

#define PUMP_UNTIL(condition)                                             \
	for (int64_t until_ms = relmq__now_ms() + SOON_MS; !(condition);) \
	pump_well(until_ms, #condition)

/* All that was said before has been heard when this has. */
static inline void pump_all(void)
{
	(void) fake_blocked(&f, true);
	PUMP_UNTIL(s.blocked);
	(void) fake_blocked(&f, false);
	PUMP_UNTIL(!s.blocked);
}

/* Until the connection is lost, as its owner does; returns after how long. */
static inline int64_t pump_until_lost(void)
{
	relmq_error err;
	int64_t begin_ms = relmq__now_ms();
	while (pump(20, &err) == RELMQ_OK)
		cr_assert_lt(relmq__now_ms(), begin_ms + SOON_MS, "not lost");
	relmq__sender_lost(&s);
	return relmq__now_ms() - begin_ms;
}

static inline void expect(int first, int count, relmq__outcome outcome)
{
	for (int i = first; i < first + count; i++)
		cr_expect(items[i].outcomes == 1 && items[i].outcome == outcome,
		    "%s: %d outcomes, the last is %d, not %d (%s)", items[i].id, items[i].outcomes,
		    (int) items[i].outcome, (int) outcome, items[i].item.reason);
}

static inline void expect_open(int first, int count)
{
	for (int i = first; i < first + count; i++)
		cr_expect_eq(
		    items[i].outcomes, 0, "%s has outcome %d", items[i].id, items[i].outcome);
}

#endif
