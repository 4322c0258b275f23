/* test_config.c - the table-driven reader, by a table of its own. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "base/duration.h"
#include "scratch.h"

typedef struct inner {
	int64_t n;
	char *must;
} inner;

typedef struct outer {
	char *text, *path, *secret;
	bool flag;
	int64_t number, wait, seconds;
	int colour;
	char **words;
	size_t word_count;
	int64_t *waits;
	size_t wait_count;
	char **tiers;
	size_t tier_count;
	inner *list;
	size_t list_count;
	struct {
		int64_t n;
	} sub;
} outer;

#define OUTER(m, T) .offset = RELMQ__CONFIG_AT(outer, m, T)
#define COUNT(m)    .count_offset = RELMQ__CONFIG_AT(outer, m, size_t)

static const char *const colours[] = { "red", "green", NULL };
static const relmq__config_key word_item = { .type = RELMQ__CONFIG_STRING, .min = 1, .max = 3 };
static const relmq__config_key wait_item = {
	.type = RELMQ__CONFIG_DURATION, .min = 1, .max = 1000
};
static const relmq__config_key tier_item = {
	.type = RELMQ__CONFIG_DURATION_TEXT, .min = 1, .max = 600000
};
static const relmq__config_key inner_keys[] = {
	{ "n", RELMQ__CONFIG_INT, .offset = offsetof(inner, n), .fallback = "3", .max = 9 },
	{ "must", RELMQ__CONFIG_STRING, .offset = offsetof(inner, must), .min = 1, .max = 5,
	    .flags = RELMQ__CONFIG_REQUIRED },
	{ .key = NULL },
};
static const relmq__config_key inner_item = { .type = RELMQ__CONFIG_OBJECT, .sub = inner_keys };
static const relmq__config_key sub_keys[] = {
	{ "n", RELMQ__CONFIG_INT, .fallback = "-4", .min = -5, .max = 5, .help = "A number" },
	{ .key = NULL },
};
static const relmq__config_key table[] = {
	{ "text", RELMQ__CONFIG_STRING, OUTER(text, char *), .fallback = "dflt", .max = 8 },
	{ "path", RELMQ__CONFIG_PATH, OUTER(path, char *), .fallback = "", .max = 99 },
	{ "secret", RELMQ__CONFIG_SECRET, OUTER(secret, char *) },
	{ "flag", RELMQ__CONFIG_BOOL, OUTER(flag, bool), .fallback = "true" },
	{ "number", RELMQ__CONFIG_INT, OUTER(number, int64_t), .fallback = "7", .min = 1,
	    .max = 10 },
	{ "wait", RELMQ__CONFIG_DURATION, OUTER(wait, int64_t), .fallback = "2s", .min = 20,
	    .max = 3600000 },
	{ "seconds", RELMQ__CONFIG_DURATION, OUTER(seconds, int64_t), .fallback = "2s", .min = 1000,
	    .max = 60000, .flags = RELMQ__CONFIG_WHOLE_SECONDS },
	{ "colour", RELMQ__CONFIG_CHOICE, OUTER(colour, int), .fallback = "green",
	    .choices = colours },
	{ "words", RELMQ__CONFIG_LIST, OUTER(words, char **), COUNT(word_count), .fallback = "a bc",
	    .max = 3, .sub = &word_item, .size = sizeof(char *) },
	{ "waits", RELMQ__CONFIG_LIST, OUTER(waits, int64_t *), COUNT(wait_count),
	    .fallback = "5ms", .min = 1, .max = 2, .sub = &wait_item, .size = sizeof(int64_t) },
	{ "tiers", RELMQ__CONFIG_LIST, OUTER(tiers, char **), COUNT(tier_count), .max = 9,
	    .flags = RELMQ__CONFIG_UNIQUE, .sub = &tier_item, .size = sizeof(char *) },
	{ "list", RELMQ__CONFIG_LIST, OUTER(list, inner *), COUNT(list_count), .max = 3,
	    .sub = &inner_item, .size = sizeof(inner) },
	{ "sub", RELMQ__CONFIG_OBJECT, .offset = offsetof(outer, sub), .sub = sub_keys },
	{ .key = NULL },
};

static relmq_code load(const char *json, outer *o, relmq_error *err)
{
	memset(o, 0, sizeof(*o));
	return relmq__config_read(table, scratch_text("c.json", json), o, err);
}

Test(config, an_empty_object_is_all_defaults, .fini = scratch_remove)
{
	outer o;
	relmq_error err = RELMQ_ERROR_INIT;
	cr_assert_eq(load("{}", &o, &err), RELMQ_OK, "%s", err.text);
	cr_expect_str_eq(o.text, "dflt");
	cr_expect_str_empty(o.path);
	cr_expect(o.flag);
	cr_expect_eq(o.number, 7);
	cr_expect_eq(o.wait, 2000);
	cr_expect_eq(o.colour, 1);
	cr_assert_eq(o.word_count, 2);
	cr_expect_str_eq(o.words[1], "bc");
	cr_assert_eq(o.wait_count, 1);
	cr_expect_eq(o.waits[0], 5);
	cr_expect_eq(o.tier_count, 0);
	cr_expect_eq(o.list_count, 0);
	cr_expect_eq(o.sub.n, -4);
	relmq__config_free(table, &o);
	cr_expect_null(o.text);
	cr_expect_null(o.words);
	cr_expect_eq(o.word_count, 0);
	relmq__config_free(table, &o);
}

Test(config, every_type_is_read, .fini = scratch_remove)
{
	outer o;
	relmq_error err = RELMQ_ERROR_INIT;
	relmq_code rc =
	    load("{\"text\":\"\xc3\xa9\",\"path\":\"/abs\",\"flag\":false,\"number\":10,"
	         "\"wait\":\"1h\",\"seconds\":\"3000ms\",\"colour\":\"red\","
	         "\"words\":[\"x\",\"y\",\"xyz\"],\"waits\":[\"1s\",\"9ms\"],"
	         "\"tiers\":[\"60s\",\"5s\"],\"sub\":{\"n\":5},"
	         "\"list\":[{\"must\":\"a\"},{\"n\":0,\"must\":\"b\"}]}",
	        &o, &err);
	cr_assert_eq(rc, RELMQ_OK, "%s", err.text);
	cr_expect_str_eq(o.text, "\xc3\xa9");
	cr_expect_str_eq(o.path, "/abs");
	cr_expect_not(o.flag);
	cr_expect_eq(o.number, 10);
	cr_expect_eq(o.wait, 3600000);
	cr_expect_eq(o.seconds, 3000);
	cr_expect_eq(o.colour, 0);
	cr_assert_eq(o.word_count, 3);
	cr_expect_str_eq(o.words[2], "xyz");
	cr_assert_eq(o.wait_count, 2);
	cr_expect_eq(o.waits[1], 9);
	cr_assert_eq(o.tier_count, 2);
	cr_expect_str_eq(o.tiers[0], "60s", "kept as written");
	cr_assert_eq(o.list_count, 2);
	cr_expect_eq(o.list[0].n, 3);
	cr_expect_eq(o.list[1].n, 0);
	cr_expect_str_eq(o.list[1].must, "b");
	cr_expect_eq(o.sub.n, 5);
	relmq__config_free(table, &o);
}

static const struct {
	const char *json, *text; /* what follows the file's name */
} bad[] = {
	{ "", ":1:0: not valid JSON: '[' or '{' expected" },
	{ "[]", ": must be a JSON object" },
	{ "{\n\"text\": x}", ":2:9: not valid JSON: invalid token" },
	{ "{\"text\":\"\xff\"}", ":1:9: not valid JSON: unable to decode byte 0xff" },
	{ "{} {}", ":1:4: not valid JSON: end of file expected" },
	{ "{\"flag\":true,\n\"flag\":true}",
	    ":2:6: not valid JSON: duplicate object key near "
	    "'\"flag\"'" },
	{ "{\"sub\":{\"n\":1,\"n\":2}}",
	    ":1:17: not valid JSON: duplicate object key near '\"n\"'" },
	{ "{\"text\":\"123456789\"}", ": text: must be text of at most 8 bytes, is \"123456789\"" },
	{ "{\"text\":\"a\\u0000b\"}", ": text: has a NUL inside" },
	{ "{\"words\":[\"\\u0000\"]}", ": words[0]: has a NUL inside" },
	{ "{\"text\":5}", ": text: must be text of at most 8 bytes, is 5" },
	{ "{\"text\":null}", ": text: must be text of at most 8 bytes, is null" },
	{ "{\"flag\":1}", ": flag: must be true or false, is 1" },
	{ "{\"flag\":\"true\"}", ": flag: must be true or false, is \"true\"" },
	{ "{\"number\":0}", ": number: must be a whole number from 1 to 10, is 0" },
	{ "{\"number\":11}", ": number: must be a whole number from 1 to 10, is 11" },
	{ "{\"number\":5.5}", ": number: must be a whole number from 1 to 10, is 5.5" },
	{ "{\"number\":\"5\"}", ": number: must be a whole number from 1 to 10, is \"5\"" },
	{ "{\"number\":{}}", ": number: must be a whole number from 1 to 10, is an object" },
	{ "{\"wait\":5}",
	    ": wait: must be a duration like \"5s\", from \"20ms\" to \"1h\" (units ms, "
	    "s, m, h, d), is 5" },
	{ "{\"wait\":\"5\"}",
	    ": wait: must be a duration like \"5s\", from \"20ms\" to \"1h\" (units "
	    "ms, s, m, h, d), is \"5\"" },
	{ "{\"wait\":\"19ms\"}",
	    ": wait: must be a duration like \"5s\", from \"20ms\" to \"1h\" "
	    "(units ms, s, m, h, d), is \"19ms\"" },
	{ "{\"seconds\":\"1500ms\"}",
	    ": seconds: must be a duration like \"5s\", from \"1s\" to "
	    "\"1m\" (units s, m, h, d), is \"1500ms\"" },
	{ "{\"colour\":\"blue\"}", ": colour: must be \"red\" or \"green\", is \"blue\"" },
	{ "{\"colour\":\"Red\"}", ": colour: must be \"red\" or \"green\", is \"Red\"" },
	{ "{\"words\":\"a\"}", ": words: must be a list of 0 to 3 texts, is \"a\"" },
	{ "{\"words\":[\"a\",\"b\",\"c\",\"d\"]}",
	    ": words: must be a list of 0 to 3 texts, is a "
	    "list of 4" },
	{ "{\"words\":[\"a\",\"\"]}", ": words[1]: must be text of 1 to 3 bytes, is \"\"" },
	{ "{\"waits\":[]}", ": waits: must be a list of 1 to 2 durations, is a list of 0" },
	{ "{\"tiers\":[\"1s\",\"5s\",\"1000ms\"]}",
	    ": tiers[2]: \"1000ms\" is the same as \"1s\" "
	    "before it" },
	{ "{\"list\":[5]}", ": list[0]: must be an object, is 5" },
	{ "{\"list\":[{\"must\":\"a\"},{\"n\":1}]}",
	    ": list[1].must: is missing; must be text of 1 "
	    "to 5 bytes" },
	{ "{\"list\":[{\"must\":\"a\",\"n\":10}]}",
	    ": list[0].n: must be a whole number from 0 to 9, "
	    "is 10" },
	{ "{\"sub\":[1,2]}", ": sub: must be an object, is a list of 2" },
	{ "{\"sub\":{\"m\":1}}", ": sub: unknown key \"m\"; did you mean \"n\"? Allowed here: n" },
	{ "{\"sub\":{\"quite other\\n\":1}}",
	    ": sub: unknown key \"quite other\\u000a\"; allowed "
	    "here: n" },
	{ "{\"nubmer\":1}",
	    ": unknown key \"nubmer\"; did you mean \"number\"? Allowed here: text, "
	    "path, flag, number, wait, seconds, colour, words, waits, tiers, list, sub" },
	{ "{\"secret\":\"hunter2\"}",
	    ": secret: a secret does not belong here; see the key "
	    "secret_file" },
	{ "{\"secret\":5}", ": secret: a secret does not belong here; see the key secret_file" },
	{ "{\"text\":\"0123456789012345678901234567890123456789abc\"}",
	    ": text: must be text of at most 8 bytes, is "
	    "\"012345678901234567890123456789012345678..." },
};

