/* publisher/breaker.c - see breaker.h. */
#include "publisher/breaker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"

enum {
	BREAKERS_MAX = 256, /* destinations that are watched at once           */
	NAME_MAX_BYTES = 255,
	RELEASE_MS = 100, /* between rows released, until one comes as the probe */
	NOT_FOUND = 404
};

typedef enum state {
	CLOSED,   /* refused now and then; counting           */
	OPEN,     /* until probe_at_ms; then a probe may come */
	HALF_OPEN /* the probe is out                         */
} state;

struct relmq__breaker {
	uint64_t destination; /* hash */
	state state;
	uint64_t refusals; /* in a row */
	uint64_t probe;    /* id of the row */
	int64_t since_ms;  /* opened, or (closed) last refused */
	int64_t pause_ms, probe_at_ms, release_at_ms;
	uint64_t *ids; /* held rows of this destination */
	size_t id_count, id_room;
	char exchange[NAME_MAX_BYTES + 1], routing_key[NAME_MAX_BYTES + 1]; /* for people */
	char reason[RELMQ__REFUSAL_MAX];
};

bool relmq__breakers_init(relmq__breakers *b, const relmq__publisher_settings *settings)
{
	memset(b, 0, sizeof(*b));
	b->settings = settings;
	return relmq__idset_init(&b->held, 64);
}

void relmq__breakers_free(relmq__breakers *b)
{
	for (size_t i = 0; i < b->count; i++)
		free(b->all[i].ids);
	free(b->all);
	relmq__idset_free(&b->held);
	memset(b, 0, sizeof(*b));
}

/* --- which ------------------------------------------------------------------------- */

/* Two lengths that differ give different bytes: 255 is the longest of either. */
static uint64_t destination_of(const relmq__row *row)
{
	unsigned char bytes[2 * NAME_MAX_BYTES + 2];
	size_t n = 0;
	const amqp_bytes_t parts[] = { row->item.exchange, row->item.routing_key };
	for (size_t i = 0; i < 2; i++) {
		size_t len = parts[i].len < NAME_MAX_BYTES ? parts[i].len : NAME_MAX_BYTES;
		bytes[n++] = (unsigned char) len;
		if (len > 0)
			memcpy(bytes + n, parts[i].bytes, len);
		n += len;
	}
	return relmq__hash(bytes, n);
}

static relmq__breaker *find(const relmq__breakers *b, uint64_t destination)
{
	for (size_t i = 0; i < b->count; i++)
		if (b->all[i].destination == destination)
			return &b->all[i];
	return NULL;
}

static void copy_name(char out[NAME_MAX_BYTES + 1], amqp_bytes_t name)
{
	size_t n = name.len < NAME_MAX_BYTES ? name.len : NAME_MAX_BYTES;
	if (n > 0)
		memcpy(out, name.bytes, n);
	out[n] = '\0';
}

/* A place for one more: free, or of the closed one that has been quiet for the longest. */
static relmq__breaker *make_room(relmq__breakers *b)
{
	relmq__breaker *oldest = NULL;
	if (b->all == NULL)
		b->all = calloc(BREAKERS_MAX, sizeof(*b->all));
	if (b->all == NULL || b->count < BREAKERS_MAX)
		return b->all != NULL ? &b->all[b->count++] : NULL;
	for (size_t i = 0; i < b->count; i++)
		if (b->all[i].state == CLOSED &&
		    (oldest == NULL || b->all[i].since_ms < oldest->since_ms))
			oldest = &b->all[i];
	return oldest;
}

/* NULL: all places are taken by open ones; such a destination has no breaker. */
static relmq__breaker *watch(relmq__breakers *b, uint64_t destination, const relmq__row *row)
{
	relmq__breaker *k = find(b, destination);
	if (k != NULL || (k = make_room(b)) == NULL)
		return k;
	free(k->ids);
	memset(k, 0, sizeof(*k));
	k->destination = destination;
	copy_name(k->exchange, row->item.exchange);
	copy_name(k->routing_key, row->item.routing_key);
	return k;
}

static void forget(relmq__breakers *b, relmq__breaker *k)
{
	free(k->ids);
	*k = b->all[--b->count];
	memset(&b->all[b->count], 0, sizeof(*k));
}

/* --- holding ----------------------------------------------------------------------- */

/* Without memory the row is not held: it will be read again, and held then. */
static void hold(relmq__breakers *b, relmq__breaker *k, uint64_t id)
{
	if (relmq__idset_has(&b->held, id))
		return;
	if (k->id_count == k->id_room) {
		size_t room = k->id_room != 0 ? k->id_room * 2 : 64;
		uint64_t *ids = realloc(k->ids, room * sizeof(*ids));
		if (ids == NULL)
			return;
		k->ids = ids;
		k->id_room = room;
	}
	if (!relmq__idset_add(&b->held, id))
		return;
	k->ids[k->id_count++] = id;
	b->total_held++;
}

/* Any of them, so that one which is itself at fault does not stand for all for ever. */
static void release_one(relmq__breakers *b, relmq__breaker *k)
{
	if (k->id_count == 0)
		return;
	size_t at = (size_t) relmq__random_below(k->id_count);
	relmq__idset_remove(&b->held, k->ids[at]);
	k->ids[at] = k->ids[--k->id_count];
}

static void release_all(relmq__breakers *b, relmq__breaker *k)
{
	for (size_t i = 0; i < k->id_count; i++)
		relmq__idset_remove(&b->held, k->ids[i]);
	k->id_count = 0;
}

