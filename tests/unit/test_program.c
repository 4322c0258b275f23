/* test_program.c - what all four programs do with their command line and with signals:
 * relmq__program_main() in a child, as a shell would see it. */
#include <criterion/criterion.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/program.h"
#include "scratch.h"

/* --- two programs ------------------------------------------------------------------- */

static int echo(const relmq__settings *s, int argc, char **argv)
{
	(void) printf("window %lld", (long long) s->publisher.window);
	for (int i = 0; i < argc; i++)
		(void) printf(" [%s]", argv[i]);
	(void) printf("%s\n", argv[argc] == NULL ? "" : " not ended by NULL");
	return RELMQ__EXIT_OK;
}

static int fail(const relmq__settings *s, int argc, char **argv)
{
	(void) s;
	(void) argv;
	return argc > 0 ? relmq__program_misuse("takes no %s", argv[0])
	                : relmq__program_fail("two\nlines");
}

static const relmq__command commands[] = {
	{ "echo", "[WORD]...", "print operands", echo },
	{ "fail", NULL, "fail", fail },
	{ .name = NULL },
};
static const relmq__program tool = { .name = "tool", .summary = "a tool", .commands = commands };

static int stopping[2]; /* a pipe: stop() to run() */

static void stop(void)
{
	ssize_t ignored = write(stopping[1], "", 1);
	(void) ignored;
}

/* Says that it runs, waits for stop(); with RELMQ_TEST_SLOW it drains for ever then. */
static int run(const relmq__settings *s)
{
	char c;
	(void) s;
	(void) raise(SIGPIPE);
	(void) printf("up\n");
	(void) fflush(stdout);
	while (read(stopping[0], &c, 1) != 1)
		;
	(void) printf("draining\n");
	(void) fflush(stdout);
	while (getenv("RELMQ_TEST_SLOW") != NULL)
		(void) pause();
	return RELMQ__EXIT_OK;
}

static const relmq__program server = {
	.name = "server", .summary = "a server", .run = run, .stop = stop
};

/* --- running one -------------------------------------------------------------------- */

enum { ARGS_MAX = 8 };

typedef struct child {
	pid_t pid;
	int out, err;
	char out_text[8192], err_text[1024];
} child;

static void become(const relmq__program *p, const char *const *args, const char *out, child *c)
{
	char *argv[ARGS_MAX + 2] = { strdup("argv0") };
	int n = 1;
	int ends[4];
	for (; args[n - 1] != NULL; n++)
		argv[n] = strdup(args[n - 1]);
	cr_assert_eq(pipe(ends), 0);
	cr_assert_eq(pipe(ends + 2), 0);
	(void) fflush(NULL);
	c->pid = fork();
	cr_assert_geq(c->pid, 0);
	if (c->pid == 0) {
		(void) dup2(ends[1], STDOUT_FILENO);
		(void) dup2(ends[3], STDERR_FILENO);
		if (out != NULL && freopen(out, "w", stdout) == NULL)
			_exit(99);
		(void) close(ends[0]);
		(void) close(ends[2]);
		_exit(relmq__program_main(p, n, argv));
	}
	(void) close(ends[1]);
	(void) close(ends[3]);
	c->out = ends[0];
	c->err = ends[2];
	for (int i = 0; i < n; i++)
		free(argv[i]);
}

static void read_all(int fd, char *text, size_t size)
{
	size_t len = 0;
	ssize_t n;
	while (len + 1 < size && (n = read(fd, text + len, size - len - 1)) > 0)
		len += (size_t) n;
	text[len] = '\0';
	(void) close(fd);
}

static int finish(child *c)
{
	int status;
	read_all(c->out, c->out_text, sizeof(c->out_text));
	read_all(c->err, c->err_text, sizeof(c->err_text));
	cr_assert_eq(waitpid(c->pid, &status, 0), c->pid);
	cr_assert(WIFEXITED(status), "ended by signal %d", WTERMSIG(status));
	return WEXITSTATUS(status);
}

/* --- command line ------------------------------------------------------------------- */

static void no_environment(void)
{
	(void) unsetenv("RELMQ_CONFIG");
	(void) unsetenv("RELMQ_MYSQL_PASSWORD");
	(void) unsetenv("RELMQ_RABBITMQ_PASSWORD");
}

TestSuite(program, .init = no_environment, .fini = scratch_remove, .timeout = 30);

