/* publisher/sweep.c - see sweep.h.
 *
 * Always from the lowest id: an id is given at INSERT and seen at COMMIT, so a cursor
 * would pass rows that are committed late. The keys that FAILED rows hold are read by
 * the same statement as the ready rows and the lease: between two statements another
 * relay could fail a row and this one would send its successor. */
#include "publisher/sweep.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "publisher/choice.h"
#include "publisher/sweep_payload.h"

enum {
	DUE_LIMIT = 500,   /* due FAILED or SCHEDULED rows that a sweep takes notice of */
	HOLDING_MS = 50,   /* time for rows that breakers hold, a sweep                 */
	NEED_LEAST = 8,    /* entries of a range to read in any case                    */
	NEED_MORE = 32,    /* and more than twice what was found lately                 */
	SMALL_ROWS = 1000, /* a backlog under this is read in one range                 */
	/* what a row of the answer is: a status, that and DUE, or */
	DUE = 8,
	LEASE = 16
};

bool relmq__sweep_init(relmq__sweep *s, const relmq__publisher_settings *settings)
{
	memset(s, 0, sizeof(*s));
	s->by_key = settings->ordering == RELMQ__ORDER_KEY;
	s->window = (size_t) settings->window;
	s->row_bytes = 512;
	return relmq__breakers_init(&s->breakers, settings) &&
	    relmq__idset_init(&s->ids, s->window * 4) && relmq__idset_init(&s->keys, s->window * 4);
}

void relmq__sweep_free(relmq__sweep *s)
{
	relmq__idset_free(&s->ids);
	relmq__idset_free(&s->keys);
	relmq__breakers_free(&s->breakers);
	relmq__buf_free(&s->sql);
	free(s->found);
	memset(s, 0, sizeof(*s));
}

/* The leases that are ours, read with the rows: what shard and epoch they were read under. */
static void leases(relmq__sweep *s, const relmq__lease *lease)
{
	relmq__buf_addf(&s->sql,
	    "(SELECT shard AS id, 0 AS key_hash, epoch, %d AS kind FROM outbox_lease"
	    " WHERE owner = '%s' AND expires_at > NOW(6))",
	    LEASE, lease->owner);
}

/* A range of an index, one table alone: these cost the server a tenth of a join. */
static void range(relmq__sweep *s, const char *kind, const char *index, const char *status)
{
	relmq__buf_addf(&s->sql,
	    " UNION ALL (SELECT id, key_hash, 0, %s FROM message_outbox FORCE INDEX (%s)"
	    " WHERE status %s",
	    kind, index, status);
}

static bool is_asked(const relmq__sweep *s, const relmq__lease *lease, unsigned shard)
{
	return lease->shards[shard].held && (s->asked >> shard & 1U) != 0;
}

static void in_our_shards(relmq__sweep *s, const relmq__lease *lease)
{
	const char *before = " AND shard IN (";
	if (lease->held_count == RELMQ__SHARDS && s->asked == RELMQ__ALL_SHARDS)
		return; /* sixteen ranges for nothing */
	for (unsigned i = 0; i < RELMQ__SHARDS; i++) {
		if (!is_asked(s, lease, i))
			continue;
		relmq__buf_addf(&s->sql, "%s%u", before, i);
		before = ",";
	}
	relmq__buf_adds(&s->sql, ")");
}

/* A backlog that a few short ranges hold whole, the usual one. `whole` says whether it was:
 * if not, which rows came means nothing. */
static void build_small(relmq__sweep *s, const relmq__lease *lease)
{
	relmq__buf_reset(&s->sql);
	leases(s, lease);
	range(s, "status", "ready", s->by_key ? "IN (0,2)" : "= 0");
	in_our_shards(s, lease);
	relmq__buf_addf(&s->sql, " LIMIT %d)", SMALL_ROWS);
	range(s, "status + 8", "due", "IN (2,4) AND next_retry_at <= NOW(6)");
	in_our_shards(s, lease);
	relmq__buf_addf(&s->sql, " LIMIT %d)", DUE_LIMIT);
}

