/* dlx/ladder.c - see ladder.h. */
#include "dlx/ladder.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"

void relmq__ladder_tier_name(char out[RELMQ__QUEUE_NAME_SIZE], const char *queue, const char *tier)
{
	(void) snprintf(out, RELMQ__QUEUE_NAME_SIZE, "%s.retry.%s", queue, tier);
}

void relmq__ladder_parked_name(char out[RELMQ__QUEUE_NAME_SIZE], const char *queue)
{
	(void) snprintf(out, RELMQ__QUEUE_NAME_SIZE, "%s.parked", queue);
}

/* --- declaring ------------------------------------------------------------------------- */

static void arg_text(amqp_table_entry_t *e, const char *key, const char *value)
{
	e->key = amqp_cstring_bytes(key);
	e->value.kind = AMQP_FIELD_KIND_UTF8;
	e->value.value.bytes = amqp_cstring_bytes(value);
}

static void arg_int(amqp_table_entry_t *e, const char *key, int64_t value)
{
	e->key = amqp_cstring_bytes(key);
	e->value.kind = AMQP_FIELD_KIND_I64;
	e->value.value.i64 = value;
}

/* Which of a ladder's queues a pass is about. */
typedef enum pass { THOSE_THERE, ALL } pass;

static relmq_code declare_one(
    relmq__conn *c, const char *name, amqp_table_t args, pass which, relmq_error *err)
{
	relmq__queue_info info;
	if (which == THOSE_THERE) {
		relmq_code code = relmq__queue_inspect(c, name, &info, err);
		if (code != RELMQ_OK)
			return err->native == AMQP_NOT_FOUND ? RELMQ_OK : code;
	}
	return relmq__queue_declare(c, name, args, err);
}

static relmq_code declare_parked(relmq__conn *c, const char *queue, pass which, relmq_error *err)
{
	char name[RELMQ__QUEUE_NAME_SIZE];
	amqp_table_entry_t args[1];
	arg_text(&args[0], "x-queue-type", "quorum");
	relmq__ladder_parked_name(name, queue);
	return declare_one(c, name, (amqp_table_t){ 1, args }, which, err);
}

/* The delay and where it leads are arguments, not policy: a tier without them would keep
 * its messages for ever, so it must not exist without them even for a moment. */
static relmq_code declare_tier(
    relmq__conn *c, const char *queue, const char *tier, pass which, relmq_error *err)
{
	char name[RELMQ__QUEUE_NAME_SIZE];
	amqp_table_entry_t args[6];
	arg_text(&args[0], "x-queue-type", "quorum");
	arg_int(&args[1], "x-message-ttl", relmq__duration_ms(tier));
	arg_text(&args[2], "x-dead-letter-exchange", "");
	arg_text(&args[3], "x-dead-letter-routing-key", queue);
	arg_text(&args[4], "x-dead-letter-strategy", "at-least-once");
	arg_text(&args[5], "x-overflow", "reject-publish"); /* at-least-once needs it */
	relmq__ladder_tier_name(name, queue, tier);
	return declare_one(c, name, (amqp_table_t){ 6, args }, which, err);
}

static relmq_code declare_work(relmq__conn *c, const char *queue, pass which, relmq_error *err)
{
	amqp_table_entry_t args[2];
	arg_text(&args[0], "x-queue-type", "quorum");
	args[1].key = amqp_cstring_bytes("x-single-active-consumer");
	args[1].value.kind = AMQP_FIELD_KIND_BOOLEAN;
	args[1].value.value.boolean = 1;
	return declare_one(c, queue, (amqp_table_t){ 2, args }, which, err);
}

static relmq_code declare_all(
    relmq__conn *c, const relmq__dlx_queue *q, pass which, relmq_error *err)
{
	relmq_code code = declare_parked(c, q->queue, which, err);
	for (size_t i = 0; i < q->tier_count && code == RELMQ_OK; i++)
		code = declare_tier(c, q->queue, q->tiers[i], which, err);
	return code == RELMQ_OK ? declare_work(c, q->queue, which, err) : code;
}

/* Only a declaration shows whether the arguments are the same; so those that are there come
 * first, and nothing is made when one of them differs. */
relmq_code relmq__ladder_compare(relmq__conn *c, const relmq__dlx_queue *q, relmq_error *err)
{
	return declare_all(c, q, THOSE_THERE, err);
}

relmq_code relmq__ladder_declare(relmq__conn *c, const relmq__dlx_queue *q, relmq_error *err)
{
	return declare_all(c, q, ALL, err);
}

static relmq_code check_one(relmq__conn *c, const char *queue, relmq_error *err)
{
	relmq__queue_info info;
	relmq_code code = relmq__queue_inspect(c, queue, &info, err);
	if (code != RELMQ_OK && err->native == AMQP_NOT_FOUND)
		return relmq__fail_from(err, RELMQ_EBROKER, RELMQ_F_RETRY, RELMQ_FROM_AMQP,
		    AMQP_NOT_FOUND, "queue %s does not exist in vhost %s: run `relmq-dlx declare`",
		    queue, c->settings->vhost);
	return code;
}