static const struct {
	const char *args[ARGS_MAX];
	int status;
	const char *out, *err; /* how they begin; "" means: nothing at all */
} lines[] = {
	{ { "echo" }, 0, "window 1000\n", "" },
	{ { "echo", "a", "--yes", "-h1" }, 0, "window 1000 [a] [--yes] [-h1]\n", "" },
	{ { "--config", "good.json", "echo", "a" }, 0, "window 5 [a]\n", "" },
	{ { "echo", "a", "--config", "good.json", "b" }, 0, "window 5 [a] [b]\n", "" },
	{ { "echo", "--config=good.json" }, 0, "window 5\n", "" },
	{ { "echo", "--", "--config=good.json", "--help" }, 0,
	    "window 1000 [--] [--config=good.json] [--help]\n", "" },
	{ { "fail" }, 1, "", "tool: two\\x0alines\n" },
	{ { "fail", "x" }, 2, "", "tool: takes no x (--help tells more)\n" },
	{ { NULL }, 2, "", "tool: which command? (--help tells more)\n" },
	{ { "nope" }, 2, "", "tool: no such command: nope (--help tells more)\n" },
	{ { "--nope", "echo" }, 2, "", "tool: no such option: --nope (--help tells more)\n" },
	{ { "echo", "--config" }, 2, "", "tool: --config needs a file (--help tells more)\n" },
	{ { "echo", "--config=" }, 2, "", "tool: --config needs a file (--help tells more)\n" },
	{ { "echo", "--config", "bad.json" }, 2, "",
	    "tool: bad.json: log: must be an object, is 5\n" },
	{ { "echo", "--config", "missing.json" }, 2, "",
	    "tool: missing.json: cannot read: No such file or directory\n" },
	{ { "--check-config", "--config", "good.json" }, 0, "good.json: ok\n", "" },
	{ { "--check-config", "--config", "bad.json" }, 2, "", "tool: bad.json: log: must be" },
	{ { "--check-config" }, 0, "no file, defaults: ok\n", "" },
	{ { "--show-config" }, 0, "{\n  \"mysql\": {\n", "" },
	{ { "--help-config" }, 0, "mysql.host = \"127.0.0.1\"\n", "" },
	{ { "--version" }, 0, "tool ", "" },
	{ { "--help" }, 0, "tool - a tool\n\nusage: tool [OPTION]... COMMAND", "" },
	{ { "echo", "--help", "--config", "bad.json" }, 0, "tool - a tool\n", "" },
};

static bool begins(const char *text, const char *start)
{
	return start[0] == '\0' ? text[0] == '\0' : strncmp(text, start, strlen(start)) == 0;
}

Test(program, command_lines)
{
	(void) scratch_text("good.json", "{\"publisher\":{\"window\":5}}");
	(void) scratch_text("bad.json", "{\"log\":5}");
	cr_assert_eq(chdir(scratch), 0);
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		child c;
		become(&tool, lines[i].args, NULL, &c);
		cr_expect_eq(finish(&c), lines[i].status, "case %zu", i);
		cr_expect(begins(c.out_text, lines[i].out), "case %zu: %s", i, c.out_text);
		cr_expect(begins(c.err_text, lines[i].err), "case %zu: %s", i, c.err_text);
		const char *end = strchr(c.err_text, '\n');
		cr_expect(end == NULL || end[1] == '\0', "case %zu: more than one line", i);
	}
}

Test(program, the_environment_names_the_file_unless_an_option_does)
{
	child c;
	(void) scratch_text("env.json", "{\"publisher\":{\"window\":6}}");
	(void) scratch_text("good.json", "{\"publisher\":{\"window\":5}}");
	cr_assert_eq(chdir(scratch), 0);
	(void) setenv("RELMQ_CONFIG", "env.json", 1);
	become(&tool, (const char *const[]){ "echo", NULL }, NULL, &c);
	cr_expect_eq(finish(&c), 0);
	cr_expect_str_eq(c.out_text, "window 6\n");
	become(&tool, (const char *const[]){ "echo", "--config=good.json", NULL }, NULL, &c);
	cr_expect_eq(finish(&c), 0);
	cr_expect_str_eq(c.out_text, "window 5\n");
	(void) setenv("RELMQ_CONFIG", "", 1);
	become(&tool, (const char *const[]){ "echo", NULL }, NULL, &c);
	cr_expect_eq(finish(&c), 0);
	cr_expect_str_eq(c.out_text, "window 1000\n");
}

Test(program, what_cannot_be_written_is_a_failure)
{
	static const char *const args[][2] = {
		{ "--show-config" },
		{ "--help" },
		{ "--version" },
		{ "--check-config" },
		{ "echo" },
	};
	for (size_t i = 0; i < sizeof(args) / sizeof(args[0]); i++) {
		child c;
		become(&tool, args[i], "/dev/full", &c);
		cr_expect_eq(finish(&c), 1, "%s", args[i][0]);
		cr_expect_str_eq(c.err_text, "tool: cannot write to standard output\n");
	}
}

/* --- signals ------------------------------------------------------------------------ */

static void wait_for(child *c, const char *line)
{
	char text[64] = "";
	for (size_t n = 0; n + 1 < sizeof(text) && strchr(text, '\n') == NULL; n++)
		cr_assert_eq(read(c->out, text + n, 1), 1);
	cr_assert_str_eq(text, line);
}

static void start_server(child *c)
{
	cr_assert_eq(pipe(stopping), 0);
	become(&server, (const char *const[]){ NULL }, NULL, c);
	wait_for(c, "up\n");
}

Test(program, a_daemon_takes_no_operand)
{
	child c;
	become(&server, (const char *const[]){ "x", NULL }, NULL, &c);
	cr_expect_eq(finish(&c), 2);
	cr_expect_str_eq(c.err_text, "server: takes no operand: x (--help tells more)\n");
}

Test(program, the_first_signal_stops)
{
	static const int signals[] = { SIGTERM, SIGINT };
	for (size_t i = 0; i < 2; i++) {
		child c;
		start_server(&c);
		cr_assert_eq(kill(c.pid, signals[i]), 0);
		cr_expect_eq(finish(&c), RELMQ__EXIT_OK);
		cr_expect_str_eq(c.out_text, "draining\n");
	}
}

Test(program, the_second_signal_ends_at_once)
{
	child c;
	(void) setenv("RELMQ_TEST_SLOW", "1", 1);
	start_server(&c);
	cr_assert_eq(kill(c.pid, SIGINT), 0);
	wait_for(&c, "draining\n");
	cr_assert_eq(waitpid(c.pid, NULL, WNOHANG), 0, "it ended at the first");
	cr_assert_eq(kill(c.pid, SIGTERM), 0);
	cr_expect_eq(finish(&c), RELMQ__EXIT_NOW);
}
