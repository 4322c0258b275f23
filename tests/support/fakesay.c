/* support/fakesay.c - see fakebroker.h: what the broker says, and how it behaves, at a
 * test's command. */
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "support/fakebroker.h"

enum { CHANNEL = 1, FRAME_END = 0xCE, FRAME_OVERHEAD = 8 };

/* --- frames ----------------------------------------------------------------------------- */

static bool flush(fake *f)
{
	size_t piece = f->piece != 0 ? f->piece : f->out.len;
	for (size_t at = 0; f->fd >= 0 && at < f->out.len;) {
		size_t n = f->out.len - at < piece ? f->out.len - at : piece;
		ssize_t sent = send(f->fd, f->out.data + at, n, MSG_NOSIGNAL);
		if (sent <= 0)
			break; /* gone; reading will notice */
		at += (size_t) sent;
		if (f->piece != 0)
			(void) sched_yield();
	}
	relmq__buf_reset(&f->out);
	return f->fd >= 0;
}

bool fake_raw(fake *f, const void *bytes, size_t len)
{
	fake_lock(f);
	relmq__buf_add(&f->out, bytes, len);
	bool ok = f->batch ? f->fd >= 0 : flush(f);
	fake_unlock(f);
	return ok;
}

static void add_number(relmq__buf *b, uint64_t value, int bytes)
{
	for (int shift = (bytes - 1) * 8; shift >= 0; shift -= 8) {
		char byte = (char) (value >> shift);
		relmq__buf_add(b, &byte, 1);
	}
}

bool fake_frame(fake *f, int type, int channel, const void *payload, size_t len)
{
	relmq__buf whole = { 0 };
	add_number(&whole, (uint64_t) type, 1);
	add_number(&whole, (uint64_t) channel, 2);
	add_number(&whole, len, 4);
	if (len > 0)
		relmq__buf_add(&whole, payload, len);
	add_number(&whole, FRAME_END, 1);
	bool ok = fake_raw(f, whole.data, whole.len);
	relmq__buf_free(&whole);
	return ok;
}

static void add_text(relmq__buf *b, const char *text, int length_bytes)
{
	add_number(b, strlen(text), length_bytes);
	relmq__buf_adds(b, text);
}

bool fake_method(fake *f, int channel, amqp_method_number_t id, const char *format, ...)
{
	relmq__buf payload = { 0 };
	va_list args;
	add_number(&payload, id, 4);
	va_start(args, format);
	for (; *format != '\0'; format++) {
		if (*format == 's' || *format == 'S')
			add_text(&payload, va_arg(args, const char *), *format == 's' ? 1 : 4);
		else if (*format == 'L')
			add_number(&payload, va_arg(args, uint64_t), 8);
		else
			add_number(&payload, va_arg(args, unsigned),
			    *format == 'b'       ? 1
			        : *format == 'w' ? 2
			                         : 4);
	}
	va_end(args);
	bool ok = fake_frame(f, AMQP_FRAME_METHOD, channel, payload.data, payload.len);
	relmq__buf_free(&payload);
	return ok;
}

/* --- commands ------------------------------------------------------------------------------ */

bool fake_ack(fake *f, uint64_t tag, bool multiple)
{
	return fake_method(f, CHANNEL, AMQP_BASIC_ACK_METHOD, "Lb", tag, (unsigned) multiple);
}

bool fake_nack(fake *f, uint64_t tag, bool multiple)
{
	return fake_method(f, CHANNEL, AMQP_BASIC_NACK_METHOD, "Lb", tag, (unsigned) multiple);
}

static bool lasts(const fake *f, const fake_publish *p)
{
	return f->selected && f->session == p->session;
}

bool fake_confirm(fake *f, const fake_publish *p, bool multiple, bool ack)
{
	fake_lock(f);
	bool ok =
	    lasts(f, p) && (ack ? fake_ack(f, p->tag, multiple) : fake_nack(f, p->tag, multiple));
	fake_unlock(f);
	return ok;
}

bool fake_return_bare(fake *f, const fake_publish *p, int code, const char *text)
{
	return fake_method(f, CHANNEL, AMQP_BASIC_RETURN_METHOD, "wsss", (unsigned) code, text,
	    p->exchange, p->routing_key);
}

bool fake_return(fake *f, const fake_publish *p, int code, const char *text)
{
	fake_lock(f);
	size_t part = f->frame_max - FRAME_OVERHEAD;
	bool ok = fake_return_bare(f, p, code, text) &&
	    fake_frame(f, AMQP_FRAME_HEADER, CHANNEL, p->header.data, p->header.len);
	for (size_t at = 0; ok && at < p->body.len; at += part)
		ok = fake_frame(f, AMQP_FRAME_BODY, CHANNEL, p->body.data + at,
		    p->body.len - at < part ? p->body.len - at : part);
	fake_unlock(f);
	return ok;
}

