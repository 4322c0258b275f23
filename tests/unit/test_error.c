/* test_error.c - what the small pieces of base promise: codes, log, backoff, ids. */
#include <criterion/criterion.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/backoff.h"
#include "base/error.h"
#include "base/log.h"
#include "base/uuid.h"

/* --- error -------------------------------------------------------------------------- */

static const relmq_code codes[] = {
#define X(name, val, text) RELMQ_##name,
	RELMQ_CODE_MAP(X)
#undef X
};
enum { CODES = sizeof(codes) / sizeof(codes[0]) };

Test(error, every_code_has_a_name_and_a_text_of_its_own)
{
	for (size_t i = 0; i < CODES; i++) {
		cr_expect_eq((size_t) codes[i], i, "values are ABI: no gap, no order but this");
		cr_expect_eq(strncmp(relmq_code_name(codes[i]), "RELMQ_", 6), 0);
		cr_expect_neq(relmq_code_text(codes[i])[0], '\0');
		for (size_t j = 0; j < i; j++) {
			cr_expect_str_neq(relmq_code_name(codes[i]), relmq_code_name(codes[j]));
			cr_expect_str_neq(relmq_code_text(codes[i]), relmq_code_text(codes[j]));
		}
	}
	cr_expect_str_eq(relmq_code_name(RELMQ_ECONFIG), "RELMQ_ECONFIG");
	cr_expect_str_eq(relmq_code_name((relmq_code) 9999), "RELMQ_?");
	cr_expect_str_eq(relmq_code_text((relmq_code) -1), "unknown code");
}

Test(error, the_record_is_filled_whole_and_terminated)
{
	relmq_error err;
	char longer[500];
	memset(&err, 0x5a, sizeof(err));
	memset(longer, 'x', sizeof(longer));
	longer[sizeof(longer) - 1] = '\0';
	cr_expect_eq(
	    relmq__fail_from(&err, RELMQ_EDB, RELMQ_F_RETRY, RELMQ_FROM_MYSQL, 1213, "%s", longer),
	    RELMQ_EDB);
	cr_expect_eq(err.code, RELMQ_EDB);
	cr_expect_eq(err.flags, RELMQ_F_RETRY);
	cr_expect_eq(err.origin, RELMQ_FROM_MYSQL);
	cr_expect_eq(err.native, 1213);
	cr_expect_str_empty(err.sqlstate);
	cr_expect_eq(strlen(err.text), sizeof(err.text) - 1);
	cr_expect_eq(relmq__fail(NULL, RELMQ_EINVAL, 0, "nobody listens"), RELMQ_EINVAL);
	cr_expect_eq(relmq__fail_nomem(&err), RELMQ_ENOMEM);
	cr_expect_eq(err.native, 0);
}

/* --- log ---------------------------------------------------------------------------- */

static struct {
	int calls;
	relmq_log_level level;
	char subject[16], text[4096];
} heard;

static void hear(relmq_log_level level, const char *subject, const char *text, void *arg)
{
	*(int *) arg += 1;
	heard.level = level;
	(void) snprintf(heard.subject, sizeof(heard.subject), "%s", subject);
	(void) snprintf(heard.text, sizeof(heard.text), "%s", text);
}

static int touched;

static int touch(void)
{
	return ++touched;
}

Test(log, silent_without_a_sink_and_above_its_level)
{
	LOG_ERROR("test", "%d", touch());
	cr_expect_eq(touched, 0, "formatted for nobody");
	relmq_log_set(hear, RELMQ_LOG_WARN, &heard.calls);
	LOG_INFO("test", "%d", touch());
	cr_expect_eq(touched, 0, "formatted before the level was checked");
	LOG_WARN("test", "%d", touch());
	cr_expect_eq(heard.calls, 1);
	cr_expect_eq(heard.level, RELMQ_LOG_WARN);
	cr_expect_str_eq(heard.subject, "test");
	cr_expect_str_eq(heard.text, "1");
}

Test(log, control_bytes_cannot_forge_a_line)
{
	relmq_log_set(hear, RELMQ_LOG_DEBUG, &heard.calls);
	LOG_DEBUG("test", "%s", "a\nb\r\x1b[31m\x7f \xc3\xa9");
	cr_expect_str_eq(heard.text, "a\\x0ab\\x0d\\x1b[31m\\x7f \xc3\xa9");
}

/* U+009B is a terminal's escape in two bytes, U+202E turns the line around. */
Test(log, what_is_not_plain_text_is_escaped)
{
	char out[64];
	relmq__log_escape("a\xc2\x9b"
	                  "1m \xff \xe2\x80\xae \xc3\xa4 \xf0\x9f\x98\x80",
	    out, sizeof(out));
	cr_expect_str_eq(out, "a\\xc2\\x9b1m \\xff \\xe2\\x80\\xae \xc3\xa4 \xf0\x9f\x98\x80");
	relmq__log_escape("1234567\xc3\xa4", out, 9);
	cr_expect_str_eq(out, "1234567", "no half of a character");
}

