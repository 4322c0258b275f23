/* test_outage.c - what of an outage is told: its start, each reason once, and its end. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include <relmq/log.h>

#include "base/outage.h"

static relmq__outage o = RELMQ__OUTAGE_INIT("store", "the database");
static int warnings, infos;

static void count(relmq_log_level level, const char *subject, const char *text, void *arg)
{
	(void) arg;
	cr_expect_str_eq(subject, "store");
	cr_expect_not_null(text);
	warnings += level == RELMQ_LOG_WARN;
	infos += level == RELMQ_LOG_INFO;
}

static void start(void)
{
	relmq_log_set(count, RELMQ_LOG_DEBUG, NULL);
}

TestSuite(outage, .init = start);

static void fail(int native)
{
	relmq_error err = RELMQ_ERROR_INIT;
	err.native = native;
	relmq__outage_failed(&o, &err);
}

Test(outage, one_line_at_its_start_and_one_at_its_end)
{
	for (int i = 0; i < 100; i++)
		fail(2003);
	cr_expect_eq(warnings, 1);
	cr_expect_eq(infos, 0);
	relmq__outage_over(&o);
	cr_expect_eq(infos, 1);
	relmq__outage_over(&o);
	cr_expect_eq(infos, 1, "it was over");
	cr_expect_eq(warnings, 1);
}

Test(outage, each_reason_once)
{
	for (int i = 0; i < 100; i++)
		fail(i % 2 == 0 ? 2003 : 2013);
	cr_expect_eq(warnings, 2);
	for (int i = 0; i < 100; i++)
		fail(i);
	cr_expect_leq(warnings, RELMQ__OUTAGE_REASONS);
}

Test(outage, the_next_one_is_told_again)
{
	fail(2003);
	relmq__outage_over(&o);
	fail(2003);
	cr_expect_eq(warnings, 2);
}

Test(outage, tries_come_further_apart_and_at_once_when_it_is_over)
{
	fail(1);
	cr_expect_leq(relmq__outage_wait_ms(&o), 100);
	for (int i = 0; i < 20; i++)
		fail(1);
	/* Between half the cap and the cap; a moment has gone by. */
	cr_expect_geq(relmq__outage_wait_ms(&o), o.backoff.cap_ms / 3);
	cr_expect_leq(relmq__outage_wait_ms(&o), o.backoff.cap_ms);
	relmq__outage_over(&o);
	cr_expect_eq(relmq__outage_wait_ms(&o), 0);
	fail(1);
	cr_expect_leq(relmq__outage_wait_ms(&o), 100);
}

Test(outage, the_same_reason_is_news_of_another_server)
{
	char where[16] = "a:1";
	o.where = where;
	fail(2003);
	(void) snprintf(where, sizeof(where), "b:1");
	fail(2003);
	cr_expect_eq(warnings, 2);
	(void) snprintf(where, sizeof(where), "a:1");
	fail(2003);
	cr_expect_eq(warnings, 2);
}
