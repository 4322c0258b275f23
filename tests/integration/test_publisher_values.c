/* test_publisher_values.c - bytes go through as they are: any payload, any character set,
 * from sessions set up as badly as an application's may be. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <relmq/outbox.h>

#include "base/backoff.h"
#include "support/testoutbox.h"

#define EMOJI "\xf0\x9f\x98\x80"
#define GREEK "\xce\xb1\xce\xb2"

enum { SOON_MS = 15000, FRAME_BODY = 131064 }; /* bytes of a body in one frame of 128 KiB */

static env e;
static proc relay;
static relmq_error err;

static void start(void)
{
	env_open(&e);
	env_declare(&e, e.queue, NULL);
	env_config(&e, "\"publisher\":{\"lease\":\"2s\"}");
}

static void stop(void)
{
	proc_kill(&relay);
	env_close(&e);
}

TestSuite(values, .init = start, .fini = stop, .timeout = 60);

static void run(relmq__db *db, const char *sql)
{
	cr_assert_eq(
	    relmq__db_exec(db, sql, strlen(sql), NULL, &err), RELMQ_OK, "%s: %s", sql, err.text);
}

/* By the C API, in a transaction of its own. */
static void write_message(relmq__db *db, const relmq_msg *m)
{
	relmq_outbox *ob = NULL;
	cr_assert_eq(relmq_outbox_open(&ob, db->mysql, NULL, &err), RELMQ_OK, "%s", err.text);
	run(db, "START TRANSACTION");
	cr_assert_eq(relmq_outbox_add(ob, m, NULL, &err), RELMQ_OK, "%s", err.text);
	run(db, "COMMIT");
	relmq_outbox_close(ob);
}

static void write_body(const char *id, const void *body, size_t len)
{
	relmq_msg m = RELMQ_MSG_INIT;
	m.message_id = id;
	m.routing_key = e.queue;
	m.body = body;
	m.body_len = len;
	write_message(&e.db, &m);
}

static void expect_body(const char *id, const void *body, size_t len)
{
	relmq__msg *msg = queue_wait(&e, e.queue, SOON_MS);
	cr_expect(bytes_are(msg->props.message_id, id));
	cr_expect_eq(msg->body.len, len, "%zu bytes, not %zu", msg->body.len, len);
	cr_expect(msg->body.len == len && memcmp(msg->body.bytes, body, len) == 0,
	    "%zu bytes arrived otherwise", len);
	relmq__msg_free(msg);
}

/* --- bytes --------------------------------------------------------------------------------- */

static char *random_bytes(size_t n)
{
	char *bytes = malloc(n + 1);
	cr_assert_not_null(bytes);
	for (size_t i = 0; i < n; i++)
		bytes[i] = (char) relmq__random_below(256);
	return bytes;
}

Test(values, bodies_of_any_bytes_and_any_length)
{
	static const size_t lengths[] = { 0, 1, 16384, 16385, FRAME_BODY - 1, FRAME_BODY,
		FRAME_BODY + 1, 2 * FRAME_BODY, 2 * FRAME_BODY + 1, 1 << 20 };
	static const char nuls[] = "\0\1\0\xff\0";
	relay = relay_start(&e, NULL);
	write_body("nuls", nuls, sizeof(nuls));
	expect_body("nuls", nuls, sizeof(nuls));
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		char *body = random_bytes(lengths[i]);
		write_body("random", body, lengths[i]);
		expect_body("random", body, lengths[i]);
		free(body);
	}
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 0);
}

/* Large ones together, more than the window of bytes holds, with small ones between. */
Test(values, large_bodies_among_small_ones)
{
	enum { LARGE = 1 << 20, PAIRS = 12 };
	arrived got = { 0 };
	size_t large = 0;
	env_config(&e, "\"publisher\":{\"lease\":\"2s\",\"window_bytes\":1500000}");
	for (int i = 0; i < PAIRS; i++) {
		env_sql(&e,
		    "INSERT INTO message_outbox (msg_id, routing_key, payload) VALUES"
		    " ('m-%06d', '%s', 'm-%06d'), ('large', '%s', REPEAT('x', %d))",
		    i, e.queue, i, e.queue, LARGE);
	}
	relay = relay_start(&e, NULL);
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 0);
	cr_expect_eq(proc_stop(&relay, SOON_MS), 0);
	queue_take(&e, e.queue, &got);
	cr_expect_eq(got.count, 2 * PAIRS);
	for (size_t i = 0; i < got.count; i++)
		large += got.msgs[i]->body.len == LARGE;
	cr_expect_eq(large, PAIRS);
	arrived_free(&got);
}

/* The time for rows of one key, which go one after the other. */
static int64_t time_rows(int64_t length, int count)
{
	for (int i = 0; i < count; i++)
		env_sql(&e,
		    "INSERT INTO message_outbox (routing_key, business_key, payload, next_retry_at)"
		    " VALUES ('%s', 'k', REPEAT('x', %lld), NOW(6) + INTERVAL 1 HOUR)",
		    e.queue, (long long) length);
	int64_t began = now_ms();
	env_sql(&e, "UPDATE message_outbox SET status = 0, next_retry_at = NULL");
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 0);
	return now_ms() - began;
}

/* A body that fills its last frame would be held back by the kernel for 200 ms each, where
 * a frame is smaller than what loopback sends at once. */
