/* test_programs.c - all four programs as a person meets them: options, bad configuration,
 * servers that are not there, passwords and schemas that are wrong. One line that says what
 * and where; a daemon says it once and goes on by itself when the server comes. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/testgate.h"
#include "support/testoutbox.h"

enum { SOON_MS = 20000, FAILED = 1, USAGE = 2, NOWHERE = 1 /* a port that nobody has */ };

#define SECRET "not-the-password-7f3a"

static env e;
static proc daemon_;
static gate door;

static const char *const programs[] = { "relmq-publisher", "relmq-consumer", "relmq-dlx", "relmq" };
static const char *const daemons[] = { "relmq-publisher", "relmq-consumer" };

/* A command of each one-shot program that needs a server: the database, the broker. */
static const struct {
	const char *name;
	char *args[2];
	bool broker;
} one_shots[] = {
	{ "relmq", { (char *) "migrate", NULL }, false },
	{ "relmq", { (char *) "status", NULL }, false },
	{ "relmq-dlx", { (char *) "declare", NULL }, true },
	{ "relmq-dlx", { (char *) "list", NULL }, true },
	{ "relmq-dlx", { (char *) "replay", NULL }, true },
};

#define EACH(i, list) for (size_t i = 0; i < sizeof(list) / sizeof((list)[0]); i++)

static void configure(void)
{
	env_config(&e,
	    "\"publisher\":{\"lease\":\"2s\"},\"consumer\":{\"queues\":[{\"queue\":\"%s\","
	    "\"handler\":{\"kind\":\"sql\",\"statements\":[\"DO 1\"]}}]},"
	    "\"dlx\":{\"queues\":[{\"queue\":\"%s\",\"tiers\":[\"5s\"]}]}",
	    e.queue, e.queue);
}

static void start(void)
{
	env_open(&e);
	configure();
}

static void stop(void)
{
	proc_kill(&daemon_);
	env_close(&e);
}

TestSuite(programs, .init = start, .fini = stop, .timeout = 120);

static int lines_in(const char *text)
{
	int lines = 0;
	for (; *text != '\0'; text++)
		lines += *text == '\n';
	return lines;
}

static int times_in(const char *text, const char *what)
{
	int times = 0;
	for (; (text = strstr(text, what)) != NULL; text++)
		times++;
	return times;
}

/* Run to the end; one line that holds `what`, and this exit status. */
static void expect_line(const char *name, char *const *args, int status, const char *what)
{
	char *said;
	int got = env_run(&e, &said, name, args);
	cr_expect_eq(got, status, "%s: exit status %d, said: %s", name, got, said);
	cr_expect_eq(lines_in(said), 1, "%s: %s", name, said);
	cr_expect_not_null(strstr(said, what), "%s: no '%s' in: %s", name, what, said);
	free(said);
}

static void write_config(const char *text)
{
	FILE *f = fopen(e.config, "w");
	cr_assert_not_null(f);
	(void) fputs(text, f);
	cr_assert_eq(fclose(f), 0);
}

/* --- options ------------------------------------------------------------------------------ */

Test(programs, version_help_and_check_config)
{
	char *version[] = { (char *) "--version", NULL };
	char *help[] = { (char *) "--help", NULL };
	char *check[] = { (char *) "--check-config", NULL };
	EACH(i, programs)
	{
		char *said;
		expect_line(programs[i], version, 0, programs[i]);
		expect_line(programs[i], check, 0, "ok");
		cr_expect_eq(env_run(&e, &said, programs[i], help), 0);
		cr_expect_not_null(strstr(said, "usage:"), "%s", said);
		cr_expect_not_null(strstr(said, "--config FILE"), "%s", said);
		free(said);
	}
}

Test(programs, show_config_hides_the_passwords)
{
	char *show[] = { (char *) "--show-config", NULL };
	(void) setenv("RELMQ_MYSQL_PASSWORD", SECRET, 1);
	(void) setenv("RELMQ_RABBITMQ_PASSWORD", SECRET, 1);
	EACH(i, programs)
	{
		char *said;
		cr_expect_eq(env_run(&e, &said, programs[i], show), 0, "%s", said);
		cr_expect_not_null(strstr(said, e.name), "%s", said);
		cr_expect_null(strstr(said, SECRET), "%s", said);
		free(said);
	}
}

Test(programs, usage_that_is_wrong)
{
	char *option[] = { (char *) "--no-such-option", NULL };
	char *command[] = { (char *) "no-such-command", NULL };
	EACH(i, programs)
	{
		expect_line(programs[i], option, USAGE, "--no-such-option");
		expect_line(programs[i], command, USAGE, "no-such-command");
	}
	expect_line("relmq", NULL, USAGE, "command");
	expect_line("relmq-dlx", NULL, USAGE, "command");
}