Test(config, a_refusal_says_where_what_is_allowed_and_what_is_there, .fini = scratch_remove)
{
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		outer o;
		static const outer zero;
		relmq_error err = RELMQ_ERROR_INIT;
		cr_expect_eq(load(bad[i].json, &o, &err), RELMQ_ECONFIG, "%s", bad[i].json);
		cr_expect_eq(err.flags, RELMQ_F_FATAL);
		const char *text = strstr(err.text, "c.json");
		cr_assert_not_null(text, "no file in: %s", err.text);
		cr_expect_str_eq(text + strlen("c.json"), bad[i].text);
		cr_expect_eq(o.text, zero.text, "something is left to free");
		cr_expect_eq(o.words, zero.words);
		cr_expect_eq(o.list, zero.list);
	}
}

/* Where a mistake is in a line that a secret stands on, the text around it is not shown. */
Test(config, a_syntax_error_quotes_nothing, .fini = scratch_remove)
{
	outer o;
	relmq_error err;
	cr_assert_eq(load("{\"secret\": hunter2}", &o, &err), RELMQ_ECONFIG);
	cr_expect_null(strstr(err.text, "hunter2"), "%s", err.text);
}

Test(config, what_does_not_fit_the_record_is_cut_at_its_end, .fini = scratch_remove)
{
	relmq_error err;
	char file[300];
	memset(file, 'f', sizeof(file));
	memcpy(file + sizeof(file) - 9, "/end.json", 10 - 1);
	file[sizeof(file) - 1] = '\0';
	(void) relmq__config_refuse(&err, file, "key: %0300d", 1);
	cr_expect_eq(err.code, RELMQ_ECONFIG);
	cr_expect_eq(strncmp(err.text, "...ffff", 7), 0);
	cr_expect_not_null(strstr(err.text, "/end.jso: key: 000"), "%s", err.text);
	cr_expect_eq(strlen(err.text), sizeof(err.text) - 1);
	cr_expect_str_eq(err.text + strlen(err.text) - 4, "0...");
	cr_expect_eq(relmq__config_refuse(NULL, "f", "x"), RELMQ_ECONFIG);
}

