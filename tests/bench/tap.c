/* tap.c - see tap.h. */
#include "tap.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
	STREAM_ROOM = 1 << 19, /* several times the largest frame */
	FRAME_HEAD = 7,
	FRAME_REST = 8, /* head and end */
	LOOK_MS = 100,
	METHOD = 1,
	BODY = 3
};

#define BASIC_PUBLISH 0x003c0028U
#define BASIC_ACK     0x003c0050U

typedef struct stream {
	size_t skip; /* bytes before the first frame: the protocol header */
	size_t len;
	unsigned char data[STREAM_ROOM];
} stream;

typedef struct message {
	uint64_t n;
	bool named, confirmed;
} message;

struct bench_tap {
	bench_tap_fn fn;
	void *arg;
	int listener;
	struct sockaddr_in broker;
	atomic_bool stop;
	pthread_t thread;
	message *messages; /* by delivery tag */
	uint64_t max, published, settled;
	stream up, down;
};

int64_t bench_wall_us(void)
{
	struct timespec now;
	(void) clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t) now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static uint64_t big_endian(const unsigned char *at, int bytes)
{
	uint64_t value = 0;
	for (int i = 0; i < bytes; i++)
		value = value << 8 | at[i];
	return value;
}

static void confirm(bench_tap *t, uint64_t tag, int64_t now_us)
{
	message *m = &t->messages[tag];
	if (m->named && !m->confirmed)
		t->fn(t->arg, m->n, now_us);
	m->confirmed = true;
}

static void on_ack(bench_tap *t, uint64_t tag, bool multiple)
{
	int64_t now_us = bench_wall_us();
	if (tag > t->published)
		bench_die("tap: an ack of nothing that was published");
	while (multiple && t->settled < tag)
		confirm(t, ++t->settled, now_us);
	confirm(t, tag, now_us);
}

static void on_frame(bench_tap *t, int type, const unsigned char *payload, size_t len)
{
	static const char start[] = "{\"n\":";
	uint64_t method = type == METHOD && len >= 4 ? big_endian(payload, 4) : 0;
	if (method == BASIC_PUBLISH && ++t->published > t->max)
		bench_die("tap: more messages than were written");
	if (method == BASIC_ACK && len >= 13)
		on_ack(t, big_endian(payload + 4, 8), (payload[12] & 1) != 0);
	if (type == BODY && len >= BENCH_BODY && memcmp(payload, start, sizeof(start) - 1) == 0) {
		message *m = &t->messages[t->published];
		m->n = strtoull((const char *) payload + sizeof(start) - 1, NULL, 10);
		m->named = true;
	}
}

static void read_frames(bench_tap *t, stream *s)
{
	size_t at = s->skip < s->len ? s->skip : s->len;
	s->skip -= at;
	while (s->len - at >= FRAME_REST) {
		size_t size = (size_t) big_endian(s->data + at + 3, 4);
		if (size > STREAM_ROOM / 2)
			bench_die("tap: a frame of %zu bytes", size);
		if (s->len - at < size + FRAME_REST)
			break;
		on_frame(t, s->data[at], s->data + at + FRAME_HEAD, size);
		at += size + FRAME_REST;
	}
	memmove(s->data, s->data + at, s->len - at);
	s->len -= at;
}

static bool pass_on(bench_tap *t, stream *s, int from, int to)
{
	ssize_t n = recv(from, s->data + s->len, STREAM_ROOM - s->len, 0);
	for (ssize_t sent = 0, out; sent < n; sent += out)
		if ((out = send(to, s->data + s->len + sent, (size_t) (n - sent), MSG_NOSIGNAL)) <
		    0)
			return false;
	if (n <= 0)
		return n < 0 && errno == EINTR;
	s->len += (size_t) n;
	read_frames(t, s);
	return true;
}

static void carry(bench_tap *t, int client, int broker)
{
	struct pollfd fds[2] = { { client, POLLIN, 0 }, { broker, POLLIN, 0 } };
	bool open = true;
	t->up.len = t->down.len = 0;
	t->up.skip = 8; /* "AMQP" and the version */
	t->down.skip = 0;
	t->published = t->settled = 0;
	memset(t->messages, 0, (t->max + 1) * sizeof(*t->messages));
	while (open && !atomic_load(&t->stop)) {
		if (poll(fds, 2, LOOK_MS) <= 0)
			continue;
		/* The broker's side first: its time is what is measured. */
		if (fds[1].revents != 0)
			open = pass_on(t, &t->down, broker, client);
		if (open && fds[0].revents != 0)
			open = pass_on(t, &t->up, client, broker);
	}
}

static void *main_of_thread(void *arg)
{
	bench_tap *t = arg;
	int on = 1;
	while (!atomic_load(&t->stop)) {
		struct pollfd fd = { t->listener, POLLIN, 0 };
		if (poll(&fd, 1, LOOK_MS) <= 0)
			continue;
		int client = accept(t->listener, NULL, NULL);
		int broker = socket(AF_INET, SOCK_STREAM, 0);
		(void) setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
		(void) setsockopt(broker, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
		if (connect(broker, (struct sockaddr *) &t->broker, sizeof(t->broker)) == 0)
			carry(t, client, broker);
		(void) close(client);
		(void) close(broker);
	}
	return NULL;
}

bench_tap *bench_tap_open(const bench *b, uint64_t max, bench_tap_fn confirmed, void *arg)
{
	bench_tap *t = calloc(1, sizeof(*t));
	struct sockaddr_in any = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	if (t == NULL || (t->messages = calloc(max + 1, sizeof(*t->messages))) == NULL)
		bench_die("out of memory");
	t->fn = confirmed;
	t->arg = arg;
	t->max = max;
	t->broker = any; /* the private stack listens on 127.0.0.1 */
	t->broker.sin_port = htons((uint16_t) b->settings.rabbitmq.port);
	t->listener = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(t->listener, (struct sockaddr *) &any, sizeof(any)) != 0 ||
	    listen(t->listener, 1) != 0 || pthread_create(&t->thread, NULL, main_of_thread, t) != 0)
		bench_die("tap: cannot listen");
	return t;
}

int64_t bench_tap_port(const bench_tap *t)
{
	struct sockaddr_in at;
	socklen_t len = sizeof(at);
	if (getsockname(t->listener, (struct sockaddr *) &at, &len) != 0)
		bench_die("tap: no port");
	return ntohs(at.sin_port);
}

void bench_tap_close(bench_tap *t)
{
	atomic_store(&t->stop, true);
	(void) pthread_join(t->thread, NULL);
	(void) close(t->listener);
	free(t->messages);
	free(t);
}
