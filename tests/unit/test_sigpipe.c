/* test_sigpipe.c - a write to what is gone, on a thread whose process has not thought of it. */
#include <criterion/criterion.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sigpipe.h"

static void write_to_nobody(void)
{
	int ends[2];
	cr_assert_eq(pipe(ends), 0);
	(void) close(ends[0]);
	cr_expect_eq(write(ends[1], "x", 1), -1);
	(void) close(ends[1]);
}

static bool is_blocked(void)
{
	sigset_t mask;
	(void) pthread_sigmask(SIG_BLOCK, NULL, &mask);
	return sigismember(&mask, SIGPIPE) == 1;
}

Test(sigpipe, held_back_and_taken_away)
{
	relmq__sigpipe s;
	(void) signal(SIGPIPE, SIG_DFL);
	for (int i = 0; i < 2; i++) {
		relmq__sigpipe_hold(&s);
		if (i == 1)
			write_to_nobody();
		cr_expect(is_blocked());
		relmq__sigpipe_release(&s);
		cr_expect_not(is_blocked());
	}
}

Test(sigpipe, what_was_pending_before_is_the_applications)
{
	relmq__sigpipe ours, theirs;
	sigset_t pending;
	relmq__sigpipe_hold(&theirs);
	write_to_nobody();
	relmq__sigpipe_hold(&ours);
	write_to_nobody();
	relmq__sigpipe_release(&ours);
	cr_expect(is_blocked());
	(void) sigpending(&pending);
	cr_expect_eq(sigismember(&pending, SIGPIPE), 1);
	relmq__sigpipe_release(&theirs);
}

Test(sigpipe, without_it_a_process_dies)
{
	int status = 0;
	(void) signal(SIGPIPE, SIG_DFL);
	pid_t child = fork();
	if (child == 0) {
		write_to_nobody();
		_exit(0);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE);
}