Test(config, files_that_cannot_be_read)
{
	static const struct {
		const char *file, *text;
		int native;
	} files[] = {
		{ "/nonexistent/c.json",
		    "/nonexistent/c.json: cannot read: No such file or directory", ENOENT },
		{ "/", "/: cannot read: Is a directory", EISDIR },
		{ "/dev/zero", "/dev/zero: is larger than 1048576 bytes", 0 },
	};
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		outer o = { 0 };
		relmq_error err;
		cr_expect_eq(relmq__config_read(table, files[i].file, &o, &err), RELMQ_ECONFIG);
		cr_expect_str_eq(err.text, files[i].text);
		cr_expect_eq(err.native, files[i].native);
		cr_expect_eq(err.origin, files[i].native != 0 ? RELMQ_FROM_OS : RELMQ_FROM_LIB);
	}
}

Test(config, a_relative_path_starts_at_the_file, .fini = scratch_remove)
{
	outer o = { 0 };
	char want[128];
	char *full;
	const char *file = scratch_text("c.json", "{\"path\":\"sub/pw\"}");
	cr_assert_eq(relmq__config_read(table, file, &o, NULL), RELMQ_OK);
	full = realpath(scratch, NULL);
	(void) snprintf(want, sizeof(want), "%s/sub/pw", full);
	cr_expect_str_eq(o.path, want);
	relmq__config_free(table, &o);
	cr_assert_eq(chdir(scratch), 0);
	cr_assert_eq(relmq__config_read(table, "c.json", &o, NULL), RELMQ_OK);
	cr_expect_str_eq(o.path, want);
	relmq__config_free(table, &o);
	free(full);
}

