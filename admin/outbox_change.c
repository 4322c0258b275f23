/* admin/outbox_change.c - `relmq outbox retry` and `skip`.
 *
 * A relay may be at work on the very row, in flight even. Each change is one statement that
 * names the state which it leaves, and a relay settles by what it read:
 *
 *   retry  FAILED -> due now, its attempts counted anew. A refusal of an attempt that was under
 *          way finds another count and changes nothing: the row is tried again at once.
 *          ABANDONED -> PENDING and not FAILED: at most one row of a key is FAILED, which the
 *          search for work builds on. It goes in its turn, by its id, among those of its key.
 *   skip   FAILED -> ABANDONED. A refusal that comes later finds another state and changes
 *          nothing; the key goes on when the attempt under way has ended.
 *
 * A confirm that comes later clears the row whatever was said: the message is out. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "admin/outbox.h"
#include "base/cell.h"
#include "base/error.h"
#include "base/program.h"
#include "publisher/row.h"

enum { TRIES = 5, CHUNK_ROWS = 500, SAY_ROWS = 100, STATES = RELMQ__OUTBOX_STATES };

typedef struct change {
	const char *to;  /* what becomes of the row, for a person                   */
	const char *set; /* NULL: a row of this state is left alone, and `to` says why */
} change;

typedef struct verb {
	const char *name;
	change from[STATES];
} verb;

static const verb retry = { "retry",
	{
	    [RELMQ__PENDING] = { "is pending: it is sent without a retry, when its turn comes",
	        NULL },
	    [RELMQ__SENT] = { "is already sent", NULL },
	    [RELMQ__FAILED] = { "failed -> due now",
	        "o.retry_count = 0, o.next_retry_at = NOW(6)" },
	    [RELMQ__ABANDONED] = { "abandoned -> pending",
	        "o.status = 0, o.retry_count = 0, o.next_retry_at = NULL" },
	    [RELMQ__SCHEDULED] = { "is scheduled: it is sent when its time has come", NULL },
	} };

static const verb skip = { "skip",
	{
	    [RELMQ__PENDING] = { "is pending, not failed: only failed rows are skipped", NULL },
	    [RELMQ__SENT] = { "is already sent", NULL },
	    [RELMQ__FAILED] = { "failed -> abandoned",
	        "o.status = 3, o.next_retry_at = NULL, o.last_error ="
	        " LEFT(CONCAT('skipped by a person; ', COALESCE(o.last_error, '')), 1024)" },
	    [RELMQ__ABANDONED] = { "is already abandoned", NULL },
	    [RELMQ__SCHEDULED] = { "is scheduled, not failed: only failed rows are skipped", NULL },
	} };

/* A deadlock or a lock that somebody holds: nothing was changed; worth a few tries. */
static relmq_code exec(relmq__db *db, const char *sql, uint64_t *changed, relmq_error *err)
{
	relmq_code code = RELMQ_EDB;
	for (int i = 0; i < TRIES; i++) {
		code = relmq__db_exec(db, sql, strlen(sql), changed, err);
		if (code == RELMQ_OK || err->native != 1213)
			break;
	}
	return code;
}

/* --- one row -------------------------------------------------------------------------- */

static int fail_row(uint64_t id, const char *text)
{
	return relmq__program_fail("row %llu %s", (unsigned long long) id, text);
}

static relmq_code read_state(relmq__db *db, uint64_t id, int64_t *state, relmq_error *err)
{
	char sql[96];
	(void) snprintf(sql, sizeof(sql), "SELECT status FROM message_outbox WHERE id = %llu",
	    (unsigned long long) id);
	return relmq__db_number(db, sql, -1, state, err);
}