/* --- states ------------------------------------------------------------------------ */

static void pause_again(relmq__breakers *b, relmq__breaker *k)
{
	int64_t max = b->settings->breaker_pause_max_ms;
	int64_t next = k->pause_ms * 2;
	if (k->state == CLOSED)
		next = b->settings->breaker_pause_ms;
	k->pause_ms = next < max ? next : max;
	k->state = OPEN;
	k->probe_at_ms = relmq__now_ms() + relmq__jitter_ms(k->pause_ms);
	k->release_at_ms = k->probe_at_ms;
}

static void open_up(relmq__breakers *b, relmq__breaker *k)
{
	k->since_ms = relmq__now_ms();
	b->open++;
	pause_again(b, k);
	LOG_WARN("breaker",
	    "exchange \"%s\" routing key \"%s\": %llu refusals in a row (%s): its rows wait and are"
	    " charged nothing, one tries again in %lld ms",
	    k->exchange, k->routing_key, (unsigned long long) k->refusals, k->reason,
	    (long long) k->pause_ms);
}

static void close_down(relmq__breakers *b, relmq__breaker *k)
{
	if (k->state != CLOSED) {
		LOG_INFO("breaker",
		    "exchange \"%s\" routing key \"%s\" accepts messages again after %lld ms, %zu"
		    " rows waited",
		    k->exchange, k->routing_key, (long long) (relmq__now_ms() - k->since_ms),
		    k->id_count);
		b->open--;
		release_all(b, k);
	}
	forget(b, k);
}

bool relmq__breakers_admit(relmq__breakers *b, const relmq__row *row)
{
	if (b->open == 0)
		return true;
	relmq__breaker *k = find(b, destination_of(row));
	if (k == NULL || k->state == CLOSED)
		return true;
	if (k->state == OPEN && relmq__now_ms() >= k->probe_at_ms) {
		k->state = HALF_OPEN;
		k->probe = row->id;
		return true;
	}
	hold(b, k, row->id);
	return false;
}

/* What speaks of the destination; the rest is the row's own fault. */
static bool is_of_destination(const relmq__item *item)
{
	return !item->permanent &&
	    (item->refusal == RELMQ__REFUSED_NACK || item->refusal == RELMQ__REFUSED_RETURNED ||
	        (item->refusal == RELMQ__REFUSED_CHANNEL && item->code == NOT_FOUND));
}

static bool on_refused(relmq__breakers *b, relmq__breaker *k, const relmq__row *row)
{
	bool probe = k->state == HALF_OPEN && k->probe == row->id;
	k->refusals++;
	(void) snprintf(k->reason, sizeof(k->reason), "%s",
	    row->item.overdue ? "no answer within confirm_timeout" : row->item.reason);
	if (k->state == CLOSED) {
		k->since_ms = relmq__now_ms();
		if (k->refusals >= (uint64_t) b->settings->breaker_after)
			open_up(b, k);
		return true; /* the one that opens it is charged like those before */
	}
	if (probe)
		pause_again(b, k);
	hold(b, k, row->id);
	return false;
}

bool relmq__breakers_outcome(relmq__breakers *b, const relmq__row *row, relmq__outcome outcome)
{
	bool counts = outcome == RELMQ__REFUSED && is_of_destination(&row->item);
	counts = counts || (outcome == RELMQ__UNKNOWN && row->item.overdue);
	if (b->settings->breaker_after == 0 || (b->count == 0 && !counts))
		return true;
	uint64_t destination = destination_of(row);
	relmq__breaker *k = counts ? watch(b, destination, row) : find(b, destination);
	if (k == NULL)
		return true;
	if (counts)
		return on_refused(b, k, row);
	if (outcome == RELMQ__CONFIRMED)
		close_down(b, k);
	else if (k->state == HALF_OPEN && k->probe == row->id)
		k->state = OPEN; /* it proved nothing: the next one is the probe, at once */
	return true;
}

void relmq__breakers_tick(relmq__breakers *b)
{
	if (b->open == 0)
		return;
	int64_t now = relmq__now_ms();
	for (size_t i = 0; i < b->count; i++) {
		relmq__breaker *k = &b->all[i];
		if (k->state != OPEN || now < k->release_at_ms)
			continue;
		release_one(b, k);
		k->release_at_ms = now + RELEASE_MS;
	}
}

void relmq__breakers_json(const relmq__breakers *b, relmq__buf *out, size_t max)
{
	const char *between = "";
	int64_t now = relmq__now_ms();
	relmq__buf_adds(out, "[");
	for (size_t i = 0; i < b->count && max > 0; i++) {
		const relmq__breaker *k = &b->all[i];
		if (k->state == CLOSED)
			continue;
		relmq__buf_addf(out, "%s{\"exchange\":", between);
		relmq__buf_add_json(out, k->exchange, strlen(k->exchange));
		relmq__buf_adds(out, ",\"routing_key\":");
		relmq__buf_add_json(out, k->routing_key, strlen(k->routing_key));
		relmq__buf_adds(out, ",\"reason\":");
		relmq__buf_add_json(out, k->reason, strlen(k->reason));
		relmq__buf_addf(out, ",\"held\":%zu,\"open_ms\":%lld,\"next_probe_ms\":%lld}",
		    k->id_count, (long long) (now - k->since_ms),
		    (long long) (k->probe_at_ms > now ? k->probe_at_ms - now : 0));
		between = ",";
		max--;
	}
	relmq__buf_adds(out, "]");
}
