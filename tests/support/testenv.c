/* support/testenv.c - see testenv.h: the environment of a test, database and broker. */
#include "support/testenv.h"

#include <criterion/criterion.h>
#include <criterion/logging.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "db/migrate.h"
#include "mq/dispatcher.h"
#include "mq/sender.h"
#include "mq/topology.h"

enum { LOCK_WAIT_S = 10, CONFIRM_MS = 10000 };

int64_t now_ms(void)
{
	return relmq__now_ms();
}

void pause_ms(int ms)
{
	(void) poll(NULL, 0, ms);
}

static const char *variable(const char *name)
{
	const char *value = getenv(name);
	cr_assert_not_null(value, "%s is not set: run under tests/support/with-stack.sh", name);
	return value;
}

static void replace(char **at, const char *value)
{
	free(*at);
	*at = strdup(value);
	cr_assert_not_null(*at);
}

static void read_settings(env *e)
{
	relmq_error err;
	cr_assert_eq(relmq__settings_default(&e->settings, &err), RELMQ_OK, "%s", err.text);
	relmq__mysql_settings *m = &e->settings.mysql;
	relmq__rabbitmq_settings *r = &e->settings.rabbitmq;
	replace(&m->host, variable("RELMQ_MYSQL_HOST"));
	replace(&m->user, variable("RELMQ_MYSQL_USER"));
	replace(&m->password, variable("RELMQ_MYSQL_PASSWORD"));
	m->port = strtoll(variable("RELMQ_MYSQL_PORT"), NULL, 10);
	replace(&r->host, variable("RELMQ_AMQP_HOST"));
	replace(&r->user, variable("RELMQ_AMQP_USER"));
	replace(&r->password, variable("RELMQ_AMQP_PASSWORD"));
	r->port = strtoll(variable("RELMQ_AMQP_PORT"), NULL, 10);
	if (getenv("RELMQ_TEST_TLS") != NULL)
		env_use_tls(&e->settings);
}

void env_use_tls(relmq__settings *s)
{
	char ca[512];
	(void) snprintf(ca, sizeof(ca), "%s/ca.pem", variable("RELMQ_TLS_DIR"));
	replace(&s->mysql.host, "localhost");
	replace(&s->mysql.user, variable("RELMQ_MYSQL_TLS_USER"));
	replace(&s->mysql.tls.ca_file, ca);
	s->mysql.tls.enabled = true;
	replace(&s->rabbitmq.host, "localhost");
	replace(&s->rabbitmq.tls.ca_file, ca);
	s->rabbitmq.port = strtoll(variable("RELMQ_AMQP_TLS_PORT"), NULL, 10);
	s->rabbitmq.tls.enabled = true;
}

void env_hosts(char ***hosts, size_t *count, const char *first, const char *second)
{
	for (size_t i = 0; i < *count; i++)
		free((*hosts)[i]);
	free(*hosts);
	*count = second != NULL ? 2 : 1;
	*hosts = calloc(2, sizeof(char *));
	cr_assert_not_null(*hosts);
	(*hosts)[0] = strdup(first);
	if (second != NULL)
		(*hosts)[1] = strdup(second);
}

static void make_database(env *e)
{
	relmq_error err;
	relmq__db admin = { 0 };
	replace(&e->settings.mysql.database, "");
	cr_assert_eq(relmq__db_open(&admin, &e->settings.mysql, LOCK_WAIT_S, &err), RELMQ_OK, "%s",
	    err.text);
	cr_assert_eq(relmq__db_execf(&admin, NULL, &err, "CREATE DATABASE %s", e->name), RELMQ_OK,
	    "%s", err.text);
	relmq__db_close(&admin);
	replace(&e->settings.mysql.database, e->name);
}

void env_open(env *e)
{
	static int count;
	relmq_error err;
	int from, to;
	memset(e, 0, sizeof(*e));
	(void) snprintf(e->name, sizeof(e->name), "relmq_t_%ld_%d", (long) getpid(), count++);
	(void) snprintf(e->queue, sizeof(e->queue), "%s.q", e->name);
	(void) snprintf(e->dir, sizeof(e->dir), "%s/tests/scratch", RELMQ_BINARY_DIR);
	(void) mkdir(e->dir, 0755);
	(void) snprintf(e->config, sizeof(e->config), "%s/%s.json", e->dir, e->name);
	read_settings(e);
	make_database(e);
	env_session(e, &e->db);
	cr_assert_eq(relmq__migrate(&e->db, &from, &to, &err), RELMQ_OK, "%s", err.text);
	env_reopen_mq(e);
}

void env_close(env *e)
{
	relmq_error err;
	relmq_code code = relmq__db_execf(&e->db, NULL, &err, "DROP DATABASE %s", e->name);
	cr_expect_eq(code, RELMQ_OK, "%s", err.text);
	relmq__db_close(&e->db);
	relmq__conn_close(&e->mq, true);
	relmq__settings_free(&e->settings);
}