Test(values, a_body_that_fills_its_frame_is_no_slower_than_another)
{
	enum { ROWS = 20, SMALL_FRAME = 8192, OVERHEAD = 8 };
	const int64_t body = SMALL_FRAME - OVERHEAD;
	e.settings.rabbitmq.frame_max = SMALL_FRAME;
	env_config(&e, "\"publisher\":{\"lease\":\"2s\"}");
	relay = relay_start(&e, NULL);
	(void) time_rows(body - 1, 1);
	int64_t other = time_rows(body - 1, ROWS);
	int64_t full = time_rows(body, ROWS);
	cr_expect_lt(full, other + ROWS * 100, "%d rows: %lld ms, not %lld ms", (int) ROWS,
	    (long long) full, (long long) other);
}

/* --- character sets -------------------------------------------------------------------------- */

static const char *const bad_sessions[] = {
	"SET NAMES latin1, SESSION sql_mode = ''",
	"SET NAMES utf8mb3, SESSION sql_mode = ''",
	"SET NAMES utf8mb4, SESSION sql_mode = 'NO_BACKSLASH_ESCAPES,ANSI_QUOTES'",
};

Test(values, text_of_any_alphabet_by_the_c_api)
{
	relay = relay_start(&e, NULL);
	for (size_t i = 0; i < sizeof(bad_sessions) / sizeof(bad_sessions[0]); i++) {
		relmq__db app;
		const relmq_header headers[] = { { "h-" EMOJI, "v-" EMOJI "\\\"'" },
			{ "greek", GREEK } };
		relmq_msg m = RELMQ_MSG_INIT;
		m.message_id = "id-" EMOJI;
		m.business_key = "k-" EMOJI GREEK;
		m.type = "t-" EMOJI;
		m.routing_key = e.queue;
		m.body = EMOJI "'\\";
		m.body_len = strlen(EMOJI "'\\");
		m.headers = headers;
		m.header_count = 2;
		env_session(&e, &app);
		run(&app, bad_sessions[i]);
		write_message(&app, &m);
		relmq__db_close(&app);
		relmq__msg *msg = queue_wait(&e, e.queue, SOON_MS);
		cr_expect(bytes_are(msg->props.message_id, m.message_id), "%s", bad_sessions[i]);
		cr_expect(bytes_are(msg->props.type, m.type), "%s", bad_sessions[i]);
		cr_expect(bytes_are(msg->body, m.body), "%s", bad_sessions[i]);
		cr_expect(bytes_are(relmq__msg_header_bytes(msg, "x-relmq-key"), m.business_key),
		    "%s", bad_sessions[i]);
		cr_expect(
		    bytes_are(relmq__msg_header_bytes(msg, headers[0].name), headers[0].value),
		    "%s", bad_sessions[i]);
		cr_expect(
		    bytes_are(relmq__msg_header_bytes(msg, "greek"), GREEK), "%s", bad_sessions[i]);
		relmq__msg_free(msg);
	}
}

/* Columns of bytes take what the client sent, whatever it calls its character set. */
Test(values, text_of_any_alphabet_by_plain_sql)
{
	char sql[512];
	relay = relay_start(&e, NULL);
	for (size_t i = 0; i < sizeof(bad_sessions) / sizeof(bad_sessions[0]); i++) {
		relmq__db app;
		(void) snprintf(sql, sizeof(sql),
		    "INSERT INTO message_outbox (msg_id, business_key, type, routing_key, payload)"
		    " VALUES ('id-" EMOJI "', 'k-" EMOJI "', 't-" EMOJI "', '%s',"
		    " 'p-" EMOJI GREEK "')",
		    e.queue);
		env_session(&e, &app);
		run(&app, bad_sessions[i]);
		relmq_code code = relmq__db_exec(&app, sql, strlen(sql), NULL, &err);
		relmq__db_close(&app);
		if (code != RELMQ_OK) /* a clean error is as good: nothing was written */
			continue;
		relmq__msg *msg = queue_wait(&e, e.queue, SOON_MS);
		cr_expect(bytes_are(msg->props.message_id, "id-" EMOJI), "%s", bad_sessions[i]);
		cr_expect(bytes_are(msg->props.type, "t-" EMOJI), "%s", bad_sessions[i]);
		cr_expect(bytes_are(msg->body, "p-" EMOJI GREEK), "%s", bad_sessions[i]);
		cr_expect(bytes_are(relmq__msg_header_bytes(msg, "x-relmq-key"), "k-" EMOJI), "%s",
		    bad_sessions[i]);
		relmq__msg_free(msg);
	}
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 0);
}

/* Keys compare as bytes: what a collation would call the same are three keys, and a row of
 * one does not wait for another's. */
Test(values, keys_are_bytes)
{
	env_config(&e, "\"publisher\":{\"lease\":\"2s\",\"retry_delays\":[\"1h\"]}");
	outbox_row(&e, "held", "no.such.queue", "business_key", "'key'");
	outbox_row(&e, "behind", e.queue, "business_key", "'key'");
	outbox_row(&e, "capital", e.queue, "business_key", "'KEY'");
	outbox_row(&e, "blank", e.queue, "business_key", "'key '");
	outbox_row(&e, "accent", e.queue, "business_key", "'k\xc3\xa9y'");
	relay = relay_start(&e, NULL);
	EVENTUALLY(SOON_MS, env_ready(&e, e.queue) == 3);
	EVENTUALLY(SOON_MS, outbox_rows(&e) == 2);
	cr_expect_eq(
	    env_number(&e, "SELECT status FROM message_outbox WHERE msg_id = 'behind'"), 0);
}
