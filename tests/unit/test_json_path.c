/* test_json_path.c - the check that guards SQL against what calls itself JSON, and the
 * walk to a value. */
#include <criterion/criterion.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "consumer/handlers/json_path.h"
#include "consumer/handlers/json_text.h"

#define BYTES(literal) literal, sizeof(literal) - 1

/* A copy that ends where the text does, so that one byte too far is caught. */
static char *exact(const char *text, size_t len)
{
	char *copy = malloc(len > 0 ? len : 1);
	cr_assert_not_null(copy);
	memcpy(copy, text, len);
	return copy;
}

static bool checks(const char *text, size_t len, char *why, size_t why_size)
{
	char *copy = exact(text, len);
	bool ok = relmq__json_check(copy, len, why, why_size);
	free(copy);
	return ok;
}

static const struct {
	const char *text;
	size_t len;
} good[] = {
	{ BYTES("{}") },
	{ BYTES("[]") },
	{ BYTES(" [ ] ") },
	{ BYTES("0") },
	{ BYTES("-0") },
	{ BYTES("-0.0e-00") },
	{ BYTES("1E+5") },
	{ BYTES("18446744073709551615") },
	{ BYTES("null") },
	{ BYTES("\ttrue\r\n") },
	{ BYTES("false") },
	{ BYTES("\"\"") },
	{ BYTES("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00fF\"") },
	{ BYTES("\"\\ud83d\\uDE00\"") },
	{ BYTES("\"\\u0000\"") },
	{ BYTES("\"\xf0\x9f\x98\x80\x7f\"") },
	{ BYTES("{\"a\":1e5}") },
	{ BYTES("{ \"a\" : [ 1 , { } , \"]}\" ] , \"a\" : null }") },
};

static const struct {
	const char *text;
	size_t len;
	const char *why;
} bad[] = {
	{ BYTES(""), "it is empty" },
	{ BYTES("  "), "it ends too early (byte 2)" },
	{ BYTES("{\"a\":1;DROP TABLE x}"), "',' or '}' is missing (byte 6)" },
	{ BYTES("{\"a\":1 OR 1=1}"), "',' or '}' is missing (byte 7)" },
	{ BYTES("{\"a\":1--}"), "',' or '}' is missing (byte 6)" },
	{ BYTES("{\"a\":1/*}"), "',' or '}' is missing (byte 6)" },
	{ BYTES("{\"a\":x}"), "no JSON value (byte 5)" },
	{ BYTES("{\"a\":01}"), "a number starts with 0" },
	{ BYTES("{\"a\":-}"), "a digit is missing" },
	{ BYTES("{\"a\":-x}"), "a digit is missing" },
	{ BYTES("{\"a\":+1}"), "no JSON value" },
	{ BYTES("{\"a\":.5}"), "no JSON value" },
	{ BYTES("{\"a\":1.}"), "a digit is missing" },
	{ BYTES("{\"a\":1e}"), "a digit is missing" },
	{ BYTES("{\"a\":1e+-5}"), "a digit is missing" },
	{ BYTES("{\"a\":0x10}"), "',' or '}' is missing" },
	{ BYTES("{\"a\":1_0}"), "',' or '}' is missing" },
	{ BYTES("{\"a\":NaN}"), "no JSON value" },
	{ BYTES("{\"a\":nul}"), "no JSON value" },
	{ BYTES("{\"a\":nullx}"), "',' or '}' is missing" },
	{ BYTES("{\"a\" 1}"), "':' is missing" },
	{ BYTES("{\"a\"}"), "':' is missing" },
	{ BYTES("{\"a\":}"), "no JSON value" },
	{ BYTES("{\"a\":1,}"), "a string is missing" },
	{ BYTES("{,}"), "a string is missing" },
	{ BYTES("{1:2}"), "a string is missing" },
	{ BYTES("{a:2}"), "a string is missing" },
	{ BYTES("{'a':2}"), "a string is missing" },
	{ BYTES("[1 2]"), "',' or ']' is missing (byte 3)" },
	{ BYTES("[1,]"), "no JSON value" },
	{ BYTES("[,1]"), "no JSON value" },
	{ BYTES("[1:2]"), "',' or ']' is missing" },
	{ BYTES("[1}"), "',' or ']' is missing" },
	{ BYTES("{\"a\":1]"), "',' or '}' is missing" },
	{ BYTES("{\"a\":[1}"), "',' or ']' is missing" },
	{ BYTES("{"), "a string is missing" },
	{ BYTES("["), "it ends too early" },
	{ BYTES("[1"), "',' or ']' is missing" },
	{ BYTES("{\"a"), "a string does not end" },
	{ BYTES("\"a\\"), "no such escape" },
	{ BYTES("\"a\\u12"), "no such escape" },
	{ BYTES("\"\\x41\""), "no such escape" },
	{ BYTES("\"\\\0\""), "no such escape" },
	{ BYTES("\"\\u12g4\""), "no such escape" },
	{ BYTES("\"\\ud800\""), "half a surrogate pair" },
	{ BYTES("\"\\ud800x\""), "half a surrogate pair" },
	{ BYTES("\"\\ud800\\ud800\""), "half a surrogate pair" },
	{ BYTES("\"\\udc00\\ud800\""), "half a surrogate pair" },
	{ BYTES("\"\n\""), "a control character" },
	{ BYTES("\"\0\""), "a control character" },
	{ BYTES("\"\xc0\x80\""), "not UTF-8" },
	{ BYTES("\"\xed\xa0\x80\""), "not UTF-8" },
	{ BYTES("\"\xe2\x82\""), "not UTF-8" },
	{ BYTES("\"\xff\""), "not UTF-8" },
	{ BYTES("{}{}"), "something stands behind the value (byte 2)" },
	{ BYTES("1 2"), "something stands behind the value" },
	{ BYTES("1;"), "something stands behind the value" },
	{ BYTES("{}\0"), "something stands behind the value" },
	{ BYTES("\0{}"), "no JSON value" },
	{ BYTES("\xef\xbb\xbf{}"), "no JSON value (byte 0)" },
	{ BYTES("\x0b{}"), "no JSON value" },
};

