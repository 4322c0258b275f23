/* test_publisher_random.c - the relay against a broker that confirms, refuses, breaks off and
 * falls silent at random, and a model of what the table may say afterwards: nothing is lost,
 * a key keeps its order, and a row is charged for its own refusals and no other's.
 *
 * What the broker decides follows from the seed, the row and how often it came; when that
 * happens does not. One seed again, and shorter until it passes:
 *   RELMQ_SEED=7 RELMQ_STEPS=40 ./dev test -R publisher_random
 * More of them: RELMQ_SEEDS=500. What happened, of one that passes too: RELMQ_STORY=1. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "publisher/relay.h"
#include "support/fakebroker.h"
#include "support/testoutbox.h"

enum {
	SEEDS = 10,
	ROWS = 72,
	BATCHES = 3, /* that the rows are written in */
	KEYS = 6,
	DESTINATIONS = 3,
	DOWN_FROM =
	    10, /* publishes, between which a destination refuses all, if there are breakers */
	DOWN_UNTIL = 120,
	STEPS = 250, /* publishes, after which the broker behaves */
	ROUGH_MS = 2500,
	STALLED_MS = 30000,
	MAX_ATTEMPTS = 4,
	RATE = 200, /* a second, of every seventh seed */
	SESSIONS = 4096,
	TICK_MS = 2
};

/* How the broker's side of a session ended. */
typedef enum {
	LIVE,
	READ /* the relay read all that was said */,
	TORN /* or perhaps not */
} ending;

typedef enum { ACK, NACK, RETURN_ACK, RETURN_NACK } verdict;

typedef struct row {
	char id[16];
	int key; /* -1: none                                     */
	int destination;
	bool scheduled;  /* holds nothing and keeps no place until it goes */
	bool impossible; /* AMQP cannot carry it                          */
	bool unlucky;    /* refused until the broker behaves              */
	int killer;      /* code that its publish closes with; 0: none    */
	/* what happened */
	int publishes, session; /* of the last publish                    */
	bool answered;          /* the last publish                       */
	bool refused;           /* the last publish, not yet counted      */
	int acked_in;           /* session of the last ack; 0: none       */
	int sure, maybe;        /* refusals that the relay knows of       */
} row;

typedef struct model {
	unsigned seed, steps;
	row rows[ROWS];
	size_t written; /* rows that are in the table */
	ending ends[SESSIONS];
	const fake_publish *open[ROWS]; /* unanswered, of the session of the moment */
	size_t open_count;
	unsigned published, ticks, blocked_until;
	bool calm;
	bool ordered; /* ordering: "key" */
	const fake_publish *swallowed;
	int swallows;    /* confirms that will never come, until the relay gives up waiting */
	bool breakers;   /* what a destination refuses may be charged to nobody */
	char wrong[512]; /* the first promise that was broken */
	char *trace;
	size_t trace_len;
	FILE *story;
} model;

static env e;
static fake f;
static model m;

/* --- chance ---------------------------------------------------------------------------------- */

typedef enum { OF_ROW, OF_PUBLISH, OF_EVENT, OF_TICK, OF_CHOICE } question;

/* The same answer to the same question, whenever it is asked. */
static unsigned draw(question what, unsigned a, unsigned b, unsigned below)
{
	uint64_t x = m.seed;
	const uint64_t parts[] = { what, a, b };
	for (int i = 0; i < 3; i++) {
		x = (x ^ parts[i]) + 0x9e3779b97f4a7c15U;
		x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
		x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
		x ^= x >> 31;
	}
	return (unsigned) (x % below);
}

