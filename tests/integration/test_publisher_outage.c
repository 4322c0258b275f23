/* test_publisher_outage.c - the servers die under the relay's hands. Each restart takes
 * seconds, so a test proves several things about one run. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/testoutbox.h"

enum { LOAD_MS = 60000, SOON_MS = 15000, SURVIVORS = 100 };

static env e;
static proc relay;
static arrived got;

static void start(void)
{
	env_open(&e);
	env_declare(&e, e.queue, NULL);
	env_config(&e, "\"publisher\":{\"lease\":\"2s\"}");
}

static void stop(void)
{
	proc_kill(&relay);
	arrived_free(&got);
	env_close(&e);
}

TestSuite(outage, .init = start, .fini = stop, .timeout = 300);

static int lines_with(const char *text)
{
	int lines = 0;
	char *log = proc_log(&relay);
	for (char *at = log; (at = strstr(at, text)) != NULL; at++)
		lines++;
	free(log);
	return lines;
}

static void expect_uncharged(void)
{
	char *log = proc_log(&relay);
	cr_expect_not_null(strstr(log, " 0 refused, 0 abandoned"), "%s", log);
	free(log);
}

static void expect_stopped(void)
{
	int status = proc_stop(&relay, SOON_MS);
	cr_expect_eq(status, 0, "exit status %d", status);
}

/* --- a load that keeps flowing ---------------------------------------------------------------- */

/* Rows come all the time, so that every blow falls into work; while they cannot go, a
 * bounded number waits. */
typedef struct feeder {
	pthread_t thread;
	int least;
	atomic_bool enough; /* stop once `least` rows are written */
	atomic_int rows;    /* written */
} feeder;

enum { FEED_ROWS = 100, FEED_PAUSE_MS = 50, BACKLOG_MAX = 3000, FEED_KEYS = 500 };

static void *feed(void *arg)
{
	feeder *f = arg;
	env own = e; /* the settings and names; a session of its own */
	env_session(&e, &own.db);
	while (f->rows < f->least || !atomic_load(&f->enough)) {
		if (outbox_rows(&own) < BACKLOG_MAX) {
			outbox_fill(&own, e.queue, f->rows, FEED_ROWS, FEED_KEYS);
			f->rows += FEED_ROWS;
		}
		pause_ms(FEED_PAUSE_MS);
	}
	relmq__db_close(&own.db);
	return NULL;
}

static void start_feeding(feeder *f, int least)
{
	f->least = least;
	cr_assert_eq(pthread_create(&f->thread, NULL, feed, f), 0);
}

/* Rows written by now are sent, and the flow goes on. */
static void await_flow(feeder *f)
{
	int rows = atomic_load(&f->rows);
	EVENTUALLY(LOAD_MS,
	    env_number(&e, "SELECT COUNT(*) FROM message_outbox WHERE msg_id < 'm-%06d'", rows) ==
	        0);
}

/* --- the broker --------------------------------------------------------------------------------- */

static char *classic(void)
{
	static char name[96];
	(void) snprintf(name, sizeof(name), "%s.classic", e.name);
	return name;
}

static void publish_survivors(void)
{
	cr_assert_not_null(amqp_queue_declare(e.mq.state, RELMQ__CHANNEL,
	    amqp_cstring_bytes(classic()), 0, 1, 0, 0, amqp_empty_table));
	outbox_fill(&e, classic(), 500000, SURVIVORS, 0);
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 0);
}

static void expect_survivors(void)
{
	arrived survivors = { 0 };
	queue_take(&e, classic(), &survivors);
	arrived_check(&survivors, 500000, SURVIVORS, 1, 1);
	arrived_free(&survivors);
	env_delete_queue(&e, classic());
}

/* Stopped and started inside its process, which is quick, then as a whole, then killed. */
static void strike(int blow)
{
	if (blow <= 2) {
		cr_assert_eq(env_ctl("stop_app"), 0);
		cr_assert_eq(env_ctl("start_app"), 0);
		return;
	}
	env_stack(blow == 3 ? "restart-broker" : "kill-broker");
	env_stack("start-broker");
}

/* Restarted three times and killed once in a run of 20,000 rows. Tags start anew with each
 * connection; a message in a durable queue is there after a restart; a write to a dead
 * socket kills nobody; and of an outage there is one line at its start and one at its end. */
