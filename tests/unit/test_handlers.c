/* test_handlers.c - the callback and plugin kinds: verdicts, and plugins that are none.
 * TEST_PLUGIN is tests/support/test_plugin.c, built; TEST_PLUGIN_OLD for another ABI. */
#include <criterion/criterion.h>
#include <string.h>

#include "consumer/delivery.h"
#include "consumer/handler.h"

static relmq_error err;
static relmq__db no_db;

static relmq_delivery *empty_delivery(void)
{
	relmq__msg *m = relmq__msg_new();
	relmq_delivery *d = m != NULL ? relmq__delivery_new(m) : NULL;
	cr_assert_not_null(d);
	return d;
}

/* --- callback ----------------------------------------------------------------------- */

static relmq_verdict say(relmq_delivery *d, MYSQL *tx, void *arg)
{
	(void) tx;
	relmq_delivery_reason(d, "said");
	return (relmq_verdict) * (int *) arg;
}

static const struct {
	int said;
	relmq_verdict verdict;
	const char *reason;
} verdicts[] = {
	{ RELMQ_DONE, RELMQ_DONE, "said" },
	{ RELMQ_RETRY, RELMQ_RETRY, "said" },
	{ RELMQ_REJECT, RELMQ_REJECT, "said" },
	{ 0, RELMQ_RETRY, "handler returned no verdict" },
	{ 4, RELMQ_RETRY, "handler returned no verdict" },
	{ -1, RELMQ_RETRY, "handler returned no verdict" },
};

Test(callback, only_a_verdict_is_a_verdict)
{
	for (size_t i = 0; i < sizeof(verdicts) / sizeof(verdicts[0]); i++) {
		int said = verdicts[i].said;
		relmq__handler *h = NULL;
		relmq_delivery *d = empty_delivery();
		cr_assert_eq(relmq__handler_callback_open(&h, say, &said, &err), RELMQ_OK);
		cr_expect_null(h->ops->run_batch);
		cr_expect_eq(h->ops->run(h, d, &no_db, NULL), verdicts[i].verdict, "%d", said);
		cr_expect_str_eq(d->reason, verdicts[i].reason, "%d", said);
		relmq__handler_close(h);
		relmq__delivery_free(d);
	}
	relmq__handler_close(NULL);
}

/* --- plugin --------------------------------------------------------------------------- */

static const struct {
	const char *path, *argument, *why;
} refused[] = {
	{ "/nonexistent/x.so", "", "plugin /nonexistent/x.so: cannot open shared object file" },
	{ "/dev/null", "", "plugin /dev/null: file too short" },
	{ "libm.so.6", "", "plugin libm.so.6: it exports no relmq_plugin_entry()" },
	{ TEST_PLUGIN_OLD, "", ": built for plugin ABI 99, this program has 1" },
	{ TEST_PLUGIN, "refuse", ": refused by its argument" },
};

Test(plugin, refuses_what_is_none_and_says_which)
{
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		relmq__handler *h = NULL;
		relmq_code code =
		    relmq__handler_plugin_open(&h, refused[i].path, refused[i].argument, &err);
		cr_expect_eq(code, RELMQ_ECONFIG, "%s", refused[i].path);
		cr_expect_not_null(
		    strstr(err.text, refused[i].why), "%s: %s", refused[i].path, err.text);
		cr_expect_null(h);
	}
}

Test(plugin, is_called_and_closed)
{
	relmq__handler *h = NULL;
	cr_assert_eq(
	    relmq__handler_plugin_open(&h, TEST_PLUGIN, NULL, &err), RELMQ_OK, "%s", err.text);
	cr_expect_null(h->ops->run_batch);
	/* Without a server its INSERT fails: that it says so proves that it was called. */
	relmq_delivery *d = empty_delivery();
	relmq__db db = { .mysql = mysql_init(NULL) };
	cr_expect_eq(h->ops->run(h, d, &db, NULL), RELMQ_RETRY);
	cr_expect_eq(strncmp(d->reason, "(20", 3), 0, "%s", d->reason);
	mysql_close(db.mysql);
	relmq__delivery_free(d);
	relmq__handler_close(h);
}
