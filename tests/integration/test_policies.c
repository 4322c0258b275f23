/* test_policies.c - rabbit-policies on a real broker: apply.sh sets what is missing and
 * nothing else, verify.sh names what differs, and the exit status says which of it. */
#include <criterion/criterion.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "support/testconsumer.h"

static env e;
static char *output;

static void close_env(void)
{
	free(output);
	env_reopen_db(&e); /* rabbitmqctl took longer than either server waits for us */
	env_reopen_mq(&e);
	consumer_close(&e);
}

TestSuite(policies, .fini = close_env, .timeout = 180);

/* SCRIPT with these arguments against the stack's node: exit status; keeps what it printed. */
static int script(const char *name, const char *arguments)
{
	char line[1200];
	char buffer[4096];
	size_t len, n;
	const char *dir = getenv("RELMQ_STACK_DIR");
	cr_assert_not_null(dir);
	(void) snprintf(line, sizeof(line),
	    "RABBITMQCTL='%s/tests/support/stack.sh ctl %s' timeout 100 %s/rabbit-policies/%s %s 2>&1",
	    RELMQ_SOURCE_DIR, dir, RELMQ_SOURCE_DIR, name, arguments);
	free(output);
	FILE *out = open_memstream(&output, &len);
	FILE *in = popen(line, "r");
	cr_assert(in != NULL && out != NULL);
	while ((n = fread(buffer, 1, sizeof(buffer), in)) > 0)
		(void) fwrite(buffer, 1, n, out);
	(void) fclose(out);
	int status = pclose(in);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

static void expect(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void expect(const char *format, ...)
{
	char line[400];
	va_list args;
	va_start(args, format);
	(void) vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	cr_assert_not_null(strstr(output, line), "no \"%s\" in:\n%s", line, output);
}

static int lines(void)
{
	int n = 0;
	for (const char *c = output; *c != '\0'; c++)
		n += *c == '\n';
	return n;
}

static void ctl(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void ctl(const char *format, ...)
{
	char line[600];
	va_list args;
	va_start(args, format);
	(void) vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	cr_assert_eq(env_ctl(line), 0, "%s", line);
}

/* D06: only one policy applies to a queue; a stranger's with a higher priority hides ours. */
static void hide_and_verify(void)
{
	ctl("set_policy --priority 200 --apply-to queues foreign.%s '^%s$'"
	    " '{\"expires\":600000,\"delivery-limit\":3}'",
	    e.name, e.queue);
	cr_assert_eq(script("verify.sh", e.queue), 1, "%s", output);
	ctl("clear_policy foreign.%s", e.name);
	expect("%s: policy: \"foreign.%s\" (priority 200) applies and hides \"relmq.work.%s\"",
	    e.queue, e.name, e.queue);
	expect("%s: delivery-limit: 3, must be 50", e.queue);
	expect("%s: expires: 600000 by policy, must not be set", e.queue);
	cr_assert_null(strstr(output, ".parked: "), "the others are right: %s", output);
	cr_assert_null(strstr(output, ".retry."), "the others are right: %s", output);
}

/* A message over the limit is parked by the broker itself: the policies do what they say. */
static void backstop_parks(void)
{
	relmq_error err;
	env_reopen_mq(&e);
	put(&e, e.queue, &(note){ .id = "a", .key = "k" }, 1);
	for (int i = 0; i <= 50; i++) { /* a consumer that dies with it, again and again */
		relmq__conn conn = { 0 };
		cr_assert_eq(relmq__conn_open(&conn, &e.settings.rabbitmq, "test", &err), RELMQ_OK,
		    "%s", err.text);
		cr_assert_not_null(amqp_basic_consume(conn.state, RELMQ__CHANNEL,
		    amqp_cstring_bytes(e.queue), amqp_empty_bytes, 0, 0, 0, amqp_empty_table));
		EVENTUALLY(5000, env_ready(&e, e.queue) == 0);
		cr_assert_eq(env_ready(&e, parked(&e)), 0, "parked after %d deliveries", i);
		relmq__conn_close(&conn, true);
		EVENTUALLY(5000, env_ready(&e, e.queue) + env_ready(&e, parked(&e)) == 1);
	}
	EVENTUALLY(10000, env_ready(&e, parked(&e)) == 1);
	char *listed;
	cr_assert_eq(dlx(&e, &listed, "list", NULL), 0, "%s", listed);
	cr_assert_not_null(strstr(listed, "delivery_limit"), "the broker's reason: %s", listed);
	free(listed);
}

/* From nothing to all right, which changes nothing the second time; then a stranger comes. */
Test(policies, apply_and_verify)
{
	consumer_open(&e, &(setup){ .tiers = "\"200ms\",\"1s\"" });
	cr_assert_eq(script("verify.sh", e.queue), 1, "%s", output);
	expect("%s: policy: none applies, must be \"relmq.work.%s\"", e.queue, e.queue);
	expect("%s.retry.200ms: policy: none applies, must be \"relmq.tier.%s\"", e.queue, e.queue);
	expect("%s.parked: policy: none applies", e.queue);
	expect("%s: delivery-limit: not set, must be 50", e.queue);

	char arguments[200];
	(void) snprintf(arguments, sizeof(arguments), "--dry-run %s", e.queue);
	cr_assert_eq(script("apply.sh", arguments), 0, "%s", output);
	expect("relmq.work.%s: would run: rabbitmqctl", e.queue);

	cr_assert_eq(script("apply.sh", e.queue), 0, "%s", output);
	expect("relmq.work.%s: set\n", e.queue); /* the dry run had set nothing */
	expect("relmq.tier.%s: set\n", e.queue);
	expect("relmq.parked.%s: set\n", e.queue);
	cr_assert_eq(script("verify.sh", e.queue), 0, "%s", output);
	expect("OK: %s with 2 tiers and parking", e.queue);
	cr_assert_eq(lines(), 1, "%s", output);

	cr_assert_eq(script("apply.sh", e.queue), 0, "%s", output);
	expect("relmq.work.%s: unchanged\n", e.queue);
	cr_assert_null(strstr(output, ": set"), "%s", output);

	hide_and_verify();
	backstop_parks();
}

/* Queues of another make, and ones that are missing, are named with what they lack. */
Test(policies, wrong_queues)
{
	consumer_open(&e, &(setup){ .undeclared = true });
	env_declare(&e, e.queue, NULL);
	env_declare(&e, tier(&e, "200ms"), NULL); /* no delay, and no way back */
	cr_assert_eq(script("verify.sh", e.queue), 1, "%s", output);
	expect("%s.parked: queue: missing (relmq-dlx declares it)", e.queue);
	expect("%s: x-single-active-consumer: not given, must be true", e.queue);
	expect("%s.retry.200ms: x-message-ttl: not given, must be 200", e.queue);
	expect("%s.retry.200ms: x-dead-letter-routing-key: not given, must be \"%s\"", e.queue,
	    e.queue);
}

/* 2: not known, which is neither right nor wrong. */
Test(policies, usage_and_no_broker)
{
	consumer_open(&e, &(setup){ .undeclared = true });
	cr_assert_eq(script("verify.sh", ""), 2);
	expect("usage: verify.sh");
	cr_assert_eq(script("apply.sh", "--wrong q"), 2);
	expect("unknown option --wrong");
	cr_assert_eq(script("verify.sh", "--vhost nowhere q"), 2, "%s", output);
	cr_assert_eq(lines(), 1, "one line: %s", output);
	cr_assert_eq(script("apply.sh", "--node nobody@localhost q"), 2, "%s", output);
	expect("nobody@localhost cannot be reached");
	cr_assert_eq(lines(), 1, "one line: %s", output);
}
