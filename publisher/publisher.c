/* publisher/publisher.c - the public C API over the relay. */
#include <relmq/publisher.h>

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/uri.h"
#include "publisher/relay.h"

struct relmq_publisher {
	relmq__settings settings;
	relmq__relay relay;
	atomic_bool ran;
};

/* An older caller's struct is shorter: what it does not have is zero. */
static relmq_code read_opts(
    relmq_publisher_opts *to, const relmq_publisher_opts *from, relmq_error *err)
{
	size_t known = sizeof(*to);
	memset(to, 0, known);
	if (from == NULL || from->struct_size < sizeof(from->struct_size))
		return relmq__fail(
		    err, RELMQ_EINVAL, 0, "opts: start from RELMQ_PUBLISHER_OPTS_INIT");
	for (size_t i = known; i < from->struct_size; i++)
		if (((const unsigned char *) from)[i] != 0)
			return relmq__fail(err, RELMQ_EINVAL, 0,
			    "opts: a member this library does not know is set");
	memcpy(to, from, from->struct_size < known ? from->struct_size : known);
	if (to->config_file != NULL && to->config != NULL)
		return relmq__fail(
		    err, RELMQ_EINVAL, 0, "opts: config_file and config: one of the two");
	return RELMQ_OK;
}

static relmq_code configure(relmq__settings *s, const relmq_publisher_opts *o, relmq_error *err)
{
	relmq_code code = o->config != NULL ? relmq__settings_parse(s, o->config, err)
	                                    : relmq__settings_load(s, o->config_file, err);
	if (code == RELMQ_OK && o->amqp_uri != NULL)
		code = relmq__uri_rabbitmq(o->amqp_uri, &s->rabbitmq, err);
	if (code == RELMQ_OK && o->mysql_dsn != NULL)
		code = relmq__uri_mysql(o->mysql_dsn, &s->mysql, err);
	return code;
}

relmq_code relmq_publisher_open(
    relmq_publisher **out, const relmq_publisher_opts *opts, relmq_error *err)
{
	relmq_publisher_opts o;
	if (out == NULL)
		return relmq__fail(err, RELMQ_EINVAL, 0, "out is NULL");
	*out = NULL;
	relmq_code code = read_opts(&o, opts, err);
	if (code != RELMQ_OK)
		return code;
	relmq_publisher *p = calloc(1, sizeof(*p));
	if (p == NULL)
		return relmq__fail_nomem(err);
	relmq__stats_init(&p->relay.stats);
	code = configure(&p->settings, &o, err);
	if (code == RELMQ_OK)
		*out = p;
	else
		relmq_publisher_close(p);
	return code;
}

relmq_code relmq_publisher_run(relmq_publisher *p, relmq_error *err)
{
	if (atomic_exchange(&p->ran, true))
		return relmq__fail(err, RELMQ_ECLOSED, 0, "the relay has run: open another");
	return relmq__relay_run(&p->relay, &p->settings, err);
}

void relmq_publisher_stop(relmq_publisher *p)
{
	relmq__relay_stop(&p->relay);
}

void relmq_publisher_stats_get(const relmq_publisher *p, relmq_publisher_stats *stats)
{
	relmq_publisher_stats all;
	size_t size = stats->struct_size;
	relmq__stats_read(&p->relay.stats, &all);
	/* A caller with a newer header keeps what it has put where we know nothing. */
	memcpy(stats, &all, size < sizeof(all) ? size : sizeof(all));
	stats->struct_size = size;
}

void relmq_publisher_close(relmq_publisher *p)
{
	if (p == NULL)
		return;
	relmq__relay_free(&p->relay);
	relmq__settings_free(&p->settings);
	free(p);
}
