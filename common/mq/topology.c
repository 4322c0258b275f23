/* mq/topology.c - see topology.h. */
#include "mq/topology.h"

#include <stdio.h>

static relmq_code declare(relmq__conn *c, const char *queue, bool passive, amqp_table_t args,
    relmq__queue_info *info, relmq_error *err)
{
	relmq__conn_begin(c);
	amqp_queue_declare_ok_t *ok = amqp_queue_declare(
	    c->state, RELMQ__CHANNEL, amqp_cstring_bytes(queue), passive, 1, 0, 0, args);
	relmq__conn_end(c);
	if (ok != NULL) {
		if (info != NULL) {
			info->ready = ok->message_count;
			info->consumers = ok->consumer_count;
		}
		amqp_maybe_release_buffers(c->state);
		return RELMQ_OK;
	}
	char doing[300];
	(void) snprintf(doing, sizeof(doing), "queue %s", queue);
	amqp_rpc_reply_t reply = amqp_get_rpc_reply(c->state);
	relmq_code code = relmq__conn_fail_reply(c, reply, doing, err);
	if (relmq__reply_closed_channel(reply)) {
		relmq_error again; /* the refusal is what the caller wants to know */
		amqp_channel_close_ok_t close_ok = { 0 };
		relmq__conn_begin(c);
		(void) amqp_send_method(
		    c->state, RELMQ__CHANNEL, AMQP_CHANNEL_CLOSE_OK_METHOD, &close_ok);
		relmq__conn_end(c);
		if (relmq__conn_reopen_channel(c, &again) != RELMQ_OK && err != NULL)
			*err = again;
	}
	return code;
}

relmq_code relmq__queue_inspect(
    relmq__conn *c, const char *queue, relmq__queue_info *info, relmq_error *err)
{
	return declare(c, queue, true, amqp_empty_table, info, err);
}

relmq_code relmq__queue_declare(
    relmq__conn *c, const char *queue, amqp_table_t args, relmq_error *err)
{
	return declare(c, queue, false, args, NULL, err);
}
