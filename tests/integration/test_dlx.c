/* test_dlx.c - relmq-dlx: what it declares, what it shows of parked messages, and replay,
 * which loses nothing whoever refuses or dies. */
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mq/topology.h"
#include "support/testconsumer.h"
#include "support/testoutbox.h"

static env e;
static char *output;
static arrived work; /* taken from the work queue */

static void close_env(void)
{
	arrived_free(&work);
	free(output);
	consumer_close(&e);
}

TestSuite(dlx, .fini = close_env, .timeout = 120);

#define BYTES(literal)                                                \
	{                                                             \
		.len = sizeof(literal) - 1, .bytes = (char *) literal \
	}

/* Run it; keeps what it printed. */
#define RUN(status, ...)                                                                 \
	do {                                                                             \
		free(output);                                                            \
		cr_assert_eq(dlx(&e, &output, __VA_ARGS__, NULL), status, "%s", output); \
	} while (0)

static bool printed(const char *text)
{
	return strstr(output, text) != NULL;
}

static void park_numbered(int count)
{
	put_numbered(&e, parked(&e), 1, count, 5, NULL);
}

/* A queue with a single active consumer refuses basic.get: all of it is consumed. */
static void take_work(size_t count)
{
	queue_take(&e, e.queue, &work);
	cr_assert_eq(work.count, count);
}

/* --- declare ------------------------------------------------------------------------------- */

Test(dlx, declare_twice)
{
	consumer_open(&e, &(setup){ .tiers = "\"200ms\",\"1s\"", .undeclared = true });
	RUN(0, "declare");
	cr_assert(printed(e.queue) && printed("2 tier(s)"));
	cr_assert_eq(env_ready(&e, e.queue), 0);
	cr_assert_eq(env_ready(&e, parked(&e)), 0);
	cr_assert_eq(env_ready(&e, tier(&e, "200ms")), 0);
	cr_assert_eq(env_ready(&e, tier(&e, "1s")), 0);
	put_numbered(&e, e.queue, 1, 3, 1, NULL);
	RUN(0, "declare");
	cr_assert_eq(env_ready(&e, e.queue), 3, "a queue that is there keeps what it has");
}

/* D03: each tier has its own delay, and leads back. */
Test(dlx, tiers_return_after_their_delay)
{
	consumer_open(&e, &(setup){ .tiers = "\"200ms\",\"1h\"" });
	put(&e, tier(&e, "1h"), &(note){ .id = "late" }, 1);
	put(&e, tier(&e, "200ms"), &(note){ .id = "soon" }, 1);
	EVENTUALLY(10000, env_ready(&e, e.queue) == 1);
	take_work(1);
	cr_assert_str_eq(text_of(work.msgs[0]->props.message_id), "soon");
	cr_assert_eq(env_ready(&e, tier(&e, "1h")), 1);
}

/* D05: one line that names the difference, and nothing is made, not even what was missing. */
static void declare_refuses(const char *what)
{
	RUN(1, "declare");
	cr_assert(printed("inequivalent arg") && printed(what), "%s", output);
	cr_assert(printed("nothing was changed"), "%s", output);
	cr_assert_eq(strchr(output, '\n'), output + strlen(output) - 1, "one line: %s", output);
}

Test(dlx, declare_against_another_work_queue)
{
	consumer_open(&e, &(setup){ .undeclared = true });
	env_declare(&e, e.queue, NULL); /* without single active consumer */
	declare_refuses("x-single-active-consumer");
	cr_assert(printed(e.queue));
	cr_assert_eq(env_ready(&e, parked(&e)), -1);
	cr_assert_eq(env_ready(&e, tier(&e, "200ms")), -1);
}

Test(dlx, declare_against_another_tier)
{
	consumer_open(&e, &(setup){ .tiers = "\"200ms\",\"1s\"", .undeclared = true });
	env_declare(&e, tier(&e, "1s"), NULL); /* without its delay */
	declare_refuses(tier(&e, "1s"));
	cr_assert_eq(env_ready(&e, e.queue), -1);
	cr_assert_eq(env_ready(&e, tier(&e, "200ms")), -1);
}

/* --- list and show -------------------------------------------------------------------------- */