/* Read the state, change it if it still is so; if it was not, look again. */
static int change_row(relmq__db *db, const verb *v, uint64_t id)
{
	relmq_error err = RELMQ_ERROR_INIT;
	char sql[320];
	for (int i = 0; i < TRIES; i++) {
		int64_t state;
		uint64_t changed = 0;
		if (read_state(db, id, &state, &err) != RELMQ_OK)
			return relmq__program_fail("outbox %s: %s", v->name, err.text);
		if (state < 0 || state >= STATES)
			return fail_row(id, "is gone: it was sent and deleted, or never was");
		const change *c = &v->from[state];
		if (c->set == NULL)
			return fail_row(id, c->to);
		(void) snprintf(sql, sizeof(sql),
		    "UPDATE message_outbox o SET %s WHERE o.id = %llu AND o.status = %d", c->set,
		    (unsigned long long) id, (int) state);
		if (exec(db, sql, &changed, &err) != RELMQ_OK)
			return relmq__program_fail("outbox %s: row %llu was not changed: %s",
			    v->name, (unsigned long long) id, err.text);
		if (changed == 1) {
			(void) printf("row %llu: %s\n", (unsigned long long) id, c->to);
			return RELMQ__EXIT_OK;
		}
	}
	return fail_row(id, "keeps changing under relays at work and was not changed: try again");
}

static void add_id(relmq__buf *ids, uint64_t id)
{
	relmq__buf_add(ids, &id, sizeof(id));
}

/* The ids of the rows with this msg_id; a row id is itself. */
static int find_ids(relmq__db *db, const verb *v, const relmq__outbox_ref *ref, relmq__buf *ids)
{
	char name[300];
	relmq_error err = RELMQ_ERROR_INIT;
	MYSQL_RES *res = NULL;
	int status = RELMQ__EXIT_OK;
	if (ref->msg_id == NULL) {
		add_id(ids, ref->id);
		return status;
	}
	relmq__outbox_name(ref, name, sizeof(name));
	if (relmq__outbox_named(db, ref, "o.id", RELMQ__OUTBOX_IDS_MAX + 1, &res, &err) != RELMQ_OK)
		return relmq__program_fail("outbox %s: %s", v->name, err.text);
	if (mysql_num_rows(res) == 0)
		status = relmq__program_fail("no %s: it was sent and deleted, or never was", name);
	else if (mysql_num_rows(res) > RELMQ__OUTBOX_IDS_MAX)
		status =
		    relmq__program_fail("more than %d rows have msg_id %s: name them by row id",
		        RELMQ__OUTBOX_IDS_MAX, ref->msg_id);
	else
		for (MYSQL_ROW row; (row = mysql_fetch_row(res)) != NULL;)
			add_id(ids, strtoull(row[0], NULL, 10));
	mysql_free_result(res);
	return status;
}

static int by_value(const void *a, const void *b)
{
	const uint64_t *x = a;
	const uint64_t *y = b;
	return *x < *y ? -1 : *x > *y;
}

/* Each row once, from the lowest: of two rows of one key the earlier must be free first. */
static int change_refs(relmq__db *db, const verb *v, const relmq__outbox_request *r)
{
	relmq__buf ids = { 0 };
	int status = RELMQ__EXIT_OK; /* or 1, whichever failed */
	for (int i = 0; i < r->ref_count; i++)
		status |= find_ids(db, v, &r->refs[i], &ids);
	size_t count = ids.len / sizeof(uint64_t);
	if (ids.failed) {
		status = relmq__program_fail("outbox %s: out of memory", v->name);
		count = 0;
	}
	if (count > 1)
		qsort(ids.data, count, sizeof(uint64_t), by_value);
	uint64_t last = 0; /* no row has it */
	for (size_t i = 0; i < count; i++) {
		uint64_t id;
		memcpy(&id, ids.data + i * sizeof(id), sizeof(id));
		if (id != last)
			status |= change_row(db, v, id);
		last = id;
	}
	relmq__buf_free(&ids);
	return status;
}

/* --- all rows --------------------------------------------------------------------------- */

typedef struct chunk { /* ids of one state */
	relmq__buf ids;
	size_t count;
} chunk;

typedef struct walk {
	relmq__db *db;
	const relmq__outbox_request *request;
	chunk chunks[STATES];
	int64_t found, changed;
	relmq_code code;
	relmq_error *err;
} walk;

