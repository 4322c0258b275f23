/* base/settings.c - see settings.h. The keys and their ranges are in settings_keys.c. */
#include "base/settings.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/config.h"
#include "base/error.h"
#include "base/hosts.h"
#include "base/settings_keys.h"
#include "base/tls.h"

enum { PASSWORD_FILE_MAX = 4096 };
static const char no_file[] = "configuration"; /* in place of a file's name */

int64_t relmq__settings_amqp_port(bool tls)
{
	return tls ? 5671 : 5672;
}

static void fill_port(relmq__rabbitmq_settings *r)
{
	if (r->port == 0)
		r->port = relmq__settings_amqp_port(r->tls.enabled);
}

relmq_code relmq__settings_default(relmq__settings *s, relmq_error *err)
{
	memset(s, 0, sizeof(*s));
	relmq_code rc = relmq__config_default(relmq__settings_keys, s, err);
	fill_port(&s->rabbitmq);
	return rc;
}

void relmq__settings_free(relmq__settings *s)
{
	relmq__config_free(relmq__settings_keys, s);
	memset(s, 0, sizeof(*s));
}

/* --- secrets ------------------------------------------------------------------------ */

static relmq_code first_line(const char *path, relmq__buf *line, relmq_error *err)
{
	relmq_code rc = relmq__config_slurp(path, PASSWORD_FILE_MAX, line, err);
	if (rc != RELMQ_OK || line->len == 0)
		return rc;
	const char *end = memchr(line->data, '\n', line->len);
	if (end != NULL)
		line->len = (size_t) (end - line->data);
	if (end != NULL && line->len > 0 && line->data[line->len - 1] == '\r')
		line->len--;
	if (memchr(line->data, '\0', line->len) != NULL)
		return relmq__config_refuse(err, path, "has a NUL in its first line");
	return RELMQ_OK;
}

/* A refusal names the key as well as the file that it points to. */
static relmq_code name_key(
    const relmq_error *inner, const char *config, const char *key, relmq_error *err)
{
	if (inner->code != RELMQ_ECONFIG)
		return relmq__fail_nomem(err);
	(void) relmq__config_refuse(err, config, "%s: %s", key, inner->text);
	if (err != NULL) {
		err->origin = inner->origin;
		err->native = inner->native;
	}
	return RELMQ_ECONFIG;
}

static relmq_code set_secret(char **secret, const relmq__buf *text, relmq_error *err)
{
	free(*secret);
	*secret = text->len > 0 ? strndup(text->data, text->len) : strdup("");
	return *secret != NULL && !text->failed ? RELMQ_OK : relmq__fail_nomem(err);
}

static relmq_code read_secret(char **secret, const char *file, const char *env, const char *config,
    const char *key, relmq_error *err)
{
	relmq__buf text = { 0 };
	relmq_error inner = RELMQ_ERROR_INIT;
	relmq_code rc = RELMQ_OK;
	if (file[0] != '\0')
		rc = first_line(file, &text, &inner);
	else if (getenv(env) != NULL)
		relmq__buf_adds(&text, getenv(env));
	rc = rc == RELMQ_OK ? set_secret(secret, &text, err) : name_key(&inner, config, key, err);
	if (text.data != NULL)
		explicit_bzero(text.data, text.cap);
	relmq__buf_free(&text);
	return rc;
}

static relmq_code read_secrets(relmq__settings *s, const char *config, relmq_error *err)
{
	relmq_code rc = read_secret(&s->mysql.password, s->mysql.password_file,
	    "RELMQ_MYSQL_PASSWORD", config, "mysql.password_file", err);
	if (rc == RELMQ_OK)
		rc = read_secret(&s->rabbitmq.password, s->rabbitmq.password_file,
		    "RELMQ_RABBITMQ_PASSWORD", config, "rabbitmq.password_file", err);
	return rc;
}

/* --- servers ------------------------------------------------------------------------ */

static relmq_code check_hosts(
    char *const *hosts, size_t count, const char *section, const char *file, relmq_error *err)
{
	for (size_t i = 0; i < count; i++) {
		char name[RELMQ__HOST_SIZE];
		int64_t port = 0;
		const char *wrong = relmq__host_parse(hosts[i], name, &port);
		if (wrong != NULL)
			return relmq__config_refuse(
			    err, file, "%s.hosts[%zu]: \"%.60s\" %s", section, i, hosts[i], wrong);
	}
	return RELMQ_OK;
}

