/* publisher/settler.c - see settler.h. */
#include "publisher/settler.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "publisher/settle.h"

enum {
	BATCH_ROWS = RELMQ__SETTLE_MAX,
	WAIT_MS = 5,           /* an outcome never waits longer for company       */
	AROUND_MS = 10000,     /* for so long after a lock wait locks are avoided */
	AROUND_PAUSE_MS = 100, /* between two looks at rows that were all locked  */
	ERROR_LOCK_WAIT = 1205
};

bool relmq__settler_init(
    relmq__settler *s, relmq__relay *relay, size_t room, relmq__settled_fn settled, void *arg)
{
	memset(s, 0, sizeof(*s));
	s->relay = relay;
	s->settled = settled;
	s->arg = arg;
	s->confirmed.rows = calloc(room, sizeof(relmq__row *));
	s->refused.rows = calloc(room, sizeof(relmq__row *));
	return s->confirmed.rows != NULL && s->refused.rows != NULL;
}

static void free_pile(relmq__settler *s, relmq__pile *p)
{
	for (size_t i = 0; i < p->count; i++)
		s->settled(s->arg, p->rows[i]);
	free(p->rows);
	p->rows = NULL;
	p->count = 0;
}

void relmq__settler_free(relmq__settler *s)
{
	free_pile(s, &s->confirmed);
	free_pile(s, &s->refused);
	relmq__buf_free(&s->sql);
}

void relmq__settler_add(relmq__settler *s, relmq__row *row)
{
	relmq__pile *p = row->outcome == RELMQ__CONFIRMED ? &s->confirmed : &s->refused;
	if (p->count == 0)
		p->since_ms = relmq__now_ms();
	p->rows[p->count++] = row;
}

/* --- one batch, the front of a pile --------------------------------------------------- */

static relmq_code write_batch(relmq__settler *s, const relmq__pile *p, relmq__db *db, size_t n,
    uint64_t *settled, relmq_error *err)
{
	const relmq__publisher_settings *settings = &s->relay->settings->publisher;
	const relmq__lease *lease = &s->relay->lease;
	if (p == &s->confirmed) {
		RELMQ_FAIL_POINT("publisher.acked");
		return relmq__settle_confirmed(
		    db, lease, &s->sql, p->rows, n, settings->keep_sent, settled, err);
	}
	RELMQ_FAIL_POINT("publisher.refused");
	return relmq__settle_refused(db, lease, &s->sql, p->rows, n, settings, settled, err);
}

static void log_refusal(const relmq__row *row, bool abandoned)
{
	if (abandoned)
		LOG_ERROR("store", "row %llu is ABANDONED after %u attempts: %s",
		    (unsigned long long) row->id, (unsigned) row->retry_count + 1,
		    row->item.reason);
	else
		LOG_WARN("store", "row %llu failed (attempt %u): %s", (unsigned long long) row->id,
		    (unsigned) row->retry_count + 1, row->item.reason);
}

static void note_refused(relmq__settler *s, const relmq__row *row)
{
	bool abandoned = relmq__settle_abandons(row, &s->relay->settings->publisher);
	if (abandoned)
		s->relay->stats.abandoned++;
	log_refusal(row, abandoned);
}

static void note_gone(relmq__settler *s, size_t n, uint64_t settled)
{
	if (settled >= n)
		return;
	s->relay->stats.gone += n - settled;
	LOG_WARN("store",
	    "%llu of %zu rows were already gone, changed, or another relay's when settled",
	    (unsigned long long) (n - settled), n);
}

static void drop_batch(relmq__settler *s, relmq__pile *p, size_t n, uint64_t settled)
{
	if (p == &s->confirmed)
		RELMQ_FAIL_POINT("publisher.settled");
	note_gone(s, n, settled);
	for (size_t i = 0; i < n; i++) {
		if (p == &s->refused)
			note_refused(s, p->rows[i]);
		s->settled(s->arg, p->rows[i]);
	}
	memmove(p->rows, p->rows + n, (p->count - n) * sizeof(*p->rows));
	p->count -= n;
	p->since_ms = relmq__now_ms();
}

/* --- around the locks of others -------------------------------------------------------- */

/* Of the first `n` rows those that can be settled now to the front, in their order. The locked ones
 * follow, and then what was behind the batch moves up before them: they wait at the end. */
