/* admin/status.c - `relmq status`: computed from the tables alone, by the database's
 * clock, and by ranges of indexes wherever a table may be long. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "admin/admin.h"
#include "admin/outbox.h"
#include "admin/status_relays.h"
#include "base/duration.h"
#include "base/program.h"
#include "db/migrate.h"
#include "publisher/backlog.h"

enum { LOCK_WAIT_S = 5, OUTBOX_STATES = RELMQ__OUTBOX_STATES, INBOX_STATES = 2 };

static const char *const inbox_names[INBOX_STATES] = { "done", "processing" }; /* from 1 */

typedef struct options {
	bool json;
	int64_t max_age_ms; /* -1: none */
} options;

typedef struct report {
	int64_t outbox[OUTBOX_STATES];
	int64_t oldest_us; /* -1: no row is ready */
	int64_t held_keys;
	int64_t free_shards;
	MYSQL_RES *relays; /* owner, shards, report */
	int64_t inbox[INBOX_STATES];
} report;

/* --- reading ------------------------------------------------------------------------ */

/* Rows of (number, count) into `counts`, whose first element is number `first`. */
static relmq_code read_counts(
    relmq__db *db, const char *sql, int64_t *counts, long first, long size, relmq_error *err)
{
	MYSQL_RES *res = NULL;
	relmq_code code = relmq__db_query(db, sql, strlen(sql), &res, err);
	for (MYSQL_ROW row; code == RELMQ_OK && (row = mysql_fetch_row(res)) != NULL;) {
		long number = strtol(row[0], NULL, 10) - first;
		if (number >= 0 && number < size)
			counts[number] = strtoll(row[1], NULL, 10);
	}
	mysql_free_result(res);
	return code;
}

static relmq_code read_relays(relmq__db *db, report *r, relmq_error *err)
{
	static const char free_shards[] =
	    "SELECT COUNT(*) FROM outbox_lease WHERE expires_at <= NOW(6)";
	relmq_code code = relmq__status_relays(db, &r->relays, err);
	if (code == RELMQ_OK)
		code = relmq__db_number(db, free_shards, 0, &r->free_shards, err);
	return code;
}

static relmq_code read_report(relmq__db *db, report *r, relmq_error *err)
{
	int64_t clock_us;
	relmq_code code = relmq__schema_check(db, err);
	if (code == RELMQ_OK)
		code =
		    read_counts(db, "SELECT status, COUNT(*) FROM message_outbox GROUP BY status",
		        r->outbox, 0, OUTBOX_STATES, err);
	if (code == RELMQ_OK)
		code = relmq__backlog_look(db, &r->oldest_us, &clock_us, err);
	if (code == RELMQ_OK)
		code = relmq__db_number(db,
		    "SELECT COUNT(DISTINCT business_key) FROM message_outbox"
		    " WHERE status = 2 AND OCTET_LENGTH(business_key) > 0",
		    0, &r->held_keys, err);
	if (code == RELMQ_OK)
		code = read_relays(db, r, err);
	if (code == RELMQ_OK)
		code = read_counts(db, "SELECT state, COUNT(*) FROM message_inbox GROUP BY state",
		    r->inbox, 1, INBOX_STATES, err);
	return code;
}

/* --- printing ----------------------------------------------------------------------- */

static void line(const char *name, int64_t count)
{
	(void) printf("  %-24s %12lld\n", name, (long long) count);
}

static void print_text(const report *r)
{
	(void) printf("outbox\n");
	for (int i = 0; i < OUTBOX_STATES; i++)
		line(relmq__outbox_states[i], r->outbox[i]);
	line("keys held by failed rows", r->held_keys);
	if (r->oldest_us >= 0)
		(void) printf(
		    "  %-24s %12.1f s\n", "oldest ready row", (double) r->oldest_us / 1e6);
	else
		(void) printf("  %-24s %12s\n", "oldest ready row", "none");
	(void) printf("relays\n");
	line("alive", (int64_t) mysql_num_rows(r->relays));
	relmq__status_relays_print(r->relays);
	line("shards without a relay", r->free_shards);
	(void) printf("inbox\n");
	for (int i = 0; i < INBOX_STATES; i++)
		line(inbox_names[i], r->inbox[i]);
}

