/* test_consumer_api.c - relmq/consumer.h embedded in a program of somebody else: handlers
 * of its own, stopped from a thread, a handler or a signal handler. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <relmq/consumer.h>
#include <relmq/log.h>

#include "support/testconsumer.h"

static env e;
static char amqp_uri[256], mysql_dsn[256];
static relmq_consumer *consumer;

static void open_env(void)
{
	consumer_open(&e, &(setup){ .tiers = "\"200ms\"" });
	(void) snprintf(amqp_uri, sizeof(amqp_uri), "amqp://%s:%s@%s:%lld/%%2F",
	    e.settings.rabbitmq.user, e.settings.rabbitmq.password, e.settings.rabbitmq.host,
	    (long long) e.settings.rabbitmq.port);
	(void) snprintf(mysql_dsn, sizeof(mysql_dsn), "mysql://%s:%s@%s:%lld/%s",
	    e.settings.mysql.user, e.settings.mysql.password, e.settings.mysql.host,
	    (long long) e.settings.mysql.port, e.name);
}

static void close_env(void)
{
	relmq_consumer_close(consumer);
	consumer_close(&e);
}

TestSuite(consumer_api, .init = open_env, .fini = close_env, .timeout = 60);

static relmq_consumer_opts options(void)
{
	relmq_consumer_opts o = RELMQ_CONSUMER_OPTS_INIT;
	o.amqp_uri = amqp_uri;
	o.mysql_dsn = mysql_dsn;
	o.retry_tiers = "200ms";
	return o;
}

/* --- a handler as an application has it --------------------------------------------------- */

typedef struct app {
	_Atomic int calls;
	int stop_after; /* calls; 0: never */
} app;

static relmq_verdict write_effect(relmq_delivery *d, MYSQL *tx, void *arg)
{
	app *a = arg;
	char sql[512];
	size_t len;
	const char *body = relmq_delivery_body(d, &len);
	(void) snprintf(sql, sizeof(sql),
	    "INSERT INTO effects (id, `key`, body, attempt) VALUES ('%s', '%s', '%.*s', %u)",
	    relmq_delivery_id(d), relmq_delivery_key(d), (int) len, body,
	    relmq_delivery_attempt(d));
	if (mysql_query(tx, sql) != 0) {
		relmq_delivery_reason(d, "%s", mysql_error(tx));
		return RELMQ_RETRY;
	}
	if (atomic_fetch_add(&a->calls, 1) + 1 == a->stop_after)
		relmq_consumer_stop(consumer);
	return strcmp(relmq_delivery_type(d), "bad") == 0 ? RELMQ_REJECT : RELMQ_DONE;
}

static void open_consumer(relmq_consumer_opts o, app *a)
{
	relmq_error err;
	cr_assert_eq(relmq_consumer_open(&consumer, &o, &err), RELMQ_OK, "%s", err.text);
	cr_assert_eq(relmq_consumer_handle(consumer, e.queue, write_effect, a, &err), RELMQ_OK,
	    "%s", err.text);
}

static void run_well(void)
{
	relmq_error err = RELMQ_ERROR_INIT;
	cr_assert_eq(relmq_consumer_run(consumer, &err), RELMQ_OK, "%s", err.text);
}

/* --- running ------------------------------------------------------------------------------- */

Test(consumer_api, runs_until_a_handler_stops_it)
{
	app a = { .stop_after = 20 };
	put_numbered(&e, e.queue, 1, 20, 4, NULL);
	open_consumer(options(), &a);
	run_well();
	effects_are(&e, 1, 20);
	cr_assert_eq(a.calls, 20);
	cr_assert_eq(env_ready(&e, e.queue), 0);
}

static void on_alarm(int sig)
{
	(void) sig;
	relmq_consumer_stop(consumer);
}

static void *raise_when_done(void *arg)
{
	app *a = arg;
	for (int64_t until = now_ms() + 20000; a->calls < 10 && now_ms() < until;)
		pause_ms(5);
	(void) kill(getpid(), SIGALRM);
	return NULL;
}

