/* consumer/inbox.c - see inbox.h. */
#include "consumer/inbox.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

relmq_code relmq__inbox_check(relmq__db *db, relmq_error *err)
{
	int64_t ignored = 0;
	relmq_code code =
	    relmq__db_number(db, "SELECT 1 FROM message_inbox LIMIT 0", 0, &ignored, err);
	if (code == RELMQ_OK || relmq__db_is_outage(db->class))
		return code;
	return relmq__fail(err, RELMQ_ESCHEMA, RELMQ_F_FATAL,
	    "database %s has the relmq schema but no readable table message_inbox:"
	    " restore it, nothing can be recognised without it",
	    db->settings->database);
}

static void add_id(relmq__buf *sql, const relmq_delivery *d)
{
	amqp_bytes_t id = relmq__delivery_id_bytes(d);
	relmq__sql_bytes(sql, id.bytes, id.len);
}

static void add_consumer(relmq__buf *sql, const relmq_delivery *d)
{
	relmq__sql_bytes(sql, d->consumer, strlen(d->consumer));
}

/* " WHERE consumer = .. AND msg_id = .." */
static void add_where(relmq__buf *sql, const relmq_delivery *d)
{
	relmq__buf_adds(sql, " WHERE consumer = ");
	add_consumer(sql, d);
	relmq__buf_adds(sql, " AND msg_id = ");
	add_id(sql, d);
}

static void add_where_in(relmq__buf *sql, relmq_delivery *const *ds, size_t n)
{
	relmq__buf_adds(sql, " WHERE consumer = ");
	add_consumer(sql, ds[0]);
	relmq__buf_adds(sql, " AND msg_id IN (");
	for (size_t i = 0; i < n; i++) {
		if (i > 0)
			relmq__buf_add(sql, ",", 1);
		add_id(sql, ds[i]);
	}
	relmq__buf_adds(sql, ")");
}

static relmq_code exec(relmq__db *db, relmq__buf *sql, uint64_t *affected, relmq_error *err)
{
	if (sql->failed)
		return relmq__fail_nomem(err);
	return relmq__db_exec(db, sql->data, sql->len, affected, err);
}

static void note_state(relmq_delivery *const *ds, size_t n, relmq__inbox_state *states,
    const char *id, size_t len, relmq__inbox_state state)
{
	for (size_t i = 0; i < n; i++) {
		amqp_bytes_t have = relmq__delivery_id_bytes(ds[i]);
		if (have.len == len && memcmp(have.bytes, id, len) == 0)
			states[i] = state;
	}
}

relmq_code relmq__inbox_known(relmq__db *db, relmq__buf *sql, relmq_delivery *const *ds, size_t n,
    relmq__inbox_state *states, relmq_error *err)
{
	MYSQL_RES *res;
	for (size_t i = 0; i < n; i++)
		states[i] = RELMQ__INBOX_NONE;
	relmq__buf_reset(sql);
	relmq__buf_adds(sql, "SELECT msg_id, state FROM message_inbox");
	add_where_in(sql, ds, n);
	if (sql->failed)
		return relmq__fail_nomem(err);
	relmq_code code = relmq__db_query(db, sql->data, sql->len, &res, err);
	if (code != RELMQ_OK)
		return code;
	for (MYSQL_ROW row; (row = mysql_fetch_row(res)) != NULL;)
		note_state(ds, n, states, row[0], mysql_fetch_lengths(res)[0],
		    (relmq__inbox_state) strtoul(row[1], NULL, 10));
	mysql_free_result(res);
	return RELMQ_OK;
}

static int by_id(const void *a, const void *b)
{
	amqp_bytes_t x = relmq__delivery_id_bytes(*(relmq_delivery *const *) a);
	amqp_bytes_t y = relmq__delivery_id_bytes(*(relmq_delivery *const *) b);
	size_t common = x.len < y.len ? x.len : y.len;
	int order = common > 0 ? memcmp(x.bytes, y.bytes, common) : 0;
	return order != 0 ? order : x.len < y.len ? -1 : x.len > y.len;
}

relmq_code relmq__inbox_claim_batch(
    relmq__db *db, relmq__buf *sql, relmq_delivery *const *ds, size_t n, relmq_error *err)
{
	relmq_delivery **sorted = malloc(n * sizeof(relmq_delivery *));
	if (sorted == NULL)
		return relmq__fail_nomem(err);
	memcpy(sorted, ds, n * sizeof(relmq_delivery *));
	qsort(sorted, n, sizeof(relmq_delivery *), by_id);
	relmq__buf_reset(sql);
	relmq__buf_adds(
	    sql, "INSERT INTO message_inbox (consumer, msg_id, state, processed_at) VALUES ");
	for (size_t i = 0; i < n; i++) {
		relmq__buf_adds(sql, i > 0 ? ",(" : "(");
		add_consumer(sql, sorted[i]);
		relmq__buf_add(sql, ",", 1);
		add_id(sql, sorted[i]);
		relmq__buf_addf(sql, ",%d,NOW(6))", RELMQ__INBOX_DONE);
	}
	free(sorted);
	return exec(db, sql, NULL, err);
}

