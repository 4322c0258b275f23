/* consumer/unit.c - see unit.h. */
#include "consumer/unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "consumer/inbox.h"

enum {
	DUPLICATE_KEY = 1062, /* ER_DUP_ENTRY */
	DOUBT_BATCHES = 100
};

static relmq_code run_sql(relmq__unit *u, const char *sql, relmq_error *err)
{
	return relmq__db_exec(u->db, sql, strlen(sql), NULL, err);
}

/* Best effort: a session that cannot roll back is replaced, and the server does it. */
static void roll_back(relmq__unit *u)
{
	relmq_error ignored;
	if (run_sql(u, "ROLLBACK", &ignored) != RELMQ_OK)
		relmq__db_close(u->db);
}

static bool in_transaction(const relmq__unit *u)
{
	return (u->db->mysql->server_status & SERVER_STATUS_IN_TRANS) != 0;
}

static relmq_code give_up(relmq__unit *u, relmq_code code)
{
	relmq__db_class class = u->db->class; /* of the failure, not of the ROLLBACK */
	roll_back(u);
	u->db->class = class;
	return code;
}

/* Did the handler's last statement fail in a way that is nobody's fault? Then its verdict
 * does not count: its transaction is gone, and the unit runs again. */
static bool transaction_lost(relmq__unit *u, relmq_error *err)
{
	unsigned number = mysql_errno(u->db->mysql);
	if (number == 0)
		return false;
	relmq__db_class class = relmq__db_classify(number);
	if (class != RELMQ__DB_RETRY_TX && !relmq__db_is_outage(class))
		return false;
	(void) relmq__db_fail(u->db, "handler", err);
	return true;
}

static relmq_verdict call_handler(relmq__unit *u, relmq_delivery *d)
{
	relmq__handler *h = u->queue->handler;
	d->reason[0] = '\0';
	relmq_verdict verdict = h->ops->run(h, d, u->db, &u->scratch);
	if (verdict != RELMQ_DONE && d->reason[0] == '\0')
		relmq_delivery_reason(d, "handler said %s without a reason",
		    verdict == RELMQ_REJECT ? "REJECT" : "RETRY");
	return verdict;
}

/* A handler that commits makes the claims of the whole batch durable, of those too that did
 * not run: they are taken back at once. Its own claim stays if it is DONE, for its effect was
 * committed with it. `done` of `ds` have run; false: it rolled back, and nothing is left. */
static relmq_code settle_ended(relmq__unit *u, relmq_delivery **ds, size_t n, size_t done,
    const relmq_delivery *culprit, bool *committed, relmq_error *err)
{
	relmq__inbox_state state = RELMQ__INBOX_NONE;
	LOG_ERROR("worker",
	    "queue %s: the handler ended the transaction it was given (message %s);"
	    " exactly-once is lost for it",
	    culprit->queue, relmq_delivery_id(culprit));
	relmq_code code = relmq__inbox_known(u->db, &u->sql, ds, 1, &state, err);
	*committed = state == RELMQ__INBOX_DONE;
	if (code == RELMQ_OK && *committed && done < n)
		code = relmq__inbox_unclaim(u->db, &u->sql, ds + done, n - done, err);
	return code;
}

/* --- batch ------------------------------------------------------------------------------- */

/* Up to the first that must run alone: one whose start was recorded. */
static relmq_code split_known(relmq__unit *u, relmq_delivery **ds, size_t *n,
    relmq_delivery **fresh, size_t *fresh_count, relmq_error *err)
{
	relmq__inbox_state *states = malloc(*n * sizeof(*states));
	if (states == NULL)
		return relmq__fail_nomem(err);
	relmq_code code = relmq__inbox_known(u->db, &u->sql, ds, *n, states, err);
	*fresh_count = 0;
	for (size_t i = 0; code == RELMQ_OK && i < *n; i++) {
		if (states[i] == RELMQ__INBOX_PROCESSING) {
			*n = i;
			break;
		}
		ds[i]->duplicate = states[i] == RELMQ__INBOX_DONE;
		if (!ds[i]->duplicate)
			fresh[(*fresh_count)++] = ds[i];
	}
	free(states);
	return code;
}

/* One by one, until one is not DONE, the time is used up, or we are asked to stop. Returns
 * how many are DONE; `culprit` is the one that ended the transaction. */
