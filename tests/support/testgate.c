/* support/testgate.c - see testgate.h. One thread and poll(). */
#include "support/testgate.h"

#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PAIRS = 16, TICK_MS = 20 };

/* fds[0] is the listener; then two for each caller: his, and the one to the server. */
typedef struct gate_state {
	struct pollfd fds[1 + 2 * PAIRS];
	bool fresh[PAIRS]; /* the server has not said anything yet */
} gate_state;

static struct sockaddr_in loopback(int64_t port)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t) port) };
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return at;
}

static void hang_up(gate_state *s, int pair)
{
	for (int i = 1 + 2 * pair; i <= 2 + 2 * pair; i++) {
		if (s->fds[i].fd >= 0)
			(void) close(s->fds[i].fd);
		s->fds[i].fd = -1;
	}
}

static void admit(gate *g, gate_state *s)
{
	int caller = accept(g->listener, NULL, NULL);
	struct sockaddr_in at = loopback(g->server);
	int pair = 0;
	while (pair < PAIRS && s->fds[1 + 2 * pair].fd >= 0)
		pair++;
	int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (caller < 0 || pair == PAIRS || !atomic_load(&g->open) ||
	    connect(server, (struct sockaddr *) &at, sizeof(at)) != 0) {
		atomic_fetch_add(&g->refused, 1);
		(void) close(caller);
		(void) close(server);
		return;
	}
	atomic_fetch_add(&g->callers, 1);
	s->fresh[pair] = true;
	s->fds[1 + 2 * pair].fd = caller;
	s->fds[2 + 2 * pair].fd = server;
}

static bool send_all(int to, const char *bytes, size_t n)
{
	for (ssize_t m; n > 0; bytes += m, n -= (size_t) m)
		if ((m = send(to, bytes, n, MSG_NOSIGNAL)) <= 0)
			return false;
	return true;
}

static bool pass_request(gate *g, int from, int to)
{
	char bytes[65536];
	ssize_t n = recv(from, bytes, sizeof(bytes), MSG_DONTWAIT);
	size_t room = sizeof(g->heard) - g->heard_len;
	if (n <= 0)
		return false;
	size_t kept = (size_t) n < room ? (size_t) n : room;
	memcpy(g->heard + g->heard_len, bytes, kept);
	g->heard_len += kept;
	return atomic_load(&g->fault) == GATE_DEAF || send_all(to, bytes, (size_t) n);
}

/* A greeting: four bytes of length and number, the protocol's version, the server's as a
 * string, thread, half a scramble and a zero, and then what it can do. */
static void strip_tls(char *bytes, size_t n)
{
	enum { HEAD = 5, BEHIND_VERSION = 1 + 4 + 8 + 1, TLS_BIT = 0x08 };
	size_t at = HEAD + strnlen(bytes + HEAD, n - HEAD) + BEHIND_VERSION + 1;
	if (at < n)
		bytes[at] = (char) (bytes[at] & ~TLS_BIT);
}

static bool pass_answer(gate *g, int from, int to, bool *fresh)
{
	char bytes[65536];
	ssize_t n = recv(from, bytes, sizeof(bytes), MSG_DONTWAIT);
	if (n <= 0)
		return false;
	if (*fresh && atomic_load(&g->fault) == GATE_STRIP_TLS)
		strip_tls(bytes, (size_t) n);
	*fresh = false;
	return send_all(to, bytes, (size_t) n);
}

static void serve(gate *g, gate_state *s, int i)
{
	struct pollfd *pair = &s->fds[1 + 2 * i];
	bool ok = atomic_load(&g->open);
	if (ok && pair[0].fd >= 0 && pair[0].revents != 0)
		ok = pass_request(g, pair[0].fd, pair[1].fd);
	if (ok && pair[1].fd >= 0 && pair[1].revents != 0)
		ok = pass_answer(g, pair[1].fd, pair[0].fd, &s->fresh[i]);
	if (!ok)
		hang_up(s, i);
}

static void *gate_main(void *arg)
{
	gate *g = arg;
	gate_state s;
	for (int i = 0; i <= 2 * PAIRS; i++)
		s.fds[i] = (struct pollfd){ .fd = i == 0 ? g->listener : -1, .events = POLLIN };
	while (!atomic_load(&g->quit)) {
		bool silent = atomic_load(&g->open) && atomic_load(&g->fault) == GATE_SILENT;
		(void) poll(s.fds, silent ? 1 : 1 + 2 * PAIRS, TICK_MS);
		if ((s.fds[0].revents & POLLIN) != 0)
			admit(g, &s);
		for (int i = 0; i < PAIRS && !silent; i++)
			serve(g, &s, i);
	}
	for (int i = 0; i < PAIRS; i++)
		hang_up(&s, i);
	return NULL;
}

void gate_start(gate *g, int64_t server_port)
{
	struct sockaddr_in at = loopback(0);
	socklen_t size = sizeof(at);
	memset(g, 0, sizeof(*g));
	g->server = server_port;
	g->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	cr_assert_eq(bind(g->listener, (struct sockaddr *) &at, sizeof(at)), 0);
	cr_assert_eq(listen(g->listener, PAIRS), 0);
	cr_assert_eq(getsockname(g->listener, (struct sockaddr *) &at, &size), 0);
	g->port = ntohs(at.sin_port);
	cr_assert_eq(pthread_create(&g->thread, NULL, gate_main, g), 0);
}

void gate_set(gate *g, bool open)
{
	atomic_store(&g->open, open);
}

void gate_misbehave(gate *g, gate_fault fault)
{
	atomic_store(&g->fault, (int) fault);
}

bool gate_heard(gate *g, const char *text)
{
	return memmem(g->heard, g->heard_len, text, strlen(text)) != NULL;
}

void gate_stop(gate *g)
{
	atomic_store(&g->quit, true);
	(void) pthread_join(g->thread, NULL);
	(void) close(g->listener);
}