/* Those that a breaker holds stay due, and may all stand in front. */
static void due(relmq__sweep *s, const relmq__lease *lease, const char *status)
{
	range(s, "status + 8", "due", status);
	relmq__buf_adds(&s->sql, " AND next_retry_at <= NOW(6)");
	in_our_shards(s, lease);
	relmq__buf_addf(&s->sql, " ORDER BY next_retry_at LIMIT %zu)",
	    (size_t) DUE_LIMIT + s->breakers.held.count);
}

/* Rows whose key was held by a FAILED row at the last look need not be sent to us: hundreds of
 * thousands may stand in front of those that can go. One look later, at most, they are seen. */
static void not_behind_failed(relmq__sweep *s, unsigned shard)
{
	const relmq__failed_keys *f = &s->failed[shard];
	if (!s->by_key || f->count == 0 || f->count > RELMQ__FAILED_KEYS)
		return;
	for (size_t i = 0; i < f->count; i++)
		relmq__buf_addf(&s->sql, "%s%lu", i == 0 ? " AND key_hash NOT IN (" : ",",
		    (unsigned long) f->hashes[i]);
	relmq__buf_adds(&s->sql, ")");
}

/* Then what it found does not tell how much there is. */
static bool leaves_out(const relmq__sweep *s)
{
	bool any = false;
	for (unsigned i = 0; i < RELMQ__SHARDS; i++)
		any = any || s->failed[i].count > 0;
	return any;
}

/* What this look saw of them, for the next one. */
static void remember_failed(relmq__sweep *s)
{
	for (unsigned i = 0; i < RELMQ__SHARDS; i++)
		if ((s->asked >> i & 1U) != 0)
			s->failed[i].count = 0;
	for (size_t i = 0; i < s->found_count; i++) {
		relmq__failed_keys *f = &s->failed[s->found[i].shard];
		if (s->found[i].status != RELMQ__FAILED)
			continue;
		if (f->count < RELMQ__FAILED_KEYS)
			f->hashes[f->count] = s->found[i].key_hash;
		f->count += f->count <= RELMQ__FAILED_KEYS;
	}
}

/* A fair part of what is wanted, twice; but where the keys let less out, twice what came lately:
 * reading on would find more rows of the same keys. */
static size_t wanted_of(
    const relmq__sweep *s, const relmq__lease *lease, unsigned shard, size_t want)
{
	size_t part = want * 2 / lease->held_count + NEED_LEAST;
	size_t lately = s->yield[shard] * 2 + NEED_MORE;
	return part < lately ? part : lately;
}

/* One short range a shard: a UNION ALL of those is read in milliseconds where one range
 * over all shards would sort the whole backlog. All FAILED rows: each holds its key. */
static void build_large(relmq__sweep *s, const relmq__lease *lease, size_t want, relmq__survey *v)
{
	/* What breakers hold stands in front, spread over the shards more or less evenly. */
	size_t behind = 2 * s->breakers.held.count / lease->held_count;
	relmq__buf_reset(&s->sql);
	leases(s, lease);
	for (unsigned i = 0; i < RELMQ__SHARDS; i++) {
		if (!is_asked(s, lease, i) || lease->shards[i].draining)
			continue;
		size_t need = wanted_of(s, lease, i, want) + lease->shards[i].in_flight;
		v->limit[i] = relmq__depth_limit(&s->depth, i, need) + behind;
		range(s, "0", "ready", "= 0");
		relmq__buf_addf(&s->sql, " AND shard = %u", i);
		not_behind_failed(s, i);
		relmq__buf_addf(&s->sql, " ORDER BY id LIMIT %zu)", v->limit[i]);
	}
	if (s->by_key) {
		range(s, "2", "ready", "= 2");
		in_our_shards(s, lease);
		relmq__buf_adds(&s->sql, ")");
	}
	due(s, lease, "= 2");
	due(s, lease, "= 4");
}

static bool note(relmq__sweep *s, const relmq__candidate *c)
{
	if (s->found_count == s->found_room) {
		size_t room = s->found_room != 0 ? s->found_room * 2 : 1024;
		relmq__candidate *found = realloc(s->found, room * sizeof(*found));
		if (found == NULL)
			return false;
		s->found = found;
		s->found_room = room;
	}
	s->found[s->found_count++] = *c;
	return true;
}

