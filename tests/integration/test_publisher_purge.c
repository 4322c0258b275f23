/* test_publisher_purge.c - SENT rows that were kept long enough go, nothing else does, and
 * nobody waits for it. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/testoutbox.h"

enum { SOON_MS = 20000, LOAD_MS = 90000 };

static env e;
static proc relay;
static arrived got;

static void start(void)
{
	env_open(&e);
	env_declare(&e, e.queue, NULL);
}

static void stop(void)
{
	proc_kill(&relay);
	arrived_free(&got);
	env_close(&e);
}

TestSuite(purge, .init = start, .fini = stop, .timeout = 180);

static void configure(const char *keys)
{
	env_config(&e, "\"publisher\":{\"lease\":\"2s\",%s}", keys);
}

/* `count` rows (1000 times a power of two) that were sent as long ago as this. */
static void sent_rows(int count, const char *ago)
{
	env_sql(&e,
	    "INSERT INTO message_outbox (msg_id, business_key, routing_key, payload, status, updated_at)"
	    " WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 1000)"
	    " SELECT UUID(), CONCAT('k', i), 'sent', REPEAT('x', 200), 1, NOW(6) - INTERVAL %s FROM n",
	    ago);
	for (int n = 1000; n < count; n *= 2)
		env_sql(&e,
		    "INSERT INTO message_outbox"
		    " (msg_id, business_key, routing_key, payload, status, updated_at)"
		    " SELECT UUID(), business_key, routing_key, payload, status, updated_at"
		    " FROM message_outbox WHERE status = 1 LIMIT %d",
		    n);
}

static int64_t old_rows(const char *than)
{
	return env_number(&e,
	    "SELECT COUNT(*) FROM message_outbox WHERE status = 1 AND updated_at < NOW(6) - INTERVAL %s",
	    than);
}

Test(purge, old_sent_rows_go_and_nothing_else_does)
{
	enum { ROWS = 5000 };
	configure("\"keep_sent\":true,\"sent_retention\":\"1h\",\"max_attempts\":1");
	sent_rows(128000, "2 HOUR");
	env_sql(&e,
	    "UPDATE message_outbox SET updated_at = NOW(6) - INTERVAL 50 MINUTE"
	    " WHERE id > 20000 OR id %% 7 = 0");
	int64_t young = env_number(&e, "SELECT COUNT(*) FROM message_outbox") - old_rows("1 HOUR");
	env_sql(&e,
	    "INSERT INTO message_outbox (msg_id, routing_key, payload, status, next_retry_at,"
	    " updated_at) VALUES ('failed', 'x', 'x', 2, NOW(6) + INTERVAL 1 DAY, '2020-01-01'),"
	    " ('abandoned', 'x', 'x', 3, NULL, '2020-01-01'),"
	    " ('scheduled', 'x', 'x', 4, NOW(6) + INTERVAL 1 DAY, '2020-01-01'),"
	    " ('pending', 'x', 'x', 0, NULL, '2020-01-01')");
	outbox_fill(&e, e.queue, 0, ROWS, 100);
	env_sql(&e, "UPDATE message_outbox SET updated_at = '2020-01-01' WHERE msg_id LIKE 'm-%%'");
	relay = relay_start(&e, NULL);
	proc second = relay_start(&e, NULL);
	EVENTUALLY(LOAD_MS, old_rows("1 HOUR") == 0);
	env_reopen_mq(&e); /* it was silent for long */
	EVENTUALLY(LOAD_MS, env_ready(&e, e.queue) == ROWS);
	cr_expect_eq(proc_stop(&relay, SOON_MS), 0);
	cr_expect_eq(proc_stop(&second, SOON_MS), 0);
	cr_expect_eq(
	    env_number(&e, "SELECT COUNT(*) FROM message_outbox WHERE status = 1"), young + ROWS);
	/* Row "pending" had nowhere to go and was abandoned at once. */
	cr_expect_eq(env_number(&e,
	                 "SELECT COUNT(*) FROM message_outbox WHERE msg_id IN ('failed',"
	                 " 'abandoned', 'scheduled', 'pending') AND status > 1"),
	    4);
	queue_take(&e, e.queue, &got);
	arrived_check(&got, 0, ROWS, 1, 1);
}

Test(purge, a_row_stays_for_as_long_as_is_configured)
{
	configure("\"keep_sent\":true,\"sent_retention\":\"3s\"");
	outbox_fill(&e, e.queue, 0, 300, 30);
	relay = relay_start(&e, NULL);
	EVENTUALLY(SOON_MS, env_ready(&e, e.queue) == 300);
	int64_t end = now_ms() + SOON_MS;
	int64_t left = 300;
	while (left > 0) {
		/* One statement: who is gone although the last of all is younger than that? */
		left = env_number(&e, "SELECT COUNT(*) FROM message_outbox");
		cr_assert_lt(now_ms(), end);
		if (left == 300)
			continue;
		cr_expect_geq(
		    env_number(&e,
		        "SELECT COALESCE(MAX(TIMESTAMPDIFF(MICROSECOND, created_at, NOW(6))),"
		        " 9000000) FROM message_outbox"),
		    3000000);
	}
}

