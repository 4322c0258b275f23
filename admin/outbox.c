/* admin/outbox.c - `relmq outbox`: reads the command line of its sub-commands. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "admin/admin.h"
#include "admin/outbox.h"
#include "base/program.h"
#include "db/migrate.h"

enum { LOCK_WAIT_S = 5, ID_BYTES_MAX = 255, LIMIT_MAX = 1000000 };
enum { ON_LIST = 1, ON_SHOW = 2, ON_RETRY = 4, ON_SKIP = 8 };

static const struct verb {
	const char *name;
	unsigned bit;
	int (*run)(relmq__db *db, const relmq__outbox_request *r);
} verbs[] = {
	{ "list", ON_LIST, relmq__outbox_list },
	{ "show", ON_SHOW, relmq__outbox_show },
	{ "retry", ON_RETRY, relmq__outbox_retry },
	{ "skip", ON_SKIP, relmq__outbox_skip },
};

/* --- values ------------------------------------------------------------------------- */

/* Digits alone, no sign, no leading zero; 0: it is none. */
static uint64_t number(const char *text)
{
	if (text[0] < '1' || text[0] > '9' || strspn(text, "0123456789") != strlen(text))
		return 0;
	errno = 0;
	unsigned long long n = strtoull(text, NULL, 10);
	return errno == 0 ? n : 0;
}

static int add_ref(relmq__outbox_request *r, uint64_t id, const char *msg_id)
{
	if (r->ref_count == RELMQ__OUTBOX_IDS_MAX)
		return relmq__program_misuse("more than %d ids", RELMQ__OUTBOX_IDS_MAX);
	r->refs[r->ref_count++] = (relmq__outbox_ref){ msg_id, id };
	return RELMQ__EXIT_OK;
}

static int take_msg_id(relmq__outbox_request *r, const char *text)
{
	size_t len = strlen(text);
	if (len == 0 || len > ID_BYTES_MAX)
		return relmq__program_misuse("a msg_id has 1 to %d bytes", ID_BYTES_MAX);
	return add_ref(r, 0, text);
}

/* A row id is digits alone; what holds anything else is a msg_id. */
static int take_operand(relmq__outbox_request *r, const char *text)
{
	if (text[0] == '\0' || strspn(text, "0123456789") != strlen(text))
		return take_msg_id(r, text);
	uint64_t id = number(text);
	if (id == 0)
		return relmq__program_misuse(
		    "%s is no row id; a msg_id that is all digits needs --msg-id", text);
	return add_ref(r, id, NULL);
}

static int take_states(relmq__outbox_request *r, const char *text)
{
	char one[16];
	for (const char *at = text;; at++) {
		size_t n = strcspn(at, ",");
		unsigned i = RELMQ__OUTBOX_STATES;
		if (n < sizeof(one)) {
			memcpy(one, at, n);
			one[n] = '\0';
			for (i = 0; i < RELMQ__OUTBOX_STATES; i++)
				if (strcasecmp(one, relmq__outbox_states[i]) == 0)
					break;
		}
		if (i == RELMQ__OUTBOX_STATES)
			return relmq__program_misuse(
			    "--status takes pending, sent, failed, abandoned, scheduled, "
			    "or several with commas, not %s",
			    text);
		r->filter.states |= 1U << i;
		at += n;
		if (*at == '\0')
			return RELMQ__EXIT_OK;
	}
}

static int take_limit(relmq__outbox_request *r, const char *text)
{
	uint64_t n = number(text);
	if (n == 0 || n > LIMIT_MAX)
		return relmq__program_misuse(
		    "--limit takes a number from 1 to %d, not %s", LIMIT_MAX, text);
	r->limit = (int64_t) n;
	return RELMQ__EXIT_OK;
}

static int take_key(relmq__outbox_request *r, const char *text)
{
	r->filter.key = text;
	return RELMQ__EXIT_OK;
}

static int take_exchange(relmq__outbox_request *r, const char *text)
{
	r->filter.exchange = text;
	return RELMQ__EXIT_OK;
}

static int take_routing_key(relmq__outbox_request *r, const char *text)
{
	r->filter.routing_key = text;
	return RELMQ__EXIT_OK;
}

/* --- options ------------------------------------------------------------------------ */

static const struct option {
	const char *name;
	unsigned verbs;                                           /* that know it */
	int (*take)(relmq__outbox_request *r, const char *value); /* NULL: a flag at ... */
	size_t flag;
} options[] = {
	{ "--status", ON_LIST | ON_RETRY, take_states, 0 },
	{ "--key", ON_LIST | ON_RETRY, take_key, 0 },
	{ "--exchange", ON_LIST | ON_RETRY, take_exchange, 0 },
	{ "--routing-key", ON_LIST | ON_RETRY, take_routing_key, 0 },
	{ "--limit", ON_LIST | ON_RETRY, take_limit, 0 },
	{ "--msg-id", ON_SHOW | ON_RETRY | ON_SKIP, take_msg_id, 0 },
	{ "--json", ON_LIST | ON_SHOW, NULL, offsetof(relmq__outbox_request, json) },
	{ "--payload", ON_SHOW, NULL, offsetof(relmq__outbox_request, payload) },
	{ "--all", ON_RETRY, NULL, offsetof(relmq__outbox_request, all) },
	{ "--yes", ON_RETRY, NULL, offsetof(relmq__outbox_request, yes) },
};
enum { OPTIONS = sizeof(options) / sizeof(options[0]) };