Test(json_text, accepts_json)
{
	char why[96] = "";
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		cr_expect(checks(good[i].text, good[i].len, why, sizeof(why)), "%s: %s",
		    good[i].text, why);
}

Test(json_text, refuses_everything_else_and_says_why)
{
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char why[96] = "";
		cr_expect_not(checks(bad[i].text, bad[i].len, why, sizeof(why)), "%s", bad[i].text);
		cr_expect_not_null(strstr(why, bad[i].why), "%s: \"%s\", not \"%s\"", bad[i].text,
		    why, bad[i].why);
	}
}

/* A cut text is never JSON, and never read beyond its end. */
Test(json_text, refuses_every_prefix)
{
	static const char whole[] =
	    "{\"a\":[-1.5e+3,true,null,\"\\ud83d\\ude00\\n\"],\"b\":{\"c\":false}}";
	char why[96];
	cr_assert(checks(whole, sizeof(whole) - 1, why, sizeof(why)), "%s", why);
	for (size_t len = 0; len < sizeof(whole) - 1; len++)
		cr_expect_not(checks(whole, len, why, sizeof(why)), "%.*s", (int) len, whole);
}

static bool checks_nested(size_t depth, const char *open, const char *inner, const char *close)
{
	size_t unit = strlen(open), len = depth * (unit + strlen(close)) + strlen(inner);
	char *text = malloc(len + 1), *at = text, why[96];
	cr_assert_not_null(text);
	for (size_t i = 0; i < depth; i++, at += unit)
		memcpy(at, open, unit);
	memcpy(at, inner, strlen(inner));
	at += strlen(inner);
	for (size_t i = 0; i < depth; i++, at += strlen(close))
		memcpy(at, close, strlen(close));
	bool ok = relmq__json_check(text, len, why, sizeof(why));
	cr_expect(ok || strstr(why, "nested too deep") != NULL || close[0] == '\0', "%s", why);
	free(text);
	return ok;
}

Test(json_text, bounds_the_depth)
{
	cr_expect(checks_nested(RELMQ__JSON_DEPTH_MAX, "[", "", "]"));
	cr_expect(checks_nested(RELMQ__JSON_DEPTH_MAX, "{\"a\":", "1", "}"));
	cr_expect_not(checks_nested(RELMQ__JSON_DEPTH_MAX + 1, "[", "", "]"));
	cr_expect_not(checks_nested(RELMQ__JSON_DEPTH_MAX + 1, "{\"a\":", "1", "}"));
	cr_expect_not(checks_nested(16 * 1024 * 1024, "[", "", ""));
}

