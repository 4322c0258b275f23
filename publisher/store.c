/* publisher/store.c - the store loop: owns the database session, keeps the leases, looks
 * for work, hands it to wire and settles what comes back. Knows no AMQP.
 *
 * Nothing here holds a transaction open while the broker is awaited: every statement
 * commits by itself, so nothing stalls the server's purge and relays cannot deadlock. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/outage.h"
#include "db/migrate.h"
#include "publisher/purge.h"
#include "publisher/relay.h"
#include "publisher/report.h"
#include "publisher/settler.h"
#include "publisher/sweep.h"

enum {
	SWEEP_ROWS = 500,   /* rows one sweep hands out at most                       */
	TELL_ROWS = 64,     /* rows for which wire is woken once                      */
	POLL_MIN_MS = 1,    /* pause after a sweep that found less than half of those */
	COST_FACTOR = 2,    /* and never less than this times what looking cost, the less the
	                     * more was found;                                        */
	IDLE_FACTOR = 4,    /* where nothing could go, this times                     */
	DEAR_US = 5000,     /* a look that cost more hands out all there is room for  */
	LOCK_WAIT_PARTS = 4 /* a lock wait is bounded by this part of a lease         */
};

typedef struct store {
	relmq__relay *relay;
	const relmq__publisher_settings *settings;
	relmq__mysql_settings mysql; /* with time-outs below the lease */
	relmq__db db;
	relmq__sweep sweep;
	relmq__report report;
	relmq__purge purge;
	relmq__outage outage;
	relmq__settler settler;
	size_t room;        /* rows that may be out at once                 */
	size_t outstanding; /* rows handed out and not yet settled, all     */
	size_t with_wire;   /* of those: not back from wire                 */
	size_t untold;      /* of those: wire has not been woken for them   */
	size_t after_sweep; /* of those with wire: right after the last sweep */
	size_t came_back;   /* from wire while store last settled and swept */
	int64_t pause_ms, next_sweep_ms, swept_ms;
	bool idle;
	int64_t stop_by_ms; /* 0: not stopping */
} store;

static bool schema_wrong(relmq_code code, const relmq_error *err)
{
	return code == RELMQ_ESCHEMA && (err->flags & RELMQ_F_FATAL) != 0;
}

/* --- rows coming back ------------------------------------------------------------- */

static void done(store *s, relmq__row *row)
{
	relmq__sweep_forget(&s->sweep, &s->relay->lease, row);
	s->outstanding--;
	relmq__row_free(row);
}

/* Its outcome has committed. The keys of confirmed rows have been free since the ack. */
static void on_settled(void *arg, relmq__row *row)
{
	store *s = arg;
	if (row->outcome == RELMQ__REFUSED)
		relmq__sweep_free_key(&s->sweep, row);
	done(s, row);
}

static void count_outcome(relmq__relay_stats *stats, const relmq__row *row)
{
	if (row->outcome == RELMQ__UNKNOWN) {
		stats->in_doubt += row->item.sent_ms != 0; /* else it never left */
	} else if (row->outcome == RELMQ__CONFIRMED) {
		stats->confirmed++;
		if (row->status == RELMQ__PENDING)
			relmq__stats_confirmed(stats, row->created_us);
	} else if (row->item.refusal == RELMQ__REFUSED_NACK) {
		stats->refused_nack++;
	} else if (row->item.refusal == RELMQ__REFUSED_RETURNED) {
		stats->refused_returned++;
	} else if (row->item.refusal == RELMQ__REFUSED_CHANNEL) {
		stats->refused_channel++;
	} else {
		stats->refused_local++;
	}
}

