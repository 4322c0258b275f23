/* admin/outbox_show.c - `relmq outbox show`: everything of one row. Of the payload a bounded
 * part; `--payload` writes all of it, as it is, and nothing else. */
#include <stdlib.h>
#include <string.h>

#include "admin/outbox.h"
#include "base/cell.h"
#include "base/program.h"
#include "base/utf8.h"

enum { PREVIEW_BYTES = 1024, SHOW_ROWS = 100 };
#define PREVIEW        "1024"
#define MOMENT(column) "DATE_FORMAT(o." column ", '%Y-%m-%dT%H:%i:%s.%fZ')"

/* How a value is shown. */
typedef enum kind { NUMBER, BYTES, STATE, MOMENT_, JSON } kind;

static const struct {
	const char *name, *sql;
	kind kind;
} fields[] = {
	{ "id", "o.id", NUMBER },
	{ "msg_id", "o.msg_id", BYTES },
	{ "state", "o.status", STATE },
	{ "attempts", "o.retry_count", NUMBER },
	{ "next_attempt_at", MOMENT("next_retry_at"), MOMENT_ },
	{ "last_error", "o.last_error", BYTES },
	{ "key", "o.business_key", BYTES },
	{ "key_hash", "o.key_hash", NUMBER },
	{ "shard", "o.shard", NUMBER },
	{ "exchange", "o.exchange", BYTES },
	{ "routing_key", "o.routing_key", BYTES },
	{ "type", "o.type", BYTES },
	{ "content_type", "o.content_type", BYTES },
	{ "headers", "o.headers", JSON },
	{ "properties", "o.properties", JSON },
	{ "created_at", MOMENT("created_at"), MOMENT_ },
	{ "updated_at", MOMENT("updated_at"), MOMENT_ },
	{ "payload_bytes", "OCTET_LENGTH(o.payload)", NUMBER },
	{ NULL, "LEFT(o.payload, " PREVIEW ")", BYTES },
};
enum { PAYLOAD = sizeof(fields) / sizeof(fields[0]) - 1, PAYLOAD_BYTES = PAYLOAD - 1 };

static const char *state_name(const char *number)
{
	return relmq__outbox_states[strtoul(number, NULL, 10) % RELMQ__OUTBOX_STATES];
}

/* The preview is cut by bytes: the character at the cut may have lost its end. */
static size_t preview_len(const char *bytes, size_t len, bool cut)
{
	size_t n = len;
	while (cut && n > 0 && len - n < 3 && !relmq__utf8_ok(bytes, n))
		n--;
	return relmq__utf8_ok(bytes, n) ? n : len;
}

static void print_text(MYSQL_ROW row, const unsigned long *lengths)
{
	for (int i = 0; i < PAYLOAD_BYTES; i++) {
		const char *text = row[i] != NULL ? row[i] : "-";
		size_t len = row[i] != NULL ? lengths[i] : 1;
		if (fields[i].kind == STATE) {
			text = state_name(text);
			len = strlen(text);
		}
		(void) printf("%-16s", fields[i].name);
		relmq__cell_print_whole(stdout, text, len);
		(void) printf("\n");
	}
	bool cut = strtoull(row[PAYLOAD_BYTES], NULL, 10) > PREVIEW_BYTES;
	size_t n = preview_len(row[PAYLOAD], lengths[PAYLOAD], cut);
	(void) printf("%-16s%s bytes%s%s\n", "payload", row[PAYLOAD_BYTES],
	    relmq__cell_is_text(row[PAYLOAD], n) ? "" : ", in hex",
	    cut ? ", its beginning (--payload writes all of it):" : "");
	relmq__cell_print_body(stdout, row[PAYLOAD], n);
}

/* MariaDB keeps a JSON text as it was written, line ends included: those would break the
 * line, and stand only between tokens. */
static void add_json(relmq__buf *b, const char *text, size_t n)
{
	size_t at = b->len;
	relmq__buf_add(b, text, n);
	for (; at < b->len && !b->failed; at++)
		if ((unsigned char) b->data[at] < 0x20)
			b->data[at] = ' ';
}

