/* support/fakebroker.c - see fakebroker.h: the thread, and what it makes of what it hears.
 * What it says is in fakesay.c. */
#include "support/fakebroker.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

enum {
	CHANNEL = 1,
	BACKLOG = 16,
	HEARTBEAT_MS = 500,
	HEARTBEAT_S = 60, /* what we ask for: the client's own is shorter and wins */
	FRAME_MAX = 131072,
	FRAME_HEAD = 7,
	FRAME_END = 0xCE,
	PROTOCOL_HEADER = 8,
	SEND_S = 10,      /* a client that reads nothing does not hold the test for ever */
	CONTENT_HEAD = 12 /* class, weight, body size: before the property flags */
};

static void must(bool ok, const char *what)
{
	if (ok)
		return;
	perror(what);
	abort();
}

void fake_lock(fake *f)
{
	(void) pthread_mutex_lock(&f->lock);
}

void fake_unlock(fake *f)
{
	(void) pthread_mutex_unlock(&f->lock);
}

static void forget_part(fake *f)
{
	if (f->part == NULL)
		return;
	relmq__buf_free(&f->part->header);
	relmq__buf_free(&f->part->body);
	free(f->part);
	f->part = NULL;
}

static void hang_up(fake *f)
{
	if (f->fd >= 0)
		(void) close(f->fd);
	f->fd = -1;
	f->deaf = f->batch = f->reset = f->open = f->selected = false;
	f->channel_closing = f->connection_closing = false;
	relmq__buf_reset(&f->in);
	relmq__buf_reset(&f->out);
	forget_part(f);
}

/* --- what came --------------------------------------------------------------------------- */

static uint64_t number_at(const char *at, int bytes)
{
	uint64_t value = 0;
	for (int i = 0; i < bytes; i++)
		value = value << 8 | (unsigned char) at[i];
	return value;
}

static const char *short_string(const char *at, char out[256])
{
	size_t len = (unsigned char) *at++;
	memcpy(out, at, len);
	out[len] = '\0';
	return at + len;
}

/* message_id stands behind the properties that have higher flags. */
static void find_id(const char *at, char id[256])
{
	char skipped[256];
	uint64_t flags = number_at(at + CONTENT_HEAD, 2);
	at += CONTENT_HEAD + 2;
	id[0] = '\0';
	for (uint64_t flag = 1U << 15; flag >= AMQP_BASIC_MESSAGE_ID_FLAG; flag >>= 1) {
		if ((flags & flag) == 0)
			continue;
		if (flag == AMQP_BASIC_HEADERS_FLAG)
			at += 4 + number_at(at, 4);
		else if (flag == AMQP_BASIC_DELIVERY_MODE_FLAG || flag == AMQP_BASIC_PRIORITY_FLAG)
			at++;
		else
			at = short_string(at, flag == AMQP_BASIC_MESSAGE_ID_FLAG ? id : skipped);
	}
}

static void begin_publish(fake *f, const char *at)
{
	fake_publish *p = calloc(1, sizeof(*p));
	must(p != NULL, "calloc");
	p->session = f->session;
	p->tag = ++f->tag;
	at = short_string(at + 2, p->exchange);
	(void) short_string(at, p->routing_key);
	f->part = p;
}

static void end_publish(fake *f)
{
	fake_publish *p = f->part;
	f->part = NULL;
	if (f->count == f->room) {
		f->room = f->room != 0 ? f->room * 2 : 256;
		f->publishes = realloc(f->publishes, f->room * sizeof(fake_publish *));
		must(f->publishes != NULL, "realloc");
	}
	f->publishes[f->count++] = p;
	if (f->on_publish != NULL)
		f->on_publish(f->arg, p);
}

static void content(fake *f, int type, const char *payload, size_t len)
{
	if (f->part == NULL)
		return;
	if (type == AMQP_FRAME_HEADER) {
		relmq__buf_add(&f->part->header, payload, len);
		find_id(payload, f->part->id);
		f->part_left = number_at(payload + 4, 8);
	} else {
		relmq__buf_add(&f->part->body, payload, len);
		f->part_left -= len;
	}
	if (f->part_left == 0)
		end_publish(f);
}