static const struct option *find_option(const char *arg, unsigned verb)
{
	size_t len = strcspn(arg, "=");
	for (size_t i = 0; i < OPTIONS; i++)
		if ((options[i].verbs & verb) != 0 && strlen(options[i].name) == len &&
		    strncmp(options[i].name, arg, len) == 0)
			return &options[i];
	return NULL;
}

/* The option at argv[*i]; moves *i over its value. */
static int take_option(
    relmq__outbox_request *r, const struct verb *v, int argc, char **argv, int *i)
{
	const char *arg = argv[*i];
	const char *value = strchr(arg, '=');
	const struct option *o = find_option(arg, v->bit);
	if (o == NULL)
		return relmq__program_misuse("outbox %s does not know %s", v->name, arg);
	if (o->take == NULL && value != NULL)
		return relmq__program_misuse("%s takes no value", o->name);
	if (o->take == NULL) {
		*(bool *) ((char *) r + o->flag) = true;
		return RELMQ__EXIT_OK;
	}
	if (value == NULL && *i + 1 == argc)
		return relmq__program_misuse("%s needs a value", o->name);
	return o->take(r, value != NULL ? value + 1 : argv[++*i]);
}

static int parse(relmq__outbox_request *r, const struct verb *v, int argc, char **argv)
{
	int status = RELMQ__EXIT_OK;
	bool literal = false; /* after "--" */
	memset(r, 0, sizeof(*r));
	for (int i = 0; i < argc && status == RELMQ__EXIT_OK; i++) {
		if (!literal && strcmp(argv[i], "--") == 0)
			literal = true;
		else if (!literal && argv[i][0] == '-')
			status = take_option(r, v, argc, argv, &i);
		else
			status = take_operand(r, argv[i]);
	}
	return status;
}

static bool has_filter(const relmq__outbox_request *r)
{
	return r->filter.states != 0 || r->filter.key != NULL || r->filter.exchange != NULL ||
	    r->filter.routing_key != NULL || r->limit != 0;
}

/* What the parts have to do with each other. */
static int check(const relmq__outbox_request *r, const struct verb *v)
{
	const unsigned retried = 1U << 2 | 1U << 3; /* FAILED, ABANDONED */
	if (v->bit == ON_LIST && r->ref_count > 0)
		return relmq__program_misuse("outbox list takes no id: see outbox show ID");
	if (v->bit == ON_SHOW && r->ref_count != 1)
		return relmq__program_misuse("outbox show takes one id");
	if (v->bit == ON_SHOW && r->payload && r->json)
		return relmq__program_misuse("--payload writes the payload alone: not with --json");
	if (v->bit == ON_SKIP && r->ref_count == 0)
		return relmq__program_misuse("outbox skip takes the ids of failed rows");
	if (v->bit != ON_RETRY)
		return RELMQ__EXIT_OK;
	if (r->all == (r->ref_count > 0))
		return relmq__program_misuse("outbox retry takes ids, or --all");
	if (!r->all && has_filter(r))
		return relmq__program_misuse("a filter goes with --all, not with ids");
	if ((r->filter.states & ~retried) != 0)
		return relmq__program_misuse("only failed and abandoned rows can be retried");
	return RELMQ__EXIT_OK;
}

/* --- the command -------------------------------------------------------------------- */

static int run(const relmq__settings *s, const struct verb *v, const relmq__outbox_request *r)
{
	relmq__db db;
	relmq_error err = RELMQ_ERROR_INIT;
	int status;
	bool writes = (v->bit & (ON_RETRY | ON_SKIP)) != 0;
	relmq_code code = relmq__db_open_any(&db, &s->mysql, LOCK_WAIT_S, writes, &err);
	if (code == RELMQ_OK)
		code = relmq__schema_check(&db, &err);
	if (code != RELMQ_OK)
		status = relmq__program_fail("outbox %s: %s", v->name, err.text);
	else
		status = v->run(&db, r);
	relmq__db_close(&db);
	return status;
}

int relmq__admin_outbox(const relmq__settings *s, int argc, char **argv)
{
	if (argc == 0)
		return relmq__program_misuse("outbox what? list, show, retry or skip");
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
		if (strcmp(argv[0], verbs[i].name) != 0)
			continue;
		relmq__outbox_request r;
		int status = parse(&r, &verbs[i], argc - 1, argv + 1);
		if (status == RELMQ__EXIT_OK)
			status = check(&r, &verbs[i]);
		return status == RELMQ__EXIT_OK ? run(s, &verbs[i], &r) : status;
	}
	return relmq__program_misuse("outbox can list, show, retry and skip, not %s", argv[0]);
}
