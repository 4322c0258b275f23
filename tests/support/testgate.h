/* support/testgate.h - a door in front of a server: a port of its own that, while it is
 * shut, hangs up on everybody, and while it is open, passes bytes on. For what a program
 * does when a server goes and comes, without restarting one; and when it is there and says
 * nothing, or is made out to be less than it is. */
#ifndef RELMQ_TEST_GATE_H
#define RELMQ_TEST_GATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef enum gate_fault {
	GATE_FAIR,
	GATE_SILENT,   /* lets everybody in, and passes nothing on: a half-open peer            */
	GATE_DEAF,     /* the server is heard, and what is said to it is thrown away            */
	GATE_STRIP_TLS /* a database's greeting loses the word that it knows TLS (an attack)    */
} gate_fault;

typedef struct gate {
	pthread_t thread;
	int listener;
	int64_t port;     /* to connect to */
	int64_t server;   /* the port behind it, on loopback */
	atomic_bool open; /* shut at first */
	atomic_bool quit;
	atomic_int fault;   /* gate_fault */
	atomic_int refused; /* callers that found it shut */
	atomic_int callers; /* and those that came in     */
	/* what callers said first, all of them, as far as there is room */
	unsigned char heard[4096];
	atomic_size_t heard_len;
} gate;

void gate_start(gate *g, int64_t server_port);
/** Shut: whoever is inside is thrown out. */
void gate_set(gate *g, bool open);
/** While it is open. What was on its way when a silence ends is passed on. */
void gate_misbehave(gate *g, gate_fault fault);
/** Did a caller say this? */
bool gate_heard(gate *g, const char *text);
void gate_stop(gate *g);

#endif