static bool note_row(relmq__sweep *s, relmq__survey *v, MYSQL_ROW row)
{
	unsigned kind = (unsigned) strtoul(row[3], NULL, 10);
	uint64_t id = strtoull(row[0], NULL, 10);
	if (kind == LEASE) {
		v->epoch[id % RELMQ__SHARDS] = strtoull(row[2], NULL, 10);
		return true;
	}
	relmq__candidate c = {
		.id = id,
		.key_hash = (uint32_t) strtoul(row[1], NULL, 10),
		.status = (uint8_t) (kind % DUE),
		.due = kind >= DUE || kind == RELMQ__PENDING,
	};
	c.shard = (uint8_t) (c.key_hash % RELMQ__SHARDS); /* contract v1 */
	if (c.status == RELMQ__PENDING)
		v->read[c.shard]++;
	v->due += kind >= DUE;
	return note(s, &c);
}

/* A lease that changed hands under us between tick and sweep is not ours to use. */
static void keep_ours(relmq__sweep *s, const relmq__lease *lease, const relmq__survey *v)
{
	size_t kept = 0;
	for (size_t i = 0; i < s->found_count; i++) {
		relmq__candidate c = s->found[i];
		c.epoch = v->epoch[c.shard];
		if (c.epoch != 0 && c.epoch == lease->shards[c.shard].epoch)
			s->found[kept++] = c;
	}
	s->found_count = kept;
}

static relmq_code read_found(relmq__sweep *s, relmq__db *db, relmq__survey *v, relmq_error *err)
{
	MYSQL_RES *res;
	bool ok = !s->sql.failed;
	s->found_count = 0;
	if (!ok)
		return relmq__fail_nomem(err);
	relmq_code code = relmq__db_stream(db, s->sql.data, s->sql.len, &res, err);
	if (code != RELMQ_OK)
		return code;
	for (MYSQL_ROW row; (row = mysql_fetch_row(res)) != NULL;)
		ok = ok && note_row(s, v, row);
	code = relmq__db_end(db, res, err);
	return code == RELMQ_OK && !ok ? relmq__fail_nomem(err) : code;
}

static bool is_cut(const relmq__survey *v)
{
	bool cut = false;
	for (unsigned i = 0; i < RELMQ__SHARDS; i++)
		cut = cut || (v->limit[i] > 0 && v->read[i] >= v->limit[i]);
	return cut;
}

/* The small question first, as long as its answer is whole; a cut answer is thrown away. */
static relmq_code look(relmq__sweep *s, relmq__db *db, const relmq__lease *lease, size_t want,
    relmq__survey *v, relmq_error *err)
{
	memset(v, 0, sizeof(*v));
	if (!s->large) {
		build_small(s, lease);
		relmq_code code = read_found(s, db, v, err);
		if (code != RELMQ_OK)
			return code;
		s->large = s->found_count - v->due >= SMALL_ROWS || v->due >= DUE_LIMIT;
	}
	if (s->large) {
		memset(v, 0, sizeof(*v));
		build_large(s, lease, want, v);
		relmq_code code = read_found(s, db, v, err);
		if (code != RELMQ_OK)
			return code;
		if (s->asked == RELMQ__ALL_SHARDS)
			s->large = s->found_count > SMALL_ROWS / 2 || is_cut(v) || leaves_out(s);
	}
	keep_ours(s, lease, v);
	remember_failed(s);
	return RELMQ_OK;
}

static void learn(relmq__sweep *s, const relmq__lease *lease, const relmq__survey *v)
{
	int64_t now = relmq__now_ms();
	for (unsigned i = 0; i < RELMQ__SHARDS; i++) {
		relmq__depth_seen seen = {
			.limit = v->limit[i],
			.read = v->read[i],
			.useful = v->chosen[i] + lease->shards[i].in_flight,
			.last_rank = v->last[i],
			.starving = s->ids.count < s->window / 2,
		};
		if (v->limit[i] == 0)
			continue;
		relmq__depth_learn(&s->depth, i, &seen, now);
		size_t before = s->yield[i] * 3 / 4;
		s->yield[i] = v->chosen[i] > before ? v->chosen[i] : before;
	}
}

typedef struct hand_out {
	relmq__sweep *sweep;
	relmq__lease *lease;
	relmq__hand_out_fn fn;
	void *arg;
	size_t handed;
	size_t moved; /* those, and what a breaker holds now */
} hand_out;