static void sort_outcome(store *s, relmq__row *row)
{
	count_outcome(&s->relay->stats, row);
	if (!relmq__breakers_outcome(&s->sweep.breakers, row, row->outcome))
		row->outcome = RELMQ__UNKNOWN; /* it stays as it was */
	switch (row->outcome) {
	case RELMQ__CONFIRMED:
		/* Free at the ack: whatever happens to the DELETE, this row went first. */
		relmq__sweep_free_key(&s->sweep, row);
		relmq__settler_add(&s->settler, row);
		break;
	case RELMQ__REFUSED:
		/* The key stays taken until FAILED or ABANDONED has committed. */
		relmq__settler_add(&s->settler, row);
		break;
	case RELMQ__UNKNOWN:
	default:
		/* As it was; the next sweep finds it first among the rows of its key. */
		relmq__sweep_free_key(&s->sweep, row);
		done(s, row);
	}
}

static void collect(store *s)
{
	void *rows[256];
	size_t n;
	while ((n = relmq__queue_pop_many(
	            s->relay->to_store, rows, sizeof(rows) / sizeof(rows[0]))) > 0) {
		s->with_wire -= n;
		for (size_t i = 0; i < n; i++)
			sort_outcome(s, rows[i]);
	}
}

static relmq_code settle(store *s, relmq_error *err)
{
	bool last = s->stop_by_ms != 0 && s->with_wire == 0;
	return relmq__settler_run(&s->settler, &s->db, last, err);
}

/* --- work ----------------------------------------------------------------------------- */

static void tell_wire(store *s)
{
	if (s->untold > 0)
		relmq__queue_wake(s->relay->to_wire);
	s->untold = 0;
}

static void hand_out(void *arg, relmq__row *row)
{
	store *s = arg;
	s->outstanding++;
	s->relay->stats.read++;
	if (row->outcome == RELMQ__REFUSED) { /* AMQP cannot carry it: no need to ask */
		sort_outcome(s, row);
		return;
	}
	s->with_wire++;
	/* The queue has room for all rows that may be out. */
	if (!relmq__queue_put(s->relay->to_wire, row))
		abort();
	if (++s->untold == TELL_ROWS)
		tell_wire(s);
}

static size_t byte_room(const store *s)
{
	size_t max = (size_t) s->settings->window_bytes * RELMQ__READ_AHEAD;
	return s->sweep.bytes < max ? max - s->sweep.bytes : 0;
}

static bool may_publish(const store *s)
{
	return atomic_load(&s->relay->wire_up) && atomic_load(&s->relay->stats.blocked) == 0;
}

/* A sweep reads past all that is out, so few large ones are cheaper than many small ones. Half
 * a window keeps the broker as busy as a full one (half of what the keys let out, where that is
 * less and rows wait for them); wire is to have that much still when the sweep is over. */
static bool wire_wants(const store *s)
{
	size_t full = (size_t) s->settings->window;
	if (s->sweep.waiting != 0 && s->after_sweep < full)
		full = s->after_sweep;
	return s->with_wire <= full - full / 2 + s->came_back ||
	    relmq__now_ms() - s->swept_ms >= s->settings->poll_max_ms; /* some may get no answer */
}

static bool has_use_for_rows(const store *s)
{
	return s->stop_by_ms == 0 && may_publish(s) && s->outstanding < s->room && wire_wants(s) &&
	    (byte_room(s) > 0 || s->outstanding == 0);
}

/* A pause ends early where a row waits for a key that has come free. */
static bool may_sweep(const store *s)
{
	return has_use_for_rows(s) &&
	    (relmq__now_ms() >= s->next_sweep_ms || relmq__sweep_hot(&s->sweep) != 0);
}

/* Where there was plenty there is more: at once. Else a pause that grows, and in which the
 * outcomes that come free enough keys to be worth a look. */
static void plan_next_sweep(store *s, int64_t cost_us, size_t moved, size_t want)
{
	int64_t cost_ms = cost_us * IDLE_FACTOR / 1000;
	if (moved > 0 && moved <= want)
		cost_ms = cost_us * COST_FACTOR * (int64_t) (want - moved) / (int64_t) want / 1000;
	s->pause_ms = moved > 0 ? POLL_MIN_MS : s->pause_ms * 2;
	if (s->pause_ms > s->settings->poll_max_ms)
		s->pause_ms = s->settings->poll_max_ms;
	s->idle = moved == 0 && s->outstanding == 0;
	s->next_sweep_ms = relmq__now_ms();
	if (moved < want / 2)
		s->next_sweep_ms += s->pause_ms > cost_ms ? s->pause_ms : cost_ms;
}