static const struct {
	const char *text;
	size_t len;
	const char *plain;
	size_t plain_len;
} strings[] = {
	{ BYTES(""), BYTES("") },
	{ BYTES("plain"), BYTES("plain") },
	{ BYTES("\\\"\\\\\\/\\b\\f\\n\\r\\t"), BYTES("\"\\/\b\f\n\r\t") },
	{ BYTES("a\\u0000b"), BYTES("a\0b") },
	{ BYTES("\\u00e9\\u20AC"), BYTES("\xc3\xa9\xe2\x82\xac") },
	{ BYTES("<\\ud83d\\ude00>"), BYTES("<\xf0\x9f\x98\x80>") },
	{ BYTES("\\ud800\\udc00\\udbff\\udfff"), BYTES("\xf0\x90\x80\x80\xf4\x8f\xbf\xbf") },
	{ BYTES("\xf0\x9f\x98\x80\\\\n"), BYTES("\xf0\x9f\x98\x80\\n") },
	{ BYTES("\\u007f\\u0080\\u07ff\\u0800\\uffff"),
	    BYTES("\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf") },
};

Test(json_text, unescapes)
{
	for (size_t i = 0; i < sizeof(strings) / sizeof(strings[0]); i++) {
		relmq__buf out = { 0 };
		char *copy = exact(strings[i].text, strings[i].len);
		relmq__buf_add(&out, "", 0);
		relmq__json_unescape(&out, copy, strings[i].len);
		cr_expect(out.len == strings[i].plain_len &&
		        memcmp(out.data, strings[i].plain, out.len) == 0,
		    "%s", strings[i].text);
		cr_expect(
		    relmq__json_says(copy, strings[i].len, strings[i].plain, strings[i].plain_len),
		    "%s", strings[i].text);
		cr_expect_not(relmq__json_says(copy, strings[i].len, "plai", 4));
		cr_expect_not(relmq__json_says(copy, strings[i].len, "plains", 6));
		free(copy);
		relmq__buf_free(&out);
	}
}

Test(json_text, a_name_is_said_whole)
{
	cr_expect(relmq__json_says(BYTES("a\\u0062"), BYTES("ab")));
	cr_expect_not(relmq__json_says(BYTES("a\\u0062"), BYTES("abc")));
	cr_expect_not(relmq__json_says(BYTES("a\\u0062c"), BYTES("ab")));
	cr_expect_not(relmq__json_says(BYTES("a\\u0062"), BYTES("a")));
	cr_expect_not(relmq__json_says(BYTES("ab"), BYTES("abc")));
}

static const char document[] =
    "{ \"a\" : 1 , \"price\":19.99,\"big\":18446744073709551615,\"neg\":-1.50e+02,"
    "\"a\":2,\"s\":\"q\\\"]}\",\"t\":true,\"f\":false,\"n\":null,"
    "\"e\":{},\"l\":[ ],\"o\":{\"x\":[10,[11,{\"y\":\"deep\"}],12 ] },"
    "\"\":\"empty name\",\"a b.c\":\"quoted\",\"k\\u00e9y\":\"escaped\","
    "\"caf\xc3\xa9\":\"raw\",\"last\":7}";

static const struct {
	const char *path;
	relmq__json_kind kind;
	const char *text;
} finds[] = {
	{ ".a", RELMQ__JSON_NUMBER, "1" }, /* the first of two */
	{ ".price", RELMQ__JSON_NUMBER, "19.99" },
	{ ".big", RELMQ__JSON_NUMBER, "18446744073709551615" },
	{ ".neg", RELMQ__JSON_NUMBER, "-1.50e+02" },
	{ ".s", RELMQ__JSON_STRING, "q\\\"]}" },
	{ ".t", RELMQ__JSON_TRUE, "true" },
	{ ".f", RELMQ__JSON_FALSE, "false" },
	{ ".n", RELMQ__JSON_NULL, "null" },
	{ ".e", RELMQ__JSON_OBJECT, "{}" },
	{ ".e.x", RELMQ__JSON_MISSING, "" },
	{ ".l", RELMQ__JSON_ARRAY, "[ ]" },
	{ ".l[0]", RELMQ__JSON_MISSING, "" },
	{ ".o", RELMQ__JSON_OBJECT, "{\"x\":[10,[11,{\"y\":\"deep\"}],12 ] }" },
	{ ".o.x[0]", RELMQ__JSON_NUMBER, "10" },
	{ ".o.x[1][1].y", RELMQ__JSON_STRING, "deep" },
	{ ".o.x[2]", RELMQ__JSON_NUMBER, "12" },
	{ ".o.x[3]", RELMQ__JSON_MISSING, "" },
	{ ".o.x[999999999]", RELMQ__JSON_MISSING, "" },
	{ ".o[0]", RELMQ__JSON_MISSING, "" }, /* an index into an object */
	{ ".l.x", RELMQ__JSON_MISSING, "" },  /* a name in an array      */
	{ ".a.x", RELMQ__JSON_MISSING, "" },  /* anything in a number    */
	{ ".s[0]", RELMQ__JSON_MISSING, "" },
	{ ".n.x", RELMQ__JSON_MISSING, "" },
	{ ".A", RELMQ__JSON_MISSING, "" }, /* names compare as bytes  */
	{ ".\"\"", RELMQ__JSON_STRING, "empty name" },
	{ ".\"a b.c\"", RELMQ__JSON_STRING, "quoted" },
	{ ".k\xc3\xa9y", RELMQ__JSON_STRING, "escaped" },
	{ ".caf\xc3\xa9", RELMQ__JSON_STRING, "raw" },
	{ ".last", RELMQ__JSON_NUMBER, "7" },
	{ "", RELMQ__JSON_OBJECT, document },
};

