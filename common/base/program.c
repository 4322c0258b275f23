/* base/program.c - see program.h. */
#include "base/program.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <relmq/version.h>

#include "base/log.h"

typedef enum mode { RUN, CHECK_CONFIG, SHOW_CONFIG, HELP_CONFIG, VERSION, HELP } mode;

typedef struct call { /* what the command line asks for */
	mode mode;
	const char *config; /* NULL: defaults */
	const relmq__command *command;
	int argc;
	char **argv; /* of the command */
} call;

static const relmq__program *program;
static atomic_int signals_seen;

/* --- words -------------------------------------------------------------------------- */

/* One line, whatever a peer or a file put into the text. */
static void say(const char *fmt, va_list args, const char *tail)
{
	char raw[1024];
	char text[2048];
	(void) vsnprintf(raw, sizeof(raw), fmt, args);
	relmq__log_escape(raw, text, sizeof(text));
	(void) fflush(stdout);
	(void) fprintf(stderr, "%s: %s%s\n", program->name, text, tail);
}

int relmq__program_fail(const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	say(fmt, args, "");
	va_end(args);
	return RELMQ__EXIT_FAILED;
}

int relmq__program_misuse(const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	say(fmt, args, " (--help tells more)");
	va_end(args);
	return RELMQ__EXIT_USAGE;
}

static void print_help(void)
{
	const relmq__command *c = program->commands;
	(void) printf("%s - %s\n\nusage: %s [OPTION]...%s\n", program->name, program->summary,
	    program->name, c != NULL ? " COMMAND [OPERAND]..." : "");
	if (c != NULL)
		(void) printf("\ncommands:\n");
	for (; c != NULL && c->name != NULL; c++)
		(void) printf("  %s %s\n      %s\n", c->name,
		    c->operands != NULL ? c->operands : "", c->help);
	(void) printf("\noptions:\n"
	              "  --config FILE   configuration; default: $RELMQ_CONFIG, else none\n"
	              "  --check-config  read the configuration, say whether it is good\n"
	              "  --show-config   print what is in force, passwords hidden\n"
	              "  --help-config   print every key with its default and range\n"
	              "  --version       print the version\n"
	              "  --help          print this\n"
	              "\nexit status: 0 done, 1 failed, 2 bad usage or configuration%s\n",
	    program->commands == NULL ? ", 3 ended by a second signal" : "");
}

/* What did not reach stdout did not happen. */
static int finish(int status)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return status;
	(void) relmq__program_fail("cannot write to standard output");
	return status != RELMQ__EXIT_OK ? status : RELMQ__EXIT_FAILED;
}

/* --- command line ------------------------------------------------------------------- */

static bool mode_of(const char *arg, mode *m)
{
	static const struct {
		const char *option;
		mode mode;
	} modes[] = {
		{ "--check-config", CHECK_CONFIG },
		{ "--show-config", SHOW_CONFIG },
		{ "--help-config", HELP_CONFIG },
		{ "--version", VERSION },
		{ "--help", HELP },
		{ "-h", HELP },
	};
	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		if (strcmp(arg, modes[i].option) == 0) {
			*m = modes[i].mode;
			return true;
		}
	return false;
}

/* An option of every program at argv[*i]; moves *i over its value. 0: none, -1: bad usage. */
static int take_option(call *c, int argc, char **argv, int *i)
{
	static const char config[] = "--config";
	const size_t len = sizeof(config) - 1;
	const char *arg = argv[*i];
	mode m;
	if (mode_of(arg, &m)) {
		if (m > c->mode) /* --help wins over --version, and so on */
			c->mode = m;
		return 1;
	}
	if (strncmp(arg, config, len) != 0 || (arg[len] != '=' && arg[len] != '\0'))
		return 0;
	c->config = NULL;
	if (arg[len] == '=')
		c->config = arg + len + 1;
	else if (*i + 1 < argc)
		c->config = argv[++*i];
	if (c->config != NULL && c->config[0] != '\0')
		return 1;
	(void) relmq__program_misuse("--config needs a file");
	return -1;
}

static int set_command(call *c, const char *name)
{
	const relmq__command *k = program->commands;
	if (k == NULL)
		return relmq__program_misuse("takes no operand: %s", name);
	while (k->name != NULL && strcmp(k->name, name) != 0)
		k++;
	if (k->name == NULL)
		return relmq__program_misuse("no such command: %s", name);
	c->command = k;
	return RELMQ__EXIT_OK;
}

