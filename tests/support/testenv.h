/* support/testenv.h - what an integration test stands on: a database and queues of its own
 * on the shared private stack, programs started and ended by pid, and waiting for a
 * condition with a deadline (never for time).
 *
 * The stack's variables come from the environment (tests/support/with-stack.sh). A failing
 * helper fails the test. One env a test; programs die with the test process. */
#ifndef RELMQ_TEST_ENV_H
#define RELMQ_TEST_ENV_H

#include <mysql.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/settings.h"
#include "db/session.h"
#include "mq/connection.h"
#include "mq/message.h"

typedef struct env {
	char name[64];            /* unique: the database, and the prefix of queues */
	char queue[96];           /* NAME.q */
	char dir[128];            /* scratch: configuration, logs */
	char config[256];         /* path of the configuration file */
	relmq__settings settings; /* only mysql and rabbitmq are meant to be used */
	relmq__db db;             /* on the test's own database */
	relmq__conn mq;           /* a channel for the test itself */
} env;

/** A fresh database with the schema, and connections. */
void env_open(env *e);
void env_close(env *e);

/** Write the configuration file. Host, port, user, frame_max and time-outs of the servers are
 *  those of `settings`, which a test may change before; `sections` is JSON text that follows mysql and rabbitmq,
 *  e.g. "\"publisher\":{\"lease\":\"2s\"}". printf-like. */
void env_config(env *e, const char *sections, ...) __attribute__((format(printf, 2, 3)));

/** Both servers by TLS, verified, with an account that must not come without. With the variable
 *  RELMQ_TEST_TLS every env begins so: any test can be run over TLS. */
void env_use_tls(relmq__settings *s);
/** A list of servers, for `hosts` and `host_count` of a section; `second` may be NULL. */
void env_hosts(char ***hosts, size_t *count, const char *first, const char *second);

/* --- database --- */
void env_sql(env *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int64_t env_number(env *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/** First column of the first row; malloc'd, "" when there is none. */
char *env_text(env *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/** Another session on the same database. */
void env_session(env *e, relmq__db *db);
/** Reconnect the test's own session or channel after a server was restarted. */
void env_reopen_db(env *e);
void env_reopen_mq(env *e);

/* --- broker --- */
typedef struct queue_args {
	bool single_active;
	int64_t max_length; /* 0: none; with overflow reject-publish */
} queue_args;
void env_declare(env *e, const char *queue, const queue_args *args); /* NULL: plain quorum queue */
/** Messages ready; -1: no such queue. */
int64_t env_ready(env *e, const char *queue);
void env_delete_queue(env *e, const char *queue);
/** Publish with confirm to a queue by the default exchange. `key` may be NULL. */
void env_publish(
    env *e, const char *queue, const char *id, const char *key, const void *body, size_t len);
/** Take one message (acked), or NULL when the queue is empty. Free with relmq__msg_free(). */
relmq__msg *env_get(env *e, const char *queue);

/* --- programs --- */
typedef struct proc {
	pid_t pid; /* 0: not running */
	char log[320];
} proc;

/** Start NAME from the build folder, e.g. "relmq-publisher", with --config of this env.
 *  `fail` is RELMQ_FAIL for it, or NULL. `args` (NULL-ended) may be NULL. */
proc env_start(env *e, const char *name, const char *fail, char *const *args);
void proc_signal(const proc *p, int signal);
/** Wait for the end, at most `ms`: exit status, or 128 + signal; fails the test on time-out. */
int proc_wait(proc *p, int64_t ms);
/** SIGKILL and wait. */
void proc_kill(proc *p);
/** SIGTERM and wait; returns as proc_wait(). */
int proc_stop(proc *p, int64_t ms);
bool proc_running(proc *p);
/** Does its log hold this text? */
bool proc_said(const proc *p, const char *text);
/** The whole log; malloc'd. */
char *proc_log(const proc *p);

/** Run a program of the build folder to its end; stdout and stderr are collected. */
int env_run(env *e, char **output, const char *name, char *const *args);
/** tests/support/stack.sh COMMAND on the test's stack, e.g. "restart-broker". */
void env_stack(const char *command);
/** The same with arguments, e.g. ctl: returns the exit status. */
int env_ctl(const char *arguments);

int64_t now_ms(void);
void pause_ms(int ms); /* between two looks at a condition; not for waiting */

/* Look at a condition until it holds, at most `ms`. */
#define EVENTUALLY(ms, condition)                                                 \
	do {                                                                      \
		int64_t end_ms = now_ms() + (ms);                                 \
		bool holds;                                                       \
		while (!(holds = (condition)) && now_ms() < end_ms)               \
			pause_ms(10);                                             \
		cr_assert(holds, "not within %d ms: %s", (int) (ms), #condition); \
	} while (0)

#endif
