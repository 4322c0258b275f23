/* test_consumer.c - the consumer while nothing kills it: effects and duplicates, what a
 * missing or strange id does, queues that come and go, and order by key while the servers
 * are restarted below it. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mq/topology.h"
#include "support/testconsumer.h"
#include "support/testoutbox.h"

static env e;

static void close_env(void)
{
	consumer_close(&e);
}

TestSuite(consumer, .fini = close_env, .timeout = 120);

static void declare_classic(const char *queue)
{
	relmq_error err;
	amqp_table_entry_t type = { .key = amqp_cstring_bytes("x-queue-type") };
	type.value.kind = AMQP_FIELD_KIND_UTF8;
	type.value.value.bytes = amqp_cstring_bytes("classic");
	cr_assert_eq(relmq__queue_declare(&e.mq, queue, (amqp_table_t){ 1, &type }, &err), RELMQ_OK,
	    "%s", err.text);
}

/* Without single active consumer, so that two consumers share it. */
static void declare_plain(void)
{
	env_declare(&e, e.queue, NULL);
	env_declare(&e, parked(&e), NULL);
	env_declare(&e, tier(&e, "200ms"), NULL);
}

/* C13: a global prefetch would make a quorum queue refuse its consumer. */
Test(consumer, quorum_queue)
{
	consumer_open(&e, &(setup){ 0 });
	put_numbered(&e, e.queue, 1, 300, 10, NULL);
	proc p = consumer_start(&e, NULL);
	EVENTUALLY(20000, effects(&e) == 300);
	consumer_stop(&p);
	effects_are(&e, 1, 300);
	effects_in_order(&e);
	cr_assert_eq(env_ready(&e, e.queue), 0, "not everything was acked");
	cr_assert_eq(consumer_total(&p, "effects"), 300);
	cr_assert_eq(env_number(&e, "SELECT COUNT(*) FROM message_inbox WHERE state = 1"), 300);
}

Test(consumer, classic_queue)
{
	consumer_open(&e, &(setup){ .undeclared = true });
	declare_classic(e.queue);
	env_declare(&e, parked(&e), NULL);
	env_declare(&e, tier(&e, "200ms"), NULL);
	put_numbered(&e, e.queue, 1, 300, 10, NULL);
	proc p = consumer_start(&e, NULL);
	EVENTUALLY(20000, effects(&e) == 300);
	consumer_stop(&p);
	effects_are(&e, 1, 300);
	effects_in_order(&e);
	cr_assert_eq(env_ready(&e, e.queue), 0);
}

/* --- duplicates ------------------------------------------------------------------------- */

/* C01: the second copy waits for the first's transaction, and is then a duplicate. */
Test(consumer, same_id_twice_at_once)
{
	consumer_open(
	    &e, &(setup){ .undeclared = true, .consumer = "\"workers\":1,\"prefetch\":1" });
	declare_plain();
	proc a = consumer_start(&e, NULL);
	proc b = consumer_start(&e, NULL);
	consumer_consumes(&a);
	consumer_consumes(&b);
	const note copy = { .id = "twin", .order = "sleep:1000" };
	put(&e, e.queue, (note[]){ copy, copy }, 2);
	EVENTUALLY(10000, effects_begun(&e) == 1);
	EVENTUALLY(10000, effects(&e) == 1);
	consumer_stop(&a);
	consumer_stop(&b);
	cr_assert_eq(consumer_total(&a, "received"), 1);
	cr_assert_eq(consumer_total(&b, "received"), 1);
	cr_assert_eq(consumer_total(&a, "effects") + consumer_total(&b, "effects"), 1);
	cr_assert_eq(consumer_total(&a, "duplicates") + consumer_total(&b, "duplicates"), 1);
	cr_assert_eq(effects(&e), 1);
	cr_assert_eq(env_ready(&e, e.queue), 0, "both copies must be acked");
}

/* C05, C08: known by the inbox alone, neither by a flag of the broker nor by a text. */
Test(consumer, copies_are_absorbed_whatever_the_broker_says)
{
	consumer_open(&e, &(setup){ 0 });
	put_numbered(&e, e.queue, 1, 20, 5, NULL);
	put_numbered(&e, e.queue, 1, 20, 5, NULL); /* copies in the same batch: not redelivered */
	proc p = consumer_start(&e, NULL);
	EVENTUALLY(10000, env_ready(&e, e.queue) == 0 && effects(&e) == 20);
	put_numbered(&e, e.queue, 1, 20, 5, NULL); /* long after */
	put_numbered(&e, e.queue, 21, 5, 5, NULL); /* one of each key, behind the copies */
	EVENTUALLY(10000, effects(&e) == 25);
	consumer_stop(&p);
	effects_are(&e, 1, 25);
	cr_assert_eq(consumer_total(&p, "received"), 65);
	cr_assert_eq(consumer_total(&p, "duplicates"), 40);
	cr_assert_eq(env_ready(&e, e.queue), 0);
	cr_assert_eq(env_ready(&e, parked(&e)), 0);
}

