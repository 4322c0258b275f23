/* publisher.h - the relay that publishes the committed rows of message_outbox, in your own
 * process. relmq-publisher is a main() around this.
 *
 * The guarantee: a committed row is published at least once, always under the same message
 * id; a row that was rolled back never is. A row is cleared after the broker's confirm.
 *
 * OWNERSHIP  Texts passed in are borrowed for the call.
 * THREADS    relmq_publisher_run() takes the calling thread and starts one of its own.
 *            _stop() and _stats() may come from any thread while it runs.
 * BLOCKING   Only relmq_publisher_run(). Several relays may run at once, in one process
 *            or on several machines: they share the work and no row goes twice.
 *
 * The order of calls:
 *
 *     relmq_publisher *p = NULL;
 *     relmq_publisher_opts o = RELMQ_PUBLISHER_OPTS_INIT;
 *     o.amqp_uri = "amqp://app:secret@broker/";
 *     o.mysql_dsn = "mysql://app:secret@database/shop";
 *     o.config = "{\"publisher\":{\"window\":500}}";
 *     relmq_publisher_open(&p, &o, &err);
 *     relmq_publisher_run(p, &err);       // until relmq_publisher_stop(p)
 *     relmq_publisher_close(p);
 */
#ifndef RELMQ_PUBLISHER_H
#define RELMQ_PUBLISHER_H

#include <stddef.h>
#include <stdint.h>

#include <relmq/error.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct relmq_publisher relmq_publisher; /* opaque */

/* Zero is the default for every member; members are only ever appended. */
typedef struct relmq_publisher_opts {
	size_t struct_size;
	const char *config_file; /* the programs' configuration file; NULL: none             */
	const char *config;      /* what such a file would hold, as text; not both. Only the
	                          * sections mysql, rabbitmq and publisher have an effect    */
	const char *amqp_uri;    /* on top of it: amqp://user:pass@host:port/vhost           */
	const char *mysql_dsn;   /* on top of it: mysql://user:pass@host:port/database       */
	/* Both as in consumer.h, with TLS: amqps://, and ?tls=on&cacertfile=/ca.pem. Lists of
	 * servers stand in a configuration; a host that an address names takes their place. */
} relmq_publisher_opts;
#define RELMQ_PUBLISHER_OPTS_INIT                        \
	{                                                \
		sizeof(relmq_publisher_opts), 0, 0, 0, 0 \
	}

/**
 * Read the configuration. No connection is made.
 *
 * @param[out] out new relay; NULL on failure.
 * @retval RELMQ_EINVAL  bad options
 * @retval RELMQ_ECONFIG a key or an address is wrong; the text names it
 * @retval RELMQ_ENOMEM
 */
RELMQ_API RELMQ_CHECK relmq_code relmq_publisher_open(
    relmq_publisher **out, const relmq_publisher_opts *opts, relmq_error *err);

/**
 * Publish until relmq_publisher_stop(). Outages of database and broker are waited out with
 * jittered backoff and told to the log; they are no error. Once for each relmq_publisher_open().
 *
 * @retval RELMQ_OK        stopped, and every row that was out has been settled.
 * @retval RELMQ_ETIMEDOUT stopped, and some had not within publisher.shutdown_timeout: they
 *                         go again under the same ids.
 * @retval RELMQ_ESCHEMA   relmq's tables are missing or newer (RELMQ_F_FATAL).
 * @retval RELMQ_ENOMEM, RELMQ_EDB (at the very end)
 */
RELMQ_API RELMQ_CHECK relmq_code relmq_publisher_run(relmq_publisher *p, relmq_error *err);

/** Ask run() to settle what is out and return. Any thread; async-signal-safe; may come before
 *  run(). Returns at once. */
RELMQ_API void relmq_publisher_stop(relmq_publisher *p);

/* Upper bounds of the latency histogram, milliseconds; one more bucket holds what is above. */
/* clang-format off */
#define RELMQ_LATENCY_BOUNDS_MS(X) \
	X(1) X(2) X(3) X(5) X(7) X(10) X(15) X(20) X(30) X(50) X(70) X(100) X(150) \
	X(200) X(300) X(500) X(1000) X(2000) X(5000) X(10000) X(30000) X(60000)
/* clang-format on */
enum {
#define X(ms) +1
	RELMQ_LATENCY_BUCKETS = RELMQ_LATENCY_BOUNDS_MS(X) + 1
#undef X
};

/* What a relay has done since run() began, and how it stands now. Counters only rise. */
typedef struct relmq_publisher_stats {
	size_t struct_size;
	/* counters, in rows */
	uint64_t read;             /* found and taken from the table                       */
	uint64_t published;        /* sent to the broker, resends too                      */
	uint64_t confirmed;        /* the broker has taken responsibility                  */
	uint64_t refused_nack;     /* a queue refused it                                   */
	uint64_t refused_returned; /* no queue took it: unroutable                         */
	uint64_t refused_channel;  /* the broker closed the channel over it                */
	uint64_t refused_local;    /* AMQP, or publisher.max_message_bytes, has no room    */
	uint64_t abandoned;        /* of the refused: for good, a person must look         */
	uint64_t in_doubt;         /* no outcome (connection lost, confirm overdue, lease
	                            * ended): went or will go again                        */
	uint64_t held;             /* not sent, or not charged for its refusal, because its
	                            * destination's circuit breaker was open               */
	uint64_t gone;             /* changed or taken by somebody else before they were
	                            * settled                                              */
	/* how it stands */
	uint64_t in_flight;          /* sent and not yet confirmed                          */
	uint64_t out;                /* rows taken and not yet settled                      */
	uint64_t breakers_open;      /* destinations whose circuit breaker is not closed    */
	uint32_t shards;             /* of 16, owned by this relay                          */
	uint32_t relays;             /* alive, this one too                                 */
	uint32_t database_up;        /* 0 or 1                                              */
	uint32_t broker_up;          /* 0 or 1                                              */
	uint32_t blocked;            /* 1: the broker has an alarm and accepts nothing      */
	uint32_t reserved;           /* 0 */
	int64_t oldest_ready_age_us; /* of the whole table, as of the last renewal of the
	                              * lease; -1: no row is ready, or not known yet        */
	/* From the row's INSERT (its created_at; the commit is later) to its confirm, of rows sent at
	 * the first attempt and not scheduled. By the database's clock. */
	uint64_t latency_count, latency_sum_us;
	uint64_t latency[RELMQ_LATENCY_BUCKETS]; /* rows in each bucket, not cumulated */
} relmq_publisher_stats;
#define RELMQ_PUBLISHER_STATS_INIT                                                                \
	{                                                                                         \
		sizeof(relmq_publisher_stats), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
		    0, 0, 0, 0, 0, 0,                                                             \
		{                                                                                 \
			0                                                                         \
		}                                                                                 \
	}

/** Fill `stats`, whose struct_size the caller has set. Never blocks. The members are each read at
 *  once, not all at one moment. */
RELMQ_API void relmq_publisher_stats_get(const relmq_publisher *p, relmq_publisher_stats *stats);

/** Release. Call after run() returned. NULL is a no-op. */
RELMQ_API void relmq_publisher_close(relmq_publisher *p);

#ifdef __cplusplus
}
#endif
#endif