static relmq_code sweep(store *s, relmq_error *err)
{
	int64_t began_us = relmq__now_us();
	size_t moved = 0;
	size_t room = s->room - s->outstanding;
	size_t want = room < SWEEP_ROWS || s->sweep.look_us > DEAR_US ? room : SWEEP_ROWS;
	bool any = true;
	bool early = relmq__now_ms() < s->next_sweep_ms;
	uint32_t shards = early ? relmq__sweep_hot(&s->sweep) : RELMQ__ALL_SHARDS;
	relmq_code code = RELMQ_OK;
	if (s->idle && !early)
		code = relmq__sweep_probe(&s->db, &any, err);
	int64_t cost_us = relmq__now_us() - began_us;
	if (code == RELMQ_OK && any) {
		code = relmq__sweep_run(&s->sweep, &s->db, &s->relay->lease, shards, want,
		    byte_room(s), hand_out, s, &moved, err);
		cost_us += s->sweep.look_us;
	}
	tell_wire(s);
	s->swept_ms = relmq__now_ms();
	s->after_sweep = s->with_wire;
	s->came_back = relmq__queue_count(s->relay->to_store);
	if (!early)
		plan_next_sweep(s, cost_us, moved, want);
	return code;
}

/* --- the session ------------------------------------------------------------------------ */

static relmq_code open_session(store *s, relmq_error *err)
{
	unsigned lock_wait_s = (unsigned) (s->settings->lease_ms / LOCK_WAIT_PARTS / 1000);
	relmq_code code = relmq__db_open(&s->db, &s->mysql, lock_wait_s > 0 ? lock_wait_s : 1, err);
	if (code == RELMQ_OK)
		code = relmq__schema_check(&s->db, err);
	if (code != RELMQ_OK)
		return code;
	/* An outage is over when the work is done again, not when somebody listens. */
	if (!s->outage.down)
		LOG_INFO(
		    "store", "connected to database %s on %s", s->mysql.database, s->db.hosts.text);
	s->relay->lease.next_tick_ms = 0;
	return RELMQ_OK;
}

static relmq_code tick(store *s, relmq_error *err)
{
	relmq_code code = relmq__lease_tick(&s->relay->lease, &s->db, err);
	if (code == RELMQ_OK)
		code = relmq__report_tell(&s->report, s->relay, &s->db, &s->sweep.breakers, err);
	return code;
}

static relmq_code work(store *s, relmq_error *err)
{
	relmq_code code = RELMQ_OK;
	if (s->db.mysql == NULL)
		code = open_session(s, err);
	if (code == RELMQ_OK && relmq__now_ms() >= s->relay->lease.next_tick_ms)
		code = tick(s, err);
	if (code == RELMQ_OK)
		code = settle(s, err);
	if (code == RELMQ_OK && may_sweep(s))
		code = sweep(s, err);
	if (code == RELMQ_OK && s->stop_by_ms == 0)
		code = relmq__purge_tick(
		    &s->purge, &s->db, &s->relay->lease, s->settings, s->idle, err);
	return code;
}

static int64_t earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static void rest(store *s)
{
	int64_t now = relmq__now_ms();
	int64_t wake = now + s->settings->poll_max_ms;
	if (s->db.mysql == NULL)
		wake = now + relmq__outage_wait_ms(&s->outage);
	else if (has_use_for_rows(s))
		wake = relmq__sweep_hot(&s->sweep) != 0 ? now : s->next_sweep_ms;
	if (s->db.mysql != NULL)
		wake = earlier(wake, relmq__settler_due_ms(&s->settler));
	if (s->stop_by_ms != 0)
		wake = earlier(wake, s->stop_by_ms);
	if (wake > now)
		relmq__queue_wait(s->relay->to_store, (int) (wake - now));
	else
		relmq__queue_clear_wake(s->relay->to_store);
}

/* A statement that failed: whatever the class, nothing was lost; the session is replaced
 * unless only the unit has to be run again. */