/* --- the conversation ---------------------------------------------------------------------- */

static bool answers(const fake *f, fake_answer which)
{
	return which < f->silent_from;
}

static void begin_session(fake *f)
{
	f->session++;
	f->tag = 0;
	f->selected = true;
	if (answers(f, FAKE_SELECT_OK))
		(void) fake_method(f, CHANNEL, AMQP_CONFIRM_SELECT_OK_METHOD, "");
}

static void closed(fake *f)
{
	f->closes_ok++;
	f->channel_closing = false;
	if (f->connection_closing)
		hang_up(f);
}

/* Every method that a publisher calls; of the rest there is only tune-ok. */
static void on_method(fake *f, amqp_method_number_t id, const char *args, size_t len)
{
	if (id == AMQP_CONNECTION_START_OK_METHOD) {
		relmq__buf_reset(&f->client);
		relmq__buf_add(&f->client, args, len);
		if (answers(f, FAKE_TUNE))
			(void) fake_method(
			    f, 0, AMQP_CONNECTION_TUNE_METHOD, "wlw", 0, f->frame_max, HEARTBEAT_S);
	} else if (id == AMQP_CONNECTION_OPEN_METHOD) {
		f->open = answers(f, FAKE_OPEN_OK);
		if (f->open)
			(void) fake_method(f, 0, AMQP_CONNECTION_OPEN_OK_METHOD, "s", "");
	} else if (id == AMQP_CHANNEL_OPEN_METHOD) {
		if (answers(f, FAKE_CHANNEL_OPEN_OK))
			(void) fake_method(f, CHANNEL, AMQP_CHANNEL_OPEN_OK_METHOD, "S", "");
	} else if (id == AMQP_CONFIRM_SELECT_METHOD) {
		begin_session(f);
	} else if (id == AMQP_BASIC_PUBLISH_METHOD) {
		begin_publish(f, args);
	} else if (id == AMQP_CONNECTION_CLOSE_METHOD) {
		if (answers(f, FAKE_CLOSE_OK))
			(void) fake_method(f, 0, AMQP_CONNECTION_CLOSE_OK_METHOD, "");
	} else if (id == AMQP_CONNECTION_CLOSE_OK_METHOD || id == AMQP_CHANNEL_CLOSE_OK_METHOD) {
		closed(f);
	}
}

/* While a close of ours is unanswered only the answer is heard. */
static bool is_heard(const fake *f, int type, const char *payload)
{
	if (!f->channel_closing && !f->connection_closing)
		return !f->reset;
	uint64_t id = type == AMQP_FRAME_METHOD ? number_at(payload, 4) : 0;
	return id ==
	    (f->connection_closing ? AMQP_CONNECTION_CLOSE_OK_METHOD
	                           : AMQP_CHANNEL_CLOSE_OK_METHOD);
}

/* One frame, if it is there whole: its length, else 0. */
static size_t take_frame(fake *f, const char *at, size_t len)
{
	if (len >= PROTOCOL_HEADER && memcmp(at, "AMQP", 4) == 0) {
		if (answers(f, FAKE_START))
			(void) fake_method(f, 0, AMQP_CONNECTION_START_METHOD, "bbSSS", 0, 9, "",
			    "PLAIN", "en_US");
		return PROTOCOL_HEADER;
	}
	size_t size = len >= FRAME_HEAD ? FRAME_HEAD + number_at(at + 3, 4) + 1 : SIZE_MAX;
	if (len < size)
		return 0;
	int type = (unsigned char) at[0];
	const char *payload = at + FRAME_HEAD;
	must((unsigned char) at[size - 1] == FRAME_END, "the client's frames are broken");
	if (!is_heard(f, type, payload))
		return size;
	if (type == AMQP_FRAME_METHOD)
		on_method(f, (amqp_method_number_t) number_at(payload, 4), payload + 4,
		    size - FRAME_HEAD - 5);
	else if (type == AMQP_FRAME_HEADER || type == AMQP_FRAME_BODY)
		content(f, type, payload, size - FRAME_HEAD - 1);
	else if (type == AMQP_FRAME_HEARTBEAT)
		f->heartbeats++;
	return size;
}

