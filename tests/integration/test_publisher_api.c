/* test_publisher_api.c - relmq/publisher.h embedded in a program of somebody else. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <relmq/publisher.h>

#include "support/testoutbox.h"

enum { SOON_MS = 20000 };

static env e;
static arrived got;
static char amqp_uri[256], mysql_dsn[256];
static relmq_publisher *publisher;
static pthread_t runner;
static relmq_code result;
static relmq_error run_error;

static void start(void)
{
	env_open(&e);
	env_declare(&e, e.queue, NULL);
	(void) snprintf(amqp_uri, sizeof(amqp_uri), "amqp://%s:%s@%s:%lld/%%2F",
	    e.settings.rabbitmq.user, e.settings.rabbitmq.password, e.settings.rabbitmq.host,
	    (long long) e.settings.rabbitmq.port);
	(void) snprintf(mysql_dsn, sizeof(mysql_dsn), "mysql://%s:%s@%s:%lld/%s",
	    e.settings.mysql.user, e.settings.mysql.password, e.settings.mysql.host,
	    (long long) e.settings.mysql.port, e.name);
}

static void stop(void)
{
	relmq_publisher_close(publisher);
	arrived_free(&got);
	env_close(&e);
}

TestSuite(publisher_api, .init = start, .fini = stop, .timeout = 60);

static void open_with(const char *config)
{
	relmq_publisher_opts o = RELMQ_PUBLISHER_OPTS_INIT;
	relmq_error err;
	o.config = config;
	o.amqp_uri = amqp_uri;
	o.mysql_dsn = mysql_dsn;
	cr_assert_eq(relmq_publisher_open(&publisher, &o, &err), RELMQ_OK, "%s", err.text);
}

static void *run_main(void *arg)
{
	(void) arg;
	result = relmq_publisher_run(publisher, &run_error);
	return NULL;
}

static void run(void)
{
	cr_assert_eq(pthread_create(&runner, NULL, run_main, NULL), 0);
}

static void join(void)
{
	(void) pthread_join(runner, NULL);
	cr_expect_eq(result, RELMQ_OK, "%s", run_error.text);
}

static relmq_publisher_stats stats(void)
{
	relmq_publisher_stats s = RELMQ_PUBLISHER_STATS_INIT;
	relmq_publisher_stats_get(publisher, &s);
	return s;
}

Test(publisher_api, run_stats_and_stop_from_another_thread)
{
	open_with("{\"publisher\":{\"lease\":\"2s\",\"retry_delays\":[\"1h\"]}}");
	cr_expect_eq(stats().oldest_ready_age_us, -1, "before it runs");
	outbox_fill(&e, e.queue, 0, 1000, 10);
	outbox_row(&e, "lost", "no.such.queue", "", "");
	outbox_row(&e, "bad", e.queue, "properties", "'{\"priority\":-1}'");
	run();
	EVENTUALLY(SOON_MS, stats().confirmed == 1000 && stats().out == 0);
	relmq_publisher_stats s = stats();
	cr_expect_eq(s.read, 1002);
	cr_expect_eq(s.published, 1001);
	cr_expect_eq(s.refused_returned, 1);
	cr_expect_eq(s.refused_local, 1);
	cr_expect_eq(s.abandoned, 1);
	cr_expect_eq(s.in_doubt, 0);
	cr_expect_eq(s.in_flight, 0);
	cr_expect_eq(s.shards, 16);
	cr_expect_eq(s.relays, 1);
	cr_expect_eq(s.database_up, 1);
	cr_expect_eq(s.broker_up, 1);
	cr_expect_eq(s.blocked, 0);
	cr_expect_eq(s.latency_count, 1000);
	uint64_t in_buckets = 0;
	for (size_t i = 0; i < RELMQ_LATENCY_BUCKETS; i++)
		in_buckets += s.latency[i];
	cr_expect_eq(in_buckets, 1000);
	relmq_publisher_stop(publisher);
	join();
	queue_take(&e, e.queue, &got);
	arrived_check(&got, 0, 1000, 1, 1);
	relmq_error err;
	cr_expect_eq(relmq_publisher_run(publisher, &err), RELMQ_ECLOSED, "once only");
}

/* By the database's clock, whatever ours says. */
Test(publisher_api, the_age_of_the_oldest_row_and_the_latency)
{
	open_with("{\"publisher\":{\"lease\":\"1s\"}}");
	env_sql(&e,
	    "INSERT INTO message_outbox (routing_key, payload, created_at)"
	    " VALUES ('%s', 'x', NOW(6) - INTERVAL 1800000 MICROSECOND)",
	    e.queue);
	run();
	EVENTUALLY(SOON_MS, stats().confirmed == 1);
	relmq_publisher_stats s = stats();
	cr_expect_geq(s.latency_sum_us, 1700000);
	cr_expect_lt(s.latency_sum_us, 20000000);
	EVENTUALLY(SOON_MS, stats().oldest_ready_age_us == -1);
	relmq_publisher_stop(publisher);
	join();
}

