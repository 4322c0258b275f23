/* mq/watchdog.h - a bound for calls that have none.
 *
 * rabbitmq-c puts no deadline on sends (any version), and up to 0.13 a send can hang
 * while it only wants to look for incoming bytes. One thread a process watches the
 * guarded sockets and shuts one down when its deadline has passed: the call returns
 * with an error and its owner reconnects. */
#ifndef RELMQ_MQ_WATCHDOG_H
#define RELMQ_MQ_WATCHDOG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct relmq__watch {
	int fd;
	_Atomic int64_t deadline_ms; /* 0: nothing is running */
	atomic_bool fired;
	struct relmq__watch *next;
} relmq__watch;

/** Watch `fd` until removed; the record stays the caller's. False: no thread could be started. */
bool relmq__watch_add(relmq__watch *w, int fd);
/** Before the fd is closed, or another file would get its number and be shut down. */
void relmq__watch_remove(relmq__watch *w);

/** A call that may block begins: at most `ms` from now. Ends with relmq__watch_end(). */
void relmq__watch_begin(relmq__watch *w, int64_t ms);
void relmq__watch_end(relmq__watch *w);

#endif
