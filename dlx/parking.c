/* dlx/parking.c - see parking.h. */
#include "dlx/parking.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "dlx/ladder.h"

static const relmq__events no_events = { 0 };

relmq_code relmq__parking_open(relmq__parking *p, const relmq__rabbitmq_settings *settings,
    const char *work_queue, relmq_error *err)
{
	relmq__queue_info info;
	memset(p, 0, sizeof(*p));
	relmq__ladder_parked_name(p->queue, work_queue);
	relmq__dispatcher_init(&p->dispatcher, &p->conn, &no_events, p);
	relmq_code code = relmq__conn_open_any(&p->conn, settings, "relmq-dlx", err);
	if (code == RELMQ_OK)
		code = relmq__queue_inspect(&p->conn, p->queue, &info, err);
	if (code != RELMQ_OK) {
		relmq__parking_close(p);
		return code;
	}
	p->left = info.ready;
	return RELMQ_OK;
}

relmq_code relmq__parking_next(relmq__parking *p, relmq__msg **msg, uint64_t *tag, relmq_error *err)
{
	*msg = NULL;
	if (p->left == 0)
		return RELMQ_OK;
	p->left--;
	return relmq__dispatch_get(&p->dispatcher, p->queue, msg, tag, err);
}

relmq_code relmq__parking_ack(relmq__parking *p, uint64_t tag, relmq_error *err)
{
	relmq__conn_begin(&p->conn);
	int rc = amqp_basic_ack(p->conn.state, RELMQ__CHANNEL, tag, 0);
	relmq__conn_end(&p->conn);
	return rc == AMQP_STATUS_OK ? RELMQ_OK
	                            : relmq__conn_fail_status(&p->conn, rc, "basic.ack", err);
}

void relmq__parking_close(relmq__parking *p)
{
	relmq__conn_close(&p->conn, true);
	relmq__dispatcher_reset(&p->dispatcher);
}

static const char *text(amqp_bytes_t bytes)
{
	return bytes.bytes != NULL ? bytes.bytes : "";
}

/* The broker parks by itself too (delivery-limit): then its own headers name a reason. */
static const char *reason_of(const relmq__msg *msg)
{
	amqp_bytes_t ours = relmq__msg_header_bytes(msg, "x-relmq-reason");
	const amqp_field_value_t *deaths = relmq__msg_header(msg, "x-death");
	if (ours.len > 0)
		return text(ours);
	if (deaths == NULL || deaths->kind != AMQP_FIELD_KIND_ARRAY ||
	    deaths->value.array.num_entries == 0 ||
	    deaths->value.array.entries[0].kind != AMQP_FIELD_KIND_TABLE)
		return "";
	const amqp_table_t *latest = &deaths->value.array.entries[0].value.table;
	for (int i = 0; i < latest->num_entries; i++) {
		const amqp_table_entry_t *e = &latest->entries[i];
		if (e->key.len == 6 && memcmp(e->key.bytes, "reason", 6) == 0 &&
		    e->value.kind == AMQP_FIELD_KIND_UTF8)
			return text(e->value.value.bytes);
	}
	return "";
}

void relmq__parked_read(const relmq__msg *msg, const char *work_queue, relmq__parked *out)
{
	const amqp_basic_properties_t *p = &msg->props;
	amqp_bytes_t failed_in = relmq__msg_header_bytes(msg, "x-relmq-queue");
	int64_t created_s = relmq__msg_header_int(msg, "x-relmq-created-us", -1000000) / 1000000;
	if (created_s < 0 && (p->_flags & AMQP_BASIC_TIMESTAMP_FLAG) != 0)
		created_s = (int64_t) p->timestamp;
	out->id = (p->_flags & AMQP_BASIC_MESSAGE_ID_FLAG) != 0 ? text(p->message_id) : "";
	out->type = (p->_flags & AMQP_BASIC_TYPE_FLAG) != 0 ? text(p->type) : "";
	out->key = text(relmq__msg_header_bytes(msg, "x-relmq-key"));
	out->queue = failed_in.len > 0 ? text(failed_in) : work_queue;
	out->reason = reason_of(msg);
	out->attempts = relmq__msg_header_int(msg, "x-relmq-attempt", 1);
	out->age_s = created_s >= 0 ? (int64_t) time(NULL) - created_s : -1;
}