Test(consumer_api, stopped_from_a_signal_handler)
{
	app a = { 0 };
	pthread_t other;
	struct sigaction sa = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
	cr_assert_eq(sigaction(SIGALRM, &sa, NULL), 0);
	put_numbered(&e, e.queue, 1, 10, 3, NULL);
	open_consumer(options(), &a);
	cr_assert_eq(pthread_create(&other, NULL, raise_when_done, &a), 0);
	run_well(); /* the signal ends the wait of this thread, or comes in another: both must do */
	(void) pthread_join(other, NULL);
	EVENTUALLY(10000, env_ready(&e, e.queue) == 10 - effects(&e));
	cr_assert_gt(effects(&e), 0);
}

Test(consumer_api, stop_before_run_lets_it_return)
{
	app a = { 0 };
	put_numbered(&e, e.queue, 1, 5, 1, NULL);
	open_consumer(options(), &a);
	relmq_consumer_stop(consumer);
	run_well();
	cr_assert_eq(a.calls, 0);
	EVENTUALLY(5000, env_ready(&e, e.queue) == 5);
}

static void declare_second(char *queue, size_t size)
{
	char name[160];
	(void) snprintf(queue, size, "%s2", e.queue);
	env_declare(&e, queue, NULL);
	(void) snprintf(name, sizeof(name), "%s.parked", queue);
	env_declare(&e, name, NULL);
	(void) snprintf(name, sizeof(name), "%s.retry.200ms", queue);
	env_declare(&e, name, NULL);
}

/* A handler each; the queue's name is the consumer's, so one id has its effect in both. */
Test(consumer_api, two_queues)
{
	char second[120];
	relmq_error err;
	app a = { .stop_after = 2 }; /* both queues' handlers count here */
	declare_second(second, sizeof(second));
	put_numbered(&e, e.queue, 1, 1, 1, NULL);
	put_numbered(&e, second, 1, 1, 1, NULL);
	open_consumer(options(), &a);
	cr_assert_eq(
	    relmq_consumer_handle(consumer, e.queue, write_effect, &a, &err), RELMQ_EINVAL);
	cr_assert_not_null(strstr(err.text, "has a handler already"));
	cr_assert_eq(relmq_consumer_handle(consumer, second, write_effect, &a, &err), RELMQ_OK,
	    "%s", err.text);
	run_well();
	cr_assert_eq(effects_of(&e, "m-000001"), 2);
	cr_assert_eq(env_number(&e, "SELECT COUNT(DISTINCT consumer) FROM message_inbox"), 2);
	cr_assert_eq(env_ready(&e, e.queue) + env_ready(&e, second), 0);
	env_delete_queue(&e, second);
}

Test(consumer_api, rejected_message_is_parked)
{
	app a = { .stop_after = 1 };
	put(&e, e.queue, &(note){ .id = "bad", .type = amqp_cstring_bytes("bad") }, 1);
	open_consumer(options(), &a);
	run_well();
	cr_assert_eq(effects(&e), 0);
	EVENTUALLY(5000, env_ready(&e, parked(&e)) == 1);
	relmq__msg *msg = env_get(&e, parked(&e));
	cr_assert_str_eq(header_of(msg, "x-relmq-reason"), "handler said REJECT without a reason");
	relmq__msg_free(msg);
	cr_assert_eq(env_ready(&e, e.queue), 0);
}

static relmq_verdict sleep_long(relmq_delivery *d, MYSQL *tx, void *arg)
{
	(void) d;
	(void) tx;
	relmq_consumer_stop(consumer);
	for (_Atomic bool *go_on = arg; !*go_on;)
		pause_ms(5);
	return RELMQ_DONE;
}