relmq_code relmq__ladder_check(relmq__conn *c, const relmq__dlx_queue *q, relmq_error *err)
{
	char name[RELMQ__QUEUE_NAME_SIZE];
	relmq_code code = check_one(c, q->queue, err);
	for (size_t i = 0; i < q->tier_count && code == RELMQ_OK; i++) {
		relmq__ladder_tier_name(name, q->queue, q->tiers[i]);
		code = check_one(c, name, err);
	}
	relmq__ladder_parked_name(name, q->queue);
	return code == RELMQ_OK ? check_one(c, name, err) : code;
}

/* --- messages ----------------------------------------------------------------------------- */

/* Ours are written anew. The broker's must not travel: 3.x counts a client's x-death, 4.x
 * ignores it, and a cycle that it sees there it cuts, dropping the message. CC and BCC
 * would send copies to where the first publish already went. */
static const char *const dropped[] = { "x-relmq-attempt", "x-relmq-reason", "x-relmq-queue",
	"x-relmq-exchange", "x-relmq-routing-key", "x-death", "x-first-death-exchange",
	"x-first-death-queue", "x-first-death-reason", "x-last-death-exchange",
	"x-last-death-queue", "x-last-death-reason", "x-delivery-count", "x-acquired-count", "CC",
	"BCC" };
enum { DROPPED = sizeof(dropped) / sizeof(dropped[0]), ORIGIN = 5 };

static void entry_bytes(amqp_table_entry_t *e, const char *key, amqp_bytes_t value)
{
	e->key = amqp_cstring_bytes(key);
	e->value.kind = AMQP_FIELD_KIND_UTF8;
	e->value.value.bytes = value;
}

/* What the first publish carried must neither expire the copy, nor be checked against our
 * own user. */
static void neutralise(relmq__msg *m)
{
	m->props._flags &= ~(amqp_flags_t) (AMQP_BASIC_EXPIRATION_FLAG | AMQP_BASIC_USER_ID_FLAG);
	m->props._flags |= AMQP_BASIC_DELIVERY_MODE_FLAG;
	m->props.delivery_mode = AMQP_DELIVERY_PERSISTENT;
}

static bool readdress(
    relmq__msg *m, const char *to, const char *queue, unsigned attempt, const char *reason)
{
	bool forwarded = relmq__msg_header(m, "x-relmq-queue") != NULL;
	amqp_bytes_t exchange =
	    forwarded ? relmq__msg_header_bytes(m, "x-relmq-exchange") : m->exchange;
	amqp_bytes_t key =
	    forwarded ? relmq__msg_header_bytes(m, "x-relmq-routing-key") : m->routing_key;
	amqp_table_entry_t added[ORIGIN];
	arg_int(&added[0], "x-relmq-attempt", attempt);
	entry_bytes(&added[1], "x-relmq-reason", amqp_cstring_bytes(reason));
	entry_bytes(&added[2], "x-relmq-queue", amqp_cstring_bytes(queue));
	entry_bytes(&added[3], "x-relmq-exchange", exchange);
	entry_bytes(&added[4], "x-relmq-routing-key", key);
	if (!relmq__msg_edit_headers(m, dropped, DROPPED, added, ORIGIN))
		return false;
	neutralise(m);
	m->exchange = amqp_empty_bytes; /* the default exchange: straight to the queue */
	m->routing_key = relmq__msg_text(m, to);
	return m->routing_key.bytes != NULL;
}

bool relmq__ladder_to_tier(
    relmq__msg *m, const relmq__dlx_queue *q, unsigned attempt, const char *reason)
{
	char name[RELMQ__QUEUE_NAME_SIZE];
	size_t tier = attempt - 1 < q->tier_count ? attempt - 1 : q->tier_count - 1;
	relmq__ladder_tier_name(name, q->queue, q->tiers[tier]);
	return readdress(m, name, q->queue, attempt + 1, reason);
}

bool relmq__ladder_to_parking(
    relmq__msg *m, const char *queue, unsigned attempt, const char *reason)
{
	char name[RELMQ__QUEUE_NAME_SIZE];
	relmq__ladder_parked_name(name, queue);
	return readdress(m, name, queue, attempt, reason);
}

bool relmq__ladder_to_work(relmq__msg *m, const char *queue)
{
	if (!relmq__msg_edit_headers(m, dropped, DROPPED, NULL, 0))
		return false;
	neutralise(m);
	m->exchange = amqp_empty_bytes;
	m->routing_key = relmq__msg_text(m, queue);
	return m->routing_key.bytes != NULL;
}
