/* support/testconsumer.c - see testconsumer.h. */
#include "support/testconsumer.h"

#include <criterion/criterion.h>
#include <criterion/logging.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mq/sender.h"

enum { START_MS = 15000, STOP_MS = 15000, CONFIRM_MS = 20000, DLX_ARGS = 16 };

static const char *given(const char *text, const char *otherwise)
{
	return text != NULL ? text : otherwise;
}

void consumer_config(env *e, const setup *s)
{
	env_config(e,
	    "\"consumer\":{%s%s\"queues\":[{\"queue\":\"%s\",%s%s\"handler\":%s}]},"
	    "\"dlx\":{\"queues\":[{\"queue\":\"%s\",\"tiers\":[%s]}]}",
	    given(s->consumer, ""), s->consumer != NULL ? "," : "", e->queue, given(s->queue, ""),
	    s->queue != NULL ? "," : "", given(s->handler, PLUGIN), e->queue,
	    given(s->tiers, "\"200ms\""));
}

/* The policy of rabbit-policies/work.json, as far as it is about order. */
static void keep_order(const env *e)
{
	char arguments[400];
	(void) snprintf(arguments, sizeof(arguments),
	    "set_policy --apply-to queues test.%s '^%s$' '{\"delivery-limit\":50}'", e->name,
	    e->queue);
	cr_assert_eq(env_ctl(arguments), 0);
}

void consumer_open(env *e, const setup *s)
{
	env_open(e);
	env_sql(e,
	    "CREATE TABLE effects (seq BIGINT AUTO_INCREMENT PRIMARY KEY, id VARBINARY(255),"
	    " `key` VARBINARY(255), body LONGBLOB, attempt INT,"
	    " at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6), KEY (id))");
	consumer_config(e, s);
	if (!s->undeclared) {
		char *output;
		cr_assert_eq(dlx(e, &output, "declare", NULL), 0, "%s", output);
		free(output);
	}
	if (s->keeps_order)
		keep_order(e);
}

void consumer_close(env *e)
{
	char name[128];
	static const char *const delays[] = { "200ms", "300ms", "1s", "1h" };
	env_delete_queue(e, e->queue);
	env_delete_queue(e, parked(e));
	for (size_t i = 0; i < sizeof(delays) / sizeof(delays[0]); i++) {
		(void) snprintf(name, sizeof(name), "%s.retry.%s", e->queue, delays[i]);
		env_delete_queue(e, name);
	}
	env_close(e);
}

proc consumer_start(env *e, const char *fail)
{
	return env_start(e, "relmq-consumer", fail, NULL);
}

void consumer_consumes(proc *p)
{
	EVENTUALLY(START_MS, proc_said(p, "intake: consuming "));
}

int64_t consumer_total(const proc *p, const char *what)
{
	char *log = proc_log(p);
	char *at = strstr(log, "consumer: stopped: ");
	long long n = -1;
	while (at != NULL && *at != '\0' && *at != '\n') {
		char word[32];
		if (sscanf(at, "%lld %31[a-z]", &n, word) == 2 && strcmp(word, what) == 0)
			break;
		n = -1;
		at = strchr(at, ' ');
		at = at != NULL ? at + 1 : NULL;
	}
	free(log);
	return n;
}

void consumer_stop(proc *p)
{
	int status = proc_stop(p, STOP_MS);
	char *log = proc_log(p);
	cr_assert_eq(status, 0, "exit status %d; its log:\n%s", status, log);
	free(log);
}

int dlx(env *e, char **output, ...)
{
	char *args[DLX_ARGS] = { NULL };
	va_list list;
	va_start(list, output);
	for (size_t i = 0; i < DLX_ARGS - 1 && (args[i] = va_arg(list, char *)) != NULL;)
		i++;
	va_end(list);
	return env_run(e, output, "relmq-dlx", args);
}

/* --- messages --------------------------------------------------------------------------- */

typedef struct letter {
	relmq__item item; /* first: the outcome comes with it */
	amqp_basic_properties_t props;
	amqp_table_entry_t headers[3];
	char id[16], key[16];
} letter;

typedef struct post {
	relmq__sender sender;
	size_t confirmed;
} post;

static void on_outcome(void *arg, relmq__item *item, relmq__outcome outcome)
{
	post *p = arg;
	cr_assert_eq(outcome, RELMQ__CONFIRMED, "publish to %.*s: %s", (int) item->routing_key.len,
	    (char *) item->routing_key.bytes, item->reason);
	p->confirmed++;
}

static void add_header(letter *l, const char *name, const char *value)
{
	amqp_table_t *t = &l->props.headers;
	if (value == NULL)
		return;
	l->headers[t->num_entries].key = amqp_cstring_bytes(name);
	l->headers[t->num_entries].value.kind = AMQP_FIELD_KIND_UTF8;
	l->headers[t->num_entries++].value.value.bytes = amqp_cstring_bytes(value);
}