static bool give(void *arg, relmq__row *row)
{
	hand_out *h = arg;
	h->moved++;
	if (row->outcome != RELMQ__REFUSED && !relmq__breakers_admit(&h->sweep->breakers, row))
		return false;
	h->sweep->bytes += row->item.body.len;
	h->sweep->row_bytes = (h->sweep->row_bytes * 15 + row->item.body.len) / 16 + 1;
	h->lease->shards[row->shard].in_flight++;
	h->handed++;
	h->fn(h->arg, row);
	return true;
}

/* Where a breaker is open there may be thousands that it will hold, each to be read once: one
 * look serves for as many of them as there is time for. */
static relmq_code hand_out_chosen(
    hand_out *h, relmq__db *db, relmq__choice *c, size_t want, size_t room, relmq_error *err)
{
	relmq__sweep *s = h->sweep;
	int64_t look_ms = s->look_us / 1000; /* worth as much again, when it was long */
	int64_t end_ms = relmq__now_ms() + (look_ms > HOLDING_MS ? look_ms : HOLDING_MS);
	relmq_code code = RELMQ_OK;
	size_t held;
	do {
		size_t before = h->moved - h->handed;
		size_t chosen = 0;
		if (!relmq__choose(c, want - h->handed, &chosen))
			return relmq__fail_nomem(err);
		code = relmq__sweep_payloads(
		    db, &s->sql, s->found, chosen, room, s->row_bytes, give, h, err);
		relmq__choice_take_back(c, chosen);
		held = h->moved - h->handed - before;
	} while (code == RELMQ_OK && held > 0 && h->handed < want && relmq__now_ms() < end_ms);
	return code;
}

/* At least one shard of them all is ours. */
static bool begin_look(relmq__sweep *s, const relmq__lease *lease, uint32_t shards)
{
	bool any = false;
	s->asked = shards;
	s->waiting &= ~shards;
	s->freed &= ~shards;
	for (unsigned i = 0; i < RELMQ__SHARDS; i++)
		any = any || is_asked(s, lease, i);
	return any;
}

relmq_code relmq__sweep_run(relmq__sweep *s, relmq__db *db, relmq__lease *lease, uint32_t shards,
    size_t want, size_t room, relmq__hand_out_fn fn, void *arg, size_t *moved, relmq_error *err)
{
	relmq__survey v;
	relmq__choice c;
	hand_out h = { s, lease, fn, arg, 0, 0 };
	*moved = 0;
	if (!begin_look(s, lease, shards))
		return RELMQ_OK;
	relmq__breakers_tick(&s->breakers);
	int64_t began_us = relmq__now_us();
	relmq_code code = look(s, db, lease, want, &v, err);
	s->look_us = relmq__now_us() - began_us;
	if (code != RELMQ_OK)
		return code;
	code = relmq__choice_begin(&c, s, lease, &v) ? hand_out_chosen(&h, db, &c, want, room, err)
	                                             : relmq__fail_nomem(err);
	relmq__choice_end(&c);
	learn(s, lease, &v);
	*moved = h.moved;
	return code;
}

relmq_code relmq__sweep_probe(relmq__db *db, bool *any, relmq_error *err)
{
	int64_t found = 0;
	relmq_code code = relmq__db_number(db,
	    "SELECT 1 FROM DUAL WHERE EXISTS (SELECT 1 FROM message_outbox WHERE status = 0)"
	    " OR EXISTS (SELECT 1 FROM message_outbox WHERE status = 2 AND next_retry_at <= NOW(6))"
	    " OR EXISTS (SELECT 1 FROM message_outbox WHERE status = 4 AND next_retry_at <= NOW(6))",
	    0, &found, err);
	*any = found != 0;
	return code;
}

void relmq__sweep_free_key(relmq__sweep *s, const relmq__row *row)
{
	if (s->by_key)
		relmq__idset_remove(&s->keys, row->key_hash);
	s->freed |= 1U << row->shard;
}

void relmq__sweep_forget(relmq__sweep *s, relmq__lease *lease, const relmq__row *row)
{
	relmq__idset_remove(&s->ids, row->id);
	s->bytes -= row->item.body.len;
	assert(lease->shards[row->shard].in_flight > 0);
	lease->shards[row->shard].in_flight--;
}