static size_t run_handlers(
    relmq__unit *u, relmq_delivery **fresh, size_t n, bool *failed, const relmq_delivery **culprit)
{
	int64_t end = relmq__now_ms() + u->batch_time_ms;
	const relmq__handler_ops *ops = u->queue->handler->ops;
	*failed = false;
	if (ops->run_batch != NULL) {
		*failed =
		    ops->run_batch(u->queue->handler, fresh, n, u->db, &u->scratch) != RELMQ_DONE ||
		    !in_transaction(u);
		return n;
	}
	for (size_t i = 0; i < n; i++) {
		*failed = call_handler(u, fresh[i]) != RELMQ_DONE;
		if (!in_transaction(u)) {
			*culprit = fresh[i];
			return *failed ? i : i + 1;
		}
		if (*failed)
			return i;
		if (relmq__now_ms() >= end || atomic_load(u->draining))
			return i + 1;
	}
	return n;
}

static size_t count_up_to(relmq_delivery **ds, size_t n, const relmq_delivery *stop)
{
	size_t i = 0;
	while (i < n && ds[i] != stop)
		i++;
	return i;
}

static relmq_code run_claimed(
    relmq__unit *u, relmq_delivery **fresh, size_t n, size_t *done, bool *failed, relmq_error *err)
{
	const relmq_delivery *culprit = NULL;
	*failed = false;
	*done = 0;
	relmq_code code = run_sql(u, "START TRANSACTION", err);
	if (code == RELMQ_OK)
		code = relmq__inbox_claim_batch(u->db, &u->sql, fresh, n, err);
	if (code != RELMQ_OK)
		return code;
	*done = run_handlers(u, fresh, n, failed, &culprit);
	if ((*failed || culprit != NULL) && transaction_lost(u, err))
		return RELMQ_EDB;
	if (culprit != NULL) {
		bool committed = false;
		code = settle_ended(u, fresh, n, *done, culprit, &committed, err);
		*failed = !committed;
		return code;
	}
	if (*failed)
		return RELMQ_OK;
	if (*done < n) /* cut short: the others were not run, so they must not stay claimed */
		code = relmq__inbox_unclaim(u->db, &u->sql, fresh + *done, n - *done, err);
	RELMQ_FAIL_POINT("consumer.before_commit");
	if (code == RELMQ_OK)
		code = run_sql(u, "COMMIT", err);
	return code;
}

/* Known ids are rare and come in swarms, after a publisher's restart: until one was met, the
 * claim itself asks, because the INSERT refuses what is there. Asking first costs the
 * database as much as claiming. */
static relmq_code choose(relmq__unit *u, relmq_delivery **ds, size_t *n, relmq_delivery **fresh,
    size_t *count, relmq_error *err)
{
	if (u->doubt > 0) {
		u->doubt--;
		return split_known(u, ds, n, fresh, count, err);
	}
	memcpy(fresh, ds, *n * sizeof(relmq_delivery *));
	*count = *n;
	return RELMQ_OK;
}

static bool met_known(const relmq__unit *u)
{
	return u->db->mysql != NULL && mysql_errno(u->db->mysql) == DUPLICATE_KEY;
}

static relmq_code batch(relmq__unit *u, relmq_delivery **ds, size_t n, relmq_delivery **fresh,
    size_t *ran, relmq_error *err)
{
	size_t count = 0, done = 0;
	bool failed = false;
	bool asked = u->doubt > 0;
	relmq_code code = choose(u, ds, &n, fresh, &count, err);
	if (code != RELMQ_OK || n == 0 || count == 0) {
		*ran = code == RELMQ_OK ? n : 0; /* nothing, or duplicates only */
		return code;
	}
	code = run_claimed(u, fresh, count, &done, &failed, err);
	if (code != RELMQ_OK && done == 0 && !asked && met_known(u)) {
		u->doubt = DOUBT_BATCHES;
		roll_back(u);
		return batch(u, ds, n, fresh, ran, err);
	}
	if (code != RELMQ_OK &&
	    relmq__db_classify((unsigned) mysql_errno(u->db->mysql)) == RELMQ__DB_PERMANENT)
		failed = true; /* somebody claimed one of them meanwhile: alone each is decided */
	if (failed) {
		bool outage = code != RELMQ_OK && relmq__db_is_outage(u->db->class);
		(void) give_up(u, code);
		return outage ? code : RELMQ_OK;
	}
	if (code != RELMQ_OK)
		return give_up(u, code);
	RELMQ_FAIL_POINT("consumer.committed");
	for (size_t i = 0; i < done; i++)
		fresh[i]->verdict = RELMQ_DONE;
	*ran = done < count ? count_up_to(ds, n, fresh[done]) : n;
	return RELMQ_OK;
}