/* Operands are moved to the front of argv, over what was understood. */
static int parse(call *c, int argc, char **argv)
{
	bool literal = false; /* after "--" */
	const char *env = getenv("RELMQ_CONFIG");
	*c = (call){ .mode = RUN, .config = env != NULL && env[0] != '\0' ? env : NULL };
	c->argv = argv;
	for (int i = 1; i < argc; i++) {
		int taken = literal ? 0 : take_option(c, argc, argv, &i);
		int status = RELMQ__EXIT_OK;
		if (taken < 0)
			return RELMQ__EXIT_USAGE;
		if (taken > 0)
			continue;
		literal = literal || strcmp(argv[i], "--") == 0;
		if (c->command != NULL)
			argv[c->argc++] = argv[i];
		else if (argv[i][0] == '-' && argv[i][1] != '\0')
			status = relmq__program_misuse("no such option: %s", argv[i]);
		else
			status = set_command(c, argv[i]);
		if (status != RELMQ__EXIT_OK)
			return status;
	}
	argv[c->argc] = NULL;
	if (c->mode == RUN && program->commands != NULL && c->command == NULL)
		return relmq__program_misuse("which command?");
	return RELMQ__EXIT_OK;
}

/* --- process ------------------------------------------------------------------------ */

/* A descriptor 0, 1 or 2 that is closed would become a socket, and take log lines. Each is
 * opened the wrong way round, so that its use fails as it did. */
static void keep_standard_files(void)
{
	for (int fd = 0; fd <= 2; fd++)
		if (fcntl(fd, F_GETFD) == -1 && errno == EBADF &&
		    open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY) != fd)
			_exit(RELMQ__EXIT_FAILED);
}

static void on_signal(int sig)
{
	int saved = errno;
	(void) sig;
	if (atomic_fetch_add(&signals_seen, 1) > 0)
		_exit(RELMQ__EXIT_NOW);
	program->stop();
	errno = saved;
}

static void catch_signals(void)
{
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	(void) sigemptyset(&sa.sa_mask);
	(void) sigaction(SIGTERM, &sa, NULL);
	(void) sigaction(SIGINT, &sa, NULL);
}

static void warn_unverified(const char *name, const relmq__tls_settings *tls)
{
	if (tls->enabled && !tls->verify)
		LOG_WARN(program->name,
		    "%s.tls.verify is false: whoever answers there is believed to be the server",
		    name);
}

static int run(const call *c, const relmq__settings *s)
{
	relmq_log_set(relmq__log_stderr, (relmq_log_level) s->log.level, NULL);
	warn_unverified("mysql", &s->mysql.tls);
	warn_unverified("rabbitmq", &s->rabbitmq.tls);
	if (c->command != NULL)
		return c->command->run(s, c->argc, c->argv);
	catch_signals();
	return program->run(s);
}

static int with_settings(const call *c)
{
	relmq__settings s;
	relmq_error err;
	int status = RELMQ__EXIT_OK;
	if (relmq__settings_load(&s, c->config, &err) != RELMQ_OK) {
		(void) relmq__program_fail("%s", err.text);
		return RELMQ__EXIT_USAGE;
	}
	if (c->mode == CHECK_CONFIG)
		(void) printf("%s: ok\n", c->config != NULL ? c->config : "no file, defaults");
	else if (c->mode == SHOW_CONFIG)
		status = relmq__settings_show(&s, stdout) ? RELMQ__EXIT_OK : RELMQ__EXIT_FAILED;
	else
		status = run(c, &s);
	relmq__settings_free(&s);
	return status;
}

int relmq__program_main(const relmq__program *p, int argc, char **argv)
{
	call c;
	program = p;
	keep_standard_files();
	(void) signal(SIGPIPE, SIG_IGN);
	int status = parse(&c, argc, argv);
	if (status != RELMQ__EXIT_OK)
		return status;
	if (c.mode == HELP)
		print_help();
	else if (c.mode == VERSION)
		(void) printf("%s %s\n", p->name, relmq_version());
	else if (c.mode == HELP_CONFIG)
		status = relmq__settings_reference(stdout) ? RELMQ__EXIT_OK : RELMQ__EXIT_FAILED;
	else
		status = with_settings(&c);
	return finish(status);
}
