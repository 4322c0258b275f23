/* test_sql_template.c - finding parameters, refusing what must not run, and the form that
 * many messages share. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "consumer/handlers/sql_template.h"

/* Parameters render as <kind>, headers and paths with what they look for. */
static void show(relmq__buf *out, const relmq__sql_part *p, void *arg)
{
	static const char *const names[] = { "text", "id", "key", "type", "attempt", "queue",
		"header", "payload", "path" };
	(void) arg;
	relmq__buf_addf(out, "<%s", names[p->kind]);
	if (p->kind == RELMQ__SQL_HEADER)
		relmq__buf_addf(out, " %s", p->header);
	for (size_t i = 0; p->kind == RELMQ__SQL_PAYLOAD_PATH && i < p->step_count; i++) {
		if (p->steps[i].name != NULL)
			relmq__buf_addf(out, " %.*s", (int) p->steps[i].len, p->steps[i].name);
		else
			relmq__buf_addf(out, " %zu", p->steps[i].index);
	}
	relmq__buf_adds(out, ">");
}

static const struct {
	const char *sql, *shown;
} renders[] = {
	{ "SELECT 1", "SELECT 1" },
	{ "SELECT 1 ; ", "SELECT 1 " },
	{ "CALL p(:msg_id,:business_key,:type,:attempt,:queue)",
	    "CALL p(<id>,<key>,<type>,<attempt>,<queue>)" },
	{ ":payload", "<payload>" },
	{ "DO (:payload)", "DO (<payload>)" },
	{ "DO (:payload.path.to[0].field)", "DO (<path path to 0 field>)" },
	{ "DO (:payload[3], :payload.\"a b\"[0])", "DO (<path 3>, <path a b 0>)" },
	{ "DO (:payload.caf\xc3\xa9)", "DO (<path caf\xc3\xa9>)" },
	{ "DO (:header.x-Tenant_1)", "DO (<header x-Tenant_1>)" },
	{ "DO (:header.payload.x)", NULL },
	/* quotes and comments hide everything */
	{ "DO (':msg_id', \":foo\", `:foo`)", "DO (':msg_id', \":foo\", `:foo`)" },
	{ "DO ('a\\':foo', 'b'':foo', \"c\\\":foo\", `d``:foo`)",
	    "DO ('a\\':foo', 'b'':foo', \"c\\\":foo\", `d``:foo`)" },
	{ "DO ('\\\\', :type)", "DO ('\\\\', <type>)" },
	{ "DO (`\\`, :type)", "DO (`\\`, <type>)" }, /* no escape between back quotes */
	{ "DO 1 -- don't :foo; x\n + :type", "DO 1 -- don't :foo; x\n + <type>" },
	{ "DO 1 # don't :foo\n + :type", "DO 1 # don't :foo\n + <type>" },
	{ "DO 1 /* don't :foo; */ + :type", "DO 1 /* don't :foo; */ + <type>" },
	{ "DO 1--2", "DO 1--2" }, /* two minus signs */
	{ "DO 1 --", "DO 1 --" },
	/* a colon that starts no parameter */
	{ "SET @a := :type", "SET @a := <type>" },
	{ "SET @a:=:type", "SET @a:=<type>" },
	{ "DO a::type", "DO a::type" },
	{ "DO a : type", "DO a : type" },
	{ "DO :1", "DO :1" },
	/* a value does not grow together with its neighbours */
	{ "DO 1:payload.n", "DO 1 <path n>" },
	{ "DO 1-:payload.n", "DO 1-<path n>" },
	{ "DO 1--:payload.n + 2", "DO 1--<path n> + 2" }, /* with a blank: a comment */
	{ "DO 1.:payload.n", "DO 1. <path n>" },
	{ "DO 'a':type'b'", "DO 'a' <type> 'b'" },
	{ "DO :type:queue", "DO <type>  <queue>" },
	{ "DO :payload.a-1", "DO <path a>-1" },
	{ "DO :payload[0]x", "DO <path 0> x" },
	{ "DO :payload[0]:type", "DO <path 0>  <type>" },
};

