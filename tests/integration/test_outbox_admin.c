/* test_outbox_admin.c - `relmq outbox list|show|retry|skip`: what a person sees, what is
 * changed, and that it is right beside a relay that has the very row in flight. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/testoutbox.h"

enum { SOON_MS = 20000, OK = 0, NOT_DONE = 1, USAGE = 2 };

static env e;
static proc relay;
static arrived got;
static char hold[192];

static void start(void)
{
	env_open(&e);
	env_declare(&e, e.queue, NULL);
	env_config(&e, "\"publisher\":{\"lease\":\"2s\",\"retry_delays\":[\"1h\"]}");
	(void) snprintf(hold, sizeof(hold), "%s/hold", e.dir);
}

static void stop(void)
{
	(void) unlink(hold);
	proc_kill(&relay);
	arrived_free(&got);
	env_close(&e);
}

TestSuite(outbox_admin, .init = start, .fini = stop, .timeout = 120);

/* --- running it ----------------------------------------------------------------------------- */

/* Words, parted by blanks: relmq outbox WORDS. Its output, to be freed. */
static char *outbox_said(int status, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static char *outbox_said(int status, const char *fmt, ...)
{
	char words[512];
	char *args[32] = { (char *) "outbox" };
	char *rest = words;
	char *said = NULL;
	va_list list;
	va_start(list, fmt);
	(void) vsnprintf(words, sizeof(words), fmt, list);
	va_end(list);
	for (int i = 1; i < 31 && (args[i] = strsep(&rest, " ")) != NULL; i++) {
	}
	int ended = env_run(&e, &said, "relmq", args);
	cr_expect_eq(ended, status, "outbox %s: exit status %d, said: %s", fmt, ended, said);
	return said;
}

#define outbox(status, ...) free(outbox_said(status, __VA_ARGS__))

/* The exit status, and that it said this. */
#define expect_said(text, status, ...)                                                  \
	do {                                                                            \
		char *said_ = outbox_said(status, __VA_ARGS__);                         \
		cr_expect_not_null(strstr(said_, text), "no '%s' in: %s", text, said_); \
		free(said_);                                                            \
	} while (0)

static void row(const char *id, const char *key, int status, int attempts)
{
	env_sql(&e,
	    "INSERT INTO message_outbox (msg_id, business_key, routing_key, payload, status,"
	    " retry_count, next_retry_at, last_error) VALUES ('%s', '%s', '%s', '%s', %d, %d,"
	    " IF(%d IN (2, 4), NOW(6) + INTERVAL 1 HOUR, NULL), IF(%d IN (2, 3), '312 NO_ROUTE', NULL))",
	    id, key, e.queue, id, status, attempts, status, status);
}

static int64_t row_id(const char *id)
{
	return env_number(&e, "SELECT id FROM message_outbox WHERE msg_id = '%s'", id);
}

/* status * 1000 + retry_count; -1: gone. */
static int64_t state(const char *id)
{
	return env_number(&e,
	    "SELECT COALESCE(MAX(status * 1000 + retry_count), -1) FROM message_outbox"
	    " WHERE msg_id = '%s'",
	    id);
}

static int times_in(const char *text, const char *what)
{
	int times = 0;
	for (; (text = strstr(text, what)) != NULL; text++)
		times++;
	return times;
}

/* --- list ----------------------------------------------------------------------------------- */

Test(outbox_admin, list_shows_what_needs_a_person_oldest_first)
{
	row("pending", "k", 0, 0);
	row("sent", "k", 1, 0);
	row("failed", "k", 2, 3);
	row("scheduled", "k", 4, 0);
	row("abandoned", "other", 3, 10);
	char *said = outbox_said(OK, "list");
	cr_expect_not_null(strstr(said, "LAST ERROR"), "%s", said);
	cr_expect_not_null(strstr(said, "2 row(s)\n"), "%s", said);
	cr_expect_null(strstr(said, "scheduled"), "%s", said);
	cr_expect_eq(times_in(said, "312 NO_ROUTE"), 2, "%s", said);
	cr_expect_lt(strstr(said, "failed"), strstr(said, "abandoned"));
	free(said);
	said = outbox_said(OK, "list --status pending,SENT,scheduled --json");
	cr_expect_eq(times_in(said, "\n"), 3, "%s", said);
	cr_expect_eq(times_in(said, "{\"id\":"), 3, "%s", said);
	cr_expect_not_null(
	    strstr(said, "\"state\":\"scheduled\",\"attempts\":0,\"next_attempt_at\":\"20"), "%s",
	    said);
	free(said);
	expect_said("outbox can list", USAGE, "--limit 3");
}

Test(outbox_admin, list_filters_and_is_bounded)
{
	for (int i = 0; i < 30; i++) {
		char id[16];
		(void) snprintf(id, sizeof(id), "m-%d", i);
		row(id, i % 3 == 0 ? "a" : "b", i % 2 == 0 ? 2 : 3, 1);
	}
	env_sql(
	    &e, "UPDATE message_outbox SET exchange = 'x', routing_key = 'r' WHERE id %% 5 = 0");
	expect_said("30 row(s)\n", OK, "list");
	expect_said("10 row(s)\n", OK, "list --key a");
	expect_said("0 row(s)\n", OK, "list --key=");
	expect_said("15 row(s)\n", OK, "list --status failed");
	expect_said("6 row(s)\n", OK, "list --exchange x --routing-key r");
	expect_said("7 row(s), and there are more", OK, "list --limit 7");
	expect_said("30 row(s)\n", OK, "list --limit 30");
	char *said = outbox_said(OK, "list --limit 4 --json");
	cr_expect_not_null(strstr(said, "\"m-0\""));
	cr_expect_null(strstr(said, "\"m-4\""));
	free(said);
}

/* A page that holds nothing of interest is not the end. */
Test(outbox_admin, list_finds_a_row_behind_thousands)
{
	outbox_fill(&e, e.queue, 0, 5000, 50);
	row("needle", "k-7", 0, 0);
	env_sql(&e, "UPDATE message_outbox SET routing_key = 'r' WHERE msg_id = 'needle'");
	env_sql(&e, "UPDATE message_outbox SET status = 3");
	expect_said("needle", OK, "list --routing-key r");
	expect_said("needle", OK, "list --routing-key r --key k-7");
	expect_said("101 row(s)\n", OK, "list --key k-7 --limit 1000");
	expect_said("5001 row(s)\n", OK, "list --limit 10000");
	env_sql(&e, "UPDATE message_outbox SET routing_key = 'r'");
	char *said = outbox_said(OK, "list --limit 6000 --json --routing-key r");
	cr_expect_eq(times_in(said, "\n"), 5001);
	for (char *at = said, *end = NULL, *before = NULL; (at = strstr(at, "{\"id\":")) != NULL;
	     at = end) {
		cr_expect(
		    before == NULL || strtoll(before + 6, NULL, 10) < strtoll(at + 6, NULL, 10));
		before = at;
		end = at + 6;
	}
	free(said);
}

/* What a message says cannot act on the terminal that shows it, nor break a line of JSON. */
Test(outbox_admin, text_from_strangers_is_harmless)
{
	env_sql(&e,
	    "INSERT INTO message_outbox (msg_id, business_key, routing_key, payload, headers, status,"
	    " last_error) VALUES (X'1B5B324A', X'0AFF', 'r', X'1B5D00', '{\"a\":\n1}', 3,"
	    " CONCAT('bad ', CHAR(27), '[31m', CHAR(10), 'forged'))");
	char *said = outbox_said(OK, "list");
	cr_expect_eq(times_in(said, "\n"), 3, "%s", said);
	cr_expect_null(strchr(said, '\x1b'));
	free(said);
	said = outbox_said(OK, "list --json");
	cr_expect_eq(times_in(said, "\n"), 1, "%s", said);
	cr_expect_null(strchr(said, '\x1b'));
	cr_expect_not_null(strstr(said, "\"key\":\"0x0aff\""), "%s", said);
	free(said);
	int64_t id = env_number(&e, "SELECT id FROM message_outbox");
	said = outbox_said(OK, "show %lld", (long long) id);
	cr_expect_null(strchr(said, '\x1b'));
	cr_expect_not_null(strstr(said, "\\x1b[2J"), "%s", said);
	cr_expect_not_null(strstr(said, "\n1b5d00\n"), "%s", said);
	free(said);
	said = outbox_said(OK, "show --json %lld", (long long) id);
	cr_expect_eq(times_in(said, "\n"), 1, "%s", said);
	cr_expect_null(strchr(said, '\x1b'));
	free(said);
}

/* --- show ----------------------------------------------------------------------------------- */

Test(outbox_admin, show_tells_everything_of_one_row)
{
	row("the-id", "customer-1", 2, 3);
	env_sql(&e, "UPDATE message_outbox SET type = 'order.paid', headers = '{\"n\":1}'");
	char *said = outbox_said(OK, "show the-id");
	const char *const parts[] = { "the-id", "customer-1", "failed", "312 NO_ROUTE",
		"order.paid", "{\"n\":", "application/octet-stream", "6 bytes\nthe-id\n" };
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		cr_expect_not_null(strstr(said, parts[i]), "no '%s' in: %s", parts[i], said);
	free(said);
	expect_said("\"payload_text\":\"the-id\",\"payload_cut\":false}", OK, "show --json %lld",
	    (long long) row_id("the-id"));
	expect_said("no row with msg_id nobody", NOT_DONE, "show nobody");
	expect_said("no row 99999", NOT_DONE, "show 99999");
}

Test(outbox_admin, an_operand_of_digits_is_a_row_id)
{
	row("77777", "", 2, 1);
	expect_said("no row 77777", NOT_DONE, "show 77777");
	expect_said("msg_id          77777", OK, "show --msg-id 77777");
	expect_said("msg_id          77777", OK, "show -- %lld", (long long) row_id("77777"));
	const char *const wrong[] = { "0", "007", "18446744073709551616",
		"99999999999999999999999" };
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		expect_said("is no row id", USAGE, "retry %s", wrong[i]);
	expect_said("no row 18446744073709551615", NOT_DONE, "show 18446744073709551615");
	expect_said("no row with msg_id 7x", NOT_DONE, "show 7x");
	expect_said("does not know -7", USAGE, "show -7");
}

Test(outbox_admin, a_payload_is_shown_in_part_and_written_whole)
{
	row("big", "", 3, 1);
	/* A character of two bytes lies across the cut. */
	env_sql(&e,
	    "UPDATE message_outbox SET payload = CONCAT(REPEAT('x', 1023), 'é', X'00', "
	    "REPEAT('y', 5000))");
	char *said = outbox_said(OK, "show big");
	cr_expect_not_null(strstr(said, "6026 bytes, its beginning"), "%s", said);
	cr_expect_null(strstr(said, "yyy"));
	cr_expect_not_null(strstr(said, "xxx\n"), "%s", said);
	free(said);
	char command[512];
	(void) snprintf(command, sizeof(command),
	    "'%s/relmq' outbox show big --payload --config '%s' 2>&1 | md5sum >'%s/sum'",
	    RELMQ_BINARY_DIR, e.config, e.dir);
	cr_assert_eq(system(command), 0);
	char sum[33] = "";
	(void) snprintf(command, sizeof(command), "%s/sum", e.dir);
	FILE *f = fopen(command, "r");
	cr_assert(f != NULL && fread(sum, 1, 32, f) == 32);
	(void) fclose(f);
	char *want = env_text(&e, "SELECT MD5(payload) FROM message_outbox");
	cr_expect_str_eq(sum, want);
	free(want);
}

/* --- retry and skip, no relay ------------------------------------------------------------------ */

Test(outbox_admin, each_state_is_changed_or_refused)
{
	row("pending", "", 0, 0);
	row("sent", "", 1, 0);
	row("failed", "", 2, 3);
	row("abandoned", "", 3, 10);
	row("scheduled", "", 4, 0);
	expect_said("is pending", NOT_DONE, "retry pending");
	expect_said("is already sent", NOT_DONE, "retry sent");
	expect_said("is scheduled", NOT_DONE, "retry scheduled");
	expect_said("failed -> due now", OK, "retry failed");
	expect_said("abandoned -> pending", OK, "retry abandoned");
	cr_expect_eq(state("failed"), 2000);
	cr_expect_eq(state("abandoned"), 0);
	cr_expect_eq(env_number(&e,
	                 "SELECT next_retry_at <= NOW(6) FROM message_outbox WHERE "
	                 "msg_id = 'failed'"),
	    1);
	cr_expect_eq(env_number(&e,
	                 "SELECT next_retry_at IS NULL AND last_error = '312 NO_ROUTE' FROM "
	                 "message_outbox WHERE msg_id = 'abandoned'"),
	    1);
	expect_said("is pending", NOT_DONE, "skip pending");
	expect_said("is already sent", NOT_DONE, "skip sent");
	expect_said("is scheduled", NOT_DONE, "skip scheduled");
	expect_said("failed -> abandoned", OK, "skip failed");
	expect_said("is already abandoned", NOT_DONE, "skip failed");
	cr_expect_eq(env_number(&e,
	                 "SELECT next_retry_at IS NULL AND last_error = 'skipped by a person; "
	                 "312 NO_ROUTE' FROM message_outbox WHERE msg_id = 'failed'"),
	    1);
	expect_said("row 4242 is gone", NOT_DONE, "skip 4242");
	expect_said("row 4242 is gone", NOT_DONE, "retry %lld 4242", (long long) row_id("failed"));
	cr_expect_eq(state("failed"), 0, "what could be done is done");
	cr_expect_eq(state("scheduled"), 4000);
	cr_expect_eq(state("sent"), 1000);
}

/* Named in any way and any order: each row once, from the lowest, and what is not there is said. */
Test(outbox_admin, rows_are_changed_once_from_the_lowest)
{
	row("a", "k", 3, 10);
	row("b", "k", 3, 10);
	row("b", "k", 3, 10);
	char *said = outbox_said(NOT_DONE, "retry b nobody %lld a b", (long long) row_id("a"));
	cr_expect_eq(times_in(said, "abandoned -> pending"), 3, "%s", said);
	cr_expect_not_null(strstr(said, "no row with msg_id nobody"), "%s", said);
	char *at = said;
	for (int i = 0; i < 3; i++) {
		char line[64];
		(void) snprintf(
		    line, sizeof(line), "row %lld: abandoned", (long long) row_id("a") + i);
		cr_assert_not_null(at = strstr(at, line), "no '%s' in its place: %s", line, said);
	}
	free(said);
}

/* Somebody's open transaction has the row: the command ends within a bound, and says so. */
Test(outbox_admin, a_row_that_is_locked_is_not_changed)
{
	relmq__db locker;
	relmq_error err;
	row("failed", "", 2, 3);
	row("other", "", 2, 3);
	env_session(&e, &locker);
	cr_assert_eq(relmq__db_execf(&locker, NULL, &err, "START TRANSACTION"), RELMQ_OK);
	cr_assert_eq(relmq__db_execf(&locker, NULL, &err,
	                 "UPDATE message_outbox SET type = 'x' WHERE id = %lld",
	                 (long long) row_id("failed")),
	    RELMQ_OK);
	int64_t began = now_ms();
	expect_said("was not changed: ", NOT_DONE, "skip failed other");
	cr_expect_lt(now_ms() - began, 15000);
	cr_expect_eq(state("failed"), 2003);
	cr_expect_eq(state("other"), 3003);
	relmq__db_close(&locker);
	outbox(OK, "%s", "skip failed");
}

Test(outbox_admin, bad_usage_changes_nothing)
{
	row("failed", "", 2, 3);
	outbox(USAGE, "%s", "retry");
	outbox(USAGE, "%s", "skip");
	outbox(USAGE, "%s", "skip --all");
	outbox(USAGE, "%s", "retry failed --all");
	outbox(USAGE, "%s", "retry failed --key k");
	outbox(USAGE, "%s", "retry --all --yes --status sent");
	outbox(USAGE, "%s", "retry --all --yes --status");
	outbox(USAGE, "%s", "retry --all --yes --limit 1x");
	outbox(USAGE, "%s", "retry --all --yes=1");
	outbox(USAGE, "%s", "retry --everything");
	outbox(USAGE, "%s", "list failed");
	outbox(USAGE, "%s", "show failed failed");
	outbox(USAGE, "%s", "forget failed");
	cr_expect_eq(state("failed"), 2003);
}

Test(outbox_admin, retry_all_says_first_and_does_then)
{
	outbox_fill(&e, e.queue, 0, 2500, 50);
	env_sql(&e, "UPDATE message_outbox SET status = 3, retry_count = 10 WHERE id %% 2 = 0");
	row("failed", "f", 2, 3);
	row("sent", "f", 1, 0);
	char *said = outbox_said(OK, "retry --all");
	cr_expect_not_null(strstr(said, "1251 row(s) would be retried; add --yes"), "%s", said);
	cr_expect_lt(times_in(said, "\n"), 110);
	free(said);
	cr_expect_eq(env_number(&e, "SELECT COUNT(*) FROM message_outbox WHERE status = 3"), 1250);
	expect_said("10 row(s) retried", OK, "retry --all --yes --limit 10");
	expect_said("49 row(s) retried", OK, "retry --all --yes --key k-3");
	expect_said("1 row(s) retried", OK, "retry --all --yes --status failed");
	cr_expect_eq(state("failed"), 2000);
	expect_said("row(s) retried", OK, "retry --all --yes");
	cr_expect_eq(env_number(&e, "SELECT COUNT(*) FROM message_outbox WHERE status = 3"), 0);
	cr_expect_eq(env_number(&e,
	                 "SELECT COUNT(*) FROM message_outbox WHERE status = 0 AND "
	                 "retry_count = 0 AND next_retry_at IS NULL"),
	    2500);
	expect_said("0 row(s) retried", OK, "retry --all --yes --status abandoned");
}

/* --- beside a relay at work -------------------------------------------------------------------- */

/* A relay whose store waits at `point` once it gets there. */
static void relay_held_at(const char *point)
{
	char fail[256];
	FILE *f = fopen(hold, "w");
	cr_assert_not_null(f);
	(void) fclose(f);
	(void) snprintf(fail, sizeof(fail), "%s=hold:%s", point, hold);
	relay = relay_start(&e, fail);
}

static void let_go(void)
{
	cr_assert_eq(unlink(hold), 0);
}

static const char *nowhere(void)
{
	static char name[128];
	(void) snprintf(name, sizeof(name), "%s.nowhere", e.name);
	return name;
}

/* Row "lost" of key k, FAILED with 3 attempts and due; it goes to a queue that is not there. Behind
 * it a row of its key; and one that tells by its arrival that "lost" is on its way. */
static void lost_on_its_way(void)
{
	row("lost", "k", 2, 3);
	env_sql(
	    &e, "UPDATE message_outbox SET next_retry_at = NOW(6), routing_key = '%s'", nowhere());
	row("m-000001", "k", 0, 0);
	row("m-000000", "", 0, 0);
	relay_held_at("publisher.refused");
	EVENTUALLY(SOON_MS, env_ready(&e, e.queue) == 1);
}

Test(outbox_admin, a_row_skipped_in_flight_stays_skipped_when_it_is_refused)
{
	lost_on_its_way();
	expect_said("failed -> abandoned", OK, "skip lost");
	cr_expect_eq(env_ready(&e, e.queue), 1, "its key went on before its outcome was known");
	let_go();
	EVENTUALLY(SOON_MS, proc_said(&relay, "already gone, changed"));
	EVENTUALLY(SOON_MS, env_ready(&e, e.queue) == 2);
	cr_expect_eq(state("lost"), 3003);
	char *error = env_text(&e, "SELECT last_error FROM message_outbox WHERE msg_id = 'lost'");
	cr_expect_str_eq(error, "skipped by a person; 312 NO_ROUTE");
	free(error);
	cr_expect_eq(proc_stop(&relay, SOON_MS), 0);
}

/* The person mends the destination and says retry while an attempt is under way that met the
 * old one: its refusal must not put the row off for an hour. */
Test(outbox_admin, a_row_retried_in_flight_is_due_when_it_is_refused)
{
	lost_on_its_way();
	env_declare(&e, nowhere(), NULL);
	expect_said("failed -> due now", OK, "retry lost");
	let_go();
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 0);
	cr_expect_eq(env_ready(&e, nowhere()), 1);
	cr_expect_eq(env_ready(&e, e.queue), 2);
	cr_expect_eq(proc_stop(&relay, SOON_MS), 0);
	env_delete_queue(&e, nowhere());
}