Test(config, what_is_shown_can_be_read_again, .fini = scratch_remove)
{
	outer o, again;
	relmq_error err = RELMQ_ERROR_INIT;
	relmq__buf first = { 0 }, second = { 0 };
	cr_assert_eq(load("{\"text\":\"\\\"\\u001b\xc3\xa9\",\"wait\":\"90s\",\"tiers\":[\"60s\"],"
	                  "\"list\":[{\"must\":\"a\"},{\"must\":\"b\"}]}",
	                 &o, &err),
	    RELMQ_OK, "%s", err.text);
	free(o.secret);
	o.secret = strdup("hunter2");
	relmq__config_show(table, &o, &first);
	cr_expect_null(strstr(first.data, "hunter2"));
	cr_expect_not_null(strstr(first.data, "\"secret\": \"(hidden)\""));
	cr_assert_eq(load(first.data, &again, &err), RELMQ_OK, "%s", err.text);
	cr_expect_str_empty(again.secret, "the placeholder is no secret");
	relmq__config_show(table, &again, &second);
	char *none = strstr(second.data, "(none)");
	cr_assert_not_null(none);
	cr_expect_eq(first.len - second.len, strlen("(hidden)") - strlen("(none)"));
	cr_expect_eq(strncmp(first.data, second.data, (size_t) (none - second.data)), 0);
	cr_expect_str_eq(strstr(first.data, "\"flag\""), strstr(second.data, "\"flag\""));
	cr_expect_eq(again.wait, 90000);
	cr_expect_str_eq(again.tiers[0], "60s");
	relmq__buf_free(&first);
	relmq__buf_free(&second);
	relmq__config_free(table, &o);
	relmq__config_free(table, &again);
}