static void on_signal(int number)
{
	(void) number;
	relmq_publisher_stop(publisher);
}

Test(publisher_api, stopped_by_a_signal_handler)
{
	struct sigaction action = { .sa_handler = on_signal };
	(void) sigaction(SIGUSR1, &action, NULL);
	open_with(NULL);
	outbox_fill(&e, e.queue, 0, 10, 0);
	run();
	EVENTUALLY(SOON_MS, stats().confirmed == 10);
	(void) raise(SIGUSR1);
	join();
}

Test(publisher_api, stopped_before_it_runs)
{
	open_with(NULL);
	outbox_fill(&e, e.queue, 0, 10, 0);
	relmq_publisher_stop(publisher);
	run();
	join();
	cr_expect_eq(outbox_rows(&e), 10);
}

Test(publisher_api, two_in_one_process_share_the_work)
{
	relmq_publisher *first = NULL;
	pthread_t first_runner;
	open_with("{\"publisher\":{\"lease\":\"1s\"}}");
	run();
	EVENTUALLY(SOON_MS, stats().shards == 16);
	first = publisher;
	first_runner = runner;
	open_with("{\"publisher\":{\"lease\":\"1s\"}}");
	run();
	EVENTUALLY(SOON_MS, stats().shards == 8);
	outbox_fill(&e, e.queue, 0, 2000, 100);
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 0);
	cr_expect_gt(stats().confirmed, 100);
	relmq_publisher_stop(publisher);
	join();
	relmq_publisher_stop(first);
	(void) pthread_join(first_runner, NULL);
	relmq_publisher_close(first);
	queue_take(&e, e.queue, &got);
	arrived_check(&got, 0, 2000, 1, 1);
}

/* --- bad options ----------------------------------------------------------------------------- */

static relmq_code open_code(relmq_publisher_opts o, relmq_error *err)
{
	relmq_publisher *p = (relmq_publisher *) &o;
	relmq_code code = relmq_publisher_open(&p, &o, err);
	cr_expect_null(p);
	return code;
}

Test(publisher_api, bad_options)
{
	relmq_error err;
	relmq_publisher_opts o = RELMQ_PUBLISHER_OPTS_INIT;
	o.config = "{}";
	o.config_file = e.config;
	cr_expect_eq(open_code(o, &err), RELMQ_EINVAL);
	o.config_file = NULL;
	o.config = "{\"publisher\":{\"window\":0}}";
	cr_expect_eq(open_code(o, &err), RELMQ_ECONFIG);
	cr_expect_not_null(strstr(err.text, "publisher.window"), "%s", err.text);
	o.config = "{";
	cr_expect_eq(open_code(o, &err), RELMQ_ECONFIG);
	o.config = NULL;
	o.amqp_uri = "amqp://user:pa/ss@host";
	cr_expect_eq(open_code(o, &err), RELMQ_ECONFIG);
	cr_expect_null(strstr(err.text, "pa/ss"), "%s", err.text);
	o.amqp_uri = NULL;
	o.config_file = "/no/such/file";
	cr_expect_eq(open_code(o, &err), RELMQ_ECONFIG);
	o.struct_size = 0;
	cr_expect_eq(open_code(o, &err), RELMQ_EINVAL);
	cr_expect_eq(relmq_publisher_open(NULL, &o, &err), RELMQ_EINVAL);
	relmq_publisher_close(NULL);
}

/* A schema that is not there ends run() at once. */
Test(publisher_api, a_missing_schema_is_fatal)
{
	open_with(NULL);
	env_sql(&e, "DROP TABLE relmq_schema");
	run();
	(void) pthread_join(runner, NULL);
	cr_expect_eq(result, RELMQ_ESCHEMA);
	cr_expect_neq(run_error.flags & RELMQ_F_FATAL, 0);
}
