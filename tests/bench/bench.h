/* bench.h - what the benchmarks stand on: a database and a queue of their own on a private
 * stack, messages that are all alike, and programs that are started, timed and measured.
 *
 * The stack's variables come from the environment (run.sh). Whatever fails ends the program
 * with one line on stderr: a benchmark has nobody to report to. Progress goes to stderr;
 * stdout carries the result alone. */
#ifndef RELMQ_BENCH_H
#define RELMQ_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/settings.h"
#include "db/session.h"
#include "mq/connection.h"

enum { BENCH_BODY = 512, BENCH_KEYS = 1000, BENCH_ROUNDS = 2 };

#define BENCH_QUEUE "relmq.bench"
/* What relmq-consumer does for a message; the table is there after bench_open(). */
#define BENCH_STATEMENT                                  \
	"INSERT INTO bench_effect (n, business_key, at)" \
	" VALUES (:payload.n, :business_key, NOW(6))"

typedef struct bench {
	relmq__settings settings; /* defaults, and the stack's mysql and rabbitmq */
	relmq__db db;
	char dir[256];    /* scratch: configuration, logs */
	char config[300]; /* path of the configuration    */
	pid_t database, broker;
} bench;

/** A fresh database with the schema and bench_effect, a session on it, and a configuration
 *  file with one consumer queue. */
void bench_open(bench *b);
void bench_close(bench *b);
/** Write the configuration file anew: the inside of its publisher section, and where the
 *  broker listens (0: where it does). */
void bench_configure(bench *b, const char *publisher, int64_t amqp_port);

_Noreturn void bench_die(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void bench_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/** An operand that is a number from 1 to `max`; `otherwise` when there are fewer operands. */
int64_t bench_operand(int argc, char **argv, int which, int64_t otherwise, int64_t max);
/** Options stand anywhere and are taken out of argv. */
bool bench_flag(int *argc, char **argv, const char *name);
/** `name NUMBER`, from 1 to `max`. */
int64_t bench_option(int *argc, char **argv, const char *name, int64_t otherwise, int64_t max);
void bench_pause_ms(int ms);

/* --- database and broker --- */
void bench_sql(bench *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int64_t bench_number(bench *b, const char *sql);
void bench_empty_tables(bench *b);
/** BENCH_QUEUE anew and empty: a plain quorum queue, or with all that relmq-dlx declares. */
void bench_fresh_queue(bench *b, bool by_dlx);
/** Messages in BENCH_QUEUE. */
uint32_t bench_queue_depth(bench *b);
/** A connection for a moment: nobody reads its heartbeats in a long wait. */
void bench_connect(bench *b, relmq__conn *conn, const char *name);

/* --- messages --- */
/** {"n":N,"pad":"..."} of exactly BENCH_BODY bytes. */
void bench_body(char body[BENCH_BODY], uint64_t n);
/** One of BENCH_KEYS keys, spread evenly and without a pattern. */
void bench_key(char key[16], uint64_t n);
/** The bare confirmed publisher, plain rabbitmq-c: `count` messages to BENCH_QUEUE, mandatory
 *  and persistent, at most publisher.window of them unconfirmed. */
void bench_publish(bench *b, int64_t count);

/* --- time and cost --- */
typedef struct bench_span {
	int64_t began_us;
	int64_t cpu_us[3]; /* of the program measured, the database, the broker */
	double seconds;
} bench_span;

/** User and system time of a process; 0 when there is none. */
int64_t bench_cpu_us(pid_t pid);
/** `pid`: the program measured; 0: not started yet. */
void bench_begin(const bench *b, bench_span *s, pid_t pid);
/** Sets seconds and what each has used since. */
void bench_measure(const bench *b, bench_span *s, pid_t pid);
/** The same, and says rate, and processor time a message (which a busy machine blurs less). */
void bench_end(const bench *b, bench_span *s, pid_t pid, const char *what, int64_t count);
/** Wait until neither server has anything left to do, at most 20 s. */
void bench_wait_quiet(const bench *b);

/* --- programs of the build folder --- */
/** Start it with --config; its output goes to a log in the scratch folder. */
pid_t bench_start(const bench *b, const char *name);
/** The most memory it has ever had resident, KiB. */
int64_t bench_peak_kib(pid_t pid);
/** Dies when the program has ended by itself. */
void bench_check_alive(pid_t pid, const char *name);
/** SIGTERM, and wait for a clean end. */
void bench_stop(pid_t pid, const char *name);
/** Run it to its end with one command. */
void bench_run(const bench *b, const char *name, const char *command);

#endif
