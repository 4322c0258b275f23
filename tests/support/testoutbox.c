/* support/testoutbox.c - see testoutbox.h. */
#include "support/testoutbox.h"

#include <criterion/criterion.h>
#include <criterion/logging.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mq/dispatcher.h"
#include "mq/topology.h"

enum { FILL_ROWS = 1000, TAKE_MS = 60000, NUMBER_MAX = 1000000 };

/* --- rows ----------------------------------------------------------------------------- */

void outbox_fill(env *e, const char *routing_key, int first, int count, int keys)
{
	relmq_error err;
	relmq__buf sql = { 0 };
	for (int at = first; at < first + count; at += FILL_ROWS) {
		relmq__buf_reset(&sql);
		relmq__buf_adds(&sql,
		    "INSERT INTO message_outbox"
		    " (msg_id, routing_key, payload, business_key) VALUES ");
		for (int n = at; n < first + count && n < at + FILL_ROWS; n++) {
			relmq__buf_addf(&sql, "%s('m-%06d', '%s', 'm-%06d', ", n > at ? "," : "", n,
			    routing_key, n);
			if (keys > 0)
				relmq__buf_addf(&sql, "'k-%d')", n % keys);
			else
				relmq__buf_adds(&sql, "'')");
		}
		cr_assert_eq(relmq__db_exec(&e->db, sql.data, sql.len, NULL, &err), RELMQ_OK, "%s",
		    err.text);
	}
	relmq__buf_free(&sql);
}

void outbox_row(
    env *e, const char *id, const char *routing_key, const char *fields, const char *values)
{
	env_sql(e,
	    "INSERT INTO message_outbox (msg_id, routing_key, payload%s%s)"
	    " VALUES ('%s', '%s', '%s'%s%s)",
	    fields[0] != '\0' ? ", " : "", fields, id, routing_key, id,
	    values[0] != '\0' ? ", " : "", values);
}

int64_t outbox_rows(env *e)
{
	return env_number(e, "SELECT COUNT(*) FROM message_outbox");
}

int64_t outbox_owned(env *e)
{
	return env_number(
	    e, "SELECT COUNT(*) FROM outbox_lease WHERE owner <> '' AND expires_at > NOW(6)");
}

int64_t outbox_owners(env *e)
{
	return env_number(e,
	    "SELECT COUNT(DISTINCT owner) FROM outbox_lease"
	    " WHERE owner <> '' AND expires_at > NOW(6)");
}

proc relay_start(env *e, const char *fail)
{
	return env_start(e, "relmq-publisher", fail, NULL);
}

int64_t relay_confirmed(const proc *p)
{
	char *log = proc_log(p);
	char *at = strstr(log, "relay: stopped:");
	long long read_rows = -1;
	long long confirmed = -1;
	if (at != NULL &&
	    sscanf(at, "relay: stopped: %lld read, %lld confirmed", &read_rows, &confirmed) != 2)
		confirmed = -1;
	free(log);
	return confirmed;
}

void admin_sql(env *e, const char *sql)
{
	relmq_error err;
	relmq__db db;
	relmq__mysql_settings admin = e->settings.mysql;
	admin.host_count = 0; /* host and port are the server itself */
	admin.user = getenv("RELMQ_MYSQL_ADMIN_USER");
	admin.password = getenv("RELMQ_MYSQL_ADMIN_PASSWORD");
	cr_assert(admin.user != NULL && admin.password != NULL);
	cr_assert_eq(relmq__db_open_any(&db, &admin, 5, false, &err), RELMQ_OK, "%s", err.text);
	cr_assert_eq(
	    relmq__db_exec(&db, sql, strlen(sql), NULL, &err), RELMQ_OK, "%s: %s", sql, err.text);
	relmq__db_close(&db);
}

/* --- what arrived ----------------------------------------------------------------------- */

static void keep(arrived *got, relmq__msg *msg)
{
	if (got->count == got->room) {
		got->room = got->room != 0 ? got->room * 2 : 1024;
		got->msgs = realloc(got->msgs, got->room * sizeof(relmq__msg *));
		cr_assert_not_null(got->msgs);
	}
	got->msgs[got->count++] = msg;
}

static void on_delivery(
    void *arg, relmq__msg *msg, amqp_bytes_t consumer_tag, uint64_t tag, bool redelivered)
{
	(void) consumer_tag;
	(void) tag;
	(void) redelivered;
	keep(arg, msg);
}