Test(config, the_reference_has_every_key)
{
	relmq__buf out = { 0 };
	relmq__config_reference(sub_keys, &out);
	cr_expect_str_eq(out.data, "n = -4\n    A number; a whole number from -5 to 5\n");
	relmq__buf_free(&out);
}

static const struct {
	const char *text;
	int64_t ms;
} durations[] = {
	{ "0ms", 0 },
	{ "0s", 0 },
	{ "20ms", 20 },
	{ "5s", 5000 },
	{ "1m", 60000 },
	{ "2h", 7200000 },
	{ "7d", 604800000 },
	{ "9223372036854775799ms", INT64_C(9223372036854775799) },
	{ "106751991167d", INT64_C(9223372036828800000) },
	{ "106751991168d", -1 },
	{ "99999999999999999999s", -1 },
	{ "", -1 },
	{ "5", -1 },
	{ "s", -1 },
	{ "5 s", -1 },
	{ " 5s", -1 },
	{ "5s ", -1 },
	{ "5S", -1 },
	{ "05s", -1 },
	{ "00s", -1 },
	{ "-5s", -1 },
	{ "+5s", -1 },
	{ "1.5s", -1 },
	{ "1m30s", -1 },
	{ "5sec", -1 },
	{ "0x5s", -1 },
};

Test(duration, texts_to_milliseconds_and_back)
{
	for (size_t i = 0; i < sizeof(durations) / sizeof(durations[0]); i++)
		cr_expect_eq(relmq__duration_ms(durations[i].text), durations[i].ms, "\"%s\"",
		    durations[i].text);
	for (int64_t ms = 0; ms < INT64_MAX / 3; ms = ms * 2 + 500) {
		char text[RELMQ__DURATION_SIZE];
		relmq__duration_text(ms, text);
		cr_expect_eq(relmq__duration_ms(text), ms, "%s", text);
	}
	char text[RELMQ__DURATION_SIZE];
	relmq__duration_text(7200000, text);
	cr_expect_str_eq(text, "2h");
	relmq__duration_text(1500, text);
	cr_expect_str_eq(text, "1500ms");
}
