/* consumer/main.c - relmq-consumer: a table and a call; and the handlers by their kind. */
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/log.h"
#include "base/program.h"
#include "consumer/engine.h"

static relmq__engine engine;

static relmq_code open_handler(
    relmq__handler **out, const relmq__handler_settings *h, relmq_error *err)
{
	if (h->kind == RELMQ__HANDLER_PLUGIN)
		return relmq__handler_plugin_open(out, h->path, h->argument, err);
	return relmq__handler_sql_open(out, h->statements, h->statement_count, err);
}

static relmq_code open_queues(relmq__engine *e, const relmq__settings *s, relmq_error *err)
{
	if (s->consumer.queue_count == 0)
		return relmq__fail(err, RELMQ_ECONFIG, RELMQ_F_FATAL,
		    "consumer.queues is empty: name at least one queue and its handler");
	e->queues = calloc(s->consumer.queue_count, sizeof(*e->queues));
	if (e->queues == NULL)
		return relmq__fail_nomem(err);
	for (size_t i = 0; i < s->consumer.queue_count; i++) {
		const relmq__consumer_queue *q = &s->consumer.queues[i];
		relmq__engine_queue *to = &e->queues[i];
		to->settings = q;
		to->dlx = relmq__settings_dlx(s, q->queue);
		to->consumer = q->name[0] != '\0' ? q->name : q->queue;
		relmq_code code = open_handler(&to->handler, &q->handler, err);
		if (code != RELMQ_OK)
			return code;
		e->queue_count++;
	}
	return RELMQ_OK;
}

static void close_queues(relmq__engine *e)
{
	for (size_t i = 0; i < e->queue_count; i++)
		relmq__handler_close(e->queues[i].handler);
	free(e->queues);
}

static int run(const relmq__settings *settings)
{
	relmq_error err;
	engine.settings = settings;
	relmq_code code = open_queues(&engine, settings, &err);
	int status = code == RELMQ_ECONFIG ? 2 : 1;
	if (code == RELMQ_OK)
		code = relmq__engine_run(&engine, &err);
	if (code != RELMQ_OK)
		LOG_ERROR("relmq-consumer", "%s", err.text);
	if (code == RELMQ_ETIMEDOUT)
		_Exit(1); /* handlers still run: nothing may be taken down under them */
	close_queues(&engine);
	return code == RELMQ_OK ? 0 : status;
}

static void stop(void)
{
	relmq__engine_stop(&engine);
}

static const relmq__program program = {
	.name = "relmq-consumer",
	.summary = "give each message its effect once, in order per key",
	.run = run,
	.stop = stop,
};

int main(int argc, char **argv)
{
	return relmq__program_main(&program, argc, argv);
}
