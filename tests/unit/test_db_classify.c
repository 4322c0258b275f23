/* test_db_classify.c - what to do next, by error number. */
#include <criterion/criterion.h>
#include <string.h>

#include "db/session.h"

static const struct {
	unsigned number;
	relmq__db_class class;
} cases[] = {
	{ 0, RELMQ__DB_OK },
	{ 1205, RELMQ__DB_RETRY_TX }, /* lock wait */
	{ 1213, RELMQ__DB_RETRY_TX }, /* deadlock */
	{ 1020, RELMQ__DB_RETRY_TX }, /* snapshot conflict of MariaDB 11.6 */
	{ 1614, RELMQ__DB_RETRY_TX },
	{ 1317, RELMQ__DB_RETRY_TX }, /* KILL QUERY */
	{ 3572, RELMQ__DB_RETRY_TX },
	{ 1053, RELMQ__DB_RECONNECT }, /* shutdown */
	{ 1154, RELMQ__DB_PERMANENT }, /* just below the net's numbers */
	{ 1155, RELMQ__DB_RECONNECT },
	{ 1161, RELMQ__DB_RECONNECT },
	{ 1162, RELMQ__DB_PERMANENT }, /* just above them */
	{ 1927, RELMQ__DB_RECONNECT }, /* killed, MariaDB */
	{ 2002, RELMQ__DB_RECONNECT },
	{ 2003, RELMQ__DB_RECONNECT },
	{ 2006, RELMQ__DB_RECONNECT },
	{ 2013, RELMQ__DB_RECONNECT },
	{ 2055, RELMQ__DB_RECONNECT },
	{ 4031, RELMQ__DB_RECONNECT }, /* idle, MySQL */
	{ 1021, RELMQ__DB_BACK_OFF },  /* disk full */
	{ 1040, RELMQ__DB_BACK_OFF },
	{ 1114, RELMQ__DB_BACK_OFF },
	{ 1129, RELMQ__DB_BACK_OFF },
	{ 1203, RELMQ__DB_BACK_OFF },
	{ 1226, RELMQ__DB_BACK_OFF },
	{ 1047, RELMQ__DB_FAIL_OVER },
	{ 1290, RELMQ__DB_FAIL_OVER }, /* read-only */
	{ 1792, RELMQ__DB_FAIL_OVER },
	{ 1836, RELMQ__DB_FAIL_OVER },
	{ 1044, RELMQ__DB_PERMANENT }, /* access denied to a database */
	{ 1045, RELMQ__DB_PERMANENT }, /* wrong password */
	{ 1049, RELMQ__DB_PERMANENT },
	{ 1054, RELMQ__DB_PERMANENT },
	{ 1062, RELMQ__DB_PERMANENT }, /* duplicate key */
	{ 1064, RELMQ__DB_PERMANENT },
	{ 1142, RELMQ__DB_PERMANENT },
	{ 1146, RELMQ__DB_PERMANENT },
	{ 1153, RELMQ__DB_PERMANENT }, /* packet too large: it stays so */
	{ 1364, RELMQ__DB_PERMANENT },
	{ 1406, RELMQ__DB_PERMANENT },
	{ 2059, RELMQ__DB_PERMANENT }, /* authentication plugin */
	{ 3819, RELMQ__DB_PERMANENT }, /* CHECK, MySQL */
	{ 4025, RELMQ__DB_PERMANENT }, /* CHECK, MariaDB */
	{ 65535, RELMQ__DB_PERMANENT },
};

Test(db_classify, every_number_has_its_class)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		cr_expect_eq(relmq__db_classify(cases[i].number), cases[i].class,
		    "error %u: class %d, not %d", cases[i].number,
		    (int) relmq__db_classify(cases[i].number), (int) cases[i].class);
}

Test(db_classify, an_outage_is_nobodys_fault)
{
	cr_expect(relmq__db_is_outage(RELMQ__DB_RECONNECT));
	cr_expect(relmq__db_is_outage(RELMQ__DB_BACK_OFF));
	cr_expect(relmq__db_is_outage(RELMQ__DB_FAIL_OVER));
	cr_expect_not(relmq__db_is_outage(RELMQ__DB_OK));
	cr_expect_not(relmq__db_is_outage(RELMQ__DB_RETRY_TX));
	cr_expect_not(relmq__db_is_outage(RELMQ__DB_PERMANENT));
}

Test(db_classify, a_closed_session_wants_a_new_connection)
{
	relmq__db db = { 0 };
	relmq_error err = RELMQ_ERROR_INIT;
	cr_expect_eq(relmq__db_exec(&db, "DO 1", 4, NULL, &err), RELMQ_EDB);
	cr_expect_eq(db.class, RELMQ__DB_RECONNECT);
	cr_expect_eq(err.native, 2006);
	cr_expect_eq(err.flags, RELMQ_F_RETRY | RELMQ_F_TX_LOST);
	cr_expect_str_eq(err.text, "DO: error 2006: not connected");
}

Test(db_classify, an_error_text_holds_no_values)
{
	relmq__db db = { 0 };
	relmq_error err = RELMQ_ERROR_INIT;
	static const char sql[] = "UPDATE users SET password = 'secret'";
	cr_expect_eq(relmq__db_exec(&db, sql, sizeof(sql) - 1, NULL, &err), RELMQ_EDB);
	cr_expect(strstr(err.text, "secret") == NULL, "%s", err.text);
}

Test(db_classify, literals_are_hex)
{
	relmq__buf b = { 0 };
	relmq__sql_bytes(&b, "a'\\\0", 4);
	relmq__buf_adds(&b, ",");
	relmq__sql_text(&b, "\xc3\xa9", 2);
	relmq__buf_adds(&b, ",");
	relmq__sql_bytes(&b, "", 0);
	cr_expect_str_eq(b.data, "X'61275c00',_utf8mb4 X'c3a9',X''");
	relmq__buf_free(&b);
}