static relmq_code check_host(
    const char *host, int64_t port, const char *section, const char *file, relmq_error *err)
{
	const char *wrong = relmq__host_alone(host, port);
	if (wrong == NULL)
		return RELMQ_OK;
	return relmq__config_refuse(err, file, "%s.host: \"%.60s\" %s", section, host, wrong);
}

static relmq_code check_tls(
    const relmq__tls_settings *t, const char *section, const char *file, relmq_error *err)
{
	char why[RELMQ__TLS_TEXT_SIZE];
	if (relmq__tls_check(t, why))
		return RELMQ_OK;
	return relmq__config_refuse(err, file, "%s.tls.%s", section, why);
}

static relmq_code check_servers(const relmq__settings *s, const char *file, relmq_error *err)
{
	const relmq__mysql_settings *m = &s->mysql;
	const relmq__rabbitmq_settings *r = &s->rabbitmq;
	relmq_code rc = check_host(m->host, m->port, "mysql", file, err);
	if (rc == RELMQ_OK)
		rc = check_host(r->host, r->port, "rabbitmq", file, err);
	if (rc == RELMQ_OK)
		rc = check_hosts(m->hosts, m->host_count, "mysql", file, err);
	if (rc == RELMQ_OK)
		rc = check_hosts(r->hosts, r->host_count, "rabbitmq", file, err);
	if (rc == RELMQ_OK && m->tls.enabled && m->socket[0] != '\0')
		rc = relmq__config_refuse(
		    err, file, "mysql.tls: not over mysql.socket, which never leaves this machine");
	if (rc == RELMQ_OK)
		rc = check_tls(&m->tls, "mysql", file, err);
	if (rc == RELMQ_OK)
		rc = check_tls(&r->tls, "rabbitmq", file, err);
	return rc;
}

/* --- consumer queues ---------------------------------------------------------------- */

static relmq_code check_handler(
    const relmq__handler_settings *h, size_t i, const char *file, relmq_error *err)
{
	const char *wrong = NULL;
	if (h->kind == RELMQ__HANDLER_SQL && h->statement_count == 0)
		wrong = "statements: kind \"sql\" needs at least one";
	else if (h->kind == RELMQ__HANDLER_SQL && h->path[0] != '\0')
		wrong = "path: only for kind \"plugin\"";
	else if (h->kind == RELMQ__HANDLER_SQL && h->argument[0] != '\0')
		wrong = "argument: only for kind \"plugin\"";
	else if (h->kind == RELMQ__HANDLER_PLUGIN && h->path[0] == '\0')
		wrong = "path: kind \"plugin\" needs its shared object";
	else if (h->kind == RELMQ__HANDLER_PLUGIN && h->statement_count > 0)
		wrong = "statements: only for kind \"sql\"";
	if (wrong == NULL)
		return RELMQ_OK;
	return relmq__config_refuse(err, file, "consumer.queues[%zu].handler.%s", i, wrong);
}

static relmq_code name_consumers(relmq__consumer_settings *c, relmq_error *err)
{
	for (size_t i = 0; i < c->queue_count; i++) {
		relmq__consumer_queue *q = &c->queues[i];
		if (q->name[0] != '\0')
			continue;
		char *name = strdup(q->queue);
		if (name == NULL)
			return relmq__fail_nomem(err);
		free(q->name);
		q->name = name;
	}
	return RELMQ_OK;
}

static relmq_code check_consumer(
    const relmq__consumer_settings *c, const char *file, relmq_error *err)
{
	relmq_code rc = RELMQ_OK;
	for (size_t i = 0; rc == RELMQ_OK && i < c->queue_count; i++) {
		rc = check_handler(&c->queues[i].handler, i, file, err);
		for (size_t j = 0; rc == RELMQ_OK && j < i; j++) {
			if (strcmp(c->queues[i].queue, c->queues[j].queue) == 0)
				rc = relmq__config_refuse(err, file,
				    "consumer.queues[%zu].queue: \"%.100s\" is there twice", i,
				    c->queues[i].queue);
			else if (strcmp(c->queues[i].name, c->queues[j].name) == 0)
				rc = relmq__config_refuse(err, file,
				    "consumer.queues[%zu].name: \"%.100s\" is also the name of "
				    "consumer.queues[%zu]",
				    i, c->queues[i].name, j);
		}
	}
	return rc;
}

