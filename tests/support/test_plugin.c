/* test_plugin.c - a plugin that does what a test tells it.
 *
 * TEST_PLUGIN_ABI builds it as if for another version of the program.
 *
 * Argument: the table to write to, "" for `effects`; "refuse" makes open() fail. Columns:
 * id and key (VARBINARY), body (LONGBLOB), attempt (INT).
 *
 * The header x-test-verdict says what to do, and without it the body, if it is one of these
 * words:
 *   retry, reject    that verdict, after the row was written: it must be rolled back
 *   none             0, which is no verdict; the row was written, too
 *   until:N          retry while the attempt is below N, then done
 *   sleep:MS         write the row, wait, done
 *   abort            write the row, die
 *   commit           write the row and commit, which no handler may
 *   error            a statement that fails, then retry with its text
 * Anything else: write the row, done. */
#include <relmq/plugin.h>

#include <mysql.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifndef TEST_PLUGIN_ABI
#define TEST_PLUGIN_ABI RELMQ_PLUGIN_ABI
#endif

enum { TABLE_MAX = 64 };

static int open_plugin(const char *argument, void **state, relmq_error *err)
{
	if (strcmp(argument, "refuse") == 0 || strlen(argument) > TABLE_MAX) {
		(void) snprintf(err->text, sizeof(err->text), "refused by its argument");
		return 1;
	}
	*state = strdup(argument[0] != '\0' ? argument : "effects");
	return *state != NULL ? 0 : 1;
}

static void close_plugin(void *state)
{
	free(state);
}

static void append_hex(char *sql, size_t *len, const void *bytes, size_t n)
{
	sql[(*len)++] = 'X';
	sql[(*len)++] = '\'';
	*len += mysql_hex_string(sql + *len, bytes, (unsigned long) n);
	sql[(*len)++] = '\'';
}

static int write_row(relmq_delivery *d, MYSQL *tx, const char *table)
{
	size_t body_len, id_len = strlen(relmq_delivery_id(d)),
	                 key_len = strlen(relmq_delivery_key(d));
	const void *body = relmq_delivery_body(d, &body_len);
	size_t size = 2 * (body_len + id_len + key_len) + TABLE_MAX + 128;
	char *sql = malloc(size);
	if (sql == NULL)
		return -1;
	size_t len = (size_t) snprintf(
	    sql, size, "INSERT INTO %s (id, `key`, body, attempt) VALUES (", table);
	append_hex(sql, &len, relmq_delivery_id(d), id_len);
	sql[len++] = ',';
	append_hex(sql, &len, relmq_delivery_key(d), key_len);
	sql[len++] = ',';
	append_hex(sql, &len, body, body_len);
	len += (size_t) snprintf(sql + len, size - len, ",%u)", relmq_delivery_attempt(d));
	int failed = mysql_real_query(tx, sql, (unsigned long) len);
	free(sql);
	return failed;
}

/* The header, or a body short enough to be an order. */
static void read_order(relmq_delivery *d, char *order, size_t size)
{
	size_t len;
	const char *header = relmq_delivery_header(d, "x-test-verdict");
	const char *body = relmq_delivery_body(d, &len);
	if (header != NULL)
		(void) snprintf(order, size, "%s", header);
	else
		(void) snprintf(order, size, "%.*s", len < size ? (int) len : 0, body);
}

static relmq_verdict fail(relmq_delivery *d, MYSQL *tx)
{
	relmq_delivery_reason(d, "(%u) %s", mysql_errno(tx), mysql_error(tx));
	return RELMQ_RETRY;
}

static relmq_verdict obey(const char *order, relmq_delivery *d, MYSQL *tx)
{
	relmq_verdict no_verdict = (relmq_verdict) 0;
	if (strcmp(order, "none") == 0)
		return no_verdict;
	if (strcmp(order, "abort") == 0)
		abort();
	if (strcmp(order, "commit") == 0)
		return mysql_query(tx, "COMMIT") != 0 ? fail(d, tx) : RELMQ_DONE;
	if (strcmp(order, "error") == 0)
		return mysql_query(tx, "SELECT no_such_column") != 0 ? fail(d, tx) : RELMQ_DONE;
	if (strncmp(order, "sleep:", 6) == 0) {
		long ms = strtol(order + 6, NULL, 10);
		struct timespec wait = { ms / 1000, ms % 1000 * 1000000 };
		(void) nanosleep(&wait, NULL);
		return RELMQ_DONE;
	}
	bool early = strncmp(order, "until:", 6) == 0 &&
	    relmq_delivery_attempt(d) < strtoul(order + 6, NULL, 10);
	if (early || strcmp(order, "retry") == 0 || strcmp(order, "reject") == 0) {
		relmq_delivery_reason(d, "told to %s", order);
		return strcmp(order, "reject") == 0 ? RELMQ_REJECT : RELMQ_RETRY;
	}
	return RELMQ_DONE;
}

static relmq_verdict on_message(relmq_delivery *d, MYSQL *tx, void *state)
{
	char order[32];
	read_order(d, order, sizeof(order));
	if (write_row(d, tx, state) != 0)
		return fail(d, tx);
	return obey(order, d, tx);
}

RELMQ_API const relmq_plugin *relmq_plugin_entry(void)
{
	static const relmq_plugin plugin = { TEST_PLUGIN_ABI, open_plugin, on_message,
		close_plugin };
	return &plugin;
}