bool fake_close_channel(fake *f, int code, const char *text)
{
	fake_lock(f);
	bool ok = f->selected && !f->connection_closing &&
	    fake_method(f, CHANNEL, AMQP_CHANNEL_CLOSE_METHOD, "wsww", (unsigned) code, text, 0, 0);
	f->channel_closing = f->channel_closing || ok;
	f->selected = false;
	fake_unlock(f);
	return ok;
}

bool fake_close_connection(fake *f, int code, const char *text)
{
	fake_lock(f);
	bool ok = !f->connection_closing &&
	    fake_method(f, 0, AMQP_CONNECTION_CLOSE_METHOD, "wsww", (unsigned) code, text, 0, 0);
	f->connection_closing = f->connection_closing || ok;
	f->selected = false;
	fake_unlock(f);
	return ok;
}

bool fake_blocked(fake *f, bool blocked)
{
	return blocked ? fake_method(f, 0, AMQP_CONNECTION_BLOCKED_METHOD, "s", "low on memory")
	               : fake_method(f, 0, AMQP_CONNECTION_UNBLOCKED_METHOD, "");
}

/* --- behaviour ------------------------------------------------------------------------------ */

void fake_silent_from(fake *f, fake_answer answer)
{
	fake_lock(f);
	f->silent_from = answer;
	fake_unlock(f);
}

void fake_mute(fake *f, bool mute)
{
	fake_lock(f);
	f->mute = mute;
	fake_unlock(f);
}

void fake_stop_reading(fake *f)
{
	fake_lock(f);
	f->deaf = true;
	fake_unlock(f);
}

void fake_split(fake *f, size_t piece)
{
	fake_lock(f);
	f->piece = piece;
	fake_unlock(f);
}

void fake_batch(fake *f, bool begin)
{
	fake_lock(f);
	f->batch = begin;
	if (!begin)
		(void) flush(f);
	fake_unlock(f);
}

void fake_take_batch(fake *f, relmq__buf *out)
{
	fake_lock(f);
	relmq__buf_add(out, f->out.data, f->out.len);
	relmq__buf_reset(&f->out);
	f->batch = false;
	fake_unlock(f);
}

/* The thread closes the socket when it sees the end; nothing more is heard before. */
void fake_reset(fake *f)
{
	struct linger abort_it = { 1, 0 };
	fake_lock(f);
	f->selected = false;
	f->reset = f->fd >= 0;
	if (f->fd >= 0)
		(void) setsockopt(f->fd, SOL_SOCKET, SO_LINGER, &abort_it, sizeof(abort_it));
	(void) !write(f->wake[1], "", 1);
	fake_unlock(f);
}

void fake_hang_up(fake *f)
{
	fake_lock(f);
	f->open = f->selected = false;
	if (f->fd >= 0)
		(void) shutdown(f->fd, SHUT_WR);
	fake_unlock(f);
}

/* --- what it saw ---------------------------------------------------------------------------- */

const fake_publish *fake_next(fake *f, int64_t ms)
{
	struct timespec end;
	const fake_publish *p = NULL;
	int64_t end_ms = relmq__now_ms() + ms;
	fake_lock(f);
	while (f->taken == f->count && relmq__now_ms() < end_ms) {
		(void) clock_gettime(CLOCK_REALTIME, &end);
		end.tv_nsec += 50 * 1000000L;
		end.tv_sec += end.tv_nsec / 1000000000L;
		end.tv_nsec %= 1000000000L;
		(void) pthread_cond_timedwait(&f->changed, &f->lock, &end);
	}
	if (f->taken < f->count)
		p = f->publishes[f->taken++];
	fake_unlock(f);
	return p;
}

size_t fake_published(fake *f)
{
	fake_lock(f);
	size_t n = f->count;
	fake_unlock(f);
	return n;
}

static int read_count(fake *f, const int *count)
{
	fake_lock(f);
	int n = *count;
	fake_unlock(f);
	return n;
}

int fake_callers(fake *f)
{
	return read_count(f, &f->callers);
}

int fake_session(fake *f)
{
	return read_count(f, &f->session);
}

int fake_closes_ok(fake *f)
{
	return read_count(f, &f->closes_ok);
}

int fake_heartbeats(fake *f)
{
	return read_count(f, &f->heartbeats);
}

/* A boolean field of a table: its name, 't', 1. */
bool fake_announced(fake *f, const char *capability)
{
	char field[64];
	int len = snprintf(field, sizeof(field), "%st\1", capability);
	fake_lock(f);
	bool found = memmem(f->client.data, f->client.len, field, (size_t) len) != NULL;
	fake_unlock(f);
	return found;
}
