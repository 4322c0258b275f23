/* support/testproc.c - see testenv.h: programs and the stack's script. */
#include <criterion/criterion.h>
#include <criterion/logging.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/testenv.h"

enum { ARGS_MAX = 24, STACK_MS = 120000 };

static void child(env *e, const char *name, const char *fail, char *const *args, const char *log)
{
	char path[256];
	char *argv[ARGS_MAX] = { path, (char *) "--config", e->config };
	int n = 3;
	for (; args != NULL && *args != NULL && n < ARGS_MAX - 1; args++)
		argv[n++] = *args;
	(void) prctl(PR_SET_PDEATHSIG, SIGKILL); /* a test that dies leaves nothing running */
	int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0644);
	(void) dup2(fd, STDOUT_FILENO);
	(void) dup2(fd, STDERR_FILENO);
	(void) snprintf(path, sizeof(path), "%s/%s", RELMQ_BINARY_DIR, name);
	if (fail != NULL)
		(void) setenv("RELMQ_FAIL", fail, 1);
	(void) execv(path, argv);
	_exit(127);
}

proc env_start(env *e, const char *name, const char *fail, char *const *args)
{
	static int count;
	proc p = { 0, "" };
	(void) snprintf(p.log, sizeof(p.log), "%s/%s.%d.log", e->dir, e->name, count++);
	(void) unlink(p.log);
	p.pid = fork();
	cr_assert_geq(p.pid, 0);
	if (p.pid == 0)
		child(e, name, fail, args, p.log);
	return p;
}

void proc_signal(const proc *p, int signal)
{
	cr_assert_gt(p->pid, 0);
	(void) kill(p->pid, signal);
}

static bool reap(proc *p, int *status)
{
	int raw;
	pid_t got = waitpid(p->pid, &raw, WNOHANG);
	if (got == 0 || (got < 0 && errno == EINTR))
		return false;
	*status = got < 0 ? 127 : WIFSIGNALED(raw) ? 128 + WTERMSIG(raw) : WEXITSTATUS(raw);
	p->pid = 0;
	return true;
}

bool proc_running(proc *p)
{
	int status;
	return p->pid != 0 && !reap(p, &status);
}

int proc_wait(proc *p, int64_t ms)
{
	int status = 0;
	int64_t end = now_ms() + ms;
	if (p->pid == 0)
		return 0;
	while (!reap(p, &status)) {
		if (now_ms() >= end) {
			char *log = proc_log(p);
			(void) kill(p->pid, SIGKILL);
			cr_assert_fail("program did not end within %lld ms; its log:\n%s",
			    (long long) ms, log);
		}
		pause_ms(5);
	}
	return status;
}

void proc_kill(proc *p)
{
	if (p->pid != 0)
		(void) kill(p->pid, SIGKILL);
	(void) proc_wait(p, 10000);
}

int proc_stop(proc *p, int64_t ms)
{
	proc_signal(p, SIGTERM);
	return proc_wait(p, ms);
}

static char *read_file(const char *path)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);
	FILE *in = fopen(path, "r");
	cr_assert_not_null(out);
	for (int c; in != NULL && (c = getc(in)) != EOF;)
		(void) putc(c, out);
	if (in != NULL)
		(void) fclose(in);
	(void) fclose(out);
	return text;
}

char *proc_log(const proc *p)
{
	return read_file(p->log);
}

bool proc_said(const proc *p, const char *text)
{
	char *log = proc_log(p);
	bool said = strstr(log, text) != NULL;
	free(log);
	return said;
}

int env_run(env *e, char **output, const char *name, char *const *args)
{
	proc p = env_start(e, name, NULL, args);
	int status = proc_wait(&p, 30000);
	if (output != NULL)
		*output = proc_log(&p);
	return status;
}

static int stack(const char *command, const char *arguments)
{
	char line[1024];
	const char *dir = getenv("RELMQ_STACK_DIR");
	cr_assert_not_null(
	    dir, "RELMQ_STACK_DIR is not set: run under tests/support/with-stack.sh");
	(void) snprintf(line, sizeof(line),
	    "timeout %d %s/tests/support/stack.sh %s %s %s >>%s/tests.log 2>&1", STACK_MS / 1000,
	    RELMQ_SOURCE_DIR, command, dir, arguments, dir);
	int raw = system(line);
	return WIFEXITED(raw) ? WEXITSTATUS(raw) : 128;
}

void env_stack(const char *command)
{
	int status = stack(command, "");
	cr_assert_eq(status, 0, "stack.sh %s: exit status %d", command, status);
}

int env_ctl(const char *arguments)
{
	return stack("ctl", arguments);
}
