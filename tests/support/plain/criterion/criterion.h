/* support/plain/criterion/criterion.h - the part of Criterion that our tests use, in a header,
 * for where Criterion itself does not start: under the thread sanitizer it finds no room for
 * its arena. One process a test, as there. Its words for the outcome are the same, so that
 * the sum is counted alike. */
#ifndef RELMQ_PLAIN_CRITERION_H
#define RELMQ_PLAIN_CRITERION_H

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CR__WEAK __attribute__((weak))

struct cr__options {
	void (*init)(void);
	void (*fini)(void);
	double timeout; /* s */
};

struct criterion_test_params {
	size_t size;
	void *params;
	size_t length;
};

struct cr__case {
	const char *suite, *name;
	void (*body)(void *param);
	struct criterion_test_params (*params)(void); /* NULL: none */
	struct cr__options options;
	bool is_suite; /* only its options */
	struct cr__case *next;
};

enum { CR__SLOWER = 10, CR__TIMEOUT_S = 60, CR__SKIPPED = 77 };

CR__WEAK struct cr__case *cr__cases;
CR__WEAK jmp_buf cr__end;
CR__WEAK int cr__failures;

#define CR__REGISTER(S, N, record)                                            \
	__attribute__((constructor)) static void cr__register_##S##_##N(void) \
	{                                                                     \
		record.next = cr__cases;                                      \
		cr__cases = &record;                                          \
	}

/* The record last: the macro is used with a semicolon behind it. */
#define TestSuite(S, ...)                                                             \
	static struct cr__case cr__suite_##S;                                         \
	CR__REGISTER(S, suite, cr__suite_##S)                                         \
	static struct cr__case cr__suite_##S = {                                      \
		.suite = #S, .name = "", .is_suite = true, .options = { __VA_ARGS__ } \
	}