/* --- ladders ------------------------------------------------------------------------ */

const relmq__dlx_queue *relmq__settings_dlx(const relmq__settings *s, const char *queue)
{
	for (size_t i = 0; i < s->dlx.queue_count; i++)
		if (strcmp(s->dlx.queues[i].queue, queue) == 0)
			return &s->dlx.queues[i];
	return NULL;
}

static relmq_code check_ladders(const relmq__settings *s, const char *file, relmq_error *err)
{
	for (size_t i = 0; i < s->dlx.queue_count; i++) {
		const relmq__dlx_queue *d = &s->dlx.queues[i];
		if (relmq__settings_dlx(s, d->queue) != d)
			return relmq__config_refuse(err, file,
			    "dlx.queues[%zu].queue: \"%.100s\" is there twice", i, d->queue);
	}
	for (size_t i = 0; i < s->consumer.queue_count; i++) {
		const char *queue = s->consumer.queues[i].queue;
		if (relmq__settings_dlx(s, queue) == NULL)
			return relmq__config_refuse(err, file,
			    "dlx.queues: \"%.100s\" of consumer.queues[%zu] must be here too, "
			    "or leave dlx.queues out",
			    queue, i);
	}
	return RELMQ_OK;
}

/* The count follows what is whole, so that a failure can free it. */
static relmq_code default_ladders(relmq__settings *s, relmq_error *err)
{
	if (s->dlx.queue_count > 0 || s->consumer.queue_count == 0)
		return RELMQ_OK;
	free(s->dlx.queues);
	s->dlx.queues = calloc(s->consumer.queue_count, sizeof(*s->dlx.queues));
	if (s->dlx.queues == NULL)
		return relmq__fail_nomem(err);
	for (size_t i = 0; i < s->consumer.queue_count; i++) {
		relmq__dlx_queue *d = &s->dlx.queues[i];
		relmq_code rc = relmq__config_default(relmq__dlx_queue_keys, d, err);
		if (rc != RELMQ_OK)
			return rc;
		s->dlx.queue_count++;
		d->queue = strdup(s->consumer.queues[i].queue);
		if (d->queue == NULL)
			return relmq__fail_nomem(err);
	}
	return RELMQ_OK;
}

/* --- the whole ---------------------------------------------------------------------- */

static relmq_code complete(relmq__settings *s, const char *file, relmq_error *err)
{
	fill_port(&s->rabbitmq);
	relmq_code rc = check_servers(s, file, err);
	if (rc == RELMQ_OK)
		rc = name_consumers(&s->consumer, err);
	if (rc == RELMQ_OK)
		rc = check_consumer(&s->consumer, file, err);
	if (rc == RELMQ_OK)
		rc = default_ladders(s, err);
	if (rc == RELMQ_OK)
		rc = check_ladders(s, file, err);
	if (rc == RELMQ_OK)
		rc = read_secrets(s, file, err);
	if (rc != RELMQ_OK)
		relmq__settings_free(s);
	return rc;
}

relmq_code relmq__settings_load(relmq__settings *s, const char *path, relmq_error *err)
{
	memset(s, 0, sizeof(*s));
	relmq_code rc = path != NULL ? relmq__config_read(relmq__settings_keys, path, s, err)
	                             : relmq__config_default(relmq__settings_keys, s, err);
	return rc == RELMQ_OK ? complete(s, path != NULL ? path : no_file, err) : rc;
}

relmq_code relmq__settings_parse(relmq__settings *s, const char *text, relmq_error *err)
{
	memset(s, 0, sizeof(*s));
	relmq_code rc = relmq__config_read_text(relmq__settings_keys, no_file, text, s, err);
	return rc == RELMQ_OK ? complete(s, no_file, err) : rc;
}

static bool write_out(relmq__buf *text, FILE *out)
{
	bool ok = !text->failed && fwrite(text->data, 1, text->len, out) == text->len;
	relmq__buf_free(text);
	return fflush(out) == 0 && ok;
}

bool relmq__settings_show(const relmq__settings *s, FILE *out)
{
	relmq__buf text = { 0 };
	relmq__config_show(relmq__settings_keys, s, &text);
	return write_out(&text, out);
}

bool relmq__settings_reference(FILE *out)
{
	relmq__buf text = { 0 };
	relmq__config_reference(relmq__settings_keys, &text);
	return write_out(&text, out);
}
