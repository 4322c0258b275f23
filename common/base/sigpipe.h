/* base/sigpipe.h - SIGPIPE on a thread that is somebody else's.
 *
 * Plain sockets are written with MSG_NOSIGNAL by both client libraries; under TLS the
 * database's goes through OpenSSL, which writes to what is gone like to a file, and that kills
 * a process that has not thought of it. The disposition is the application's: only this
 * thread holds the signal back, and what came meanwhile is taken away before it is let go. */
#ifndef RELMQ_BASE_SIGPIPE_H
#define RELMQ_BASE_SIGPIPE_H

#include <signal.h>
#include <stdbool.h>

typedef struct relmq__sigpipe {
	sigset_t mask;
	bool pending; /* before: not ours to take */
} relmq__sigpipe;

void relmq__sigpipe_hold(relmq__sigpipe *s);
void relmq__sigpipe_release(const relmq__sigpipe *s);

#endif
