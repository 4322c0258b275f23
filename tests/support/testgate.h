/* support/testgate.h - a door in front of a server: a port of its own that, while it is
 * shut, hangs up on everybody, and while it is open, passes bytes on. For what a program
 * does when a server goes and comes, without restarting one. */
#ifndef RELMQ_TEST_GATE_H
#define RELMQ_TEST_GATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct gate {
	pthread_t thread;
	int listener;
	int64_t port;     /* to connect to */
	int64_t server;   /* the port behind it, on loopback */
	atomic_bool open; /* shut at first */
	atomic_bool quit;
	atomic_int refused; /* callers that found it shut */
} gate;

void gate_start(gate *g, int64_t server_port);
/** Shut: whoever is inside is thrown out. */
void gate_set(gate *g, bool open);
void gate_stop(gate *g);

#endif