static void write_letter(letter *l, const char *queue, const note *n)
{
	amqp_basic_properties_t *p = &l->props;
	p->_flags = AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_HEADERS_FLAG;
	p->delivery_mode = AMQP_DELIVERY_PERSISTENT;
	p->headers.entries = l->headers;
	if (n->id != NULL) {
		p->_flags |= AMQP_BASIC_MESSAGE_ID_FLAG;
		p->message_id = amqp_cstring_bytes(n->id);
	}
	if (n->type.len > 0) {
		p->_flags |= AMQP_BASIC_TYPE_FLAG;
		p->type = n->type;
	}
	add_header(l, "x-relmq-key", n->key);
	add_header(l, "x-test-verdict", n->order);
	if (n->header != NULL)
		l->headers[p->headers.num_entries++] = *n->header;
	l->item.routing_key = amqp_cstring_bytes(queue);
	l->item.body = n->body.len > 0 || n->hollow ? n->body : p->message_id;
	l->item.props = p;
}

static void send_all(env *e, letter *letters, size_t count)
{
	relmq_error err;
	post p = { 0 };
	p.sender.max_count = 500;
	p.sender.max_bytes = 8 << 20;
	p.sender.confirm_timeout_ms = CONFIRM_MS;
	p.sender.outcome = on_outcome;
	p.sender.arg = &p;
	p.sender.subject = "test";
	cr_assert(relmq__sender_init(&p.sender));
	cr_assert_eq(relmq__sender_open(&p.sender, &e->settings.rabbitmq, "test put", &err),
	    RELMQ_OK, "%s", err.text);
	for (size_t sent = 0; p.confirmed < count;) {
		if (sent < count && relmq__sender_ready(&p.sender))
			cr_assert_eq(relmq__sender_publish(&p.sender, &letters[sent++].item, &err),
			    RELMQ_OK, "%s", err.text);
		else
			pause_ms(1);
		cr_assert_eq(relmq__sender_pump(&p.sender, &err), RELMQ_OK, "%s", err.text);
	}
	relmq__sender_close(&p.sender);
	relmq__sender_free(&p.sender);
}

void put(env *e, const char *queue, const note *notes, size_t count)
{
	letter *letters = calloc(count, sizeof(*letters));
	cr_assert_not_null(letters);
	for (size_t i = 0; i < count; i++)
		write_letter(&letters[i], queue, &notes[i]);
	send_all(e, letters, count);
	free(letters);
}

void put_numbered(env *e, const char *queue, int first, int count, int keys, const char *order)
{
	letter *letters = calloc((size_t) count, sizeof(*letters));
	cr_assert_not_null(letters);
	for (int i = 0; i < count; i++) {
		letter *l = &letters[i];
		(void) snprintf(l->id, sizeof(l->id), "m-%06d", first + i);
		(void) snprintf(l->key, sizeof(l->key), "k-%d", (first + i) % keys);
		write_letter(l, queue, &(note){ .id = l->id, .key = l->key, .order = order });
	}
	send_all(e, letters, (size_t) count);
	free(letters);
}

static char *name_space(void)
{
	static char names[8][160];
	static unsigned next;
	return names[next++ % 8];
}

const char *parked(const env *e)
{
	char *name = name_space();
	(void) snprintf(name, 160, "%s.parked", e->queue);
	return name;
}

const char *tier(const env *e, const char *delay)
{
	char *name = name_space();
	(void) snprintf(name, 160, "%s.retry.%s", e->queue, delay);
	return name;
}

const char *text_of(amqp_bytes_t bytes)
{
	return bytes.bytes != NULL ? bytes.bytes : "";
}

const char *header_of(const relmq__msg *msg, const char *name)
{
	return text_of(relmq__msg_header_bytes(msg, name));
}

/* --- effects ------------------------------------------------------------------------------ */

int64_t effects(env *e)
{
	return env_number(e, "SELECT COUNT(*) FROM effects");
}

int64_t effects_of(env *e, const char *id)
{
	return env_number(e, "SELECT COUNT(*) FROM effects WHERE id = '%s'", id);
}

int64_t effects_begun(env *e)
{
	env_sql(e, "SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED");
	int64_t n = effects(e);
	env_sql(e, "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED");
	return n;
}

void effects_are(env *e, int first, int count)
{
	cr_assert_eq(effects(e), count, "%lld effects, not %d", (long long) effects(e), count);
	cr_assert_eq(
	    env_number(e,
	        "SELECT COUNT(DISTINCT id) FROM effects WHERE id BETWEEN 'm-%06d' AND 'm-%06d'",
	        first, first + count - 1),
	    count);
}

void effects_in_order(env *e)
{
	cr_assert_eq(
	    env_number(e,
	        "SELECT COUNT(*) FROM (SELECT id, LAG(id) OVER (PARTITION BY `key` ORDER BY seq)"
	        " AS before_it FROM effects) o WHERE before_it > id"),
	    0);
}
