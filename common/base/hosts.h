/* base/hosts.h - which server of a list to try now.
 *
 * A server is left for the next one of the list when it could not be had or was no good;
 * how long to wait before that is not said here, the backoff counts every failure: whoever
 * lists three servers does not hit the one that comes back three times as often. Knows no
 * protocol and opens nothing. */
#ifndef RELMQ_BASE_HOSTS_H
#define RELMQ_BASE_HOSTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RELMQ__HOST_SIZE = 256, RELMQ__ADDRESS_SIZE = RELMQ__HOST_SIZE + 8 };

/* What the configuration says. Borrowed. */
typedef struct relmq__servers {
	char *const *list; /* "name", "name:port", "[::1]:port" */
	size_t count;      /* 0: `host` and `port` alone        */
	const char *host;
	int64_t port; /* also of those in the list that name none */
} relmq__servers;

typedef struct relmq__hosts { /* zero before the first pick */
	int state;
	size_t at;
	char name[RELMQ__HOST_SIZE];
	int64_t port;
	char text[RELMQ__ADDRESS_SIZE]; /* "name:port", IPv6 in brackets: for messages */
} relmq__hosts;

/** Who is it now? Fills name, port and text. The first time it is the first of the list, or
 *  `anywhere` in it, so that many processes spread; then the same again until it was left. */
void relmq__hosts_pick(relmq__hosts *h, const relmq__servers *from, bool anywhere);
/** The one that was picked is no good: the next pick goes on to the one after it. */
void relmq__hosts_leave(relmq__hosts *h);

/** NULL, or what is wrong with an entry of the list; `*port` stays when it names none. */
const char *relmq__host_parse(const char *text, char name[RELMQ__HOST_SIZE], int64_t *port);
/** The same for a name that stands alone, its port (`port`) elsewhere. */
const char *relmq__host_alone(const char *text, int64_t port);

#endif
