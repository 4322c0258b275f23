/* count_plugin.c - the smallest complete plugin: count messages per business key.
 *
 * Its table, in the database that relmq-consumer is configured with:
 *
 *     CREATE TABLE message_counts (
 *         business_key VARBINARY(255) PRIMARY KEY,
 *         messages     BIGINT UNSIGNED NOT NULL
 *     );
 *
 * Build it, without linking it to librelmq: the program that loads it has everything.
 *
 *     gcc -shared -fPIC -o count_plugin.so count_plugin.c \
 *         $(pkg-config --cflags relmq libmariadb) $(pkg-config --libs libmariadb)
 *
 * And name it in the configuration, in the handler of a queue:
 *
 *     "handler": { "kind": "plugin", "path": "/usr/local/lib/relmq/count_plugin.so" }
 */
#include <relmq/plugin.h>

#include <mysql.h>
#include <stdio.h>
#include <string.h>

enum { KEY_MAX = 255 };

/* Runs once for every message, in a transaction that is open already. What is written
 * through `tx` is committed together with the note that this message was handled: so it
 * counts once, however often the message comes. Never COMMIT or ROLLBACK here; the
 * verdict decides. */
static relmq_verdict on_message(relmq_delivery *d, MYSQL *tx, void *state)
{
	const char *key = relmq_delivery_key(d);
	size_t key_len = strlen(key);
	char hex[2 * KEY_MAX + 1];
	char sql[sizeof(hex) + 200];
	(void) state;

	/* No later attempt can help a message like this one: park it, and say why. */
	if (key_len > KEY_MAX) {
		relmq_delivery_reason(d, "a key of %zu bytes is too long to count", key_len);
		return RELMQ_REJECT;
	}

	/* Whatever bytes the key has: as hex digits they cannot leave the literal. */
	(void) mysql_hex_string(hex, key, (unsigned long) key_len);
	(void) snprintf(sql, sizeof(sql),
	    "INSERT INTO message_counts (business_key, messages) VALUES (X'%s', 1)"
	    " ON DUPLICATE KEY UPDATE messages = messages + 1",
	    hex);

	/* An error of the database may be over soon: try the message again later. */
	if (mysql_query(tx, sql) != 0) {
		relmq_delivery_reason(d, "count: (%u) %s", mysql_errno(tx), mysql_error(tx));
		return RELMQ_RETRY;
	}
	return RELMQ_DONE;
}

/* The one thing a plugin exports. No open() and close(): this one keeps no state. */
RELMQ_API const relmq_plugin *relmq_plugin_entry(void)
{
	static const relmq_plugin plugin = { RELMQ_PLUGIN_ABI, NULL, on_message, NULL };
	return &plugin;
}
