/* dlx/commands.c - declare, list, show, replay. Everything a person reads here came from a
 * message: control bytes are never printed as they are. */
#include "dlx/commands.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/cell.h"
#include "dlx/ladder.h"
#include "dlx/parking.h"
#include "dlx/replay.h"
#include "mq/table.h"

enum { REASON_WIDTH = 60, ID_WIDTH = 36, IDS_MAX = 1000 };

/* Options shared by the commands: --queue Q, --yes, and operands that are ids. */
typedef struct request {
	const char *queue;
	bool yes;
	const char *ids[IDS_MAX];
	int id_count;
} request;

static int parse(request *r, int argc, char **argv, bool takes_yes)
{
	memset(r, 0, sizeof(*r));
	for (int i = 0; i < argc; i++) {
		if (strcmp(argv[i], "--queue") == 0 && i + 1 < argc)
			r->queue = argv[++i];
		else if (strncmp(argv[i], "--queue=", 8) == 0)
			r->queue = argv[i] + 8;
		else if (takes_yes && strcmp(argv[i], "--yes") == 0)
			r->yes = true;
		else if (argv[i][0] == '-' && argv[i][1] != '\0')
			return relmq__program_misuse("unknown option %s", argv[i]);
		else if (r->id_count < IDS_MAX)
			r->ids[r->id_count++] = argv[i];
		else
			return relmq__program_misuse("more than %d ids", IDS_MAX);
	}
	return RELMQ__EXIT_OK;
}

static bool queue_wanted(const request *r, const relmq__dlx_queue *q)
{
	return r->queue == NULL || strcmp(r->queue, q->queue) == 0;
}

static int check_queues(const relmq__settings *s, const request *r)
{
	if (s->dlx.queue_count == 0)
		return relmq__program_fail("no queue is configured: name them in dlx.queues");
	if (r->queue != NULL && relmq__settings_dlx(s, r->queue) == NULL)
		return relmq__program_fail("queue %s is not in dlx.queues", r->queue);
	return RELMQ__EXIT_OK;
}

static int prepare(const relmq__settings *s, request *r, int argc, char **argv, bool takes_yes)
{
	int status = parse(r, argc, argv, takes_yes);
	return status == RELMQ__EXIT_OK ? check_queues(s, r) : status;
}

static void print_cell(const char *text, int width)
{
	relmq__cell_print(stdout, text, strlen(text), width);
}

static int finish_output(void)
{
	if (fflush(stdout) != 0 || ferror(stdout))
		return relmq__program_fail("cannot write to stdout");
	return RELMQ__EXIT_OK;
}

/* --- declare ------------------------------------------------------------------------------ */

static int run_declare(const relmq__settings *s, int argc, char **argv)
{
	request r;
	relmq_error err;
	relmq__conn conn = { 0 };
	int status = prepare(s, &r, argc, argv, false);
	if (status != RELMQ__EXIT_OK)
		return status;
	relmq_code code = relmq__conn_open_any(&conn, &s->rabbitmq, "relmq-dlx declare", &err);
	for (size_t i = 0; i < s->dlx.queue_count && code == RELMQ_OK; i++)
		if (queue_wanted(&r, &s->dlx.queues[i]))
			code = relmq__ladder_compare(&conn, &s->dlx.queues[i], &err);
	for (size_t i = 0; i < s->dlx.queue_count && code == RELMQ_OK; i++) {
		const relmq__dlx_queue *q = &s->dlx.queues[i];
		if (!queue_wanted(&r, q))
			continue;
		code = relmq__ladder_declare(&conn, q, &err);
		if (code == RELMQ_OK)
			(void) printf("%s: work queue, %zu tier(s) and %s.parked are declared\n",
			    q->queue, q->tier_count, q->queue);
	}
	relmq__conn_close(&conn, true);
	if (code != RELMQ_OK && err.native == AMQP_PRECONDITION_FAILED)
		return relmq__program_fail(
		    "%s (it exists with other arguments; nothing was changed)", err.text);
	return code == RELMQ_OK ? finish_output() : relmq__program_fail("%s", err.text);
}

/* --- list ----------------------------------------------------------------------------------- */

static void print_heading(void)
{
	print_cell("ID", ID_WIDTH);
	(void) printf("  ");
	print_cell("KEY", 16);
	(void) printf("  ");
	print_cell("QUEUE", 20);
	(void) printf("  ATTEMPTS  AGE    REASON\n");
}

static void print_row(const relmq__parked *m)
{
	char age[RELMQ__AGE_SIZE];
	relmq__age_text(m->age_s, age);
	print_cell(m->id, ID_WIDTH);
	(void) printf("  ");
	print_cell(m->key, 16);
	(void) printf("  ");
	print_cell(m->queue, 20);
	(void) printf("  %8lld  %-5s  ", (long long) m->attempts, age);
	print_cell(m->reason, REASON_WIDTH);
	(void) printf("\n");
}

/* Calls `fn` for every parked message of a queue until it returns false. */
static relmq_code each_parked(const relmq__settings *s, const char *queue,
    bool (*fn)(void *arg, const relmq__msg *msg, const char *queue), void *arg, relmq_error *err)
{
	relmq__parking p;
	relmq__msg *msg = NULL;
	uint64_t tag;
	bool more = true;
	relmq_code code = relmq__parking_open(&p, &s->rabbitmq, queue, err);
	while (code == RELMQ_OK && more) {
		code = relmq__parking_next(&p, &msg, &tag, err);
		more = msg != NULL && fn(arg, msg, queue);
		relmq__msg_free(msg);
		msg = NULL;
	}
	relmq__parking_close(&p);
	return code;
}

