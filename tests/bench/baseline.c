/* baseline.c - see baseline.h. Shares nothing with the publisher but the tables. */
#include "baseline.h"

#include <string.h>

#define PAGE "100"
enum { ANSWER_S = 30 };

static void await_confirm(amqp_connection_state_t state)
{
	amqp_frame_t frame;
	struct timeval wait = { ANSWER_S, 0 };
	do {
		int rc = amqp_simple_wait_frame_noblock(state, &frame, &wait);
		if (rc != AMQP_STATUS_OK)
			bench_die("baseline: no confirm: %s", amqp_error_string2(rc));
	} while (frame.frame_type != AMQP_FRAME_METHOD);
	if (frame.payload.method.id != AMQP_BASIC_ACK_METHOD)
		bench_die("baseline: unexpected %s", amqp_method_name(frame.payload.method.id));
	amqp_maybe_release_buffers(state);
}

static amqp_bytes_t column(MYSQL_ROW row, const unsigned long *len, int i)
{
	return (amqp_bytes_t){ len[i], row[i] };
}

static void send_row(amqp_connection_state_t state, MYSQL_ROW row, const unsigned long *len)
{
	amqp_table_entry_t header = { .key = amqp_cstring_bytes("x-relmq-key") };
	amqp_basic_properties_t props = { ._flags = AMQP_BASIC_DELIVERY_MODE_FLAG |
		    AMQP_BASIC_MESSAGE_ID_FLAG | AMQP_BASIC_HEADERS_FLAG,
		.delivery_mode = AMQP_DELIVERY_PERSISTENT };
	header.value.kind = AMQP_FIELD_KIND_UTF8;
	header.value.value.bytes = column(row, len, 2);
	props.message_id = column(row, len, 1);
	props.headers = (amqp_table_t){ 1, &header };
	int rc = amqp_basic_publish(state, RELMQ__CHANNEL, amqp_empty_bytes, column(row, len, 3), 1,
	    0, &props, column(row, len, 4));
	if (rc != AMQP_STATUS_OK)
		bench_die("baseline: publish: %s", amqp_error_string2(rc));
}

static int64_t send_page(bench *b, amqp_connection_state_t state)
{
	static const char page[] = "SELECT id, msg_id, business_key, routing_key, payload FROM"
	                           " message_outbox WHERE status = 0 ORDER BY id LIMIT " PAGE;
	relmq_error err;
	MYSQL_RES *res;
	int64_t n = 0;
	if (relmq__db_query(&b->db, page, sizeof(page) - 1, &res, &err) != RELMQ_OK)
		bench_die("baseline: %s", err.text);
	for (MYSQL_ROW row; (row = mysql_fetch_row(res)) != NULL; n++) {
		send_row(state, row, mysql_fetch_lengths(res));
		await_confirm(state);
		bench_sql(b, "DELETE FROM message_outbox WHERE id = %s", row[0]);
	}
	mysql_free_result(res);
	return n;
}

void bench_baseline(bench *b, int64_t rows)
{
	relmq__conn conn;
	bench_connect(b, &conn, "bench row at a time");
	if (amqp_confirm_select(conn.state, RELMQ__CHANNEL) == NULL)
		bench_die("confirm.select failed");
	for (int64_t n = 0; n < rows;) {
		int64_t sent = send_page(b, conn.state);
		if (sent == 0)
			bench_die("baseline: %lld rows of %lld", (long long) n, (long long) rows);
		n += sent;
	}
	relmq__conn_close(&conn, true);
}
