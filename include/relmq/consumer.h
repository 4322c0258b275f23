/* consumer.h - run handlers against queues, once per message id.
 *
 * Order of effects for one delivery, and the whole guarantee:
 *   BEGIN, claim id in message_inbox, handler, COMMIT, basic.ack.
 * A crash before COMMIT redelivers and reruns; after it, redelivers and skips.
 * Deliveries run in micro-batches, one transaction a batch; when anything in a
 * batch fails it is rolled back and run again message by message.
 *
 * The order of calls: relmq_consumer_open, relmq_consumer_handle (once a queue),
 * relmq_consumer_run, relmq_consumer_close.
 */
#ifndef RELMQ_CONSUMER_H
#define RELMQ_CONSUMER_H

#include <mysql.h>
#include <stddef.h>
#include <stdint.h>

#include <relmq/error.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct relmq_consumer relmq_consumer; /* opaque */
typedef struct relmq_delivery relmq_delivery; /* opaque, callback-scoped */

/* 0 is deliberately not a verdict: a handler that forgets to choose is
 * treated as RELMQ_RETRY and logged. */
typedef enum relmq_verdict {
	RELMQ_DONE = 1,  /* commit, then ack                                 */
	RELMQ_RETRY = 2, /* roll back; send to the next tier of the ladder;
	                  * park once max_attempts is reached                */
	RELMQ_REJECT = 3 /* roll back; park now                              */
} relmq_verdict;

/**
 * @param d   borrowed; invalid once the handler returns. Copy what you keep.
 * @param tx  open transaction, owned by the library. Write through it; MUST NOT
 *            commit, roll back, close it, or run DDL (implicit commit).
 * @param arg as registered.
 *
 * Runs on a worker thread. Up to `workers` handlers run at once, so `arg` needs
 * its own locking. MUST NOT call relmq_consumer_close(). Heartbeats are kept
 * alive by the I/O thread meanwhile. A handler may run more than once for one
 * message (its transaction was rolled back in between): only what is written
 * through `tx` takes effect once.
 */
typedef relmq_verdict (*relmq_handler_fn)(relmq_delivery *d, MYSQL *tx, void *arg);

typedef struct relmq_consumer_opts {
	size_t struct_size;
	const char *amqp_uri;        /* required; copied: amqp://user:pass@host:port/vhost,
	                              * amqps://user:pass@host:port/vhost?cacertfile=/ca.pem */
	const char *mysql_dsn;       /* required; copied: mysql://user:pass@host:port/db,
	                              * with TLS: mysql://...db?tls=on&cacertfile=/ca.pem   */
	unsigned workers;            /* 0: 2                                                */
	uint16_t prefetch;           /* 0: 2 * workers * batch_max, at most 2000            */
	unsigned batch_max;          /* 0: 100; 1 for handlers that act outside tx          */
	unsigned max_attempts;       /* 0: 5                                                */
	const char *retry_tiers;     /* NULL: "5s,30s,5m"; copied. The queues of relmq-dlx  */
	int64_t shutdown_timeout_ms; /* 0: 30000                                         */
} relmq_consumer_opts;
#define RELMQ_CONSUMER_OPTS_INIT                                    \
	{                                                           \
		sizeof(relmq_consumer_opts), 0, 0, 0, 0, 0, 0, 0, 0 \
	}

/**
 * Addresses: what has a meaning in one (/ ? # @ [ ] % and space) is percent-encoded in a part;
 * no vhost and "/" both mean the vhost "/", "/a%2Fb" is "a/b"; IPv6 stands in brackets. TLS
 * verifies chain and host name, against cacertfile or else the system's authorities; certfile
 * and keyfile are the program's own; verify=verify_none turns the verification off.
 *
 * @retval RELMQ_EINVAL, RELMQ_ENOMEM, RELMQ_ECONFIG. No I/O but to look at TLS files.
 */
RELMQ_API RELMQ_CHECK relmq_code relmq_consumer_open(
    relmq_consumer **out, const relmq_consumer_opts *opts, relmq_error *err);

/**
 * Register before relmq_consumer_run(). One handler per queue; the queue's name
 * is also the consumer's name in message_inbox.
 */
RELMQ_API RELMQ_CHECK relmq_code relmq_consumer_handle(
    relmq_consumer *c, const char *queue, relmq_handler_fn fn, void *arg, relmq_error *err);

/**
 * Consume until relmq_consumer_stop(). Blocks. Reconnects by itself with jittered
 * backoff; returns an error only when RELMQ_F_FATAL is set, or RELMQ_ETIMEDOUT
 * when handlers outlived shutdown_timeout_ms: then the process should end, and
 * what was not acked comes back to the next consumer.
 */
RELMQ_API RELMQ_CHECK relmq_code relmq_consumer_run(relmq_consumer *c, relmq_error *err);

/** Ask run() to drain and return. Any thread; async-signal-safe. */
RELMQ_API void relmq_consumer_stop(relmq_consumer *c);

/** Release. Call after run() returned. NULL is a no-op. */
RELMQ_API void relmq_consumer_close(relmq_consumer *c);

/* Views into a delivery: same lifetime as `d`. Strings are NUL-terminated and
 * never NULL ("" when the message has none), except relmq_delivery_header(). */
RELMQ_API const char *relmq_delivery_id(const relmq_delivery *d);
RELMQ_API const char *relmq_delivery_key(const relmq_delivery *d);
RELMQ_API const char *relmq_delivery_type(const relmq_delivery *d);
RELMQ_API const char *relmq_delivery_queue(const relmq_delivery *d);
RELMQ_API const void *relmq_delivery_body(const relmq_delivery *d, size_t *len);
/** Value of a header as text (numbers and booleans are written out); NULL: no such header. */
RELMQ_API const char *relmq_delivery_header(const relmq_delivery *d, const char *name);
RELMQ_API unsigned relmq_delivery_attempt(const relmq_delivery *d); /* from 1 */

/** Say why; stored with the message when it is retried or parked. Cut to 1 KiB. */
RELMQ_API void relmq_delivery_reason(relmq_delivery *d, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#ifdef __cplusplus
}
#endif
#endif