/* --- configuration ------------------------------------------------------------------------- */

static const struct {
	const char *text, *what;
} bad_configs[] = {
	{ "{\"mysql\":{\"hots\":\"x\"}}", "\"hots\"" },
	{ "{\"publisher\":{\"window\":0}}", "publisher.window" },
	{ "{\"publisher\":{\"window\":\"many\"}}", "publisher.window" },
	{ "{\"publisher\":{\"lease\":\"10 parsecs\"}}", "publisher.lease" },
	{ "{\"nonsense\":1}", "nonsense" },
	{ "{\"mysql\":", ".json" },
	{ "", ".json" },
	{ "[]", ".json" },
	{ "{\"mysql\":{\"password_file\":\"/no/such/file\"}}", "/no/such/file" },
};

Test(programs, configuration_that_is_wrong)
{
	char *migrate[] = { (char *) "migrate", NULL };
	char *list[] = { (char *) "list", NULL };
	EACH(i, bad_configs)
	{
		write_config(bad_configs[i].text);
		expect_line("relmq-publisher", NULL, USAGE, bad_configs[i].what);
		expect_line("relmq-consumer", NULL, USAGE, bad_configs[i].what);
		expect_line("relmq-dlx", list, USAGE, bad_configs[i].what);
		expect_line("relmq", migrate, USAGE, bad_configs[i].what);
	}
	(void) remove(e.config);
	expect_line("relmq-publisher", NULL, USAGE, e.config);
	expect_line("relmq-consumer", NULL, USAGE, e.config);
	expect_line("relmq-dlx", list, USAGE, e.config);
	expect_line("relmq", migrate, USAGE, e.config);
}

/* --- servers that are not there --------------------------------------------------------------- */

Test(programs, a_command_without_its_server_fails)
{
	char where[64];
	e.settings.mysql.port = e.settings.rabbitmq.port = NOWHERE;
	configure();
	(void) snprintf(where, sizeof(where), "127.0.0.1:%d", NOWHERE);
	EACH(i, one_shots) expect_line(one_shots[i].name, one_shots[i].args, FAILED, where);
}

/* Enough attempts to see that they are not each a line. */
static void expect_patience(const char *name, const char *what)
{
	enum { ATTEMPTS = 5 };
	daemon_ = env_start(&e, name, NULL, NULL);
	EVENTUALLY(SOON_MS, atomic_load(&door.refused) >= ATTEMPTS);
	char *said = proc_log(&daemon_);
	cr_expect_geq(times_in(said, what), 1, "%s: %s", name, said);
	cr_expect_leq(lines_in(said), 6, "%s: a line an attempt:\n%s", name, said);
	free(said);
	cr_assert(proc_running(&daemon_), "%s gave up", name);
}

/* The work queue and its ladder. */
static void declare_queues(void)
{
	char *said;
	char *declare[] = { (char *) "declare", NULL };
	int status = env_run(&e, &said, "relmq-dlx", declare);
	cr_assert_eq(status, 0, "%s", said);
	free(said);
}

static void expect_stopped(const char *name)
{
	int status = proc_stop(&daemon_, SOON_MS);
	cr_expect_eq(status, 0, "%s: exit status %d", name, status);
}

Test(programs, a_daemon_waits_for_its_database)
{
	declare_queues();
	gate_start(&door, e.settings.mysql.port);
	e.settings.mysql.port = door.port;
	configure();
	outbox_fill(&e, e.queue, 0, 10, 0);
	expect_patience("relmq-publisher", "127.0.0.1");
	gate_set(&door, true);
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 0);
	expect_stopped("relmq-publisher");
	gate_set(&door, false);
	atomic_store(&door.refused, 0);
	expect_patience("relmq-consumer", "127.0.0.1");
	gate_set(&door, true);
	EVENTUALLY(SOON_MS, env_number(&e, "SELECT COUNT(*) FROM message_inbox") == 10);
	expect_stopped("relmq-consumer");
	gate_stop(&door);
}

