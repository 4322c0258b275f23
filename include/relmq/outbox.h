/* outbox.h - record messages inside the caller's own MySQL transaction.
 *
 * OWNERSHIP  Every pointer passed in is borrowed for the duration of the call.
 * THREADS    A relmq_outbox follows its MYSQL*: one thread at a time.
 * BLOCKING   Only relmq_outbox_add(): one round trip (two on first use), bounded
 *            by the connection's own MYSQL_OPT_READ_TIMEOUT / WRITE_TIMEOUT.
 * NEVER      starts, commits or rolls back a transaction; never reconnects.
 *
 * The order of calls:
 *
 *     relmq_outbox *ob = NULL;
 *     relmq_outbox_open(&ob, db, NULL, &err);
 *     mysql_query(db, "START TRANSACTION");
 *     ... the business change, through the same `db` ...
 *     relmq_msg m = RELMQ_MSG_INIT;
 *     m.routing_key = "order.placed"; m.body = json; m.body_len = n;
 *     relmq_outbox_add(ob, &m, NULL, &err);   // RELMQ_OK, or roll back
 *     mysql_commit(db);
 *     relmq_outbox_close(ob);
 */
#ifndef RELMQ_OUTBOX_H
#define RELMQ_OUTBOX_H

#include <mysql.h> /* not forward-declarable: MySQL and MariaDB tags differ */
#include <stddef.h>
#include <stdint.h>

#include <relmq/error.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct relmq_outbox relmq_outbox; /* opaque */

typedef struct relmq_header {
	const char *name;  /* 1..255 bytes of UTF-8 */
	const char *value; /* UTF-8                 */
} relmq_header;

/* Zero is the default for every member; start from RELMQ_MSG_INIT. Members are
 * only ever appended; struct_size tells the library which ones exist. */
typedef struct relmq_msg {
	size_t struct_size;
	const char *exchange;     /* NULL: AMQP default exchange            */
	const char *routing_key;  /* required, 1..255 bytes                 */
	const char *content_type; /* NULL: application/octet-stream         */
	const char *message_id;   /* NULL: library makes a UUIDv7           */
	const char *business_key; /* NULL: unordered; 0..255 bytes          */
	const void *body;
	size_t body_len;
	const relmq_header *headers;
	size_t header_count;
	int64_t delay_ms; /* 0: publish as soon as committed        */
	const char *type; /* NULL: none; 0..255 bytes               */
	/* AMQP properties: text of 0..255 bytes of UTF-8, NULL or "" is none */
	const char *correlation_id; /* none: the message id                 */
	const char *reply_to, *app_id;
	int64_t expiration_ms; /* 0: none; else a queue drops what waited so long  */
	int64_t priority;      /* 0..255                                           */
} relmq_msg;
#define RELMQ_MSG_INIT                                                            \
	{                                                                         \
		sizeof(relmq_msg), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 \
	}

#define RELMQ_ID_SIZE 256 /* longest message id, 255 bytes, and its NUL */

/**
 * Bind a writer to an open connection.
 *
 * @param[out] out   new writer; NULL on failure.
 * @param      db    borrowed; must outlive the writer. Do not enable
 *                   MYSQL_OPT_RECONNECT: a silent reconnect loses the
 *                   transaction.
 * @param      table outbox table, NULL for "message_outbox"; letters, digits,
 *                   '_' and one '.' between database and table.
 * @retval RELMQ_EINVAL, RELMQ_ENOMEM
 * @note No I/O. Release with relmq_outbox_close().
 */
RELMQ_API RELMQ_CHECK relmq_code relmq_outbox_open(
    relmq_outbox **out, MYSQL *db, const char *table, relmq_error *err);

/**
 * Insert one message into the caller's open transaction.
 *
 * The message exists if and only if the caller COMMITs. After any result but
 * RELMQ_OK nothing was recorded, so the caller must not commit the business
 * change it belongs to.
 *
 * @param[out] id  receives the message id; may be NULL. Written on success.
 * @retval RELMQ_OK     recorded.
 * @retval RELMQ_ENOTX  autocommit is on and no transaction is open; nothing sent.
 * @retval RELMQ_ETOOBIG, RELMQ_EINVAL, RELMQ_ENOMEM  refused before any I/O.
 * @retval RELMQ_EDB    see err->native. Always with RELMQ_F_TX_LOST: roll back
 *                      and redo the whole unit (deadlock 1213, lock wait 1205,
 *                      connection 2006, 2013 alike).
 * @note Resets mysql_affected_rows(), mysql_insert_id() and warnings on `db`:
 *       read your own first.
 */
RELMQ_API RELMQ_CHECK relmq_code relmq_outbox_add(
    relmq_outbox *ob, const relmq_msg *msg, char id[RELMQ_ID_SIZE], relmq_error *err);

/** Release the writer, never the connection. NULL is a no-op. */
RELMQ_API void relmq_outbox_close(relmq_outbox *ob);

#ifdef __cplusplus
}
#endif
#endif