Test(log, a_long_text_is_cut)
{
	static char longer[10000];
	memset(longer, '\n', sizeof(longer) - 1);
	relmq_log_set(hear, RELMQ_LOG_DEBUG, &heard.calls);
	LOG_DEBUG("test", "%s", longer);
	cr_expect_gt(strlen(heard.text), 1000);
	cr_expect_null(strchr(heard.text, '\n'));
}

Test(log, stderr_gets_one_line_with_time_level_and_subject)
{
	int ends[2];
	char line[256] = "";
	cr_assert_eq(pipe(ends), 0);
	int saved = dup(STDERR_FILENO);
	cr_assert_geq(dup2(ends[1], STDERR_FILENO), 0);
	relmq__log_stderr(RELMQ_LOG_WARN, "wire", "text", NULL);
	cr_assert_geq(dup2(saved, STDERR_FILENO), 0);
	cr_assert_gt(read(ends[0], line, sizeof(line) - 1), 0);
	static const char shape[] = "dddd-dd-ddTdd:dd:dd.dddZ warn wire: text\n";
	cr_assert_eq(strlen(line), sizeof(shape) - 1, "%s", line);
	for (size_t i = 0; i < sizeof(shape) - 1; i++)
		cr_expect(i < 23 && shape[i] == 'd' ? isdigit((unsigned char) line[i]) != 0
		                                    : line[i] == shape[i],
		    "byte %zu of %s", i, line);
}

/* --- backoff ------------------------------------------------------------------------ */

Test(backoff, between_half_and_whole_of_a_doubling_capped_bound)
{
	for (int round = 0; round < 200; round++) {
		relmq__backoff b = { 100, 3000, 0 };
		int64_t bound = 100;
		for (int i = 0; i < 80; i++) {
			int64_t ms = relmq__backoff_next_ms(&b);
			cr_assert_geq(ms, bound / 2);
			cr_assert_leq(ms, bound);
			bound = bound * 2 < 3000 ? bound * 2 : 3000;
		}
		relmq__backoff_reset(&b);
		cr_assert_leq(relmq__backoff_next_ms(&b), 100);
	}
}

Test(backoff, jitter_spreads_over_a_fifth_either_way)
{
	int64_t least = INT64_MAX, most = 0;
	for (int i = 0; i < 10000; i++) {
		int64_t ms = relmq__jitter_ms(1000);
		least = ms < least ? ms : least;
		most = ms > most ? ms : most;
	}
	cr_expect_geq(least, 800);
	cr_expect_leq(most, 1200);
	cr_expect_lt(least, 850, "hardly any jitter");
	cr_expect_gt(most, 1150, "hardly any jitter");
	cr_expect_eq(relmq__jitter_ms(0), 0);
}

Test(backoff, random_numbers_stay_below_and_reach_all)
{
	bool seen[7] = { false };
	for (int i = 0; i < 1000; i++) {
		uint64_t n = relmq__random_below(7);
		cr_assert_lt(n, 7);
		seen[n] = true;
	}
	for (int i = 0; i < 7; i++)
		cr_expect(seen[i], "%d never came", i);
	cr_expect_eq(relmq__random_below(0), 0);
	cr_expect_eq(relmq__random_below(1), 0);
}

/* --- uuid --------------------------------------------------------------------------- */

Test(uuid, canonical_text_of_version_seven)
{
	char id[RELMQ__UUID_SIZE];
	cr_assert_eq(relmq__uuid7(id), 0);
	cr_assert_eq(strlen(id), 36);
	for (size_t i = 0; i < 36; i++)
		if (i == 8 || i == 13 || i == 18 || i == 23)
			cr_expect_eq(id[i], '-');
		else
			cr_expect_not_null(strchr("0123456789abcdef", id[i]));
	cr_expect_eq(id[14], '7');
	cr_expect_not_null(strchr("89ab", id[19]));
}

Test(uuid, sorted_by_time_and_never_the_same)
{
	char id[RELMQ__UUID_SIZE], before[RELMQ__UUID_SIZE] = "";
	for (int i = 0; i < 2000; i++) {
		cr_assert_eq(relmq__uuid7(id), 0);
		cr_assert_str_neq(id, before);
		/* 48 bits of milliseconds and 12 of their fraction; ids of one tick may swap. */
		cr_assert_geq(strncmp(id, before, 18), 0, "%s after %s", id, before);
		memcpy(before, id, sizeof(before));
	}
}
