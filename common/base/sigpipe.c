/* base/sigpipe.c - see sigpipe.h. */
#include "base/sigpipe.h"

#include <pthread.h>
#include <time.h>

static sigset_t only_sigpipe(void)
{
	sigset_t set;
	(void) sigemptyset(&set);
	(void) sigaddset(&set, SIGPIPE);
	return set;
}

void relmq__sigpipe_hold(relmq__sigpipe *s)
{
	sigset_t pending;
	sigset_t set = only_sigpipe();
	(void) sigpending(&pending);
	s->pending = sigismember(&pending, SIGPIPE) == 1;
	(void) pthread_sigmask(SIG_BLOCK, &set, &s->mask);
}

void relmq__sigpipe_release(const relmq__sigpipe *s)
{
	static const struct timespec now = { 0, 0 };
	sigset_t set = only_sigpipe();
	if (!s->pending)
		(void) sigtimedwait(&set, NULL, &now);
	(void) pthread_sigmask(SIG_SETMASK, &s->mask, NULL);
}