static void add_counts(relmq__buf *b, const char *const *names, const int64_t *counts, int n)
{
	for (int i = 0; i < n; i++)
		relmq__buf_addf(
		    b, "%s\"%s\":%lld", i > 0 ? "," : "{", names[i], (long long) counts[i]);
	relmq__buf_adds(b, "}");
}

static bool print_json(const report *r)
{
	relmq__buf b = { 0 };
	relmq__buf_adds(&b, "{\"outbox\":");
	add_counts(&b, relmq__outbox_states, r->outbox, OUTBOX_STATES);
	relmq__buf_addf(
	    &b, ",\"held_keys\":%lld,\"oldest_ready_age_s\":", (long long) r->held_keys);
	if (r->oldest_us >= 0) /* digits alone: a locale may have another decimal point */
		relmq__buf_addf(&b, "%lld.%06lld", (long long) r->oldest_us / 1000000,
		    (long long) r->oldest_us % 1000000);
	else
		relmq__buf_adds(&b, "null");
	relmq__buf_adds(&b, ",\"relays\":");
	relmq__status_relays_json(r->relays, &b);
	relmq__buf_addf(&b, ",\"free_shards\":%lld,\"inbox\":", (long long) r->free_shards);
	add_counts(&b, inbox_names, r->inbox, INBOX_STATES);
	relmq__buf_adds(&b, "}\n");
	bool ok = !b.failed;
	if (ok)
		(void) fwrite(b.data, 1, b.len, stdout);
	relmq__buf_free(&b);
	return ok;
}

/* --- the command -------------------------------------------------------------------- */

static int parse(options *o, int argc, char **argv)
{
	*o = (options){ .max_age_ms = -1 };
	for (int i = 0; i < argc; i++) {
		if (strcmp(argv[i], "--json") == 0) {
			o->json = true;
		} else if (strcmp(argv[i], "--max-age") == 0) {
			o->max_age_ms = i + 1 < argc ? relmq__duration_ms(argv[++i]) : -1;
			if (o->max_age_ms < 0)
				return relmq__program_misuse(
				    "--max-age needs a duration such as 60s");
		} else {
			return relmq__program_misuse("status does not know %s", argv[i]);
		}
	}
	return RELMQ__EXIT_OK;
}

static int judge_age(const options *o, const report *r)
{
	if (o->max_age_ms < 0 || r->oldest_us <= o->max_age_ms * 1000)
		return RELMQ__EXIT_OK;
	char limit[RELMQ__DURATION_SIZE];
	relmq__duration_text(o->max_age_ms, limit);
	return relmq__program_fail(
	    "status: a row has been ready for %lld s, longer than --max-age %s",
	    (long long) r->oldest_us / 1000000, limit);
}

int relmq__admin_status(const relmq__settings *s, int argc, char **argv)
{
	options o;
	report r = { 0 };
	relmq__db db;
	relmq_error err = RELMQ_ERROR_INIT;
	int status = parse(&o, argc, argv);
	if (status != RELMQ__EXIT_OK)
		return status;
	relmq_code code = relmq__db_open_any(&db, &s->mysql, LOCK_WAIT_S, false, &err);
	if (code == RELMQ_OK)
		code = read_report(&db, &r, &err);
	if (code != RELMQ_OK)
		status = relmq__program_fail("status: %s", err.text);
	else if (o.json && !print_json(&r))
		status = relmq__program_fail("status: out of memory");
	else if (!o.json)
		print_text(&r);
	if (status == RELMQ__EXIT_OK)
		status = judge_age(&o, &r);
	mysql_free_result(r.relays);
	relmq__db_close(&db);
	return status;
}