/* C08: the connection goes between COMMIT and ack; the message comes again, redelivered. */
Test(consumer, connection_lost_between_commit_and_ack)
{
	char path[200], fail[240];
	consumer_open(&e, &(setup){ 0 });
	(void) snprintf(path, sizeof(path), "%s/%s.hold", e.dir, e.name);
	(void) snprintf(fail, sizeof(fail), "consumer.before_ack=hold:%s", path);
	FILE *f = fopen(path, "w");
	cr_assert(f != NULL && fclose(f) == 0);
	put_numbered(&e, e.queue, 1, 10, 3, NULL);
	proc p = consumer_start(&e, fail);
	EVENTUALLY(10000, effects(&e) == 10);
	cr_assert_eq(env_ctl("close_all_connections test"), 0);
	cr_assert_eq(unlink(path), 0);
	env_reopen_mq(&e);
	EVENTUALLY(15000, proc_said(&p, "is back after"));
	EVENTUALLY(15000, env_ready(&e, e.queue) == 0);
	put_numbered(&e, e.queue, 11, 3, 3, NULL); /* one of each key, behind the copies */
	EVENTUALLY(10000, effects(&e) == 13);
	consumer_stop(&p);
	effects_are(&e, 1, 13);
	cr_assert_eq(consumer_total(&p, "duplicates"), 10);
	cr_assert_eq(env_ready(&e, e.queue), 0);
	cr_assert_eq(env_ready(&e, parked(&e)), 0);
}

/* C05: 1062 is a duplicate where the inbox says it, in any language; in the handler it is
 * a failure. */
Test(consumer, duplicate_key_in_the_handler_is_a_failure)
{
	consumer_open(&e,
	    &(setup){ .queue = "\"max_attempts\":2",
	        .handler = "{\"kind\":\"sql\",\"statements\":"
	                   "[\"INSERT INTO uniq (v) VALUES (:payload)\"]}" });
	env_sql(&e, "CREATE TABLE uniq (v VARBINARY(64) PRIMARY KEY)");
	env_sql(&e, "INSERT INTO uniq VALUES ('taken')");
	admin_sql(&e, "SET GLOBAL lc_messages = 'fr_FR'");
	const note notes[] = { { .id = "good", .body = amqp_cstring_bytes("free") },
		{ .id = "bad", .body = amqp_cstring_bytes("taken") },
		{ .id = "good", .body = amqp_cstring_bytes("free") } };
	put(&e, e.queue, notes, 3);
	proc p = consumer_start(&e, NULL);
	EVENTUALLY(10000, env_ready(&e, parked(&e)) == 1);
	consumer_stop(&p);
	admin_sql(&e, "SET GLOBAL lc_messages = 'en_US'");
	cr_assert_eq(consumer_total(&p, "effects"), 1);
	cr_assert_eq(consumer_total(&p, "duplicates"), 1, "the copy, and not the failure");
	relmq__msg *msg = env_get(&e, parked(&e));
	cr_assert_str_eq(text_of(msg->props.message_id), "bad");
	cr_assert_not_null(strstr(header_of(msg, "x-relmq-reason"), "(1062)"));
	cr_assert_eq(relmq__msg_header_int(msg, "x-relmq-attempt", 0), 2);
	relmq__msg_free(msg);
	cr_assert_eq(env_number(&e, "SELECT COUNT(*) FROM uniq"), 2);
	cr_assert_eq(env_ready(&e, e.queue), 0);
}

/* C06: what cannot be recognised when it comes again must not run at all. */
Test(consumer, message_without_id_is_parked)
{
	consumer_open(&e, &(setup){ 0 });
	const note anonymous = { .key = "k", .body = amqp_cstring_bytes("who am I") };
	put(&e, e.queue, (note[]){ { .id = "a" }, anonymous, { .id = "b" } }, 3);
	proc p = consumer_start(&e, NULL);
	EVENTUALLY(10000, env_ready(&e, parked(&e)) == 1 && effects(&e) == 2);
	consumer_stop(&p);
	relmq__msg *msg = env_get(&e, parked(&e));
	cr_assert_eq(msg->props._flags & AMQP_BASIC_MESSAGE_ID_FLAG, 0U);
	cr_assert_str_eq(header_of(msg, "x-relmq-reason"), "the message has no message_id");
	cr_assert_str_eq(text_of(msg->body), "who am I");
	relmq__msg_free(msg);
	cr_assert_eq(effects_of(&e, "a") + effects_of(&e, "b"), 2);
	cr_assert_eq(env_ready(&e, e.queue), 0);
}