static bool list_one(void *arg, const relmq__msg *msg, const char *queue)
{
	relmq__parked m;
	uint64_t *count = arg;
	relmq__parked_read(msg, queue, &m);
	if ((*count)++ == 0)
		print_heading();
	print_row(&m);
	return true;
}

static int run_list(const relmq__settings *s, int argc, char **argv)
{
	request r;
	relmq_error err;
	uint64_t count = 0;
	int status = prepare(s, &r, argc, argv, false);
	if (status != RELMQ__EXIT_OK)
		return status;
	if (r.id_count > 0)
		return relmq__program_misuse("list takes no id: see `show ID`");
	for (size_t i = 0; i < s->dlx.queue_count; i++) {
		if (!queue_wanted(&r, &s->dlx.queues[i]))
			continue;
		if (each_parked(s, s->dlx.queues[i].queue, list_one, &count, &err) != RELMQ_OK)
			return relmq__program_fail("%s", err.text);
	}
	(void) printf("%llu parked message(s)\n", (unsigned long long) count);
	return finish_output();
}

/* --- show ------------------------------------------------------------------------------------ */

typedef struct search {
	const char *id;
	bool found;
} search;

static void print_text(const char *name, const char *text)
{
	(void) printf("%-13s", name);
	print_cell(text, (int) strlen(text));
	(void) printf("\n");
}

static void print_body(amqp_bytes_t body)
{
	bool text = relmq__cell_is_text(body.bytes, body.len);
	(void) printf("body         %zu bytes%s\n", body.len, text ? "" : ", in hex");
	relmq__cell_print_body(stdout, body.bytes, body.len);
}

static bool show_one(void *arg, const relmq__msg *msg, const char *queue)
{
	search *want = arg;
	relmq__parked m;
	char age[RELMQ__AGE_SIZE];
	relmq__buf headers = { 0 };
	relmq__parked_read(msg, queue, &m);
	if (strcmp(m.id, want->id) != 0)
		return true;
	want->found = true;
	print_text("id", m.id);
	print_text("key", m.key);
	print_text("type", m.type);
	print_text("queue", m.queue);
	relmq__age_text(m.age_s, age);
	(void) printf("%-13s%lld\n", "attempts", (long long) m.attempts);
	print_text("age", age);
	print_text("reason", m.reason);
	relmq__table_to_json(&headers, &msg->props.headers);
	print_text("headers", headers.data != NULL ? headers.data : "{}");
	relmq__buf_free(&headers);
	print_body(msg->body);
	return false;
}

static int run_show(const relmq__settings *s, int argc, char **argv)
{
	request r;
	relmq_error err;
	int status = prepare(s, &r, argc, argv, false);
	if (status != RELMQ__EXIT_OK)
		return status;
	if (r.id_count != 1)
		return relmq__program_misuse("show takes one id: see `list`");
	search want = { r.ids[0], false };
	for (size_t i = 0; i < s->dlx.queue_count && !want.found; i++) {
		if (!queue_wanted(&r, &s->dlx.queues[i]))
			continue;
		if (each_parked(s, s->dlx.queues[i].queue, show_one, &want, &err) != RELMQ_OK)
			return relmq__program_fail("%s", err.text);
	}
	return want.found ? finish_output()
	                  : relmq__program_fail("no parked message has id %s", r.ids[0]);
}

/* --- replay ------------------------------------------------------------------------------------ */

static bool replay_wanted(void *arg, const relmq__msg *msg, const char *queue)
{
	const request *r = arg;
	relmq__parked m;
	relmq__parked_read(msg, queue, &m);
	bool wanted = r->id_count == 0;
	for (int i = 0; i < r->id_count && !wanted; i++)
		wanted = strcmp(m.id, r->ids[i]) == 0;
	if (wanted) {
		(void) printf("%s  ", r->yes ? "replay      " : "would replay");
		print_cell(m.id, ID_WIDTH);
		(void) printf("  to %s\n", queue);
	}
	return wanted;
}

static int run_replay(const relmq__settings *s, int argc, char **argv)
{
	request r;
	relmq_error err;
	relmq__replay_counts counts = { 0, 0 };
	relmq_code code = RELMQ_OK;
	int status = prepare(s, &r, argc, argv, true);
	if (status != RELMQ__EXIT_OK)
		return status;
	for (size_t i = 0; i < s->dlx.queue_count && code == RELMQ_OK; i++)
		if (queue_wanted(&r, &s->dlx.queues[i]))
			code = relmq__replay(&s->rabbitmq, s->dlx.queues[i].queue, !r.yes,
			    replay_wanted, &r, &counts, &err);
	if (code == RELMQ_OK || counts.seen > 0)
		(void) printf("%llu of %llu parked message(s) %s\n",
		    (unsigned long long) counts.replayed, (unsigned long long) counts.seen,
		    r.yes ? "replayed" : "would be replayed; add --yes to do it");
	(void) fflush(stdout);
	if (code != RELMQ_OK)
		return relmq__program_fail("%s", err.text);
	if (r.id_count > 0 && counts.replayed == 0)
		return relmq__program_fail("no parked message has such an id");
	return finish_output();
}

const relmq__command relmq__dlx_commands[] = {
	{ "declare", "[--queue Q]", "declare work queues, retry tiers and parking queues",
	    run_declare },
	{ "list", "[--queue Q]", "parked messages: id, key, queue, attempts, age, reason",
	    run_list },
	{ "show", "[--queue Q] ID", "one parked message, whole", run_show },
	{ "replay", "[--queue Q] [--yes] [ID...]",
	    "send parked messages back to their queue; says what it would do without --yes",
	    run_replay },
	{ NULL, NULL, NULL, NULL },
};