/* The header says so: what was not acked comes back, and the process should end. */
Test(consumer_api, handler_that_outlives_the_bound)
{
	static _Atomic bool go_on;
	relmq_error err;
	relmq_consumer_opts o = options();
	o.shutdown_timeout_ms = 200;
	put_numbered(&e, e.queue, 1, 1, 1, NULL);
	cr_assert_eq(relmq_consumer_open(&consumer, &o, &err), RELMQ_OK, "%s", err.text);
	cr_assert_eq(relmq_consumer_handle(consumer, e.queue, sleep_long, &go_on, &err), RELMQ_OK);
	int64_t from = now_ms();
	cr_assert_eq(relmq_consumer_run(consumer, &err), RELMQ_ETIMEDOUT);
	cr_assert_lt(now_ms() - from, 5000);
	EVENTUALLY(5000, env_ready(&e, e.queue) == 1);
	consumer = NULL; /* it must not be closed any more */
	go_on = true;    /* its effect is committed all the same; the copy will be a duplicate */
	EVENTUALLY(5000, env_number(&e, "SELECT COUNT(*) FROM message_inbox") == 1);
}

/* --- refusals -------------------------------------------------------------------------------- */

Test(consumer_api, options_are_checked)
{
	relmq_error err;
	relmq_consumer_opts o = options();
	cr_assert_eq(relmq_consumer_open(NULL, &o, &err), RELMQ_EINVAL);
	cr_assert_eq(relmq_consumer_open(&consumer, NULL, &err), RELMQ_EINVAL);
	cr_assert_null(consumer);
	o.struct_size = 0;
	cr_assert_eq(relmq_consumer_open(&consumer, &o, &err), RELMQ_EINVAL);
	o = options();
	o.amqp_uri = NULL;
	cr_assert_eq(relmq_consumer_open(&consumer, &o, &err), RELMQ_EINVAL);
	o = options();
	o.mysql_dsn = "mysql://no one";
	cr_assert_neq(relmq_consumer_open(&consumer, &o, &err), RELMQ_OK);
	cr_assert_null(consumer);
	o = options();
	o.retry_tiers = "soon";
	cr_assert_eq(relmq_consumer_open(&consumer, &o, &err), RELMQ_OK);
	cr_assert_eq(relmq_consumer_run(consumer, &err), RELMQ_EINVAL, "no handler yet");
	cr_assert_eq(relmq_consumer_handle(consumer, "", write_effect, NULL, &err), RELMQ_EINVAL);
	cr_assert_eq(relmq_consumer_handle(consumer, "q", NULL, NULL, &err), RELMQ_EINVAL);
	cr_assert_eq(relmq_consumer_handle(consumer, "q", write_effect, NULL, &err), RELMQ_ECONFIG);
	cr_assert_not_null(strstr(err.text, "retry_tiers"));
}

Test(consumer_api, missing_schema_is_fatal)
{
	app a = { 0 };
	relmq_error err;
	env_sql(&e, "DROP TABLE relmq_schema");
	put_numbered(&e, e.queue, 1, 3, 1, NULL);
	open_consumer(options(), &a);
	cr_assert_eq(relmq_consumer_run(consumer, &err), RELMQ_ESCHEMA);
	cr_assert(err.flags & RELMQ_F_FATAL);
	cr_assert_not_null(strstr(err.text, "relmq migrate"));
	cr_assert_eq(env_ready(&e, e.queue), 3);
}

static relmq_consumer_opts wrong_password(char *uri)
{
	relmq_consumer_opts o = options();
	(void) snprintf(uri, 256, "amqp://relmq:wrong@%s:%lld/%%2F", e.settings.rabbitmq.host,
	    (long long) e.settings.rabbitmq.port);
	o.amqp_uri = uri;
	return o;
}

static _Atomic int refused;

static void count_refusals(relmq_log_level level, const char *subject, const char *text, void *arg)
{
	(void) level;
	(void) subject;
	(void) arg;
	cr_assert_null(strstr(text, "wrong"), "the password was printed");
	if (strstr(text, "trying again") != NULL && ++refused == 1)
		relmq_consumer_stop(consumer);
}

/* A broker that refuses us is an outage: it keeps trying, and can be stopped meanwhile. */
Test(consumer_api, broker_refuses_the_password)
{
	app a = { 0 };
	char uri[256];
	open_consumer(wrong_password(uri), &a);
	relmq_log_set(count_refusals, RELMQ_LOG_DEBUG, NULL);
	run_well();
	relmq_log_set(NULL, RELMQ_LOG_ERROR, NULL);
	cr_assert_eq(a.calls, 0);
	cr_assert_gt(refused, 0);
}