static void tell(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static void tell(const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	(void) vfprintf(m.story, fmt, args);
	va_end(args);
}

static void wrong(const row *r, const char *what, const row *other)
{
	if (m.wrong[0] == '\0')
		(void) snprintf(m.wrong, sizeof(m.wrong), "%s (key %d) %s%s%s", r->id, r->key, what,
		    other != NULL ? " " : "", other != NULL ? other->id : "");
	tell("  WRONG: %s %s\n", r->id, what);
}

/* --- the model --------------------------------------------------------------------------------- */

static row *row_of(const fake_publish *p)
{
	int n = -1;
	if (sscanf(p->id, "m-%d", &n) != 1 || n < 0 || n >= ROWS)
		abort(); /* on the broker's thread: there is no test to fail */
	return &m.rows[n];
}

static bool may_be_abandoned(const row *r)
{
	return r->impossible || r->sure + r->maybe + r->refused >= MAX_ATTEMPTS;
}

/* Did the relay get to know of the last refusal? */
static void count_refusal(row *r, bool is_known)
{
	if (r->refused && (is_known || m.ends[r->session] != TORN))
		r->sure++;
	else if (r->refused)
		r->maybe++;
	r->refused = false;
}

/* May `r` be published in this session, for all that is known of `before`, of the same key? */
static void check_order(const row *r, const row *before, int session)
{
	if (before->acked_in != 0 || may_be_abandoned(before))
		return;
	if (before->publishes > 0 && before->session == session && !before->answered) {
		wrong(r, "goes while in flight is", before);
	} else if (before->scheduled && (before->publishes == 0 || m.breakers)) {
		return; /* until it has FAILED it holds nothing */
	} else if (before->publishes == 0) {
		if (before < r)
			wrong(r, "overtakes", before);
	} else if (before->refused && m.ends[before->session] != TORN && !m.breakers) {
		wrong(r, "goes, held behind the refused", before);
	} else if (before < r) {
		wrong(r, "overtakes the unknown", before);
	}
}

static void check_publish(const row *r, int session)
{
	if (r->acked_in != 0 && m.ends[r->acked_in] != TORN)
		wrong(r, "was confirmed, and goes again", NULL);
	if (r->publishes > 0 && r->session == session && !r->answered)
		wrong(r, "goes twice at a time", NULL);
	if (r->impossible || (r->sure >= MAX_ATTEMPTS && !m.breakers))
		wrong(r, "is abandoned, and goes", NULL);
	for (size_t i = 0; m.ordered && i < m.written; i++)
		if (r->key >= 0 && m.rows[i].key == r->key && &m.rows[i] != r)
			check_order(r, &m.rows[i], session);
}

/* The sessions before this one are over; where we did not end them the relay did. */
static void begin_session(int session)
{
	for (int i = session - 1; i > 0 && m.ends[i] == LIVE; i--)
		m.ends[i] = TORN;
	m.open_count = 0;
}

static void end_session(ending how, const char *what)
{
	tell("  session %d ends: %s\n", fake_session(&f), what);
	m.ends[fake_session(&f)] = how;
	m.open_count = 0;
}

/* --- the broker ---------------------------------------------------------------------------------- */

static verdict plan(const row *r)
{
	if (m.calm)
		return ACK;
	if (m.breakers && r->destination == 0 && m.published >= DOWN_FROM &&
	    m.published < DOWN_UNTIL)
		return RETURN_ACK;
	unsigned x = draw(OF_PUBLISH, (unsigned) (r - m.rows), (unsigned) r->publishes, 100);
	if (r->unlucky)
		x = 80 + x % 20;
	return x < 80 ? ACK : x < 88 ? NACK : x < 96 ? RETURN_ACK : RETURN_NACK;
}

static void note_answer(row *r, verdict v)
{
	static const char *const names[] = { "ack", "nack", "return, ack", "return, nack" };
	tell("  %s: %s\n", r->id, names[v]);
	r->answered = true;
	r->refused = v != ACK;
	if (v == ACK)
		r->acked_in = r->session;
}

static void forget_open(size_t i)
{
	m.open[i] = m.open[--m.open_count];
}

/* All that are open up to a tag at once, if their verdict is the same. */
static bool answer_multiple(const fake_publish *p, verdict v)
{
	for (size_t i = 0; i < m.open_count; i++)
		if (m.open[i]->tag <= p->tag && plan(row_of(m.open[i])) != v)
			return false;
	if (m.swallowed != NULL && m.swallowed->session == p->session)
		return false;
	if (v > NACK || !fake_confirm(&f, p, true, v == ACK))
		return false;
	for (size_t i = m.open_count; i-- > 0;) {
		if (m.open[i]->tag > p->tag)
			continue;
		note_answer(row_of(m.open[i]), v);
		forget_open(i);
	}
	return true;
}

static void answer_one(unsigned chance)
{
	size_t i = chance % m.open_count;
	const fake_publish *p = m.open[i];
	verdict v = plan(row_of(p));
	if (chance % 3 == 0 && answer_multiple(p, v))
		return;
	if (v >= RETURN_ACK)
		(void) fake_return(&f, p, 312, "NO_ROUTE");
	if (fake_confirm(&f, p, false, v == ACK || v == RETURN_ACK)) {
		note_answer(row_of(p), v);
		forget_open(i);
	}
}

static void answer_some(unsigned chance)
{
	unsigned count = m.calm ? ROWS : chance % 5;
	for (unsigned i = 0; i < count && m.open_count > 0; i++)
		answer_one(draw(OF_CHOICE, chance, i, 1 << 20));
}

/* What befalls the connection, about once in a dozen publishes. */
static void strike(unsigned event)
{
	if (m.swallowed != NULL && m.swallowed->session == fake_session(&f))
		return; /* the relay ends this one */
	if (event < 2) {
		end_session(TORN, "reset");
		fake_reset(&f);
	} else if (event < 4) {
		end_session(READ, "hung up");
		fake_hang_up(&f);
	} else if (event < 5) {
		(void) fake_close_connection(&f, 320, "CONNECTION_FORCED");
		end_session(READ, "connection closed, 320");
	} else if (event < 7) {
		int code = event == 5 ? 403 : 541;
		(void) fake_close_channel(&f, code, "an outage");
		end_session(READ, "channel closed, an outage");
	} else if (event < 9 && m.blocked_until == 0) {
		tell("  blocked\n");
		(void) fake_blocked(&f, true);
		m.blocked_until = m.ticks + 1 + draw(OF_CHOICE, m.published, 0, 40);
	} else if (event < 20 && m.swallows > 0 && m.open_count > 0) {
		m.swallowed = m.open[0];
		tell("  %s: never\n", m.swallowed->id);
		forget_open(0);
		m.swallows--;
	}
}

static void kill_for(row *r)
{
	r->maybe++; /* charged if it was alone in the relay's eyes */
	if (r->killer == 501)
		(void) fake_close_connection(&f, r->killer, "your fault");
	else
		(void) fake_close_channel(&f, r->killer, "your fault");
	end_session(READ, r->id);
}

static void on_publish(void *arg, const fake_publish *p)
{
	row *r = row_of(p);
	(void) arg;
	if (p->tag == 1)
		begin_session(p->session);
	tell("%d/%d %s\n", p->session, (int) p->tag, p->id);
	count_refusal(r, r->session == p->session);
	check_publish(r, p->session);
	m.published++;
	r->publishes++;
	r->session = p->session;
	r->answered = false;
	if (m.ends[p->session] != LIVE)
		return; /* said into the void: we have hung up */
	if (r->killer != 0 && !m.calm) {
		kill_for(r);
		return;
	}
	if (m.open_count < ROWS) /* more is wrong, and was told */
		m.open[m.open_count++] = p;
	if (m.calm || draw(OF_EVENT, m.published, 1, 2) == 0)
		answer_some(draw(OF_EVENT, m.published, 2, 1 << 20));
	if (!m.calm)
		strike(draw(OF_EVENT, m.published, 0, 100));
}

/* Answers come also while nothing is published. */
static void tick(int64_t age_ms)
{
	fake_lock(&f);
	m.ticks++;
	m.calm = m.calm || m.published >= m.steps || age_ms > ROUGH_MS;
	if (m.blocked_until != 0 && (m.calm || m.ticks >= m.blocked_until)) {
		(void) fake_blocked(&f, false);
		m.blocked_until = 0;
	}
	answer_some(draw(OF_TICK, m.ticks, 0, 1 << 20));
	fake_unlock(&f);
}

/* --- the table ------------------------------------------------------------------------------------ */

static void invent_row(int n)
{
	static const int codes[] = { 404, 406, 501 };
	row *r = &m.rows[n];
	unsigned i = (unsigned) n;
	unsigned kind = draw(OF_ROW, i, 0, 100);
	(void) snprintf(r->id, sizeof(r->id), "m-%06d", n);
	r->key = draw(OF_ROW, i, 1, 5) == 0 ? -1 : (int) draw(OF_ROW, i, 2, KEYS);
	r->destination = (int) draw(OF_ROW, i, 6, DESTINATIONS);
	r->scheduled = draw(OF_ROW, i, 3, 7) == 0;
	r->impossible = kind < 4;
	r->unlucky = kind >= 4 && kind < 9;
	r->killer = kind >= 9 && kind < 13 ? codes[draw(OF_ROW, i, 4, 3)] : 0;
}

static void write_batch(void)
{
	relmq__buf sql = { 0 };
	relmq_error err;
	size_t end = m.written + ROWS / BATCHES;
	relmq__buf_adds(&sql,
	    "INSERT INTO message_outbox"
	    " (msg_id, routing_key, payload, business_key, properties, next_retry_at) VALUES ");
	for (size_t i = m.written; i < end; i++) {
		const row *r = &m.rows[i];
		relmq__buf_addf(
		    &sql, "%s('%s', 'q', '%s', '", i > m.written ? "," : "", r->id, r->id);
		if (r->key >= 0)
			relmq__buf_addf(&sql, "k-%d", r->key);
		relmq__buf_adds(&sql, r->impossible ? "', '{\"priority\":1000}', " : "', NULL, ");
		if (r->scheduled)
			relmq__buf_addf(&sql, "NOW(6) + INTERVAL %u MICROSECOND)",
			    draw(OF_ROW, (unsigned) i, 5, 400000));
		else
			relmq__buf_adds(&sql, "NULL)");
	}
	fake_lock(&f);
	m.written = end; /* before anybody can see them */
	fake_unlock(&f);
	cr_assert_eq(
	    relmq__db_exec(&e.db, sql.data, sql.len, NULL, &err), RELMQ_OK, "%s", err.text);
	relmq__buf_free(&sql);
}

static void check_row(const row *r, int status, int charged, bool kept)
{
	int least = m.breakers ? 0 : r->sure;
	bool is_confirmed = status == RELMQ__SENT;
	if (status != RELMQ__SENT && status != RELMQ__ABANDONED)
		wrong(r, "has no end", NULL);
	else if (is_confirmed && r->acked_in == 0)
		wrong(r, "is lost: never confirmed, and gone", NULL);
	else if (!is_confirmed && r->acked_in != 0 && m.ends[r->acked_in] != TORN)
		wrong(r, "was confirmed, and is abandoned", NULL);
	else if (!is_confirmed && !r->impossible && r->sure + r->maybe < MAX_ATTEMPTS)
		wrong(r, "is abandoned too early", NULL);
	else if (r->impossible && (is_confirmed || charged != 1))
		wrong(r, "cannot have gone, and is not abandoned at once", NULL);
	else if (kept && !r->impossible && (charged < least || charged > r->sure + r->maybe))
		wrong(r, "is charged wrongly", NULL);
	if (m.wrong[0] != '\0')
		tell("%s: status %d, charged %d; refused %d surely, %d perhaps\n", r->id, status,
		    charged, r->sure, r->maybe);
}

static void check_table(bool keep_sent)
{
	for (int n = 0; n < ROWS; n++) {
		row *r = &m.rows[n];
		count_refusal(r, false);
		int64_t state = env_number(&e,
		    "SELECT COALESCE((SELECT status * 10000 + retry_count FROM message_outbox"
		    " WHERE msg_id = '%s'), -1)",
		    r->id);
		bool gone = state < 0 && !keep_sent;
		check_row(
		    r, gone ? RELMQ__SENT : (int) (state / 10000), (int) (state % 10000), !gone);
	}
}

/* --- one seed --------------------------------------------------------------------------------------- */

static relmq__relay relay;
static relmq__settings settings;
static relmq_error relay_error;

static void *relay_main(void *arg)
{
	relmq_code *code = arg;
	*code = relmq__relay_run(&relay, &settings, &relay_error);
	return NULL;
}

static bool all_ended(void)
{
	return env_number(&e, "SELECT COUNT(*) FROM message_outbox WHERE status NOT IN (1, 3)") ==
	    0;
}

static void await_end(void)
{
	int64_t begin_ms = now_ms();
	bool ended = false;
	while (!ended && m.wrong[0] == '\0' && now_ms() < begin_ms + STALLED_MS) {
		pause_ms(TICK_MS);
		tick(now_ms() - begin_ms);
		if (m.ticks % 30 == 0 && m.written < ROWS)
			write_batch();
		ended = m.ticks % 10 == 0 && m.written == ROWS && all_ended();
	}
	if (!ended && m.wrong[0] == '\0')
		(void) snprintf(m.wrong, sizeof(m.wrong), "it stalls");
}

static void begin(unsigned seed, unsigned steps, bool keep_sent)
{
	relmq_error err;
	memset(&m, 0, sizeof(m));
	memset(&f, 0, sizeof(f));
	memset(&relay, 0, sizeof(relay));
	m.seed = seed;
	m.steps = steps;
	m.breakers = seed % 3 == 0;
	m.ordered = seed % 5 != 0;
	m.swallows = seed % 4 == 1;
	m.story = open_memstream(&m.trace, &m.trace_len);
	for (int n = 0; n < ROWS; n++)
		invent_row(n);
	f.on_publish = on_publish;
	fake_start(&f);
	e.settings.rabbitmq.port = f.port;
	env_config(&e,
	    "\"publisher\":{\"window\":%u,\"retry_delays\":[\"1ms\",\"5ms\"],\"max_attempts\":%d,"
	    "\"ordering\":\"%s\",\"confirm_timeout\":\"%ds\",\"breaker_after\":%d,\"breaker_pause\":\"20ms\","
	    "\"breaker_pause_max\":\"80ms\",\"keep_sent\":%s,\"rate_limit\":%d}",
	    1 + draw(OF_ROW, ROWS, 0, 20), MAX_ATTEMPTS, m.ordered ? "key" : "none",
	    m.swallows > 0 ? 1 : 20, m.breakers ? 3 : 0, keep_sent ? "true" : "false",
	    seed % 7 == 0 ? RATE : 0);
	cr_assert_eq(relmq__settings_load(&settings, e.config, &err), RELMQ_OK, "%s", err.text);
	env_sql(&e, "DELETE FROM message_outbox");
	write_batch();
}

static void run_seed(unsigned seed, unsigned steps)
{
	pthread_t thread;
	relmq_code code = RELMQ_OK;
	bool keep_sent = seed % 2 == 0;
	begin(seed, steps, keep_sent);
	cr_assert_eq(pthread_create(&thread, NULL, relay_main, &code), 0);
	await_end();
	relmq__relay_stop(&relay);
	(void) pthread_join(thread, NULL);
	fake_stop(&f);
	if (m.wrong[0] == '\0')
		check_table(keep_sent);
	if (m.wrong[0] == '\0' && relay.stats.gone != 0)
		(void) snprintf(m.wrong, sizeof(m.wrong), "a row was settled twice");
	relmq__relay_free(&relay);
	relmq__settings_free(&settings);
	(void) fclose(m.story);
	if (getenv("RELMQ_STORY") != NULL)
		(void) fprintf(stderr, "seed %u\n%s", seed, m.trace);
	cr_assert(m.wrong[0] == '\0', "seed %u, %u publishes: %s\n%s", seed, m.published, m.wrong,
	    m.trace);
	free(m.trace);
	cr_assert_eq(code, RELMQ_OK, "seed %u: %s", seed, relay_error.text);
}

static unsigned from_environment(const char *name, unsigned fallback)
{
	const char *value = getenv(name);
	return value != NULL ? (unsigned) strtoul(value, NULL, 10) : fallback;
}

Test(random, nothing_is_lost_and_order_is_kept, .timeout = 3600)
{
	unsigned first = from_environment("RELMQ_SEED", 1);
	unsigned count = from_environment("RELMQ_SEEDS", getenv("RELMQ_SEED") != NULL ? 1 : SEEDS);
	env_open(&e);
	for (unsigned seed = first; seed < first + count; seed++)
		run_seed(seed, from_environment("RELMQ_STEPS", STEPS));
	env_close(&e);
}