static size_t locked_to_the_end(relmq__pile *p, size_t n, const bool *locked)
{
	relmq__row *kept[BATCH_ROWS] = { NULL };
	size_t free_count = 0;
	size_t kept_count = 0;
	for (size_t i = 0; i < n; i++) {
		if (locked[i])
			kept[kept_count++] = p->rows[i];
		else
			p->rows[free_count++] = p->rows[i];
	}
	memmove(p->rows + free_count, p->rows + n, (p->count - n) * sizeof(*p->rows));
	memcpy(p->rows + p->count - kept_count, kept, kept_count * sizeof(*kept));
	if (free_count == 0)
		p->not_before_ms = relmq__now_ms() + AROUND_PAUSE_MS;
	return free_count;
}

static relmq_code roll_back(relmq__db *db, relmq_code code)
{
	relmq_error ignored;
	relmq__db_class class = db->class;
	if (relmq__db_execf(db, NULL, &ignored, "ROLLBACK") == RELMQ_OK)
		db->class = class;
	return code;
}

/* The only transaction of store with more than one statement, and nothing is awaited in it. */
static relmq_code settle_around(
    relmq__settler *s, relmq__pile *p, relmq__db *db, size_t n, relmq_error *err)
{
	bool locked[BATCH_ROWS];
	uint64_t settled = 0;
	relmq_code code = relmq__db_execf(db, NULL, err, "START TRANSACTION");
	if (code == RELMQ_OK)
		code = relmq__settle_look(db, &s->sql, p->rows, n, locked, err);
	if (code != RELMQ_OK)
		return roll_back(db, code);
	n = locked_to_the_end(p, n, locked);
	if (n > 0)
		code = write_batch(s, p, db, n, &settled, err);
	if (code == RELMQ_OK)
		code = relmq__db_execf(db, NULL, err, "COMMIT");
	if (code != RELMQ_OK)
		return roll_back(db, code);
	drop_batch(s, p, n, settled);
	return RELMQ_OK;
}

/* --- all of it -------------------------------------------------------------------------- */

static relmq_code settle_batch(relmq__settler *s, relmq__pile *p, relmq__db *db, relmq_error *err)
{
	relmq_error local = RELMQ_ERROR_INIT;
	size_t n = p->count < BATCH_ROWS ? p->count : BATCH_ROWS;
	uint64_t settled = 0;
	if (relmq__now_ms() < s->around_until_ms)
		return settle_around(s, p, db, n, err);
	relmq_code code = write_batch(s, p, db, n, &settled, &local);
	if (code == RELMQ_OK) {
		drop_batch(s, p, n, settled);
	} else if (local.native == ERROR_LOCK_WAIT) {
		s->around_until_ms = relmq__now_ms() + AROUND_MS;
		LOG_WARN("store",
		    "%s: somebody has locked rows that were sent; the others are settled first",
		    local.text);
		code = RELMQ_OK;
	} else if (err != NULL) {
		*err = local;
	}
	return code;
}

static int64_t due_ms(const relmq__pile *p)
{
	if (p->count == 0)
		return INT64_MAX;
	int64_t due = p->count >= BATCH_ROWS ? 0 : p->since_ms + WAIT_MS;
	return due > p->not_before_ms ? due : p->not_before_ms;
}

int64_t relmq__settler_due_ms(const relmq__settler *s)
{
	int64_t confirmed = due_ms(&s->confirmed);
	int64_t refused = due_ms(&s->refused);
	return confirmed < refused ? confirmed : refused;
}

/* Company is worth waiting for: each statement costs a write to the server's disk. The keys
 * of confirmed rows are free meanwhile. */
static bool ripe(const relmq__pile *p, bool last)
{
	int64_t now = relmq__now_ms();
	return last ? p->count > 0 && now >= p->not_before_ms : due_ms(p) <= now;
}

relmq_code relmq__settler_run(relmq__settler *s, relmq__db *db, bool last, relmq_error *err)
{
	relmq_code code = RELMQ_OK;
	while (code == RELMQ_OK && ripe(&s->confirmed, last))
		code = settle_batch(s, &s->confirmed, db, err);
	while (code == RELMQ_OK && ripe(&s->refused, last))
		code = settle_batch(s, &s->refused, db, err);
	return code;
}
