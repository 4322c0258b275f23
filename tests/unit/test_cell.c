/* test_cell.c - what strangers wrote, on a person's terminal. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/cell.h"

enum { CELL, WHOLE, BODY };

/* What is printed of it; valid until the next call. */
static const char *printed(int how, const char *text, size_t len, int width)
{
	static char *out;
	size_t size = 0;
	free(out);
	FILE *f = open_memstream(&out, &size);
	cr_assert_not_null(f);
	if (how == CELL)
		relmq__cell_print(f, text, len, width);
	else if (how == WHOLE)
		relmq__cell_print_whole(f, text, len);
	else
		relmq__cell_print_body(f, text, len);
	(void) fclose(f);
	return out;
}

Test(cell, is_cut_or_filled_by_characters)
{
	cr_expect_str_eq(printed(CELL, "abc", 3, 5), "abc  ");
	cr_expect_str_eq(printed(CELL, "abcdef", 6, 5), "abcde");
	cr_expect_str_eq(printed(CELL, "\u00e9\u00e9\u00e9", 6, 2), "\u00e9\u00e9");
	cr_expect_str_eq(printed(CELL, "", 0, 0), "");
}

Test(cell, nothing_acts_on_the_terminal)
{
	cr_expect_str_eq(printed(CELL, "a\x1b[2J\n\xff", 7, 8), "a.[2J.? ");
	cr_expect_str_eq(printed(CELL, "\0b", 2, 2), ".b");
	cr_expect_str_eq(printed(WHOLE, "a\x1b[\n\xff\0z", 7, 0), "a\\x1b[\\x0a\\xff\\x00z");
	cr_expect_str_eq(printed(WHOLE, "\u202e\xc2\x85", 5, 0), "\\xe2\\x80\\xae\\xc2\\x85");
}

Test(cell, a_body_is_text_or_hex)
{
	cr_expect(relmq__cell_is_text("a\n\tb\u00e9", 6));
	cr_expect_not(relmq__cell_is_text("a\x1b", 2));
	cr_expect_not(relmq__cell_is_text("a\0", 2));
	cr_expect_not(relmq__cell_is_text("\xc3", 1));
	cr_expect_str_eq(printed(BODY, "a\nb", 3, 0), "a\nb\n");
	cr_expect_str_eq(printed(BODY, "\x1b\0\xff", 3, 0), "1b00ff\n");
	cr_expect_str_eq(printed(BODY, "", 0, 0), "\n");
}

Test(cell, an_age_is_short)
{
	char text[RELMQ__AGE_SIZE];
	static const struct {
		int64_t s;
		const char *text;
	} cases[] = { { -1, "?" }, { 0, "0s" }, { 119, "119s" }, { 120, "2m" }, { 7200, "2h" },
		{ 172800, "2d" } };
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		relmq__age_text(cases[i].s, text);
		cr_expect_str_eq(text, cases[i].text);
	}
}