static void render_all(const relmq__sql_template *t, relmq__buf *out)
{
	relmq__buf_reset(out);
	relmq__sql_template_render(t, 0, t->count, out, show, NULL);
	relmq__buf_add(out, "", 0);
}

Test(sql_template, renders)
{
	relmq__buf out = { 0 };
	for (size_t i = 0; i < sizeof(renders) / sizeof(renders[0]); i++) {
		relmq__sql_template t;
		relmq_error err = RELMQ_ERROR_INIT;
		relmq_code code = relmq__sql_template_parse(&t, renders[i].sql, &err);
		cr_expect_eq(code, renders[i].shown != NULL ? RELMQ_OK : RELMQ_ECONFIG, "%s: %s",
		    renders[i].sql, err.text);
		if (code != RELMQ_OK)
			continue;
		render_all(&t, &out);
		cr_expect_str_eq(out.data, renders[i].shown != NULL ? renders[i].shown : "");
		relmq__sql_template_free(&t);
	}
	relmq__buf_free(&out);
}

static const struct {
	const char *sql, *why;
} refused[] = {
	{ "", "empty" },
	{ " \n ; ", "empty" },
	{ "-- only a comment", "empty" },
	{ "DO :foo", "unknown parameter :foo (allowed: :msg_id :business_key" },
	{ "DO :MSG_ID", "unknown parameter :MSG_ID" },
	{ "DO :msg_idx", "unknown parameter :msg_idx" },
	{ "DO :payloads.a", "unknown parameter :payloads" },
	{ "DO :msg_id.a", "malformed parameter :msg_id." },
	{ "DO :queue[0]", "malformed parameter :queue[" },
	{ "DO :header", "malformed parameter :header" },
	{ "DO :header.", "malformed parameter :header." },
	{ "DO :header. x", "malformed parameter :header." },
	{ "DO :payload.", "malformed path in parameter :payload." },
	{ "DO :payload.a..b", "malformed path in parameter :payload.a." },
	{ "DO :payload.a[x]", "malformed path in parameter :payload.a[" },
	{ "DO 'x", "does not end: 'x" },
	{ "DO \"x\\\"", "does not end: \"x" },
	{ "DO `x", "does not end: `x" },
	{ "DO 'x\\", "does not end: 'x" },
	{ "DO 1 /* x", "does not end: /* x" },
	{ "DO 1 /*/", "does not end: /*/" },
	{ "DO 1; DO 2", "only one statement in a text, but after ';' comes: DO 2" },
	{ "DO 1;;", "only one statement" },
	{ "DO 1; /* x */ :type", "only one statement" },
	{ "COMMIT", "COMMIT would end the transaction" },
	{ "/* x */ begin", "BEGIN would end the transaction" },
	{ "start transaction", "START would end" },
	{ "Rollback", "ROLLBACK would end" },
	{ "create table t (a int)", "CREATE would end" },
	{ "TRUNCATE t", "TRUNCATE would end" },
};

Test(sql_template, refuses)
{
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		relmq__sql_template t;
		relmq_error err = RELMQ_ERROR_INIT;
		cr_expect_eq(relmq__sql_template_parse(&t, refused[i].sql, &err), RELMQ_ECONFIG,
		    "%s", refused[i].sql);
		cr_expect_not_null(
		    strstr(err.text, refused[i].why), "%s: \"%s\"", refused[i].sql, err.text);
		cr_expect_null(t.parts);
	}
}

