/* publisher/lease.c - see lease.h. */
#include "publisher/lease.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/log.h"

enum {
	RENEWALS = 3, /* renewals in a lease's time */
	MARGIN = 10,  /* a tenth of the lease: wire stops this long before the database lets go */
};

#define UNTIL "NOW(6) + INTERVAL %lld MICROSECOND"

void relmq__lease_init(relmq__lease *l, int64_t lease_ms)
{
	char host[33] = "";
	memset(l, 0, sizeof(*l));
	(void) gethostname(host, sizeof(host) - 1);
	(void) snprintf(l->owner, sizeof(l->owner), "%s:%ld:%08llx", host, (long) getpid(),
	    (unsigned long long) relmq__random_below(UINT64_C(1) << 32));
	l->lease_ms = lease_ms;
}

uint64_t relmq__lease_epoch(const relmq__lease *l, unsigned shard, uint64_t epoch)
{
	const relmq__lease_shard *s = &l->shards[shard];
	return s->bridged != 0 && s->bridged == epoch ? s->epoch : epoch;
}

static void note_held(relmq__lease *l, unsigned shard, uint64_t epoch)
{
	relmq__lease_shard *s = &l->shards[shard];
	if (s->epoch != epoch) {
		/* Our own lease ran out and nobody took it: what we read under it stands. */
		s->bridged = s->epoch != 0 && epoch == s->epoch + 1 ? s->epoch : 0;
		s->epoch = epoch;
	}
	s->held = true;
}

/* What the database says we own now. */
static relmq_code read_held(relmq__lease *l, relmq__db *db, relmq_error *err)
{
	char sql[192];
	MYSQL_RES *res;
	int n = snprintf(sql, sizeof(sql),
	    "SELECT shard, epoch FROM outbox_lease WHERE owner = '%s' AND expires_at > NOW(6)",
	    l->owner);
	relmq_code code = relmq__db_query(db, sql, (size_t) n, &res, err);
	if (code != RELMQ_OK)
		return code;
	unsigned before = l->held_count;
	bool held[RELMQ__SHARDS] = { false };
	l->held_count = 0;
	for (MYSQL_ROW row; (row = mysql_fetch_row(res)) != NULL;) {
		unsigned long shard = strtoul(row[0], NULL, 10);
		if (shard >= RELMQ__SHARDS)
			continue;
		held[shard] = true;
		note_held(l, (unsigned) shard, strtoull(row[1], NULL, 10));
		l->held_count++;
	}
	mysql_free_result(res);
	for (unsigned i = 0; i < RELMQ__SHARDS; i++) {
		l->shards[i].held = held[i];
		l->shards[i].draining = l->shards[i].draining && held[i];
	}
	if (before != l->held_count)
		LOG_INFO("lease", "%u of %d shards are ours, %u relays live", l->held_count,
		    RELMQ__SHARDS, l->relays);
	return RELMQ_OK;
}

static relmq_code renew(relmq__lease *l, relmq__db *db, relmq_error *err)
{
	long long us = (long long) l->lease_ms * 1000;
	int64_t asked_ms = relmq__now_ms();
	relmq_code code = relmq__db_execf(db, NULL, err,
	    "INSERT INTO outbox_relay (owner, expires_at) VALUES ('%s', " UNTIL ")"
	    " ON DUPLICATE KEY UPDATE expires_at = " UNTIL,
	    l->owner, us, us);
	if (code == RELMQ_OK)
		code = relmq__db_execf(db, NULL, err,
		    "UPDATE outbox_lease SET expires_at = " UNTIL
		    " WHERE owner = '%s' AND expires_at > NOW(6)",
		    us, l->owner);
	/* Counted from before the question was asked: never later than the database's view. */
	if (code == RELMQ_OK)
		atomic_store(&l->stop_ms, asked_ms + l->lease_ms - l->lease_ms / MARGIN);
	return code;
}

static relmq_code count_relays(relmq__lease *l, relmq__db *db, relmq_error *err)
{
	int64_t live = 1;
	relmq_code code = relmq__db_number(
	    db, "SELECT COUNT(*) FROM outbox_relay WHERE expires_at > NOW(6)", 1, &live, err);
	if (code == RELMQ_OK)
		l->relays = live > 0 ? (unsigned) live : 1;
	return code;
}

static relmq_code claim(relmq__lease *l, relmq__db *db, unsigned share, relmq_error *err)
{
	uint64_t got = 0;
	relmq_code code = relmq__db_execf(db, &got, err,
	    "UPDATE outbox_lease SET owner = '%s', epoch = epoch + 1, expires_at = " UNTIL
	    " WHERE expires_at <= NOW(6) ORDER BY shard LIMIT %u",
	    l->owner, (long long) l->lease_ms * 1000, share - l->held_count);
	if (code != RELMQ_OK || got == 0)
		return code;
	/* Rows of relays that are long gone are only noise to a person who looks. */
	code = relmq__db_execf(
	    db, NULL, err, "DELETE FROM outbox_relay WHERE expires_at < NOW(6) - INTERVAL 1 HOUR");
	return code == RELMQ_OK ? read_held(l, db, err) : code;
}

/* Too many: the highest ones take no new rows; those that are empty go back. */
static relmq_code drain(relmq__lease *l, relmq__db *db, unsigned share, relmq_error *err)
{
	unsigned over = l->held_count - share;
	relmq_code code = RELMQ_OK;
	for (unsigned i = RELMQ__SHARDS; i-- > 0 && code == RELMQ_OK;) {
		relmq__lease_shard *s = &l->shards[i];
		if (!s->held)
			continue;
		s->draining = over > 0;
		if (over > 0)
			over--;
		if (!s->draining || s->in_flight > 0)
			continue;
		code = relmq__db_execf(db, NULL, err,
		    "UPDATE outbox_lease SET owner = '', expires_at = NOW(6)"
		    " WHERE shard = %u AND owner = '%s' AND epoch = %llu",
		    i, l->owner, (unsigned long long) s->epoch);
	}
	return code == RELMQ_OK ? read_held(l, db, err) : code;
}

static void forget_draining(relmq__lease *l)
{
	for (unsigned i = 0; i < RELMQ__SHARDS; i++)
		l->shards[i].draining = false;
}

relmq_code relmq__lease_tick(relmq__lease *l, relmq__db *db, relmq_error *err)
{
	relmq_code code = renew(l, db, err);
	if (code == RELMQ_OK)
		code = count_relays(l, db, err);
	if (code == RELMQ_OK)
		code = read_held(l, db, err);
	if (code != RELMQ_OK)
		return code;
	unsigned share = (RELMQ__SHARDS + l->relays - 1) / l->relays;
	if (l->held_count < share)
		code = claim(l, db, share, err);
	if (l->held_count > share)
		code = drain(l, db, share, err);
	else
		forget_draining(l);
	/* Short of the share, or draining: look more often, so that a takeover is not late. */
	int64_t pause = l->lease_ms / (l->held_count == share ? RENEWALS : 4 * RENEWALS);
	l->next_tick_ms = relmq__now_ms() + pause;
	return code;
}

relmq_code relmq__lease_release_all(relmq__lease *l, relmq__db *db, relmq_error *err)
{
	relmq_code code = relmq__db_execf(db, NULL, err,
	    "UPDATE outbox_lease SET owner = '', expires_at = NOW(6) WHERE owner = '%s'", l->owner);
	if (code == RELMQ_OK)
		code = relmq__db_execf(
		    db, NULL, err, "DELETE FROM outbox_relay WHERE owner = '%s'", l->owner);
	return code;
}