static void write_server(FILE *f, char *const *hosts, size_t count, const char *host, int64_t port,
    const relmq__tls_settings *t)
{
	(void) fprintf(f, "\"port\":%lld,", (long long) port);
	if (count == 0)
		(void) fprintf(f, "\"host\":\"%s\",", host);
	for (size_t i = 0; i < count; i++)
		(void) fprintf(f, "%s\"%s\"%s", i == 0 ? "\"hosts\":[" : ",", hosts[i],
		    i + 1 == count ? "]," : "");
	if (t->enabled)
		(void) fprintf(f, "\"tls\":{\"enabled\":true,\"verify\":%s,\"ca_file\":\"%s\"},",
		    t->verify ? "true" : "false", t->ca_file);
}

void env_config(env *e, const char *sections, ...)
{
	va_list args;
	const relmq__mysql_settings *m = &e->settings.mysql;
	const relmq__rabbitmq_settings *r = &e->settings.rabbitmq;
	FILE *f = fopen(e->config, "w");
	cr_assert_not_null(f);
	(void) fprintf(f, "{\"mysql\":{");
	write_server(f, m->hosts, m->host_count, m->host, m->port, &m->tls);
	(void) fprintf(f,
	    "\"connect_timeout\":\"%lldms\",\"read_timeout\":\"%lldms\",\"user\":\"%s\","
	    "\"database\":\"%s\"},\"rabbitmq\":{",
	    (long long) m->connect_timeout_ms, (long long) m->read_timeout_ms, m->user, e->name);
	write_server(f, r->hosts, r->host_count, r->host, r->port, &r->tls);
	(void) fprintf(f,
	    "\"user\":\"%s\",\"vhost\":\"%s\",\"frame_max\":%lld,\"heartbeat\":\"%lldms\","
	    "\"connect_timeout\":\"%lldms\",\"send_timeout\":\"%lldms\"}",
	    r->user, r->vhost, (long long) r->frame_max, (long long) r->heartbeat_ms,
	    (long long) r->connect_timeout_ms, (long long) r->send_timeout_ms);
	if (sections[0] != '\0') {
		(void) fputc(',', f);
		va_start(args, sections);
		(void) vfprintf(f, sections, args);
		va_end(args);
	}
	(void) fputs("}\n", f);
	cr_assert_eq(fclose(f), 0);
	(void) setenv("RELMQ_MYSQL_PASSWORD", e->settings.mysql.password, 1);
	(void) setenv("RELMQ_RABBITMQ_PASSWORD", e->settings.rabbitmq.password, 1);
}

/* --- database ------------------------------------------------------------------------- */

void env_session(env *e, relmq__db *db)
{
	relmq_error err;
	memset(db, 0, sizeof(*db));
	cr_assert_eq(
	    relmq__db_open(db, &e->settings.mysql, LOCK_WAIT_S, &err), RELMQ_OK, "%s", err.text);
}

void env_reopen_db(env *e)
{
	relmq__db_close(&e->db);
	env_session(e, &e->db);
}

static char *format(const char *fmt, va_list args)
{
	char *sql = NULL;
	cr_assert_geq(vasprintf(&sql, fmt, args), 0);
	return sql;
}

void env_sql(env *e, const char *fmt, ...)
{
	relmq_error err;
	va_list args;
	va_start(args, fmt);
	char *sql = format(fmt, args);
	va_end(args);
	cr_assert_eq(relmq__db_exec(&e->db, sql, strlen(sql), NULL, &err), RELMQ_OK, "%s: %s", sql,
	    err.text);
	free(sql);
}

int64_t env_number(env *e, const char *fmt, ...)
{
	relmq_error err;
	int64_t value = 0;
	va_list args;
	va_start(args, fmt);
	char *sql = format(fmt, args);
	va_end(args);
	cr_assert_eq(
	    relmq__db_number(&e->db, sql, 0, &value, &err), RELMQ_OK, "%s: %s", sql, err.text);
	free(sql);
	return value;
}

char *env_text(env *e, const char *fmt, ...)
{
	relmq_error err;
	MYSQL_RES *res;
	va_list args;
	va_start(args, fmt);
	char *sql = format(fmt, args);
	va_end(args);
	cr_assert_eq(relmq__db_query(&e->db, sql, strlen(sql), &res, &err), RELMQ_OK, "%s: %s", sql,
	    err.text);
	MYSQL_ROW row = mysql_fetch_row(res);
	char *text = strdup(row != NULL && row[0] != NULL ? row[0] : "");
	mysql_free_result(res);
	free(sql);
	cr_assert_not_null(text);
	return text;
}

/* --- broker ----------------------------------------------------------------------------- */

void env_reopen_mq(env *e)
{
	relmq_error err;
	relmq__conn_close(&e->mq, false);
	cr_assert_eq(relmq__conn_open(&e->mq, &e->settings.rabbitmq, "test", &err), RELMQ_OK, "%s",
	    err.text);
}