static void recover(store *s, const relmq_error *err)
{
	relmq__outage_failed(&s->outage, err);
	if (s->db.class != RELMQ__DB_RETRY_TX)
		relmq__db_close(&s->db);
}

static bool init(store *s, relmq__relay *r)
{
	memset(s, 0, sizeof(*s));
	s->relay = r;
	s->settings = &r->settings->publisher;
	s->mysql = r->settings->mysql;
	/* A session that hangs must be given up well before the lease is. */
	int64_t bound = s->settings->lease_ms / 2;
	s->mysql.read_timeout_ms = earlier(s->mysql.read_timeout_ms, bound);
	s->mysql.write_timeout_ms = earlier(s->mysql.write_timeout_ms, bound);
	s->outage = (relmq__outage) RELMQ__OUTAGE_INIT("store", "the database");
	s->outage.where = s->db.hosts.text;
	s->room = (size_t) s->settings->window * RELMQ__READ_AHEAD;
	s->pause_ms = POLL_MIN_MS;
	return relmq__settler_init(&s->settler, s->relay, s->room, on_settled, s) &&
	    relmq__sweep_init(&s->sweep, s->settings);
}

static void fini(store *s)
{
	relmq__settler_free(&s->settler);
	relmq__sweep_free(&s->sweep);
	relmq__report_free(&s->report);
	relmq__purge_free(&s->purge);
	relmq__db_close(&s->db);
}

static bool finished(store *s)
{
	if (s->stop_by_ms == 0 && atomic_load(&s->relay->stop)) {
		LOG_INFO("store", "stopping: %zu rows out", s->outstanding);
		s->stop_by_ms = relmq__now_ms() + s->settings->shutdown_timeout_ms;
	}
	return s->stop_by_ms != 0 && (s->outstanding == 0 || relmq__now_ms() >= s->stop_by_ms);
}

static void quit_wire(store *s, pthread_t wire)
{
	atomic_store(&s->relay->wire_quit, true);
	relmq__queue_wake(s->relay->to_wire);
	(void) pthread_join(wire, NULL); /* every call of wire is bounded */
	collect(s);
}

static void show(store *s)
{
	atomic_store(&s->relay->stats.out, s->outstanding);
	atomic_store(&s->relay->stats.held, s->sweep.breakers.total_held);
	atomic_store(&s->relay->stats.database_up, s->db.mysql != NULL);
	relmq__report_log(&s->report, s->relay);
}

static relmq_code loop(store *s, relmq_error *err)
{
	while (!finished(s)) {
		collect(s);
		show(s);
		if (s->db.mysql != NULL || relmq__outage_wait_ms(&s->outage) == 0) {
			relmq_code code = work(s, err);
			if (schema_wrong(code, err))
				return code;
			if (code != RELMQ_OK)
				recover(s, err);
			else if (s->outage.down)
				relmq__outage_over(&s->outage);
		}
		rest(s);
	}
	return RELMQ_OK;
}

/* What wire brought back at the end, and the leases. If the database is away the rows
 * stay as they are and go again: at least once is kept, the inbox absorbs the rest. */
static relmq_code last_words(store *s, relmq_error *err)
{
	relmq_code code = RELMQ_OK;
	if (s->db.mysql != NULL)
		code = settle(s, err);
	if (s->db.mysql != NULL && code == RELMQ_OK)
		code = relmq__lease_release_all(&s->relay->lease, &s->db, err);
	if (s->outstanding > 0)
		return relmq__fail(err, RELMQ_ETIMEDOUT, 0,
		    "%zu rows were not settled within shutdown_timeout; they go again under the "
		    "same ids",
		    s->outstanding);
	return code;
}

relmq_code relmq__store_run(relmq__relay *r, pthread_t wire, relmq_error *err)
{
	store s;
	relmq_code code = init(&s, r) ? loop(&s, err) : relmq__fail_nomem(err);
	quit_wire(&s, wire);
	if (code == RELMQ_OK)
		code = last_words(&s, err);
	fini(&s);
	return code;
}
