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
	s->fds[1 + 2 * pair].fd = caller;
	s->fds[2 + 2 * pair].fd = server;
}

static bool pass(int from, int to)
{
	char bytes[65536];
	ssize_t n = recv(from, bytes, sizeof(bytes), MSG_DONTWAIT);
	for (ssize_t sent = 0, m; sent < n; sent += m)
		if ((m = send(to, bytes + sent, (size_t) (n - sent), MSG_NOSIGNAL)) <= 0)
			return false;
	return n > 0;
}

static void *gate_main(void *arg)
{
	gate *g = arg;
	gate_state s;
	for (int i = 0; i <= 2 * PAIRS; i++)
		s.fds[i] = (struct pollfd){ .fd = i == 0 ? g->listener : -1, .events = POLLIN };
	while (!atomic_load(&g->quit)) {
		(void) poll(s.fds, 1 + 2 * PAIRS, TICK_MS);
		if ((s.fds[0].revents & POLLIN) != 0)
			admit(g, &s);
		for (int i = 0; i < PAIRS; i++) {
			struct pollfd *pair = &s.fds[1 + 2 * i];
			bool ok = atomic_load(&g->open);
			if (pair[0].fd >= 0 && pair[0].revents != 0)
				ok = ok && pass(pair[0].fd, pair[1].fd);
			if (pair[1].fd >= 0 && pair[1].revents != 0)
				ok = ok && pass(pair[1].fd, pair[0].fd);
			if (!ok)
				hang_up(&s, i);
		}
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

void gate_stop(gate *g)
{
	atomic_store(&g->quit, true);
	(void) pthread_join(g->thread, NULL);
	(void) close(g->listener);
}
