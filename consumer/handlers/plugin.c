/* handlers/plugin.c - a callback that comes from a shared object. */
#include <relmq/plugin.h>

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "consumer/handlers/callback.h"

typedef struct plugin {
	relmq__callback call; /* first: see callback.h */
	void *object;
	const relmq_plugin *table;
} plugin;

static relmq_code refuse(const char *path, const char *why, relmq_error *err)
{
	(void) relmq__fail(err, RELMQ_ECONFIG, RELMQ_F_FATAL, "plugin %s: %s", path, why);
	return RELMQ_ECONFIG;
}

/* dlerror() mostly starts with the path, which is said already. */
static relmq_code refuse_dl(const char *path, relmq_error *err)
{
	const char *why = dlerror();
	size_t len = strlen(path);
	if (why == NULL)
		return refuse(path, "cannot be loaded", err);
	if (strncmp(why, path, len) == 0 && strncmp(why + len, ": ", 2) == 0)
		why += len + 2;
	return refuse(path, why, err);
}

static relmq_code check_table(const char *path, const relmq_plugin *table, relmq_error *err)
{
	if (table == NULL)
		return refuse(path, "relmq_plugin_entry() returned no table", err);
	if (table->abi != RELMQ_PLUGIN_ABI)
		return relmq__fail(err, RELMQ_ECONFIG, RELMQ_F_FATAL,
		    "plugin %s: built for plugin ABI %u, this program has %d; build it again", path,
		    table->abi, RELMQ_PLUGIN_ABI);
	if (table->handle == NULL)
		return refuse(path, "its table has no handle function", err);
	return RELMQ_OK;
}

static relmq_code load(plugin *p, const char *path, relmq_error *err)
{
	const relmq_plugin *(*entry)(void) = NULL;
	p->object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (p->object == NULL)
		return refuse_dl(path, err);
	void *symbol = dlsym(p->object, "relmq_plugin_entry");
	if (symbol == NULL)
		return refuse(path, "it exports no relmq_plugin_entry()", err);
	memcpy(&entry, &symbol, sizeof(entry)); /* ISO C has no cast for this */
	p->table = entry();
	return check_table(path, p->table, err);
}

static relmq_code start(plugin *p, const char *path, const char *argument, relmq_error *err)
{
	relmq_error its = RELMQ_ERROR_INIT;
	p->call.fn = p->table->handle;
	if (p->table->open == NULL || p->table->open(argument, &p->call.arg, &its) == 0)
		return RELMQ_OK;
	its.text[sizeof(its.text) - 1] = '\0';
	return refuse(
	    path, its.text[0] != '\0' ? its.text : "its open() failed and did not say why", err);
}

/* A plugin that was opened stays mapped: threads and exit handlers of its own may still
 * run in it. */
static void close_plugin(relmq__handler *h)
{
	plugin *p = (plugin *) h;
	if (p->table->close != NULL)
		p->table->close(p->call.arg);
	free(p);
}

relmq_code relmq__handler_plugin_open(
    relmq__handler **out, const char *path, const char *argument, relmq_error *err)
{
	static const relmq__handler_ops ops = { relmq__callback_run, NULL, close_plugin };
	plugin *p = calloc(1, sizeof(*p));
	if (p == NULL)
		return relmq__fail_nomem(err);
	p->call.base.ops = &ops;
	relmq_code code = load(p, path, err);
	if (code == RELMQ_OK)
		code = start(p, path, argument != NULL ? argument : "", err);
	if (code == RELMQ_OK) {
		*out = &p->call.base;
		return RELMQ_OK;
	}
	if (p->object != NULL)
		(void) dlclose(p->object);
	free(p);
	return code;
}