static void confirmed_in_flight(void)
{
	row("m-000000", "k", 2, 3);
	env_sql(&e, "UPDATE message_outbox SET next_retry_at = NOW(6)");
	relay_held_at("publisher.acked");
	EVENTUALLY(SOON_MS, env_ready(&e, e.queue) == 1);
}

Test(outbox_admin, a_row_skipped_in_flight_is_gone_when_it_is_confirmed)
{
	confirmed_in_flight();
	expect_said("failed -> abandoned", OK, "skip m-000000");
	let_go();
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 0);
	cr_expect_eq(proc_stop(&relay, SOON_MS), 0);
	cr_expect_eq(env_ready(&e, e.queue), 1);
}

Test(outbox_admin, a_row_skipped_and_retried_in_flight_is_sent_once_and_marked)
{
	env_config(&e, "\"publisher\":{\"lease\":\"2s\",\"keep_sent\":true}");
	confirmed_in_flight();
	expect_said("failed -> abandoned", OK, "skip m-000000");
	expect_said("abandoned -> pending", OK, "retry m-000000");
	let_go();
	EVENTUALLY(SOON_MS, state("m-000000") == 1000);
	row("m-000001", "k", 0, 0);
	EVENTUALLY(SOON_MS, state("m-000001") == 1000);
	cr_expect_eq(proc_stop(&relay, SOON_MS), 0);
	queue_take(&e, e.queue, &got);
	arrived_check(&got, 0, 2, 1, 1);
	expect_said("is already sent", NOT_DONE, "retry m-000000");
}