/* Joined by id: a long list of ids would scan the table and wait for strangers' rows. */
static relmq_code flush(walk *s, int state)
{
	chunk *c = &s->chunks[state];
	relmq__buf sql = { 0 };
	uint64_t changed = 0;
	relmq_code code;
	if (c->count == 0)
		return RELMQ_OK;
	relmq__buf_addf(&sql,
	    "UPDATE JSON_TABLE('[%s]', '$[*]' COLUMNS (id BIGINT UNSIGNED PATH '$')) j"
	    " STRAIGHT_JOIN message_outbox o ON o.id = j.id AND o.status = %d SET %s",
	    c->ids.data, state, retry.from[state].set);
	if (sql.failed || c->ids.failed)
		code = relmq__fail_nomem(s->err);
	else
		code = exec(s->db, sql.data, &changed, s->err);
	if (code == RELMQ_OK)
		s->changed += (int64_t) changed;
	relmq__buf_free(&sql);
	relmq__buf_reset(&c->ids);
	c->count = 0;
	return code;
}

static void say_row(const walk *s, MYSQL_ROW row, const unsigned long *lengths, int state)
{
	if (s->found == SAY_ROWS)
		(void) printf("...\n");
	if (s->found >= SAY_ROWS)
		return;
	(void) printf("would retry  %-8s  ", row[0]);
	relmq__cell_print(stdout, row[1], lengths[1], 36);
	(void) printf("  %s\n", retry.from[state].to);
}

static bool walk_one(void *arg, MYSQL_ROW row, const unsigned long *lengths)
{
	walk *s = arg;
	int state = (int) strtol(row[2], NULL, 10);
	chunk *c = &s->chunks[state];
	if (!s->request->yes)
		say_row(s, row, lengths, state);
	s->found++;
	if (s->request->yes) {
		relmq__buf_addf(&c->ids, "%s%s", c->count > 0 ? "," : "", row[0]);
		if (++c->count == CHUNK_ROWS)
			s->code = flush(s, state);
	}
	return s->code == RELMQ_OK && (s->request->limit == 0 || s->found < s->request->limit);
}

static void say_sum(const walk *s)
{
	if (!s->request->yes)
		(void) printf(
		    "%" PRId64 " row(s) would be retried; add --yes to do it\n", s->found);
	else if (s->changed == s->found)
		(void) printf("%" PRId64 " row(s) retried\n", s->changed);
	else
		(void) printf("%" PRId64 " of %" PRId64 " row(s) retried; the others had changed "
		              "meanwhile\n",
		    s->changed, s->found);
}

/* Bounded by the rows that are there at the start: what fails again is not retried again. */
static int retry_all(relmq__db *db, const relmq__outbox_request *r)
{
	relmq_error err = RELMQ_ERROR_INIT;
	walk s = { .db = db, .request = r, .code = RELMQ_OK, .err = &err };
	relmq__outbox_filter filter = r->filter;
	int64_t last = 0;
	if (filter.states == 0)
		filter.states = 1U << RELMQ__FAILED | 1U << RELMQ__ABANDONED;
	relmq_code code =
	    relmq__db_number(db, "SELECT MAX(id) FROM message_outbox", 0, &last, &err);
	filter.up_to = (uint64_t) last;
	if (code == RELMQ_OK && last > 0)
		code =
		    relmq__outbox_each(db, &filter, "o.id, o.msg_id, o.status", walk_one, &s, &err);
	if (code == RELMQ_OK)
		code = s.code;
	for (int i = 0; i < STATES; i++) {
		if (code == RELMQ_OK)
			code = flush(&s, i);
		relmq__buf_free(&s.chunks[i].ids);
	}
	if (code == RELMQ_OK || s.changed > 0)
		say_sum(&s);
	return code == RELMQ_OK ? RELMQ__EXIT_OK
	                        : relmq__program_fail("outbox retry: %s", err.text);
}

int relmq__outbox_retry(relmq__db *db, const relmq__outbox_request *r)
{
	return r->all ? retry_all(db, r) : change_refs(db, &retry, r);
}

int relmq__outbox_skip(relmq__db *db, const relmq__outbox_request *r)
{
	return change_refs(db, &skip, r);
}
