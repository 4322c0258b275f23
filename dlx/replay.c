/* dlx/replay.c - see replay.h. */
#include "dlx/replay.h"

#include <poll.h>
#include <string.h>

#include "base/error.h"
#include "base/failpoint.h"
#include "dlx/ladder.h"
#include "dlx/parking.h"
#include "mq/sender.h"

enum { CONFIRM_TIMEOUT_MS = 30000 };

typedef struct replay {
	relmq__sender sender; /* a connection of its own: a blocked one delivers no acks */
	relmq__item item;
	bool settled;
	relmq__outcome outcome;
} replay;

static void on_outcome(void *arg, relmq__item *item, relmq__outcome outcome)
{
	replay *r = arg;
	(void) item;
	r->settled = true;
	r->outcome = outcome;
}

static relmq_code wait_outcome(replay *r, relmq_error *err)
{
	relmq_code code = RELMQ_OK;
	while (code == RELMQ_OK && !r->settled) {
		struct pollfd fd = { .fd = relmq__conn_fd(&r->sender.conn), .events = POLLIN };
		(void) poll(&fd, 1, relmq__sender_sleep_ms(&r->sender));
		code = relmq__sender_pump(&r->sender, err);
	}
	return code;
}

static relmq_code send_back(replay *r, relmq__msg *msg, const char *queue, relmq_error *err)
{
	if (!relmq__ladder_to_work(msg, queue))
		return relmq__fail_nomem(err);
	r->settled = false;
	r->item.exchange = msg->exchange;
	r->item.routing_key = msg->routing_key;
	r->item.body = msg->body;
	r->item.props = &msg->props;
	relmq_code code = relmq__sender_publish(&r->sender, &r->item, err);
	if (code == RELMQ_OK)
		code = wait_outcome(r, err);
	if (code != RELMQ_OK) {
		relmq__sender_lost(&r->sender);
		return code;
	}
	if (r->outcome == RELMQ__CONFIRMED)
		return RELMQ_OK;
	return relmq__fail_from(err, RELMQ_EBROKER, RELMQ_F_RETRY, RELMQ_FROM_AMQP, r->item.code,
	    "queue %.100s did not take it back: %.100s; it stays parked", queue, r->item.reason);
}

static relmq_code replay_all(replay *r, relmq__parking *p, const char *queue, bool dry_run,
    relmq__replay_filter wanted, void *arg, relmq__replay_counts *counts, relmq_error *err)
{
	for (;;) {
		relmq__msg *msg;
		uint64_t tag;
		relmq_code code = relmq__parking_next(p, &msg, &tag, err);
		if (code != RELMQ_OK || msg == NULL)
			return code;
		counts->seen++;
		bool take = wanted(arg, msg, queue);
		if (take && !dry_run)
			code = send_back(r, msg, queue, err);
		relmq__msg_free(msg);
		if (code != RELMQ_OK)
			return code;
		if (!take)
			continue;
		RELMQ_FAIL_POINT("dlx.replayed");
		if (!dry_run && (code = relmq__parking_ack(p, tag, err)) != RELMQ_OK)
			return code;
		counts->replayed++;
	}
}

/* Each broker of the list once, as parking does. */
static relmq_code open_sender(
    relmq__sender *s, const relmq__rabbitmq_settings *settings, relmq_error *err)
{
	relmq_code code = relmq__sender_open(s, settings, "relmq-dlx replay", err);
	for (size_t left = settings->host_count; code != RELMQ_OK && left > 1; left--)
		code = relmq__sender_open(s, settings, "relmq-dlx replay", err);
	return code;
}

relmq_code relmq__replay(const relmq__rabbitmq_settings *settings, const char *work_queue,
    bool dry_run, relmq__replay_filter wanted, void *arg, relmq__replay_counts *counts,
    relmq_error *err)
{
	relmq__parking parking;
	replay r;
	memset(&r, 0, sizeof(r));
	r.sender.max_count = 1;
	r.sender.max_bytes = 1;
	r.sender.confirm_timeout_ms = CONFIRM_TIMEOUT_MS;
	r.sender.outcome = on_outcome;
	r.sender.arg = &r;
	r.sender.subject = "replay";
	if (!relmq__sender_init(&r.sender))
		return relmq__fail_nomem(err);
	relmq_code code = relmq__parking_open(&parking, settings, work_queue, err);
	if (code == RELMQ_OK && !dry_run)
		code = open_sender(&r.sender, settings, err);
	if (code == RELMQ_OK)
		code = replay_all(&r, &parking, work_queue, dry_run, wanted, arg, counts, err);
	relmq__parking_close(&parking);
	if (relmq__sender_is_open(&r.sender))
		relmq__sender_close(&r.sender);
	relmq__sender_free(&r.sender);
	return code;
}
