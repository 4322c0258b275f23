/* publisher/choice.c - see choice.h. */
#include "publisher/choice.h"

#include <stdlib.h>

/* Rows by id; of one id, the note that it is due before the note that it holds. */
static int by_id(const void *a, const void *b)
{
	const relmq__candidate *x = a;
	const relmq__candidate *y = b;
	if (x->id != y->id)
		return x->id < y->id ? -1 : 1;
	return (int) y->due - (int) x->due;
}

bool relmq__choice_begin(
    relmq__choice *c, relmq__sweep *sweep, const relmq__lease *lease, relmq__survey *survey)
{
	*c = (relmq__choice){ .sweep = sweep, .lease = lease, .survey = survey };
	bool ok = relmq__idset_init(&c->held, 64);
	ok = relmq__idset_init(&c->behind_failed, 64) && ok;
	if (sweep->found_count > 1)
		qsort(sweep->found, sweep->found_count, sizeof(*sweep->found), by_id);
	for (size_t i = 0; ok && i < sweep->found_count; i++)
		if (sweep->found[i].status == RELMQ__FAILED)
			ok = relmq__idset_add(&c->held, sweep->found[i].key_hash);
	return ok;
}

void relmq__choice_end(relmq__choice *c)
{
	relmq__idset_free(&c->held);
	relmq__idset_free(&c->behind_failed);
}

static bool may_go(const relmq__choice *c, const relmq__candidate *row)
{
	relmq__sweep *s = c->sweep;
	if (!row->due || c->lease->shards[row->shard].draining ||
	    relmq__idset_has(&s->ids, row->id))
		return false;
	if (!s->by_key)
		return true;
	if (relmq__idset_has(&s->keys, row->key_hash)) {
		s->waiting |= 1U << row->shard;
		return false;
	}
	/* Behind a FAILED row nothing of its key goes but the lowest FAILED row itself. */
	return row->status == RELMQ__FAILED ? !relmq__idset_has(&c->behind_failed, row->key_hash)
	                                    : !relmq__idset_has(&c->held, row->key_hash);
}

static bool take(relmq__choice *c, const relmq__candidate *row)
{
	relmq__sweep *s = c->sweep;
	c->survey->chosen[row->shard]++;
	c->survey->last[row->shard] = c->survey->rank[row->shard];
	return relmq__idset_add(&s->ids, row->id) &&
	    (!s->by_key || relmq__idset_add(&s->keys, row->key_hash));
}

/* Later rows of its key wait, whatever their state. */
static bool hold_key(relmq__choice *c, uint32_t key_hash)
{
	return relmq__idset_add(&c->behind_failed, key_hash) &&
	    relmq__idset_add(&c->held, key_hash);
}

bool relmq__choose(relmq__choice *c, size_t want, size_t *chosen)
{
	relmq__sweep *s = c->sweep;
	bool ok = true;
	*chosen = 0;
	for (; ok && c->at < s->found_count && *chosen < want; c->at++) {
		relmq__candidate row = s->found[c->at];
		bool waits = relmq__breakers_hold(&s->breakers, row.id);
		c->survey->rank[row.shard] += row.status == RELMQ__PENDING;
		if (!waits && may_go(c, &row)) {
			ok = take(c, &row);
			s->found[(*chosen)++] = row;
		}
		/* SCHEDULED rows hold no key, not even when they are due. */
		if (row.status == RELMQ__FAILED || (waits && row.status == RELMQ__PENDING))
			ok = ok && hold_key(c, row.key_hash);
	}
	return ok;
}

void relmq__choice_take_back(relmq__choice *c, size_t chosen)
{
	relmq__sweep *s = c->sweep;
	for (size_t i = 0; i < chosen; i++) {
		const relmq__candidate *row = &s->found[i];
		if (row->handed)
			continue;
		relmq__idset_remove(&s->ids, row->id);
		if (s->by_key)
			relmq__idset_remove(&s->keys, row->key_hash);
		/* Without memory the choice ends here: what is not looked at cannot pass. */
		if (!hold_key(c, row->key_hash))
			c->at = s->found_count;
	}
}
