/* base/failpoint.c - see failpoint.h. */
#include "base/failpoint.h"

#ifdef RELMQ_FAIL_POINTS

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

enum { MAX_POINTS = 16, HOLD_MAX_MS = 60000 };

typedef struct point {
	char *name;
	char *action;
	unsigned long at; /* hit number that acts */
	unsigned long hits;
} point;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static point points[MAX_POINTS];
static size_t point_count;

static void parse(void)
{
	static char *text; /* points lead into it as long as the process lives */
	const char *env = getenv("RELMQ_FAIL");
	text = env != NULL ? strdup(env) : NULL;
	char *save = NULL;
	for (char *item = text != NULL ? strtok_r(text, ",", &save) : NULL;
	     item != NULL && point_count < MAX_POINTS; item = strtok_r(NULL, ",", &save)) {
		char *eq = strchr(item, '=');
		if (eq == NULL)
			continue;
		*eq = '\0';
		point *p = &points[point_count++];
		p->name = item;
		p->action = eq + 1;
		p->at = 1;
		char *at = strchr(p->action, '@');
		if (at != NULL) {
			*at = '\0';
			p->at = strtoul(at + 1, NULL, 10);
		}
	}
}

static void hold_while_exists(const char *path)
{
	int64_t end = relmq__now_ms() + HOLD_MAX_MS;
	while (access(path, F_OK) == 0 && relmq__now_ms() < end)
		(void) poll(NULL, 0, 5);
}

void relmq__fail_point(const char *name)
{
	(void) pthread_once(&once, parse);
	for (size_t i = 0; i < point_count; i++) {
		point *p = &points[i];
		if (strcmp(p->name, name) != 0)
			continue;
		(void) pthread_mutex_lock(&lock);
		unsigned long hit = ++p->hits;
		(void) pthread_mutex_unlock(&lock);
		if (hit != p->at)
			continue;
		if (strcmp(p->action, "kill") == 0)
			(void) kill(getpid(), SIGKILL);
		else if (strncmp(p->action, "hold:", 5) == 0)
			hold_while_exists(p->action + 5);
	}
}

#else
typedef int relmq__no_fail_points; /* an empty file is no C */
#endif