Test(json_path, finds)
{
	char why[96] = "", *copy = exact(document, sizeof(document) - 1);
	cr_assert(relmq__json_check(copy, sizeof(document) - 1, why, sizeof(why)), "%s", why);
	for (size_t i = 0; i < sizeof(finds) / sizeof(finds[0]); i++) {
		relmq__json_step steps[RELMQ__JSON_STEPS_MAX];
		size_t count = 0, len = strlen(finds[i].path);
		cr_assert_eq(relmq__json_steps(finds[i].path, len, steps, &count), len);
		relmq__json_value v = relmq__json_find(copy, sizeof(document) - 1, steps, count);
		cr_expect_eq(v.kind, finds[i].kind, "%s: kind %d", finds[i].path, (int) v.kind);
		cr_expect(
		    v.len == strlen(finds[i].text) && memcmp(v.text, finds[i].text, v.len) == 0,
		    "%s: %.*s", finds[i].path, (int) v.len, v.text);
	}
	free(copy);
}

/* A scalar at the top has nothing in it, and its last byte is the text's last. */
Test(json_path, top_is_a_scalar)
{
	static const char *const tops[] = { "5", "\"x\"", "true", "null" };
	relmq__json_step step = { "x", 1, 0 };
	for (size_t i = 0; i < sizeof(tops) / sizeof(tops[0]); i++) {
		size_t len = strlen(tops[i]);
		char *copy = exact(tops[i], len);
		cr_expect_eq(relmq__json_find(copy, len, &step, 1).kind, RELMQ__JSON_MISSING);
		cr_expect_neq(relmq__json_find(copy, len, NULL, 0).kind, RELMQ__JSON_MISSING);
		free(copy);
	}
}

static const struct {
	const char *text;
	size_t used, count;
} paths[] = {
	{ "", 0, 0 },
	{ ", 1", 0, 0 },
	{ ".a, 1", 2, 1 },
	{ ".a[0].b)", 7, 3 },
	{ "[12] ", 4, 1 },
	{ ".\"x y\"-1", 6, 1 },
	{ ".a-1", 2, 1 }, /* a subtraction */
	{ ".", 0, SIZE_MAX },
	{ ".a.", 2, SIZE_MAX },
	{ ".a. b", 2, SIZE_MAX },
	{ ".\"x", 0, SIZE_MAX },
	{ "[]", 0, SIZE_MAX },
	{ "[-1]", 0, SIZE_MAX },
	{ "[x]", 0, SIZE_MAX },
	{ "[1", 0, SIZE_MAX },
	{ "[1 ]", 0, SIZE_MAX },
	{ "[9999999999]", 0, SIZE_MAX },
};

Test(json_path, reads_steps)
{
	relmq__json_step steps[RELMQ__JSON_STEPS_MAX];
	size_t count = 0;
	char deep[2 * RELMQ__JSON_STEPS_MAX + 2];
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		size_t used =
		    relmq__json_steps(paths[i].text, strlen(paths[i].text), steps, &count);
		cr_expect_eq(used, paths[i].used, "%s: used %zu", paths[i].text, used);
		cr_expect_eq(count, paths[i].count, "%s: count %zu", paths[i].text, count);
	}
	for (size_t i = 0; i < sizeof(deep); i++)
		deep[i] = i % 2 == 0 ? '.' : 'a';
	(void) relmq__json_steps(deep, sizeof(deep) - 2, steps, &count);
	cr_expect_eq(count, (size_t) RELMQ__JSON_STEPS_MAX);
	(void) relmq__json_steps(deep, sizeof(deep), steps, &count);
	cr_expect_eq(count, SIZE_MAX);
}