/* As many as the queue says it has: no waiting to see whether more would come. */
void queue_take(env *e, const char *queue, arrived *got)
{
	static const relmq__events events = { .deliver = on_delivery };
	relmq_error err;
	relmq__conn conn = { 0 };
	relmq__dispatcher d;
	relmq__queue_info info;
	cr_assert_eq(relmq__conn_open(&conn, &e->settings.rabbitmq, "test take", &err), RELMQ_OK,
	    "%s", err.text);
	cr_assert_eq(relmq__queue_inspect(&conn, queue, &info, &err), RELMQ_OK, "%s", err.text);
	size_t wanted = got->count + (size_t) info.ready;
	if (info.ready > 0) {
		relmq__dispatcher_init(&d, &conn, &events, got);
		cr_assert_not_null(amqp_basic_consume(conn.state, RELMQ__CHANNEL,
		    amqp_cstring_bytes(queue), amqp_empty_bytes, 0, 1, 0, amqp_empty_table));
		EVENTUALLY(
		    TAKE_MS, relmq__dispatch(&d, 100000, &err) != RELMQ_OK || got->count >= wanted);
	}
	cr_assert_eq(got->count, wanted);
	relmq__conn_close(&conn, true);
}

void queue_sip(env *e, const char *queue, arrived *got)
{
	for (relmq__msg *msg; (msg = env_get(e, queue)) != NULL;)
		keep(got, msg);
}

relmq__msg *queue_wait(env *e, const char *queue, int64_t ms)
{
	relmq__msg *msg = NULL;
	for (int64_t end = now_ms() + ms; msg == NULL && now_ms() < end;) {
		msg = env_get(e, queue);
		if (msg == NULL)
			pause_ms(10);
	}
	cr_assert_not_null(msg, "no message in %s within %lld ms", queue, (long long) ms);
	return msg;
}

void arrived_free(arrived *got)
{
	for (size_t i = 0; i < got->count; i++)
		relmq__msg_free(got->msgs[i]);
	free(got->msgs);
	memset(got, 0, sizeof(*got));
}

bool bytes_are(amqp_bytes_t bytes, const char *text)
{
	return bytes.len == strlen(text) &&
	    (bytes.len == 0 || memcmp(bytes.bytes, text, bytes.len) == 0);
}

size_t arrived_times(const arrived *got, const char *id)
{
	size_t times = 0;
	for (size_t i = 0; i < got->count; i++)
		times += bytes_are(got->msgs[i]->props.message_id, id);
	return times;
}

/* -1: not one of ours */
static int number_of(const relmq__msg *msg)
{
	int number;
	amqp_bytes_t id = msg->props.message_id;
	if (id.len != 8 || !bytes_are(msg->body, id.bytes) ||
	    sscanf(id.bytes, "m-%6d", &number) != 1)
		return -1;
	return number;
}

void arrived_check(const arrived *got, int first, int count, size_t least, size_t most)
{
	size_t *times = calloc((size_t) count, sizeof(*times));
	cr_assert_not_null(times);
	for (size_t i = 0; i < got->count; i++) {
		int n = number_of(got->msgs[i]);
		cr_assert(n >= first && n < first + count, "a strange message: %.*s",
		    (int) got->msgs[i]->props.message_id.len,
		    (char *) got->msgs[i]->props.message_id.bytes);
		times[n - first]++;
	}
	for (int i = 0; i < count; i++)
		cr_assert(times[i] >= least && times[i] <= most, "m-%06d came %zu times", first + i,
		    times[i]);
	free(times);
}

void arrived_in_order(const arrived *got)
{
	static bool seen[NUMBER_MAX];
	static int last[NUMBER_MAX]; /* by key */
	memset(seen, 0, sizeof(seen));
	memset(last, 0, sizeof(last));
	for (size_t i = 0; i < got->count; i++) {
		int key;
		int n = number_of(got->msgs[i]);
		amqp_bytes_t name = relmq__msg_header_bytes(got->msgs[i], "x-relmq-key");
		cr_assert(n >= 0 && name.len > 0 && sscanf(name.bytes, "k-%d", &key) == 1);
		if (seen[n])
			continue; /* a copy; the inbox absorbs it */
		seen[n] = true;
		cr_assert_geq(
		    n, last[key], "m-%06d of key k-%d came after m-%06d", n, key, last[key]);
		last[key] = n;
	}
}
