/* base/program.h - what the four programs have in common: options, configuration, signals,
 * log, exit status. A main.c is a table and a call. Knows no MySQL and no AMQP.
 *
 * Every program takes --config FILE (else $RELMQ_CONFIG, else defaults), --check-config,
 * --show-config, --help-config, --version and --help, before or after its command. What
 * else starts with a dash before the command is bad usage; after the command it is the
 * command's own, and so is all that follows "--". */
#ifndef RELMQ_BASE_PROGRAM_H
#define RELMQ_BASE_PROGRAM_H

#include "base/settings.h"

enum { /* exit status */
	RELMQ__EXIT_OK = 0,
	RELMQ__EXIT_FAILED = 1, /* said why on stderr                        */
	RELMQ__EXIT_USAGE = 2,  /* bad usage or bad configuration            */
	RELMQ__EXIT_NOW = 3     /* a second signal came before the drain was over */
};

typedef struct relmq__command {
	const char *name;
	const char *operands; /* as --help shows them: "[--yes] QUEUE" */
	const char *help;     /* one line */
	/** `argv`: operands and own options, without the command's name; NULL ends it. Returns
	 *  the exit status. */
	int (*run)(const relmq__settings *s, int argc, char **argv);
} relmq__command;

typedef struct relmq__program {
	const char *name, *summary;
	const relmq__command *commands; /* NULL: a daemon, which has `run` and `stop` */
	/** Returns the exit status, after stop() or when it cannot go on. */
	int (*run)(const relmq__settings *s);
	/** The first SIGTERM or SIGINT. Async-signal-safe; may come before run() has begun. */
	void (*stop)(void);
} relmq__program;

/** Everything that main() does; returns the exit status. Once a process. SIGPIPE is ignored from
 *  here on; in a daemon the second SIGTERM or SIGINT ends the process with RELMQ__EXIT_NOW. */
int relmq__program_main(const relmq__program *p, int argc, char **argv);

/** For a command: "NAME: text" as one line on stderr; returns RELMQ__EXIT_FAILED. */
int relmq__program_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/** The same for bad usage, with a hint at --help; returns RELMQ__EXIT_USAGE. */
int relmq__program_misuse(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