static const struct {
	const char *sql;
	const char *head, *tuple, *tail; /* head NULL: has no form for many */
} inserts[] = {
	{ "INSERT INTO t VALUES (:msg_id)", "INSERT INTO t VALUES ", "(<id>)", "" },
	{ "insert ignore into `d b`.`t)` (a, `b(`) values(:msg_id, ')', (:type));",
	    "insert ignore into `d b`.`t)` (a, `b(`) values", "(<id>, ')', (<type>))", "" },
	{ "INSERT INTO t (a) VALUES (1)\n ON DUPLICATE KEY UPDATE n = n + VALUES(a)",
	    "INSERT INTO t (a) VALUES ", "(1)", "\n ON DUPLICATE KEY UPDATE n = n + VALUES(a)" },
	{ "INSERT INTO t VALUES (:type) AS new ON DUPLICATE KEY UPDATE a = new.a",
	    "INSERT INTO t VALUES ", "(<type>)", " AS new ON DUPLICATE KEY UPDATE a = new.a" },
	/* the comment must not swallow the next tuple */
	{ "INSERT INTO t VALUES (:type) -- note", "INSERT INTO t VALUES ", "(<type>)", " -- note" },
	{ "INSERT INTO t VALUES (:type -- )\n) # note\n", "INSERT INTO t VALUES ",
	    "(<type> -- )\n)", " # note\n" },
	{ "/* a */ INSERT /* b */ INTO t VALUES (COALESCE(:type, 'SELECT'))",
	    "/* a */ INSERT /* b */ INTO t VALUES ", "(COALESCE(<type>, 'SELECT'))", "" },
	{ "INSERT INTO t VALUES (:type), (:queue)", NULL, NULL, NULL },
	{ "INSERT INTO t VALUES (1) ON DUPLICATE KEY UPDATE a = :type", NULL, NULL, NULL },
	{ "INSERT INTO t VALUES (:type) RETURNING a", NULL, NULL, NULL },
	{ "INSERT INTO t VALUES ((SELECT MAX(a) FROM u))", NULL, NULL, NULL },
	{ "INSERT INTO t VALUES (last_insert_id())", NULL, NULL, NULL },
	{ "INSERT INTO t VALUES (1) ON DUPLICATE KEY UPDATE a = LAST_INSERT_ID(a)", NULL, NULL,
	    NULL },
	{ "INSERT INTO t SELECT :type", NULL, NULL, NULL },
	{ "INSERT INTO t SET a = :type", NULL, NULL, NULL },
	{ "INSERT INTO t VALUES (:type", NULL, NULL, NULL },
	{ "INSERT INTO t VALUES", NULL, NULL, NULL },
	{ "INSERT LOW_PRIORITY INTO t VALUES (1)", NULL, NULL, NULL },
	{ "INSERT INTO t PARTITION (p) VALUES (1)", NULL, NULL, NULL },
	{ "REPLACE INTO t VALUES (1)", NULL, NULL, NULL },
	{ "UPDATE t SET a = :type", NULL, NULL, NULL },
	{ "DELETE FROM t WHERE a IN (:type)", NULL, NULL, NULL },
};

static void expect_parts(
    const relmq__sql_template *t, size_t from, size_t to, const char *shown, const char *sql)
{
	relmq__buf out = { 0 };
	relmq__sql_template_render(t, from, to, &out, show, NULL);
	relmq__buf_add(&out, "", 0);
	cr_expect_str_eq(out.data, shown, "%s", sql);
	relmq__buf_free(&out);
}

Test(sql_template, finds_the_tuple_of_an_insert)
{
	for (size_t i = 0; i < sizeof(inserts) / sizeof(inserts[0]); i++) {
		relmq__sql_template t;
		relmq_error err = RELMQ_ERROR_INIT;
		const char *sql = inserts[i].sql;
		cr_assert_eq(
		    relmq__sql_template_parse(&t, sql, &err), RELMQ_OK, "%s: %s", sql, err.text);
		cr_expect_eq(t.tuple_to > 0, inserts[i].head != NULL, "%s", sql);
		if (t.tuple_to > 0 && inserts[i].head != NULL) {
			expect_parts(&t, 0, t.tuple_from, inserts[i].head, sql);
			expect_parts(&t, t.tuple_from, t.tuple_to, inserts[i].tuple, sql);
			expect_parts(&t, t.tuple_to, t.count, inserts[i].tail, sql);
		}
		relmq__sql_template_free(&t);
	}
}

Test(sql_template, knows_whether_the_payload_is_read_as_json)
{
	relmq__sql_template t;
	cr_assert_eq(relmq__sql_template_parse(&t, "DO (:payload, ':payload.a', :header.a)", NULL),
	    RELMQ_OK);
	cr_expect_not(t.reads_json);
	relmq__sql_template_free(&t);
	cr_assert_eq(relmq__sql_template_parse(&t, "DO (:payload.a)", NULL), RELMQ_OK);
	cr_expect(t.reads_json);
	relmq__sql_template_free(&t);
}
