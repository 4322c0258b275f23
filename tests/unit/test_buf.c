/* test_buf.c - the byte buffer, and what is UTF-8. */
#include <criterion/criterion.h>
#include <string.h>

#include "base/buf.h"
#include "base/utf8.h"

Test(buf, appends_and_stays_terminated)
{
	relmq__buf b = { 0 };
	relmq__buf_adds(&b, "a");
	relmq__buf_add(&b, "b\0c", 3);
	relmq__buf_addf(&b, "%d-%s", 7, "x");
	relmq__buf_addu(&b, 0);
	relmq__buf_addu(&b, UINT64_MAX);
	relmq__buf_add(&b, NULL, 0);
	static const char want[] = "ab\0c7-x018446744073709551615";
	cr_assert_not(b.failed);
	cr_assert_eq(b.len, sizeof(want) - 1);
	cr_assert_arr_eq(b.data, want, sizeof(want));
	relmq__buf_free(&b);
	cr_assert_null(b.data);
}

Test(buf, hex)
{
	relmq__buf b = { 0 };
	relmq__buf_add_hex(&b, "\x00\x7f\xff", 3);
	cr_expect_str_eq(b.data, "007fff");
	relmq__buf_add_hex(&b, "", 0);
	cr_expect_eq(b.len, 6);
	relmq__buf_free(&b);
}

static const struct {
	const char *bytes;
	size_t n;
	const char *json;
} json_cases[] = {
	{ "", 0, "\"\"" },
	{ "plain", 5, "\"plain\"" },
	{ "q\"b\\s/", 6, "\"q\\\"b\\\\s/\"" },
	{ "\n\t\x1b\x7f\0", 5, "\"\\u000a\\u0009\\u001b\\u007f\\u0000\"" },
	{ "\xc3\xa9\xf0\x9f\x98\x80", 6, "\"\xc3\xa9\xf0\x9f\x98\x80\"" },
	{ "\xff"
	  "a\xc3",
	    3, "\"\\ufffda\\ufffd\"" },
};

Test(buf, json_strings)
{
	for (size_t i = 0; i < sizeof(json_cases) / sizeof(json_cases[0]); i++) {
		relmq__buf b = { 0 };
		relmq__buf_add_json(&b, json_cases[i].bytes, json_cases[i].n);
		cr_expect_str_eq(b.data, json_cases[i].json);
		relmq__buf_free(&b);
	}
}

Test(buf, a_bound_is_never_passed_and_the_failure_stays)
{
	relmq__buf b = { .max = 4 };
	relmq__buf_adds(&b, "1234");
	cr_assert_not(b.failed);
	relmq__buf_adds(&b, "5");
	cr_assert(b.failed);
	cr_assert_eq(b.len, 4);
	relmq__buf_add(&b, "", 0);
	cr_assert(b.failed, "a later append that would fit must not hide the failure");
	cr_assert_null(relmq__buf_reserve(&b, SIZE_MAX));
	relmq__buf_reset(&b);
	cr_assert_not(b.failed);
	cr_assert_eq(b.len, 0);
	relmq__buf_addf(&b, "%s", "12345");
	cr_assert(b.failed);
	relmq__buf_free(&b);
}

Test(buf, trim_gives_large_memory_back)
{
	relmq__buf b = { 0 };
	cr_assert_not_null(relmq__buf_reserve(&b, 100000));
	relmq__buf_trim(&b, 200000);
	cr_expect_geq(b.cap, 100000);
	relmq__buf_trim(&b, 1000);
	cr_expect_eq(b.cap, 0);
	cr_expect_null(b.data);
}

static const struct {
	const char *bytes;
	size_t n, width;
} utf8_cases[] = {
	{ "", 0, 0 }, { "\0", 1, 1 }, { "a", 1, 1 }, { "\x80", 1, 0 }, /* continuation alone    */
	{ "\xc3\xa9", 2, 2 },                                          /* U+E9                  */
	{ "\xc3", 1, 0 },                                              /* cut                   */
	{ "\xc0\x80", 2, 0 },                                          /* overlong NUL          */
	{ "\xc1\xbf", 2, 0 },                                          /* overlong              */
	{ "\xe0\x9f\xbf", 3, 0 },                                      /* overlong              */
	{ "\xe0\xa0\x80", 3, 3 },                                      /* U+800                 */
	{ "\xed\x9f\xbf", 3, 3 },                                      /* U+D7FF                */
	{ "\xed\xa0\x80", 3, 0 },                                      /* surrogate             */
	{ "\xee\x80\x80", 3, 3 },                                      /* U+E000                */
	{ "\xf0\x8f\xbf\xbf", 4, 0 },                                  /* overlong              */
	{ "\xf0\x90\x80\x80", 4, 4 },                                  /* U+10000               */
	{ "\xf4\x8f\xbf\xbf", 4, 4 },                                  /* U+10FFFF              */
	{ "\xf4\x90\x80\x80", 4, 0 },                                  /* above                 */
	{ "\xf8\x88\x80\x80\x80", 5, 0 },                              /* five bytes            */
	{ "\xe2\x28\xa1", 3, 0 },                                      /* no continuation       */
};

Test(utf8, width_of_one_character)
{
	for (size_t i = 0; i < sizeof(utf8_cases) / sizeof(utf8_cases[0]); i++)
		cr_expect_eq(relmq__utf8_width(utf8_cases[i].bytes, utf8_cases[i].n),
		    utf8_cases[i].width, "case %zu", i);
}

Test(utf8, whole_texts)
{
	cr_expect(relmq__utf8_ok("", 0));
	cr_expect(relmq__utf8_ok("a\xc3\xa9z", 4));
	cr_expect_not(relmq__utf8_ok("a\xc3\xa9z", 2));
	cr_expect_not(relmq__utf8_ok("a\xff", 2));
}

Test(utf8, a_cut_never_splits_a_character)
{
	static const char text[] = "a\xc3\xa9\xf0\x9f\x98\x80z"; /* 1, 2, 4, 1 bytes */
	static const size_t want[] = { 0, 1, 1, 3, 3, 3, 3, 7, 8, 8 };
	for (size_t max = 0; max < sizeof(want) / sizeof(want[0]); max++)
		cr_expect_eq(relmq__utf8_cut(text, 8, max), want[max], "at most %zu", max);
}