static int add_arg(amqp_table_entry_t *entries, int n, const char *key, amqp_field_value_t value)
{
	entries[n].key = amqp_cstring_bytes(key);
	entries[n].value = value;
	return n + 1;
}

static amqp_field_value_t text_value(const char *text)
{
	amqp_field_value_t v = { .kind = AMQP_FIELD_KIND_UTF8 };
	v.value.bytes = amqp_cstring_bytes(text);
	return v;
}

void env_declare(env *e, const char *queue, const queue_args *args)
{
	relmq_error err;
	amqp_table_entry_t entries[4];
	amqp_field_value_t yes = { .kind = AMQP_FIELD_KIND_BOOLEAN };
	amqp_field_value_t length = { .kind = AMQP_FIELD_KIND_I64 };
	yes.value.boolean = 1;
	int n = add_arg(entries, 0, "x-queue-type", text_value("quorum"));
	if (args != NULL && args->single_active)
		n = add_arg(entries, n, "x-single-active-consumer", yes);
	if (args != NULL && args->max_length > 0) {
		length.value.i64 = args->max_length;
		n = add_arg(entries, n, "x-max-length", length);
		n = add_arg(entries, n, "x-overflow", text_value("reject-publish"));
	}
	amqp_table_t table = { n, entries };
	cr_assert_eq(relmq__queue_declare(&e->mq, queue, table, &err), RELMQ_OK, "%s", err.text);
}

int64_t env_ready(env *e, const char *queue)
{
	relmq_error err;
	relmq__queue_info info;
	relmq_code code = relmq__queue_inspect(&e->mq, queue, &info, &err);
	if (code != RELMQ_OK && err.native == AMQP_NOT_FOUND)
		return -1;
	cr_assert_eq(code, RELMQ_OK, "%s", err.text);
	return info.ready;
}

void env_delete_queue(env *e, const char *queue)
{
	(void) amqp_queue_delete(e->mq.state, RELMQ__CHANNEL, amqp_cstring_bytes(queue), 0, 0);
}

typedef struct single {
	relmq__item item;
	bool settled;
	relmq__outcome outcome;
} single;

static void on_outcome(void *arg, relmq__item *item, relmq__outcome outcome)
{
	single *s = arg;
	(void) item;
	s->settled = true;
	s->outcome = outcome;
}

void env_publish(
    env *e, const char *queue, const char *id, const char *key, const void *body, size_t len)
{
	relmq_error err;
	single one = { 0 };
	amqp_basic_properties_t props = { 0 };
	amqp_table_entry_t header = { amqp_cstring_bytes("x-relmq-key"),
		text_value(key != NULL ? key : "") };
	relmq__sender sender = { .max_count = 1,
		.max_bytes = 1,
		.confirm_timeout_ms = CONFIRM_MS,
		.outcome = on_outcome,
		.arg = &one,
		.subject = "test" };
	props._flags = AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_HEADERS_FLAG |
	    (id != NULL ? AMQP_BASIC_MESSAGE_ID_FLAG : 0U);
	props.delivery_mode = AMQP_DELIVERY_PERSISTENT;
	props.message_id = amqp_cstring_bytes(id != NULL ? id : "");
	props.headers.num_entries = key != NULL;
	props.headers.entries = &header;
	one.item.routing_key = amqp_cstring_bytes(queue);
	one.item.body.bytes = (void *) (uintptr_t) body;
	one.item.body.len = len;
	one.item.props = &props;
	cr_assert(relmq__sender_init(&sender));
	cr_assert_eq(relmq__sender_open(&sender, &e->settings.rabbitmq, "test", &err), RELMQ_OK,
	    "%s", err.text);
	cr_assert_eq(relmq__sender_publish(&sender, &one.item, &err), RELMQ_OK, "%s", err.text);
	EVENTUALLY(CONFIRM_MS,
	    one.settled || relmq__sender_pump(&sender, &err) != RELMQ_OK || one.settled);
	cr_assert_eq(one.outcome, RELMQ__CONFIRMED, "publish to %s: %s", queue, one.item.reason);
	relmq__sender_close(&sender);
	relmq__sender_free(&sender);
}

relmq__msg *env_get(env *e, const char *queue)
{
	static const relmq__events none = { 0 };
	relmq__dispatcher d;
	relmq_error err;
	relmq__msg *msg;
	uint64_t tag;
	relmq__dispatcher_init(&d, &e->mq, &none, NULL);
	cr_assert_eq(relmq__dispatch_get(&d, queue, &msg, &tag, &err), RELMQ_OK, "%s", err.text);
	if (msg != NULL)
		cr_assert_eq(amqp_basic_ack(e->mq.state, RELMQ__CHANNEL, tag, 0), AMQP_STATUS_OK);
	return msg;
}
