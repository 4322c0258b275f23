/* publisher/report.c - see report.h. */
#include "publisher/report.h"

#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "publisher/backlog.h"

enum { BREAKERS_TOLD = 20 }; /* of the open ones; the rest is counted */

void relmq__report_free(relmq__report *r)
{
	relmq__buf_free(&r->text);
}

void relmq__report_log(relmq__report *r, const relmq__relay *relay)
{
	int64_t every_ms = relay->settings->publisher.stats_interval_ms;
	int64_t now = relmq__now_ms();
	if (every_ms == 0 || now < r->next_line_ms)
		return;
	bool first = r->next_line_ms == 0;
	r->next_line_ms = now + every_ms;
	if (first)
		return;
	relmq_publisher_stats stats;
	relmq__stats_read(&relay->stats, &stats);
	relmq__buf_reset(&r->text);
	relmq__stats_json(&r->text, &r->logged, &stats);
	if (!r->text.failed)
		LOG_INFO("stats", "%s", r->text.data);
	r->logged = stats;
}

static void write_text(
    relmq__report *r, const relmq__breakers *breakers, const relmq_publisher_stats *stats)
{
	relmq__buf_reset(&r->text);
	relmq__buf_adds(&r->text, "{\"stats\":");
	relmq__stats_json(&r->text, &r->told, stats);
	relmq__buf_adds(&r->text, ",\"breakers\":");
	relmq__breakers_json(breakers, &r->text, BREAKERS_TOLD);
	relmq__buf_adds(&r->text, "}");
}

relmq_code relmq__report_tell(relmq__report *r, relmq__relay *relay, relmq__db *db,
    const relmq__breakers *breakers, relmq_error *err)
{
	int64_t oldest_us = -1;
	int64_t clock_us = 0;
	int64_t asked_us = relmq__now_us();
	relmq_code code = relmq__backlog_look(db, &oldest_us, &clock_us, err);
	if (code != RELMQ_OK)
		return code;
	/* The server read its clock somewhere in between. */
	int64_t middle_us = asked_us + (relmq__now_us() - asked_us) / 2;
	relmq__relay_stats *s = &relay->stats;
	atomic_store(&s->clock_ahead_us, clock_us - middle_us);
	atomic_store(&s->oldest_ready_age_us, oldest_us);
	atomic_store(&s->shards, relay->lease.held_count);
	atomic_store(&s->relays, relay->lease.relays);
	atomic_store(&s->breakers_open, breakers->open);
	relmq_publisher_stats stats;
	relmq__stats_read(s, &stats);
	write_text(r, breakers, &stats);
	r->told = stats;
	relmq__buf sql = { 0 };
	relmq__buf_adds(&sql, "UPDATE outbox_relay SET report = ");
	relmq__sql_text(&sql, r->text.data, r->text.len);
	relmq__buf_addf(&sql, " WHERE owner = '%s'", relay->lease.owner);
	code = sql.failed || r->text.failed ? relmq__fail_nomem(err)
	                                    : relmq__db_exec(db, sql.data, sql.len, NULL, err);
	relmq__buf_free(&sql);
	return code;
}
