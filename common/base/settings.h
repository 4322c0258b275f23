/* base/settings.h - the whole configuration as plain data. One file serves all four
 * programs, so every program knows every section. Knows no MySQL and no AMQP. */
#ifndef RELMQ_BASE_SETTINGS_H
#define RELMQ_BASE_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <relmq/error.h>
#include <relmq/log.h>

#include "base/duration.h"

enum { RELMQ__SHARDS = 16 }; /* contract v1: shard = key_hash mod 16 */

typedef struct relmq__tls_settings {
	bool enabled;
	bool verify;   /* chain and host name */
	char *ca_file; /* "": the system's authorities */
	char *cert_file, *key_file;
} relmq__tls_settings;

typedef struct relmq__mysql_settings {
	char *host, *socket, *user, *database;
	char **hosts; /* instead of host, in order of preference: see base/hosts.h */
	size_t host_count;
	char *password_file; /* or the environment: RELMQ_MYSQL_PASSWORD */
	char *password;      /* read from one of the two; never printed  */
	int64_t port;
	int64_t connect_timeout_ms, read_timeout_ms, write_timeout_ms;
	relmq__tls_settings tls;
} relmq__mysql_settings;

typedef struct relmq__rabbitmq_settings {
	char *host, *vhost, *user;
	char **hosts; /* instead of host: see base/hosts.h */
	size_t host_count;
	char *password_file;        /* or the environment: RELMQ_RABBITMQ_PASSWORD */
	char *password;             /* read from one of the two; never printed     */
	int64_t port;               /* never 0 after loading                        */
	int64_t connect_timeout_ms; /* TCP connect and TLS handshake, and login     */
	int64_t send_timeout_ms;    /* one call that makes no progress              */
	int64_t heartbeat_ms;       /* whole seconds; a dead peer is noticed in two */
	int64_t frame_max;
	relmq__tls_settings tls;
} relmq__rabbitmq_settings;

typedef enum relmq__ordering { RELMQ__ORDER_KEY = 0, RELMQ__ORDER_NONE } relmq__ordering;

typedef struct relmq__publisher_settings {
	int64_t window;       /* messages in flight        */
	int64_t window_bytes; /* bodies in flight, bytes   */
	int ordering;         /* relmq__ordering           */
	int64_t lease_ms, poll_max_ms, confirm_timeout_ms, shutdown_timeout_ms;
	int64_t *retry_delays_ms;
	size_t retry_delay_count;
	int64_t max_attempts;
	int64_t max_message_bytes;
	bool keep_sent;
	int64_t sent_retention_ms; /* 0: for ever */
	int64_t rate_limit;        /* messages/s; 0: none                                */
	int64_t breaker_after;     /* refusals in a row of one destination; 0: no breaker */
	int64_t breaker_pause_ms, breaker_pause_max_ms;
	int64_t stats_interval_ms; /* 0: no line */
} relmq__publisher_settings;

typedef enum relmq__handler_kind {
	RELMQ__HANDLER_SQL = 0,
	RELMQ__HANDLER_PLUGIN
} relmq__handler_kind;

typedef struct relmq__handler_settings {
	int kind;          /* relmq__handler_kind */
	char **statements; /* sql                 */
	size_t statement_count;
	char *path;     /* plugin: shared object     */
	char *argument; /* plugin: handed to open()  */
} relmq__handler_settings;

typedef struct relmq__consumer_queue {
	char *queue;
	char *name; /* in message_inbox; never "" after loading */
	int64_t max_attempts;
	int on_retry; /* one choice so far: 0 = "pass" */
	relmq__handler_settings handler;
} relmq__consumer_queue;

typedef struct relmq__consumer_settings {
	int64_t workers, batch_max;
	int64_t prefetch;      /* 0: 2 * workers * batch_max, at most 2000       */
	int64_t batch_time_ms; /* a batch is cut when its handlers took this long */
	int64_t shutdown_timeout_ms;
	relmq__consumer_queue *queues;
	size_t queue_count;
} relmq__consumer_settings;

typedef struct relmq__dlx_queue {
	char *queue;
	char **tiers; /* as written: "5s", "30s", "5m"; part of the queue's name */
	size_t tier_count;
} relmq__dlx_queue;

typedef struct relmq__dlx_settings {
	relmq__dlx_queue *queues;
	size_t queue_count;
} relmq__dlx_settings;

typedef struct relmq__log_settings {
	int level; /* relmq_log_level */
} relmq__log_settings;

typedef struct relmq__settings {
	relmq__mysql_settings mysql;
	relmq__rabbitmq_settings rabbitmq;
	relmq__publisher_settings publisher;
	relmq__consumer_settings consumer;
	relmq__dlx_settings dlx;
	relmq__log_settings log;
} relmq__settings;

/** All defaults, nothing read: no file, no secret. RELMQ_ENOMEM. */
RELMQ_CHECK relmq_code relmq__settings_default(relmq__settings *s, relmq_error *err);

/**
 * Defaults, then the file `path` (NULL: none), then secrets, then what a queue needs of
 * another section. RELMQ_ECONFIG names file, path of the key, and what is allowed; after a
 * failure `s` is zero and nothing needs to be freed.
 *
 * A password is the first line of `password_file`, without its line end; without such a file
 * it comes from the environment; else it is "". A relative path in the file starts at the
 * file's own folder and is absolute here. A consumer queue without a name has its queue's.
 * With `dlx.queues` empty, each consumer queue gets an entry with the default tiers.
 */
RELMQ_CHECK relmq_code relmq__settings_load(relmq__settings *s, const char *path, relmq_error *err);

/** The same from the text that a file would have; a relative path in it starts where the
 *  process stands. */
RELMQ_CHECK relmq_code relmq__settings_parse(
    relmq__settings *s, const char *text, relmq_error *err);

/** What is in force as JSON, which can be read in again: a password shows as "(hidden)" or
 *  "(none)", and the reader ignores both. False when it could not be written. */
bool relmq__settings_show(const relmq__settings *s, FILE *out);
/** Every key with default, meaning and range, for a person. False when it could not be written. */
bool relmq__settings_reference(FILE *out);
/** Passwords are wiped. A zero struct is allowed. */
void relmq__settings_free(relmq__settings *s);

/** The port that goes without saying. */
int64_t relmq__settings_amqp_port(bool tls);

/** The entry of a work queue in `dlx.queues`, or NULL. */
const relmq__dlx_queue *relmq__settings_dlx(const relmq__settings *s, const char *queue);

#endif