Test(purge, nothing_goes_unless_rows_are_kept_and_not_for_ever)
{
	static const char *const settings[] = { "\"keep_sent\":true,\"sent_retention\":\"0s\"",
		"\"keep_sent\":false,\"sent_retention\":\"1s\"", "\"keep_sent\":true" };
	sent_rows(1000, "2 DAY");
	for (size_t i = 0; i < 3; i++) {
		configure(settings[i]);
		outbox_fill(&e, e.queue, (int) i * 100, 100, 0);
		relay = relay_start(&e, NULL);
		EVENTUALLY(SOON_MS, env_ready(&e, e.queue) == ((int64_t) i + 1) * 100);
		cr_expect_eq(proc_stop(&relay, SOON_MS), 0);
		cr_expect_eq(old_rows("1 DAY"), 1000, "%s", settings[i]);
	}
}

/* Rows that were sent late lie young before older ones, more of them than a page holds. */
Test(purge, late_rows_hide_nothing)
{
	configure("\"keep_sent\":true,\"sent_retention\":\"2s\"");
	sent_rows(4000, "2 HOUR");
	env_sql(
	    &e, "UPDATE message_outbox SET business_key = 'one shard', updated_at = updated_at");
	env_sql(&e,
	    "UPDATE message_outbox SET updated_at = NOW(6) + INTERVAL 1 HOUR"
	    " ORDER BY id LIMIT 1200");
	relay = relay_start(&e, NULL);
	EVENTUALLY(LOAD_MS, old_rows("2 SECOND") == 0);
	cr_expect_eq(outbox_rows(&e), 1200);
	cr_expect_eq(proc_stop(&relay, SOON_MS), 0);
}

/* Somebody has a SENT row locked, somebody else has an insert open: rows are sent, the others are
 * purged, and nobody waits. */
Test(purge, waits_for_nobody)
{
	relmq__db locker;
	relmq__db writer;
	relmq_error err;
	configure("\"keep_sent\":true,\"sent_retention\":\"2s\"");
	sent_rows(4000, "2 HOUR");
	env_session(&e, &locker);
	env_session(&e, &writer);
	cr_assert_eq(relmq__db_execf(&locker, NULL, &err, "START TRANSACTION"), RELMQ_OK);
	cr_assert_eq(relmq__db_execf(&locker, NULL, &err,
	                 "UPDATE message_outbox SET type = 'x' WHERE status = 1 AND id %% 400 = 0"),
	    RELMQ_OK, "%s", err.text);
	cr_assert_eq(relmq__db_execf(&writer, NULL, &err, "START TRANSACTION"), RELMQ_OK);
	cr_assert_eq(relmq__db_execf(&writer, NULL, &err,
	                 "INSERT INTO message_outbox (routing_key, payload, status, updated_at)"
	                 " VALUES ('x', 'x', 1, '2020-01-01')"),
	    RELMQ_OK, "%s", err.text);
	relay = relay_start(&e, NULL);
	int sent = 0;
	int64_t end = now_ms() + LOAD_MS;
	while (old_rows("1 HOUR") > 10) {
		cr_assert_lt(
		    now_ms(), end, "%lld old rows are left", (long long) old_rows("1 HOUR"));
		outbox_fill(&e, e.queue, sent++, 1, 0);
		EVENTUALLY(SOON_MS, env_ready(&e, e.queue) == sent);
	}
	cr_expect_eq(old_rows("1 HOUR"), 10);
	cr_expect_not(proc_said(&relay, "purge"), "it met a lock");
	relmq__db_close(&locker); /* rolls back */
	cr_assert_eq(relmq__db_execf(&writer, NULL, &err, "COMMIT"), RELMQ_OK, "%s", err.text);
	EVENTUALLY(SOON_MS, old_rows("1 HOUR") == 0);
	cr_expect_eq(proc_stop(&relay, SOON_MS), 0);
	relmq__db_close(&writer);
}

/* keep_sent never deleted before there was a retention: an account may lack the privilege. */
Test(purge, an_account_that_may_not_delete_still_sends)
{
	char name[80];
	char sql[256];
	char *own = e.settings.mysql.user;
	(void) snprintf(name, sizeof(name), "%.28s_u", e.name);
	(void) snprintf(sql, sizeof(sql), "CREATE USER '%s'@'%%' IDENTIFIED BY '%s'", name,
	    e.settings.mysql.password);
	admin_sql(&e, sql);
	(void) snprintf(
	    sql, sizeof(sql), "GRANT SELECT, INSERT, UPDATE ON `%s`.* TO '%s'@'%%'", e.name, name);
	admin_sql(&e, sql);
	(void) snprintf(
	    sql, sizeof(sql), "GRANT DELETE ON `%s`.outbox_relay TO '%s'@'%%'", e.name, name);
	admin_sql(&e, sql);
	e.settings.mysql.user = name;
	configure("\"keep_sent\":true,\"sent_retention\":\"2s\"");
	e.settings.mysql.user = own;
	sent_rows(1000, "2 HOUR");
	relay = relay_start(&e, NULL);
	EVENTUALLY(SOON_MS, proc_said(&relay, "SENT rows are not purged"));
	for (int i = 0; i < 3; i++) {
		outbox_fill(&e, e.queue, i * 100, 100, 10);
		EVENTUALLY(SOON_MS, env_ready(&e, e.queue) == (i + 1) * 100);
	}
	cr_expect_eq(proc_stop(&relay, SOON_MS), 0);
	char *log = proc_log(&relay);
	char *first = strstr(log, "not purged");
	cr_expect(first != NULL && strstr(first + 1, "not purged") == NULL, "not once: %s", log);
	cr_expect_null(strstr(log, "outage"), "%s", log);
	free(log);
	cr_expect_eq(outbox_rows(&e), 1300);
	(void) snprintf(sql, sizeof(sql), "DROP USER '%s'@'%%'", name);
	admin_sql(&e, sql);
}