/* --- what is not there ------------------------------------------------------------------- */

static int lines_with(const proc *p, const char *text)
{
	int n = 0;
	char *log = proc_log(p);
	for (char *at = log; (at = strstr(at, text)) != NULL; at++)
		n++;
	free(log);
	return n;
}

/* C12: started first; one line says what is missing, and what to do. */
Test(consumer, queue_is_declared_later)
{
	consumer_open(&e, &(setup){ .undeclared = true });
	proc p = consumer_start(&e, NULL);
	EVENTUALLY(10000, proc_said(&p, "does not exist"));
	char *log = proc_log(&p);
	char *line = strstr(log, e.queue);
	cr_assert(line != NULL && strstr(line, "run `relmq-dlx declare`") != NULL, "%s", log);
	free(log);
	cr_assert_eq(dlx(&e, NULL, "declare", NULL), 0);
	put_numbered(&e, e.queue, 1, 10, 3, NULL);
	EVENTUALLY(15000, effects(&e) == 10);
	cr_assert_eq(lines_with(&p, "does not exist"), 1, "once, and not at each try");
	consumer_stop(&p);
	effects_are(&e, 1, 10);
}

/* C12: deleted while it is consumed, and declared again. */
Test(consumer, queue_is_deleted_and_comes_back)
{
	consumer_open(&e, &(setup){ 0 });
	proc p = consumer_start(&e, NULL);
	consumer_consumes(&p);
	put_numbered(&e, e.queue, 1, 10, 3, NULL);
	EVENTUALLY(10000, effects(&e) == 10);
	env_delete_queue(&e, e.queue);
	EVENTUALLY(10000, proc_said(&p, "cancelled the consumer (queue deleted or moved)"));
	cr_assert(proc_running(&p));
	cr_assert_eq(dlx(&e, NULL, "declare", NULL), 0);
	put_numbered(&e, e.queue, 11, 10, 3, NULL);
	EVENTUALLY(15000, effects(&e) == 20);
	consumer_stop(&p);
	effects_are(&e, 1, 20);
	cr_assert_eq(env_ready(&e, e.queue), 0);
}

static void ends_with_one_line(const char *what, const char *remedy)
{
	put_numbered(&e, e.queue, 1, 5, 1, NULL);
	proc p = consumer_start(&e, NULL);
	cr_assert_eq(proc_wait(&p, 15000), 1);
	char *log = proc_log(&p);
	cr_assert_eq(lines_with(&p, " error ") + lines_with(&p, " warn "), 1, "%s", log);
	cr_assert(strstr(log, what) != NULL && strstr(log, remedy) != NULL, "%s", log);
	free(log);
	cr_assert_eq(env_ready(&e, e.queue), 5, "nothing may be taken or lost");
}

Test(consumer, no_schema_ends_it)
{
	consumer_open(&e, &(setup){ 0 });
	env_sql(&e, "DROP TABLE relmq_schema");
	ends_with_one_line(e.name, "relmq migrate");
}

Test(consumer, no_inbox_ends_it)
{
	consumer_open(&e, &(setup){ 0 });
	env_sql(&e, "DROP TABLE message_inbox");
	ends_with_one_line("message_inbox", "restore it");
}

static int64_t newest_session(void)
{
	return env_number(&e,
	    "SELECT COALESCE(MAX(id), 0) FROM information_schema.processlist"
	    " WHERE db = '%s'",
	    e.name);
}

/* Dropped while it runs: an outage, in which nothing is charged and nothing parked. */
Test(consumer, inbox_goes_and_comes_back)
{
	consumer_open(&e, &(setup){ .queue = "\"max_attempts\":1" });
	proc p = consumer_start(&e, NULL);
	consumer_consumes(&p);
	env_sql(&e, "RENAME TABLE message_inbox TO elsewhere");
	put_numbered(&e, e.queue, 1, 20, 3, NULL);
	EVENTUALLY(10000, proc_said(&p, "message_inbox"));
	int64_t session = newest_session();
	EVENTUALLY(20000, newest_session() >= session + 6); /* three more tries of each worker */
	cr_assert_eq(effects(&e), 0);
	env_sql(&e, "RENAME TABLE elsewhere TO message_inbox");
	EVENTUALLY(20000, effects(&e) == 20);
	consumer_stop(&p);
	cr_assert_leq(lines_with(&p, "trying again"), 2, "a line for each worker, not each try");
	effects_are(&e, 1, 20);
	cr_assert_eq(env_ready(&e, parked(&e)), 0);
	cr_assert_eq(env_ready(&e, e.queue), 0);
}
