/* admin/status_relays.c - see status_relays.h. The report is publisher/report.c's; one of
 * another version may lack a member, and then nothing is said about it. */
#include "admin/status_relays.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/cell.h"

enum { COL_OWNER, COL_SHARDS, COL_REPORT };

relmq_code relmq__status_relays(relmq__db *db, MYSQL_RES **relays, relmq_error *err)
{
	static const char sql[] = "SELECT owner, (SELECT COUNT(*) FROM outbox_lease l"
	                          " WHERE l.owner = r.owner AND l.expires_at > NOW(6)), report"
	                          " FROM outbox_relay r WHERE r.expires_at > NOW(6) ORDER BY owner";
	return relmq__db_query(db, sql, sizeof(sql) - 1, relays, err);
}

static json_t *load(MYSQL_RES *relays, MYSQL_ROW row)
{
	const char *text = row[COL_REPORT];
	return text != NULL ? json_loadb(text, mysql_fetch_lengths(relays)[COL_REPORT], 0, NULL)
	                    : NULL;
}

static long long number(const json_t *object, const char *name)
{
	const json_t *value = json_object_get(object, name);
	return json_is_integer(value) ? (long long) json_integer_value(value) : -1;
}

static void print_text_member(const json_t *object, const char *name)
{
	const json_t *text = json_object_get(object, name);
	if (json_is_string(text))
		relmq__cell_print_whole(stdout, json_string_value(text), json_string_length(text));
}

static void print_breaker(const json_t *breaker)
{
	(void) printf("    left alone: exchange \"");
	print_text_member(breaker, "exchange");
	(void) printf("\" routing key \"");
	print_text_member(breaker, "routing_key");
	(void) printf("\", %lld rows held, next try in %.1f s: ", number(breaker, "held"),
	    (double) number(breaker, "next_probe_ms") / 1000);
	print_text_member(breaker, "reason");
	(void) printf("\n");
}

static void print_report(const json_t *report)
{
	const json_t *stats = json_object_get(report, "stats");
	const json_t *breakers = json_object_get(report, "breakers");
	if (number(stats, "blocked") == 1)
		(void) printf("    blocked: the broker has an alarm and accepts nothing\n");
	if (number(stats, "broker_up") == 0)
		(void) printf("    not connected to the broker\n");
	if (number(stats, "confirmed") >= 0)
		(void) printf("    %lld confirmed, %lld in flight, %lld in doubt, %lld abandoned\n",
		    number(stats, "confirmed"), number(stats, "in_flight"),
		    number(stats, "in_doubt"), number(stats, "abandoned"));
	for (size_t i = 0; i < json_array_size(breakers); i++)
		print_breaker(json_array_get(breakers, i));
}

void relmq__status_relays_print(MYSQL_RES *relays)
{
	for (MYSQL_ROW row; (row = mysql_fetch_row(relays)) != NULL;) {
		(void) printf("  %-24s %12s shards\n", row[COL_OWNER], row[COL_SHARDS]);
		json_t *report = load(relays, row);
		print_report(report);
		json_decref(report);
	}
}

void relmq__status_relays_json(MYSQL_RES *relays, relmq__buf *out)
{
	const char *between = "";
	relmq__buf_adds(out, "[");
	for (MYSQL_ROW row; (row = mysql_fetch_row(relays)) != NULL; between = ",") {
		const unsigned long *lengths = mysql_fetch_lengths(relays);
		relmq__buf_addf(out, "%s{\"owner\":", between);
		relmq__buf_add_json(out, row[COL_OWNER], lengths[COL_OWNER]);
		relmq__buf_addf(out, ",\"shards\":%s,\"report\":", row[COL_SHARDS]);
		json_t *report = load(relays, row);
		if (report != NULL)
			relmq__buf_add(out, row[COL_REPORT], lengths[COL_REPORT]);
		else
			relmq__buf_adds(out, "null");
		json_decref(report);
		relmq__buf_adds(out, "}");
	}
	relmq__buf_adds(out, "]");
}
