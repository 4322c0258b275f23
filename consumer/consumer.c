/* consumer/consumer.c - the public C API over the engine. */
#include <relmq/consumer.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/uri.h"
#include "consumer/engine.h"

enum { TIERS_MAX = 10, DEFAULT_ATTEMPTS = 5 };

struct relmq_consumer {
	relmq__settings settings;
	char *tiers;
	int64_t max_attempts;
	relmq__engine engine;
};

/* An older caller's struct is shorter: what it does not have is zero. */
static relmq_code read_opts(
    relmq_consumer_opts *to, const relmq_consumer_opts *from, relmq_error *err)
{
	size_t known = sizeof(*to);
	memset(to, 0, known);
	if (from == NULL || from->struct_size < sizeof(from->struct_size))
		return relmq__fail(
		    err, RELMQ_EINVAL, 0, "opts: start from RELMQ_CONSUMER_OPTS_INIT");
	for (size_t i = known; i < from->struct_size; i++)
		if (((const unsigned char *) from)[i] != 0)
			return relmq__fail(err, RELMQ_EINVAL, 0,
			    "opts: a member this library does not know is set");
	memcpy(to, from, from->struct_size < known ? from->struct_size : known);
	if (to->amqp_uri == NULL || to->mysql_dsn == NULL)
		return relmq__fail(
		    err, RELMQ_EINVAL, 0, "opts: amqp_uri and mysql_dsn are required");
	return RELMQ_OK;
}

static void apply_numbers(relmq_consumer *c, const relmq_consumer_opts *o)
{
	relmq__consumer_settings *s = &c->settings.consumer;
	if (o->workers != 0)
		s->workers = o->workers;
	if (o->prefetch != 0)
		s->prefetch = o->prefetch;
	if (o->batch_max != 0)
		s->batch_max = o->batch_max;
	if (o->shutdown_timeout_ms != 0)
		s->shutdown_timeout_ms = o->shutdown_timeout_ms;
	c->max_attempts = o->max_attempts != 0 ? o->max_attempts : DEFAULT_ATTEMPTS;
}

relmq_code relmq_consumer_open(
    relmq_consumer **out, const relmq_consumer_opts *opts, relmq_error *err)
{
	relmq_consumer_opts o;
	if (out == NULL)
		return relmq__fail(err, RELMQ_EINVAL, 0, "out is NULL");
	*out = NULL;
	relmq_code code = read_opts(&o, opts, err);
	if (code != RELMQ_OK)
		return code;
	relmq_consumer *c = calloc(1, sizeof(*c));
	if (c == NULL)
		return relmq__fail_nomem(err);
	code = relmq__settings_default(&c->settings, err);
	if (code == RELMQ_OK)
		code = relmq__uri_rabbitmq(o.amqp_uri, &c->settings.rabbitmq, err);
	if (code == RELMQ_OK)
		code = relmq__uri_mysql(o.mysql_dsn, &c->settings.mysql, err);
	if (code == RELMQ_OK &&
	    (c->tiers = strdup(o.retry_tiers != NULL ? o.retry_tiers : "5s,30s,5m")) == NULL)
		code = relmq__fail_nomem(err);
	if (code != RELMQ_OK) {
		relmq_consumer_close(c);
		return code;
	}
	apply_numbers(c, &o);
	*out = c;
	return RELMQ_OK;
}

static relmq_code split_tiers(const char *text, relmq__dlx_queue *q, relmq_error *err)
{
	q->tiers = calloc(TIERS_MAX, sizeof(char *));
	if (q->tiers == NULL)
		return relmq__fail_nomem(err);
	while (*text != '\0') {
		size_t n = strcspn(text, ",");
		char *tier = strndup(text, n);
		if (tier == NULL)
			return relmq__fail_nomem(err);
		if (q->tier_count == TIERS_MAX || relmq__duration_ms(tier) <= 0) {
			free(tier);
			return relmq__fail(err, RELMQ_ECONFIG, 0,
			    "retry_tiers: at most %d durations such as 5s, with commas between",
			    TIERS_MAX);
		}
		q->tiers[q->tier_count++] = tier;
		text += text[n] == ',' ? n + 1 : n;
	}
	return RELMQ_OK;
}