relmq_code relmq__unit_batch(
    relmq__unit *u, relmq_delivery **ds, size_t n, size_t *ran, relmq_error *err)
{
	relmq_delivery **fresh = malloc(n * sizeof(relmq_delivery *));
	*ran = 0;
	if (fresh == NULL)
		return relmq__fail_nomem(err);
	relmq_code code = batch(u, ds, n, fresh, ran, err);
	free(fresh);
	return code;
}

/* --- single ------------------------------------------------------------------------------ */

/* What a crash would leave must be known before the handler starts. Returns true when the
 * delivery is decided already. */
static relmq_code before_start(relmq__unit *u, relmq_delivery *d, bool *decided, relmq_error *err)
{
	relmq__inbox_state state = RELMQ__INBOX_NONE;
	unsigned starts = 0;
	*decided = false;
	if (!d->redelivered)
		return relmq__inbox_reset_starts(u->db, &u->sql, d, err);
	if (d->starts > 0) /* recorded already: this is the same start, after an outage */
		return RELMQ_OK;
	relmq_code code = relmq__inbox_record_start(u->db, &u->sql, d, &state, &starts, err);
	if (code != RELMQ_OK)
		return code;
	RELMQ_FAIL_POINT("consumer.start_recorded");
	d->duplicate = state == RELMQ__INBOX_DONE;
	d->starts = d->duplicate ? 0 : starts;
	*decided = d->duplicate;
	if (!d->duplicate && (int64_t) starts > u->queue->settings->max_attempts) {
		relmq_delivery_reason(
		    d, "the consumer ended %u times while this message was with it", starts - 1);
		d->verdict = RELMQ_REJECT;
		*decided = true;
	}
	return RELMQ_OK;
}

static relmq_code finish_ended(relmq__unit *u, relmq_delivery *d, relmq_error *err)
{
	bool committed = false;
	relmq_code code =
	    settle_ended(u, &d, 1, d->verdict == RELMQ_DONE ? 1 : 0, d, &committed, err);
	if (d->verdict == RELMQ_DONE && !committed) {
		relmq_delivery_reason(d, "handler ended the transaction it was given");
		d->verdict = RELMQ_RETRY;
	}
	return code;
}

static relmq_code finish_single(relmq__unit *u, relmq_delivery *d, relmq_error *err)
{
	if (transaction_lost(u, err))
		return give_up(u, RELMQ_EDB);
	if (!in_transaction(u))
		return finish_ended(u, d, err);
	if (d->verdict != RELMQ_DONE) {
		roll_back(u);
		return RELMQ_OK;
	}
	RELMQ_FAIL_POINT("consumer.before_commit");
	relmq_code code = run_sql(u, "COMMIT", err);
	if (code != RELMQ_OK)
		return give_up(u, code); /* outcome unknown: the next claim waits for it and sees */
	RELMQ_FAIL_POINT("consumer.committed");
	return RELMQ_OK;
}

relmq_code relmq__unit_single(relmq__unit *u, relmq_delivery *d, relmq_error *err)
{
	relmq__inbox_state state;
	bool decided;
	relmq_code code = before_start(u, d, &decided, err);
	if (code != RELMQ_OK || decided)
		return code;
	code = run_sql(u, "START TRANSACTION", err);
	if (code == RELMQ_OK)
		code = relmq__inbox_claim_one(u->db, &u->sql, d, &state, err);
	if (code == RELMQ_OK && state == RELMQ__INBOX_DONE) {
		d->duplicate = true;
		roll_back(u);
		return RELMQ_OK;
	}
	if (code != RELMQ_OK)
		return give_up(u, code);
	RELMQ_FAIL_POINT("consumer.claimed");
	d->verdict = call_handler(u, d);
	return finish_single(u, d, err);
}