Test(dlx, list_and_show)
{
	consumer_open(&e, &(setup){ .queue = "\"max_attempts\":1" });
	put(&e, e.queue, &(note){ .id = "order-17", .key = "anna", .order = "reject" }, 1);
	proc p = consumer_start(&e, NULL);
	EVENTUALLY(10000, env_ready(&e, parked(&e)) == 1);
	consumer_stop(&p);
	RUN(0, "list");
	cr_assert(
	    printed("order-17") && printed("anna") && printed("told to reject"), "%s", output);
	cr_assert(printed("1 parked message(s)"));
	RUN(0, "show", "order-17");
	cr_assert(printed("id           order-17\n") && printed("key          anna\n") &&
	        printed("attempts     1\n") && printed("reason       told to reject\n") &&
	        printed("body         8 bytes\norder-17\n") && printed("\"x-test-verdict\""),
	    "%s", output);
	RUN(1, "show", "order-18");
	cr_assert(printed("no parked message has id order-18"));
	RUN(1, "replay", "--yes", "order-18");
	cr_assert(printed("no parked message has such an id"));
	EVENTUALLY(10000, env_ready(&e, parked(&e)) == 1); /* looking takes nothing */
}

Test(dlx, usage)
{
	consumer_open(&e, &(setup){ 0 });
	RUN(0, "list");
	cr_assert_str_eq(output, "0 parked message(s)\n");
	RUN(2, "show");
	RUN(2, "show", "a", "b");
	RUN(2, "list", "a");
	RUN(2, "replay", "--sure");
	RUN(2, "forget");
	RUN(1, "list", "--queue", "elsewhere");
	cr_assert(printed("queue elsewhere is not in dlx.queues"));
	env_delete_queue(&e, parked(&e));
	RUN(1, "list");
	cr_assert(printed("no queue"), "%s", output);
}

Test(dlx, a_thousand_are_listed_and_kept)
{
	int lines = 0;
	consumer_open(&e, &(setup){ 0 });
	park_numbered(1000);
	for (int i = 0; i < 2; i++) {
		RUN(0, "list");
		cr_assert(printed("1000 parked message(s)"));
		EVENTUALLY(10000, env_ready(&e, parked(&e)) == 1000);
	}
	for (const char *at = output; (at = strstr(at, "m-")) != NULL; at++)
		lines++;
	cr_assert_eq(lines, 1000);
	arrived got = { 0 };
	queue_take(&e, parked(&e), &got);
	arrived_check(&got, 1, 1000, 1, 1);
	arrived_free(&got);
}

/* What came with a message must not reach a terminal as it is. */
Test(dlx, hostile_bytes_are_not_printed)
{
	amqp_table_entry_t header = { .key = BYTES("x-relmq-reason") };
	static const note hostile = { .id = "id\x1b[2J\n\xff",
		.key = "k\r\x07",
		.type = BYTES("\x1b]0;title\x07"),
		.body = BYTES("\x1b[31mred\0\xff") };
	static const note invisible = { .id = "c1",
		.key = "a\xc2\x9b"
		       "31mb", /* CSI as one character, U+009B */
		.body = BYTES("back\rover\x08, \xc2\x9b"
		              "31m, \xe2\x80\xae") };
	note first = hostile;
	header.value.kind = AMQP_FIELD_KIND_UTF8;
	header.value.value.bytes = amqp_cstring_bytes("why\x1b[1A\nforged line");
	first.header = &header;
	consumer_open(&e, &(setup){ 0 });
	put(&e, parked(&e), (note[]){ first, invisible }, 2);
	char *const commands[][3] = { { "list", NULL }, { "show", (char *) (uintptr_t) first.id },
		{ "show", "c1" }, { "replay", NULL } };
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		RUN(0, commands[i][0], commands[i][1]);
		for (const char *c = output; *c != '\0'; c++)
			cr_assert((unsigned char) *c >= 0x20 || *c == '\n', "byte %02x of %s: %s",
			    (unsigned char) *c, commands[i][0], output);
		cr_assert_null(strstr(output, "\xc2\x9b"), "a control character in %s", output);
		cr_assert_null(strchr(output, '\xff'));
		cr_assert_null(strstr(output, "\nforged"));
	}
}

/* --- replay ---------------------------------------------------------------------------------- */

Test(dlx, replay_takes_the_chosen_ones)
{
	consumer_open(&e, &(setup){ 0 });
	park_numbered(5);
	RUN(0, "replay", "m-000002", "m-000004");
	cr_assert(printed("2 of 5 parked message(s) would be replayed"), "%s", output);
	EVENTUALLY(5000, env_ready(&e, parked(&e)) == 5);
	cr_assert_eq(env_ready(&e, e.queue), 0, "a dry run changes nothing");
	RUN(0, "replay", "--yes", "m-000002", "m-000004");
	cr_assert(printed("2 of 5 parked message(s) replayed"), "%s", output);
	EVENTUALLY(5000, env_ready(&e, parked(&e)) == 3);
	take_work(2);
	cr_assert_str_eq(text_of(work.msgs[0]->props.message_id), "m-000002");
	cr_assert_str_eq(text_of(work.msgs[1]->props.message_id), "m-000004");
	cr_assert_eq(work.msgs[0]->props.delivery_mode, AMQP_DELIVERY_PERSISTENT);
	cr_assert_str_eq(header_of(work.msgs[0], "x-relmq-key"), "k-2", "its headers go with it");
}

