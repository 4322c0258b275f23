/* mq/message.h - one AMQP message in our own memory, and the mapping between header
 * JSON and AMQP tables. Knows no connection. */
#ifndef RELMQ_MQ_MESSAGE_H
#define RELMQ_MQ_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <relmq/error.h>

#include "mq/amqp.h"

/* A message owns one pool; every pointer below lives in it. Strings have an explicit
 * length and a NUL behind it. */
typedef struct relmq__msg {
	amqp_pool_t pool;
	amqp_basic_properties_t props; /* deep copy: headers too */
	amqp_bytes_t exchange, routing_key;
	amqp_bytes_t body;
	size_t body_capacity;
} relmq__msg;

relmq__msg *relmq__msg_new(void); /* NULL: out of memory */
void relmq__msg_free(relmq__msg *m);

/** Deep copies into the message's pool; false: out of memory. */
bool relmq__msg_set_props(relmq__msg *m, const amqp_basic_properties_t *props);
amqp_bytes_t relmq__msg_bytes(relmq__msg *m, const void *bytes, size_t len);
amqp_bytes_t relmq__msg_text(relmq__msg *m, const char *text);
/** Set the body at once, or room first and then piece by piece up to that room. */
bool relmq__msg_set_body(relmq__msg *m, const void *bytes, size_t len);
bool relmq__msg_body_reserve(relmq__msg *m, uint64_t len);
void relmq__msg_body_append(relmq__msg *m, amqp_bytes_t part);

/** Header by exact name, or NULL. */
const amqp_field_value_t *relmq__msg_header(const relmq__msg *m, const char *name);
/** An integer of any width; false when the field is none. */
bool relmq__field_int(const amqp_field_value_t *v, int64_t *out);
/** Header as an integer of any width; `otherwise` when absent or no integer. */
int64_t relmq__msg_header_int(const relmq__msg *m, const char *name, int64_t otherwise);
/** Header as bytes of a string; empty when absent or no string. */
amqp_bytes_t relmq__msg_header_bytes(const relmq__msg *m, const char *name);

/** Replace the header table by a copy without the `count` names in `drop`, and with
 *  the `added` entries behind it. False: out of memory. */
bool relmq__msg_edit_headers(relmq__msg *m, const char *const *drop, size_t count,
    const amqp_table_entry_t *added, size_t added_count);

/** Bytes that the content header frame of these properties takes. */
size_t relmq__props_size(const amqp_basic_properties_t *props);

#endif