static void listen_to(fake *f)
{
	char bytes[65536];
	size_t at = 0;
	ssize_t n = recv(f->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
	if (n <= 0) {
		if (n == 0 || errno != EAGAIN)
			hang_up(f);
		return;
	}
	relmq__buf_add(&f->in, bytes, (size_t) n);
	for (size_t size;
	     f->in.len > at && (size = take_frame(f, f->in.data + at, f->in.len - at)) > 0;)
		at += size;
	if (f->in.len < at || at == 0)
		return; /* hung up meanwhile, or a part of a frame */
	memmove(f->in.data, f->in.data + at, f->in.len - at);
	f->in.len -= at;
}

static void admit(fake *f)
{
	int on = 1;
	struct timeval bound = { SEND_S, 0 };
	hang_up(f);
	f->fd = accept(f->listener, NULL, NULL);
	f->callers++;
	(void) setsockopt(f->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	(void) setsockopt(f->fd, SOL_SOCKET, SO_SNDTIMEO, &bound, sizeof(bound));
}

static void beat(fake *f)
{
	int64_t now = relmq__now_ms();
	if (f->mute || !f->open || now < f->heartbeat_due_ms)
		return;
	f->heartbeat_due_ms = now + HEARTBEAT_MS;
	(void) fake_frame(f, AMQP_FRAME_HEARTBEAT, 0, NULL, 0);
}

static void turn(fake *f, const struct pollfd fds[3])
{
	char byte;
	if (fds[0].revents != 0)
		(void) !read(f->wake[0], &byte, 1);
	if (f->reset)
		hang_up(f); /* by a reset: its socket lingers for no time */
	if (fds[2].revents != 0 && fds[2].fd == f->fd)
		listen_to(f);
	if (fds[1].revents != 0)
		admit(f);
	beat(f);
	(void) pthread_cond_broadcast(&f->changed);
}

static void *broker_main(void *arg)
{
	fake *f = arg;
	fake_lock(f);
	while (!f->quit) {
		struct pollfd fds[3] = { { .fd = f->wake[0], .events = POLLIN },
			{ .fd = f->listener, .events = POLLIN },
			{ .fd = f->deaf ? -1 : f->fd, .events = POLLIN } };
		fake_unlock(f);
		(void) poll(fds, 3, HEARTBEAT_MS / 2);
		fake_lock(f);
		turn(f, fds);
	}
	hang_up(f);
	fake_unlock(f);
	return NULL;
}

void fake_start(fake *f)
{
	pthread_mutexattr_t recursive;
	struct sockaddr_in at = { .sin_family = AF_INET };
	socklen_t size = sizeof(at);
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	f->fd = -1;
	f->silent_from = FAKE_ALL;
	if (f->frame_max == 0)
		f->frame_max = FRAME_MAX;
	(void) pthread_mutexattr_init(&recursive);
	(void) pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
	(void) pthread_mutex_init(&f->lock, &recursive);
	(void) pthread_cond_init(&f->changed, NULL);
	f->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	must(pipe(f->wake) == 0, "pipe");
	must(bind(f->listener, (struct sockaddr *) &at, sizeof(at)) == 0, "bind");
	must(listen(f->listener, BACKLOG) == 0, "listen");
	must(getsockname(f->listener, (struct sockaddr *) &at, &size) == 0, "getsockname");
	f->port = ntohs(at.sin_port);
	must(pthread_create(&f->thread, NULL, broker_main, f) == 0, "pthread_create");
}

void fake_stop(fake *f)
{
	fake_lock(f);
	f->quit = true;
	(void) !write(f->wake[1], "", 1);
	fake_unlock(f);
	(void) pthread_join(f->thread, NULL);
	for (size_t i = 0; i < f->count; i++) {
		f->part = f->publishes[i];
		forget_part(f);
	}
	free(f->publishes);
	relmq__buf_free(&f->in);
	relmq__buf_free(&f->out);
	relmq__buf_free(&f->client);
	(void) close(f->listener);
	(void) close(f->wake[0]);
	(void) close(f->wake[1]);
}