/* D11: what tells of earlier attempts stays behind; the copy neither expires nor fans out. */
Test(dlx, replay_resets_the_counters)
{
	consumer_open(&e, &(setup){ .queue = "\"max_attempts\":2" });
	put(&e, e.queue, &(note){ .id = "a", .key = "k", .order = "retry" }, 1);
	proc p = consumer_start(&e, NULL);
	EVENTUALLY(10000, env_ready(&e, parked(&e)) == 1);
	consumer_stop(&p);
	RUN(0, "replay", "--yes");
	take_work(1);
	const relmq__msg *msg = work.msgs[0];
	cr_assert_str_eq(text_of(msg->props.message_id), "a");
	cr_assert_null(relmq__msg_header(msg, "x-relmq-attempt"));
	cr_assert_null(relmq__msg_header(msg, "x-relmq-reason"));
	cr_assert_null(relmq__msg_header(msg, "x-death"));
	cr_assert_str_eq(header_of(msg, "x-relmq-key"), "k");
	cr_assert_eq(env_ready(&e, parked(&e)), 0);
}

/* D08: the handler is still broken and runs meanwhile: only those there at first go. */
Test(dlx, replay_ends_though_they_come_back)
{
	consumer_open(&e, &(setup){ 0 });
	put_numbered(&e, e.queue, 1, 20, 5, "reject");
	proc p = consumer_start(&e, NULL);
	EVENTUALLY(10000, env_ready(&e, parked(&e)) == 20);
	RUN(0, "replay", "--yes");
	cr_assert(printed("20 of 20 parked message(s) replayed"), "%s", output);
	EVENTUALLY(10000, env_ready(&e, parked(&e)) == 20);
	consumer_stop(&p);
	cr_assert_eq(consumer_total(&p, "parked"), 40);
	arrived got = { 0 };
	queue_take(&e, parked(&e), &got);
	arrived_check(&got, 1, 20, 1, 1);
	arrived_free(&got);
}

/* D09: nowhere to go: it stays. */
Test(dlx, replay_to_a_missing_queue)
{
	consumer_open(&e, &(setup){ 0 });
	park_numbered(3);
	env_delete_queue(&e, e.queue);
	RUN(1, "replay", "--yes");
	cr_assert(printed("NO_ROUTE") && printed("stays parked"), "%s", output);
	cr_assert(printed("0 of 1 parked message(s) replayed"), "%s", output);
	EVENTUALLY(5000, env_ready(&e, parked(&e)) == 3);
}

Test(dlx, replay_to_a_full_queue)
{
	consumer_open(&e, &(setup){ .undeclared = true });
	env_declare(&e, e.queue, &(queue_args){ .max_length = 1 });
	env_declare(&e, parked(&e), NULL);
	park_numbered(10);
	RUN(1, "replay", "--yes");
	cr_assert(printed("did not take it back: nack"), "%s", output);
	int64_t taken = env_ready(&e, e.queue);
	cr_assert(taken >= 1 && taken < 10);
	EVENTUALLY(5000, env_ready(&e, parked(&e)) == 10 - taken);
	arrived got = { 0 };
	queue_take(&e, e.queue, &got);
	queue_take(&e, parked(&e), &got);
	arrived_check(&got, 1, 10, 1, 1);
	arrived_free(&got);
}

/* Killed between the confirm and the ack: in both queues, and still one effect. */
Test(dlx, replay_is_killed)
{
	char *args[] = { "replay", "--yes", NULL };
	consumer_open(&e, &(setup){ 0 });
	park_numbered(5);
	proc r = env_start(&e, "relmq-dlx", "dlx.replayed=kill@3", args);
	cr_assert_eq(proc_wait(&r, 15000), 128 + SIGKILL);
	cr_assert_eq(env_ready(&e, e.queue), 3);
	EVENTUALLY(10000, env_ready(&e, parked(&e)) == 3);
	RUN(0, "replay", "--yes");
	cr_assert_eq(env_ready(&e, e.queue), 6);
	cr_assert_eq(env_ready(&e, parked(&e)), 0);
	put_numbered(&e, e.queue, 6, 5, 5, NULL); /* one of each key, behind the copies */
	proc p = consumer_start(&e, NULL);
	EVENTUALLY(10000, effects(&e) == 10);
	consumer_stop(&p);
	effects_are(&e, 1, 10);
	cr_assert_eq(consumer_total(&p, "duplicates"), 1);
	cr_assert_eq(env_ready(&e, e.queue), 0);
}