Test(programs, a_daemon_waits_for_its_broker)
{
	declare_queues();
	gate_start(&door, e.settings.rabbitmq.port);
	e.settings.rabbitmq.port = door.port;
	configure();
	outbox_fill(&e, e.queue, 0, 10, 0);
	expect_patience("relmq-publisher", "127.0.0.1");
	cr_expect_eq(env_number(&e, "SELECT SUM(retry_count) FROM message_outbox"), 0);
	gate_set(&door, true);
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 0);
	expect_stopped("relmq-publisher");
	gate_set(&door, false);
	atomic_store(&door.refused, 0);
	expect_patience("relmq-consumer", "127.0.0.1");
	gate_set(&door, true);
	EVENTUALLY(SOON_MS, env_number(&e, "SELECT COUNT(*) FROM message_inbox") == 10);
	expect_stopped("relmq-consumer");
	gate_stop(&door);
}

/* --- passwords ---------------------------------------------------------------------------------- */

static void expect_complaint(const char *name, const char *user)
{
	daemon_ = env_start(&e, name, NULL, NULL);
	EVENTUALLY(SOON_MS, !proc_running(&daemon_) || proc_said(&daemon_, user));
	char *said = proc_log(&daemon_);
	cr_expect_not_null(strstr(said, "127.0.0.1"), "%s: %s", name, said);
	cr_expect_null(strstr(said, SECRET), "%s: %s", name, said);
	free(said);
	if (proc_running(&daemon_))
		(void) proc_stop(&daemon_, SOON_MS);
}

Test(programs, a_wrong_password_of_the_database)
{
	char as[128];
	(void) snprintf(as, sizeof(as), "as %s", e.settings.mysql.user);
	(void) setenv("RELMQ_MYSQL_PASSWORD", SECRET, 1);
	EACH(i, daemons) expect_complaint(daemons[i], as);
	EACH(i, one_shots)
	if (!one_shots[i].broker) {
		char *said;
		expect_line(one_shots[i].name, one_shots[i].args, FAILED, as);
		(void) env_run(&e, &said, one_shots[i].name, one_shots[i].args);
		cr_expect_null(strstr(said, SECRET), "%s", said);
		free(said);
	}
}

Test(programs, a_wrong_password_of_the_broker)
{
	char as[128];
	(void) snprintf(as, sizeof(as), "as %s", e.settings.rabbitmq.user);
	(void) setenv("RELMQ_RABBITMQ_PASSWORD", SECRET, 1);
	EACH(i, daemons) expect_complaint(daemons[i], as);
	EACH(i, one_shots)
	if (one_shots[i].broker) {
		char *said;
		expect_line(one_shots[i].name, one_shots[i].args, FAILED, as);
		(void) env_run(&e, &said, one_shots[i].name, one_shots[i].args);
		cr_expect_null(strstr(said, SECRET), "%s", said);
		free(said);
	}
}

/* --- schema -------------------------------------------------------------------------------------- */

static void expect_daemons_end(const char *what)
{
	EACH(i, daemons)
	{
		char *said;
		int status = env_run(&e, &said, daemons[i], NULL);
		cr_expect_eq(status, FAILED, "%s: exit status %d", daemons[i], status);
		cr_expect_eq(times_in(said, what), 1, "%s: %s", daemons[i], said);
		free(said);
	}
}

Test(programs, a_schema_that_is_missing)
{
	char *migrate[] = { (char *) "migrate", NULL };
	char *status[] = { (char *) "status", NULL };
	env_sql(&e, "DROP DATABASE %s", e.name);
	env_sql(&e, "CREATE DATABASE %s", e.name);
	env_reopen_db(&e);
	expect_daemons_end("run `relmq migrate`");
	expect_line("relmq", status, FAILED, "run `relmq migrate`");
	expect_line("relmq", migrate, 0, "schema");
	expect_line("relmq", migrate, 0, "already");
	daemon_ = env_start(&e, "relmq-publisher", NULL, NULL);
	EVENTUALLY(SOON_MS, outbox_owned(&e) == 16);
}

Test(programs, a_schema_that_is_too_new)
{
	char *migrate[] = { (char *) "migrate", NULL };
	char *status[] = { (char *) "status", NULL };
	env_sql(&e, "INSERT INTO relmq_schema (version) VALUES (999)");
	expect_daemons_end("999");
	expect_line("relmq", status, FAILED, "999");
	expect_line("relmq", migrate, FAILED, "999");
}

/* --- queues --------------------------------------------------------------------------------------- */

/* The queue of the test is there, without what a work queue needs. */
Test(programs, a_queue_that_exists_with_other_arguments)
{
	char *declare[] = { (char *) "declare", NULL };
	env_declare(&e, e.queue, NULL);
	expect_line("relmq-dlx", declare, FAILED, e.queue);
	cr_expect_eq(env_ready(&e, e.queue), 0, "it was touched");
}