static void add_field(relmq__buf *b, int i, const char *value, size_t len)
{
	relmq__buf_addf(b, "%s\"%s\":", i > 0 ? "," : "{", fields[i].name);
	if (value == NULL)
		relmq__buf_adds(b, "null");
	else if (fields[i].kind == NUMBER)
		relmq__buf_add(b, value, len);
	else if (fields[i].kind == JSON)
		add_json(b, value, len);
	else if (fields[i].kind == STATE)
		relmq__buf_addf(b, "\"%s\"", state_name(value));
	else
		relmq__outbox_add_bytes(b, value, len);
}

static bool print_json(MYSQL_ROW row, const unsigned long *lengths)
{
	relmq__buf b = { 0 };
	for (int i = 0; i < PAYLOAD; i++)
		add_field(&b, i, row[i], row[i] != NULL ? lengths[i] : 0);
	bool cut = strtoull(row[PAYLOAD_BYTES], NULL, 10) > PREVIEW_BYTES;
	size_t n = preview_len(row[PAYLOAD], lengths[PAYLOAD], cut);
	bool text = relmq__utf8_ok(row[PAYLOAD], n);
	relmq__buf_adds(&b, ",\"payload_text\":");
	if (text)
		relmq__buf_add_json(&b, row[PAYLOAD], n);
	else
		relmq__buf_adds(&b, "null,\"payload_hex\":\"");
	if (!text)
		relmq__buf_add_hex(&b, row[PAYLOAD], n);
	relmq__buf_addf(&b, "%s,\"payload_cut\":%s}\n", text ? "" : "\"", cut ? "true" : "false");
	bool ok = !b.failed;
	if (ok)
		(void) fwrite(b.data, 1, b.len, stdout);
	relmq__buf_free(&b);
	return ok;
}

static void add_columns(relmq__buf *sql)
{
	for (int i = 0; i <= PAYLOAD; i++)
		relmq__buf_addf(sql, "%s%s", i > 0 ? ", " : "", fields[i].sql);
}

static int print_rows(MYSQL_RES *res, bool json)
{
	bool ok = true;
	int count = 0;
	for (MYSQL_ROW row; ok && (row = mysql_fetch_row(res)) != NULL; count++) {
		if (json) {
			ok = print_json(row, mysql_fetch_lengths(res));
			continue;
		}
		if (count > 0)
			(void) printf("\n");
		print_text(row, mysql_fetch_lengths(res));
	}
	return ok ? RELMQ__EXIT_OK : relmq__program_fail("outbox show: out of memory");
}

static int print_payload(MYSQL_RES *res)
{
	if (mysql_num_rows(res) > 1)
		return relmq__program_fail("several rows have this msg_id: name one by its row id");
	MYSQL_ROW row = mysql_fetch_row(res);
	(void) fwrite(row[0], 1, mysql_fetch_lengths(res)[0], stdout);
	return RELMQ__EXIT_OK;
}

int relmq__outbox_show(relmq__db *db, const relmq__outbox_request *r)
{
	char name[300];
	relmq_error err = RELMQ_ERROR_INIT;
	relmq__buf columns = { 0 };
	MYSQL_RES *res = NULL;
	int status;
	if (r->payload)
		relmq__buf_adds(&columns, "o.payload");
	else
		add_columns(&columns);
	relmq__outbox_name(&r->refs[0], name, sizeof(name));
	if (columns.failed)
		status = relmq__program_fail("outbox show: out of memory");
	else if (relmq__outbox_named(db, &r->refs[0], columns.data, r->payload ? 2 : SHOW_ROWS,
	             &res, &err) != RELMQ_OK)
		status = relmq__program_fail("outbox show: %s", err.text);
	else if (mysql_num_rows(res) == 0)
		status = relmq__program_fail("no %s: it was sent and deleted, or never was", name);
	else
		status = r->payload ? print_payload(res) : print_rows(res, r->json);
	mysql_free_result(res);
	relmq__buf_free(&columns);
	return status;
}