Test(outage, the_broker_is_restarted_three_times_and_killed_once)
{
	enum { ROWS = 20000, BLOWS = 4 };
	feeder f = { .least = 0 };
	relay = relay_start(&e, NULL);
	publish_survivors();
	start_feeding(&f, ROWS);
	for (int i = 1; i <= BLOWS; i++) {
		await_flow(&f);
		strike(i);
		EVENTUALLY(LOAD_MS, lines_with("is back after") == i);
	}
	await_flow(&f);
	atomic_store(&f.enough, true);
	(void) pthread_join(f.thread, NULL);
	EVENTUALLY(LOAD_MS, outbox_rows(&e) == 0);
	cr_assert(proc_running(&relay));
	expect_stopped();
	expect_uncharged();
	env_reopen_mq(&e);
	queue_take(&e, e.queue, &got);
	arrived_check(&got, 0, f.rows, 1, BLOWS + 1);
	arrived_in_order(&got);
	expect_survivors();
}

/* --- the database -------------------------------------------------------------------------------- */

Test(outage, the_database_is_restarted_and_killed)
{
	enum { ROWS = 12000 };
	outbox_fill(&e, e.queue, 0, ROWS, 500);
	relay = relay_start(&e, NULL);
	const char *const blows[] = { "restart-db", "kill-db" };
	for (int i = 0; i < 2; i++) {
		EVENTUALLY(LOAD_MS, outbox_rows(&e) <= ROWS - (i + 1) * ROWS / 3);
		env_stack(blows[i]);
		env_stack("start-db");
		env_reopen_db(&e);
		EVENTUALLY(LOAD_MS, lines_with("the database is back") == i + 1);
	}
	EVENTUALLY(LOAD_MS, outbox_rows(&e) == 0);
	expect_stopped();
	expect_uncharged();
	cr_expect_leq(lines_with("trying again"), 6, "a line an attempt");
	queue_take(&e, e.queue, &got);
	/* What was confirmed and could not be deleted is kept in mind and not sent again, as
	 * long as the lease lasts; else once more a blow. */
	arrived_check(&got, 0, ROWS, 1, 3);
	arrived_in_order(&got);
}

/* Confirmed rows that cannot be deleted: an outage too, and no reason to send them again. */
Test(outage, a_right_that_is_missing_stops_the_relay_and_repeats_nothing)
{
	char sql[512];
	char user[128];
	(void) snprintf(user, sizeof(user), "%s_u", e.name);
	(void) snprintf(sql, sizeof(sql), "CREATE USER '%s'@'%%' IDENTIFIED BY '%s'", user,
	    e.settings.mysql.password);
	admin_sql(&e, sql);
	(void) snprintf(
	    sql, sizeof(sql), "GRANT SELECT, INSERT, UPDATE ON %s.* TO '%s'@'%%'", e.name, user);
	admin_sql(&e, sql);
	(void) snprintf(
	    sql, sizeof(sql), "GRANT DELETE ON %s.outbox_relay TO '%s'@'%%'", e.name, user);
	admin_sql(&e, sql);
	char *ours = e.settings.mysql.user;
	e.settings.mysql.user = user;
	env_config(&e, "\"publisher\":{\"lease\":\"30s\",\"window\":100}");
	e.settings.mysql.user = ours;
	outbox_fill(&e, e.queue, 0, 1000, 0);
	relay = relay_start(&e, NULL);
	EVENTUALLY(SOON_MS, proc_said(&relay, "DELETE command denied"));
	for (int64_t end = now_ms() + 2000; now_ms() < end;)
		pause_ms(50);
	int64_t sent = env_ready(&e, e.queue);
	cr_expect_leq(sent, 200, "%lld messages, a window is 100", (long long) sent);
	cr_expect_leq(lines_with("command denied"), 1, "a line an attempt");
	(void) snprintf(sql, sizeof(sql), "GRANT DELETE ON %s.* TO '%s'@'%%'", e.name, user);
	admin_sql(&e, sql);
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 0);
	expect_stopped();
	queue_take(&e, e.queue, &got);
	arrived_check(&got, 0, 1000, 1, 1);
	(void) snprintf(sql, sizeof(sql), "DROP USER '%s'@'%%'", user);
	admin_sql(&e, sql);
}