/* An abandoned row has left the order. Retried it goes in its turn: after what is under way,
 * before the later rows of its key. */
Test(outbox_admin, an_abandoned_row_that_is_retried_takes_its_turn)
{
	row("m-000000", "k", 3, 10);
	row("m-000001", "k", 0, 0);
	row("m-000002", "k", 0, 0);
	row("m-000003", "k", 3, 10);
	relay_held_at("publisher.confirmed");
	EVENTUALLY(SOON_MS, env_ready(&e, e.queue) == 1);
	expect_said("abandoned -> pending", OK, "retry m-000003 m-000000");
	let_go();
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 0);
	cr_expect_eq(proc_stop(&relay, SOON_MS), 0);
	static const char *const order[] = { "m-000001", "m-000000", "m-000002", "m-000003" };
	queue_take(&e, e.queue, &got);
	cr_assert_eq(got.count, 4);
	for (size_t i = 0; i < 4; i++)
		cr_expect(bytes_are(got.msgs[i]->body, order[i]), "place %zu", i);
}

Test(outbox_admin, a_key_goes_on_when_its_failed_row_is_skipped)
{
	row("m-000000", "k", 2, 3); /* due in an hour */
	row("m-000001", "k", 0, 0);
	row("m-000002", "other", 0, 0);
	relay = relay_start(&e, NULL);
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 2);
	cr_expect_eq(state("m-000001"), 0);
	outbox(OK, "%s", "skip m-000000");
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 1);
	outbox(OK, "%s", "retry m-000000");
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 0);
	cr_expect_eq(proc_stop(&relay, SOON_MS), 0);
	queue_take(&e, e.queue, &got);
	arrived_check(&got, 0, 3, 1, 1);
}