#define CR__CASE(S, N, get_params, ...)                            \
	static struct cr__case cr__case_##S##_##N = { .suite = #S, \
		.name = #N,                                        \
		.body = cr__body_##S##_##N,                        \
		.params = get_params,                              \
		.options = { __VA_ARGS__ } };                      \
	CR__REGISTER(S, N, cr__case_##S##_##N)

#define Test(S, N, ...)                                 \
	static void cr__run_##S##_##N(void);            \
	static void cr__body_##S##_##N(void *cr__param) \
	{                                               \
		(void) cr__param;                       \
		cr__run_##S##_##N();                    \
	}                                               \
	CR__CASE(S, N, NULL, ##__VA_ARGS__)             \
	static void cr__run_##S##_##N(void)

#define ParameterizedTestParameters(S, N) \
	static struct criterion_test_params cr__params_##S##_##N(void)
#define ParameterizedTest(param, S, N, ...)                 \
	static void cr__body_##S##_##N(void *cr__param);    \
	CR__CASE(S, N, cr__params_##S##_##N, ##__VA_ARGS__) \
	static void cr__run_##S##_##N(param);               \
	static void cr__body_##S##_##N(void *cr__param)     \
	{                                                   \
		cr__run_##S##_##N(cr__param);               \
	}                                                   \
	static void cr__run_##S##_##N(param)
#define cr_make_param_array(type, array, count) \
	((struct criterion_test_params){ sizeof(type), (array), (count) })

/* --- assertions ------------------------------------------------------------------------- */

CR__WEAK __attribute__((format(printf, 5, 6))) void cr__fail(
    const char *file, int line, bool fatal, const char *what, const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	(void) fprintf(stderr, "[----] %s:%d: Assertion Failed\n[----]   %s\n", file, line, what);
	if (fmt[0] != '\0') {
		(void) fprintf(stderr, "[----]   ");
		(void) vfprintf(stderr, fmt, args);
		(void) fprintf(stderr, "\n");
	}
	va_end(args);
	cr__failures++;
	if (fatal)
		longjmp(cr__end, 1);
}

#define CR__CHECK(fatal, what, condition, ...)                                     \
	do {                                                                       \
		if (!(condition))                                                  \
			cr__fail(__FILE__, __LINE__, fatal, what, "" __VA_ARGS__); \
	} while (0)

#define cr_assert(c, ...)           CR__CHECK(true, #c, c, __VA_ARGS__)
#define cr_expect(c, ...)           CR__CHECK(false, #c, c, __VA_ARGS__)
#define cr_assert_not(c, ...)       CR__CHECK(true, "not " #c, !(c), __VA_ARGS__)
#define cr_expect_not(c, ...)       CR__CHECK(false, "not " #c, !(c), __VA_ARGS__)
#define cr_assert_eq(a, b, ...)     CR__CHECK(true, #a " == " #b, (a) == (b), __VA_ARGS__)
#define cr_expect_eq(a, b, ...)     CR__CHECK(false, #a " == " #b, (a) == (b), __VA_ARGS__)
#define cr_assert_neq(a, b, ...)    CR__CHECK(true, #a " != " #b, (a) != (b), __VA_ARGS__)
#define cr_expect_neq(a, b, ...)    CR__CHECK(false, #a " != " #b, (a) != (b), __VA_ARGS__)
#define cr_assert_lt(a, b, ...)     CR__CHECK(true, #a " < " #b, (a) < (b), __VA_ARGS__)
#define cr_expect_lt(a, b, ...)     CR__CHECK(false, #a " < " #b, (a) < (b), __VA_ARGS__)
#define cr_assert_leq(a, b, ...)    CR__CHECK(true, #a " <= " #b, (a) <= (b), __VA_ARGS__)
#define cr_expect_leq(a, b, ...)    CR__CHECK(false, #a " <= " #b, (a) <= (b), __VA_ARGS__)
#define cr_assert_gt(a, b, ...)     CR__CHECK(true, #a " > " #b, (a) > (b), __VA_ARGS__)
#define cr_expect_gt(a, b, ...)     CR__CHECK(false, #a " > " #b, (a) > (b), __VA_ARGS__)
#define cr_assert_geq(a, b, ...)    CR__CHECK(true, #a " >= " #b, (a) >= (b), __VA_ARGS__)
#define cr_expect_geq(a, b, ...)    CR__CHECK(false, #a " >= " #b, (a) >= (b), __VA_ARGS__)
#define cr_assert_null(p, ...)      CR__CHECK(true, #p " is NULL", (p) == NULL, __VA_ARGS__)
#define cr_expect_null(p, ...)      CR__CHECK(false, #p " is NULL", (p) == NULL, __VA_ARGS__)
#define cr_assert_not_null(p, ...)  CR__CHECK(true, #p " is not NULL", (p) != NULL, __VA_ARGS__)
#define cr_expect_not_null(p, ...)  CR__CHECK(false, #p " is not NULL", (p) != NULL, __VA_ARGS__)
#define cr_assert_str_eq(a, b, ...) CR__CHECK(true, #a " is " #b, strcmp(a, b) == 0, __VA_ARGS__)
#define cr_expect_str_eq(a, b, ...) CR__CHECK(false, #a " is " #b, strcmp(a, b) == 0, __VA_ARGS__)
#define cr_assert_str_neq(a, b, ...) \
	CR__CHECK(true, #a " is not " #b, strcmp(a, b) != 0, __VA_ARGS__)
#define cr_expect_str_neq(a, b, ...) \
	CR__CHECK(false, #a " is not " #b, strcmp(a, b) != 0, __VA_ARGS__)
#define cr_assert_str_empty(s, ...) CR__CHECK(true, #s " is empty", (s)[0] == '\0', __VA_ARGS__)
#define cr_expect_str_empty(s, ...) CR__CHECK(false, #s " is empty", (s)[0] == '\0', __VA_ARGS__)
#define cr_assert_arr_eq(a, b, n, ...) \
	CR__CHECK(true, #a " is " #b, memcmp(a, b, n) == 0, __VA_ARGS__)
#define cr_assert_fail(...) CR__CHECK(true, "failed", false, __VA_ARGS__)
#define cr_skip_test(...)   exit(CR__SKIPPED)

/* --- running ------------------------------------------------------------------------------ */

CR__WEAK const struct cr__options *cr__suite_of(const struct cr__case *c)
{
	static const struct cr__options none;
	for (const struct cr__case *s = cr__cases; s != NULL; s = s->next)
		if (s->is_suite && strcmp(s->suite, c->suite) == 0)
			return &s->options;
	return &none;
}

CR__WEAK void cr__child(const struct cr__case *c, void *param)
{
	const struct cr__options *suite = cr__suite_of(c);
	void (*init)(void) = c->options.init != NULL ? c->options.init : suite->init;
	void (*fini)(void) = c->options.fini != NULL ? c->options.fini : suite->fini;
	double limit = c->options.timeout > 0 ? c->options.timeout : suite->timeout;
	(void) alarm((unsigned) (limit > 0 ? limit : CR__TIMEOUT_S) * CR__SLOWER);
	if (setjmp(cr__end) == 0) {
		if (init != NULL)
			init();
		c->body(param);
	}
	if (setjmp(cr__end) == 0 && fini != NULL)
		fini();
	exit(cr__failures > 0);
}

CR__WEAK int cr__run(const struct cr__case *c, void *param)
{
	struct timespec began, ended;
	int status = 0;
	(void) fflush(NULL);
	(void) clock_gettime(CLOCK_MONOTONIC, &began);
	pid_t pid = fork();
	if (pid == 0)
		cr__child(c, param);
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		abort();
	(void) clock_gettime(CLOCK_MONOTONIC, &ended);
	bool skipped = WIFEXITED(status) && WEXITSTATUS(status) == CR__SKIPPED;
	bool good = WIFEXITED(status) && WEXITSTATUS(status) == 0;
	(void) fprintf(stderr, "[%s] %s::%s: (%.2fs)\n",
	    skipped    ? "SKIP"
	        : good ? "PASS"
	               : "FAIL",
	    c->suite, c->name,
	    (double) (ended.tv_sec - began.tv_sec) +
	        (double) (ended.tv_nsec - began.tv_nsec) / 1e9);
	if (WIFSIGNALED(status))
		(void) fprintf(stderr, "[----] ended by signal %d\n", WTERMSIG(status));
	return skipped ? 0 : good ? 1 : -1;
}

CR__WEAK int main(int argc, char **argv)
{
	int passed = 0;
	int failed = 0;
	(void) argc;
	(void) argv;
	for (const struct cr__case *c = cr__cases; c != NULL; c = c->next) {
		if (c->is_suite)
			continue;
		struct criterion_test_params p = { 0, NULL, 1 };
		if (c->params != NULL)
			p = c->params();
		for (size_t i = 0; i < p.length; i++) {
			int outcome = cr__run(c, (char *) p.params + i * p.size);
			passed += outcome > 0;
			failed += outcome < 0;
		}
	}
	(void) fprintf(stderr,
	    "[====] Synthesis: Tested: %d | Passing: %d | Failing: %d | Crashing: 0\n",
	    passed + failed, passed, failed);
	return failed > 0;
}

#endif