/* One more element at the end of an array that the settings own. */
static bool grow(void *array, size_t count, size_t size)
{
	void **at = array;
	char *bigger = realloc(*at, (count + 1) * size);
	if (bigger == NULL)
		return false;
	memset(bigger + count * size, 0, size);
	*at = bigger;
	return true;
}

static relmq_code add_queue(relmq_consumer *c, const char *queue, relmq_error *err)
{
	relmq__consumer_settings *s = &c->settings.consumer;
	relmq__dlx_settings *x = &c->settings.dlx;
	if (!grow(&s->queues, s->queue_count, sizeof(*s->queues)))
		return relmq__fail_nomem(err);
	relmq__consumer_queue *q = &s->queues[s->queue_count++];
	q->queue = strdup(queue);
	q->name = strdup("");
	q->max_attempts = c->max_attempts;
	if (!grow(&x->queues, x->queue_count, sizeof(*x->queues)))
		return relmq__fail_nomem(err);
	relmq__dlx_queue *d = &x->queues[x->queue_count++];
	d->queue = strdup(queue);
	if (q->queue == NULL || q->name == NULL || d->queue == NULL)
		return relmq__fail_nomem(err);
	return split_tiers(c->tiers, d, err);
}

relmq_code relmq_consumer_handle(
    relmq_consumer *c, const char *queue, relmq_handler_fn fn, void *arg, relmq_error *err)
{
	relmq__engine *e = &c->engine;
	if (queue == NULL || queue[0] == '\0' || strlen(queue) > 200 || fn == NULL)
		return relmq__fail(
		    err, RELMQ_EINVAL, 0, "a queue of 1..200 bytes and a handler are required");
	if (relmq__settings_dlx(&c->settings, queue) != NULL)
		return relmq__fail(
		    err, RELMQ_EINVAL, 0, "queue %.100s has a handler already", queue);
	if (!grow(&e->queues, e->queue_count, sizeof(*e->queues)))
		return relmq__fail_nomem(err);
	relmq_code code = add_queue(c, queue, err);
	if (code == RELMQ_OK)
		code =
		    relmq__handler_callback_open(&e->queues[e->queue_count].handler, fn, arg, err);
	if (code == RELMQ_OK)
		e->queue_count++;
	return code;
}

relmq_code relmq_consumer_run(relmq_consumer *c, relmq_error *err)
{
	relmq__engine *e = &c->engine;
	if (e->queue_count == 0)
		return relmq__fail(err, RELMQ_EINVAL, 0, "no queue has a handler");
	e->settings = &c->settings;
	/* Bound here and not in handle: the arrays have stopped moving. */
	for (size_t i = 0; i < e->queue_count; i++) {
		e->queues[i].settings = &c->settings.consumer.queues[i];
		e->queues[i].consumer = c->settings.consumer.queues[i].queue;
		e->queues[i].dlx = relmq__settings_dlx(&c->settings, e->queues[i].consumer);
	}
	return relmq__engine_run(e, err);
}

void relmq_consumer_stop(relmq_consumer *c)
{
	relmq__engine_stop(&c->engine);
}

void relmq_consumer_close(relmq_consumer *c)
{
	/* Where handlers outlived run() the memory is theirs, until the process ends. */
	if (c == NULL || !relmq__engine_free(&c->engine))
		return;
	for (size_t i = 0; i < c->engine.queue_count; i++)
		relmq__handler_close(c->engine.queues[i].handler);
	free(c->engine.queues);
	free(c->tiers);
	relmq__settings_free(&c->settings);
	free(c);
}
