/* mq/watchdog.c - see watchdog.h. */
#include "mq/watchdog.h"

#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <time.h>

#include "base/clock.h"

/* How late a deadline may be noticed; one that is set while there is none, a little later still. */
enum { LOOK_EVERY_MS = 50, IDLE_MS = 200 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t added = PTHREAD_COND_INITIALIZER;
static relmq__watch *watches;
static bool running;

/* Is a deadline set? */
static bool look(void)
{
	bool any = false;
	int64_t now = relmq__now_ms();
	for (relmq__watch *w = watches; w != NULL; w = w->next) {
		int64_t deadline = atomic_load(&w->deadline_ms);
		any = any || deadline != 0;
		if (deadline != 0 && now > deadline && !atomic_exchange(&w->fired, true))
			(void) shutdown(w->fd, SHUT_RDWR);
	}
	return any;
}

static void *watch_main(void *arg)
{
	(void) arg;
	for (;;) {
		(void) pthread_mutex_lock(&lock);
		while (watches == NULL)
			(void) pthread_cond_wait(&added, &lock);
		struct timespec pause = { 0, (look() ? LOOK_EVERY_MS : IDLE_MS) * 1000000L };
		(void) pthread_mutex_unlock(&lock);
		(void) nanosleep(&pause, NULL);
	}
	return NULL;
}

/* The thread lives as long as the process and blocks all signals: they belong to
 * the threads of the application. */
static bool start(void)
{
	pthread_t thread;
	sigset_t all, old;
	(void) sigfillset(&all);
	(void) pthread_sigmask(SIG_SETMASK, &all, &old);
	int rc = pthread_create(&thread, NULL, watch_main, NULL);
	(void) pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc == 0)
		(void) pthread_detach(thread);
	return rc == 0;
}

bool relmq__watch_add(relmq__watch *w, int fd)
{
	w->fd = fd;
	atomic_store(&w->deadline_ms, 0);
	atomic_store(&w->fired, false);
	(void) pthread_mutex_lock(&lock);
	if (!running)
		running = start();
	bool ok = running;
	if (ok) {
		w->next = watches;
		watches = w;
		(void) pthread_cond_signal(&added);
	}
	(void) pthread_mutex_unlock(&lock);
	return ok;
}

void relmq__watch_remove(relmq__watch *w)
{
	(void) pthread_mutex_lock(&lock);
	for (relmq__watch **at = &watches; *at != NULL; at = &(*at)->next) {
		if (*at == w) {
			*at = w->next;
			break;
		}
	}
	(void) pthread_mutex_unlock(&lock);
}

void relmq__watch_begin(relmq__watch *w, int64_t ms)
{
	atomic_store(&w->deadline_ms, relmq__now_ms() + ms);
}

void relmq__watch_end(relmq__watch *w)
{
	atomic_store(&w->deadline_ms, 0);
}