/* Two relays, a queue that refuses most of what comes, and a person who skips and retries without
 * a rest: no row is lost, none is sent without being marked so. */
Test(outbox_admin, a_busy_person_loses_nothing, .timeout = 180)
{
	enum { ROWS = 400 };
	const queue_args tight = { .max_length = 20 };
	env_delete_queue(&e, e.queue);
	env_declare(&e, e.queue, &tight);
	env_config(&e,
	    "\"publisher\":{\"lease\":\"2s\",\"retry_delays\":[\"50ms\"],\"max_attempts\":4,"
	    "\"breaker_pause\":\"20ms\",\"breaker_pause_max\":\"100ms\","
	    "\"keep_sent\":true}");
	outbox_fill(&e, e.queue, 0, ROWS, 20);
	relay = relay_start(&e, NULL);
	proc second = relay_start(&e, NULL);
	int64_t end = now_ms() + 90000;
	for (int turn = 0;
	     env_number(&e, "SELECT COUNT(*) FROM message_outbox WHERE status <> 1") > 0; turn++) {
		int64_t failed = env_number(&e,
		    "SELECT COALESCE(MAX(id), 0) FROM (SELECT id FROM message_outbox WHERE status = 2"
		    " ORDER BY RAND() LIMIT 1) AS any_one");
		cr_assert_lt(now_ms(), end, "%lld rows are left",
		    (long long) env_number(
		        &e, "SELECT COUNT(*) FROM message_outbox WHERE status <> 1"));
		if (failed > 0) { /* it may be something else by now, then it is refused */
			char id[24];
			(void) snprintf(id, sizeof(id), "%lld", (long long) failed);
			char *args[] = { (char *) "outbox",
				(char *) (turn % 2 == 0 ? "skip" : "retry"), id, NULL };
			int status = env_run(&e, NULL, "relmq", args);
			cr_expect(status == OK || status == NOT_DONE, "exit status %d", status);
		}
		if (turn % 5 == 4)
			outbox(OK, "%s", "retry --all --yes");
		queue_sip(&e, e.queue, &got);
	}
	cr_expect_eq(proc_stop(&relay, SOON_MS), 0);
	cr_expect_eq(proc_stop(&second, SOON_MS), 0);
	queue_take(&e, e.queue, &got);
	arrived_check(&got, 0, ROWS, 1, 1);
}