relmq_code relmq__inbox_unclaim(
    relmq__db *db, relmq__buf *sql, relmq_delivery *const *ds, size_t n, relmq_error *err)
{
	relmq__buf_reset(sql);
	relmq__buf_adds(sql, "DELETE FROM message_inbox");
	add_where_in(sql, ds, n);
	return exec(db, sql, NULL, err);
}

static relmq_code read_row(relmq__db *db, relmq__buf *sql, const relmq_delivery *d,
    const char *lock, relmq__inbox_state *state, unsigned *starts, relmq_error *err)
{
	MYSQL_RES *res;
	*state = RELMQ__INBOX_NONE;
	*starts = 0;
	relmq__buf_reset(sql);
	relmq__buf_adds(sql, "SELECT state, attempts FROM message_inbox");
	add_where(sql, d);
	relmq__buf_adds(sql, lock);
	if (sql->failed)
		return relmq__fail_nomem(err);
	relmq_code code = relmq__db_query(db, sql->data, sql->len, &res, err);
	if (code != RELMQ_OK)
		return code;
	MYSQL_ROW row = mysql_fetch_row(res);
	if (row != NULL) {
		*state = (relmq__inbox_state) strtoul(row[0], NULL, 10);
		*starts = (unsigned) strtoul(row[1], NULL, 10);
	}
	mysql_free_result(res);
	return RELMQ_OK;
}

/* INSERT IGNORE turns every fault into a warning: with the row inserted and a warning
 * beside it, a value was changed on its way in, and two ids could have become equal. */
static relmq_code insert_ignore(
    relmq__db *db, relmq__buf *sql, const relmq_delivery *d, bool *inserted, relmq_error *err)
{
	uint64_t affected = 0;
	relmq__buf_reset(sql);
	relmq__buf_adds(sql,
	    "INSERT IGNORE INTO message_inbox (consumer, msg_id, state, processed_at) VALUES (");
	add_consumer(sql, d);
	relmq__buf_add(sql, ",", 1);
	add_id(sql, d);
	relmq__buf_addf(sql, ",%d,NOW(6))", RELMQ__INBOX_DONE);
	relmq_code code = exec(db, sql, &affected, err);
	if (code != RELMQ_OK)
		return code;
	*inserted = affected == 1;
	if (*inserted && mysql_warning_count(db->mysql) > 0)
		return relmq__fail(
		    err, RELMQ_EINTERNAL, 0, "the inbox changed the message id on insert");
	return RELMQ_OK;
}

static relmq_code become_done(
    relmq__db *db, relmq__buf *sql, const relmq_delivery *d, relmq_error *err)
{
	relmq__buf_reset(sql);
	relmq__buf_addf(
	    sql, "UPDATE message_inbox SET state = %d, processed_at = NOW(6)", RELMQ__INBOX_DONE);
	add_where(sql, d);
	return exec(db, sql, NULL, err);
}

relmq_code relmq__inbox_claim_one(relmq__db *db, relmq__buf *sql, const relmq_delivery *d,
    relmq__inbox_state *state, relmq_error *err)
{
	bool inserted = false;
	unsigned starts;
	*state = RELMQ__INBOX_NONE;
	relmq_code code = insert_ignore(db, sql, d, &inserted, err);
	if (code != RELMQ_OK || inserted)
		return code;
	code = read_row(db, sql, d, " FOR UPDATE", state, &starts, err);
	if (code != RELMQ_OK || *state == RELMQ__INBOX_DONE)
		return code;
	if (*state == RELMQ__INBOX_NONE)
		return relmq__fail(err, RELMQ_EINTERNAL, 0, "the inbox refused the message id");
	return become_done(db, sql, d, err);
}

relmq_code relmq__inbox_record_start(relmq__db *db, relmq__buf *sql, const relmq_delivery *d,
    relmq__inbox_state *state, unsigned *starts, relmq_error *err)
{
	relmq__buf_reset(sql);
	relmq__buf_adds(
	    sql, "INSERT INTO message_inbox (consumer, msg_id, state, attempts) VALUES (");
	add_consumer(sql, d);
	relmq__buf_add(sql, ",", 1);
	add_id(sql, d);
	relmq__buf_addf(sql,
	    ",%d,1) ON DUPLICATE KEY UPDATE attempts = CASE WHEN state = %d THEN attempts + 1"
	    " ELSE attempts END",
	    RELMQ__INBOX_PROCESSING, RELMQ__INBOX_PROCESSING);
	relmq_code code = exec(db, sql, NULL, err);
	return code == RELMQ_OK ? read_row(db, sql, d, "", state, starts, err) : code;
}

relmq_code relmq__inbox_reset_starts(
    relmq__db *db, relmq__buf *sql, const relmq_delivery *d, relmq_error *err)
{
	relmq__buf_reset(sql);
	relmq__buf_adds(sql, "UPDATE message_inbox SET attempts = 0");
	add_where(sql, d);
	relmq__buf_addf(sql, " AND state = %d", RELMQ__INBOX_PROCESSING);
	return exec(db, sql, NULL, err);
}
