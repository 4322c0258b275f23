/* base/settings_keys.c - every key of the configuration file: default, range, and what it
 * means. What keys have to do with each other is in settings.c. */
#include "base/settings_keys.h"

#include "base/settings.h"

/* clang-format off */
#define AT(S, m, T)    .offset = RELMQ__CONFIG_AT(relmq__##S, m, T)
#define TEXT(S, m)     .type = RELMQ__CONFIG_STRING, AT(S, m, char *)
#define FILE_AT(S, m)  .type = RELMQ__CONFIG_PATH, AT(S, m, char *), .max = 4095
#define SECRET(S, m)   .type = RELMQ__CONFIG_SECRET, AT(S, m, char *)
#define INT(S, m)      .type = RELMQ__CONFIG_INT, AT(S, m, int64_t)
#define BOOL(S, m)     .type = RELMQ__CONFIG_BOOL, AT(S, m, bool)
#define DURATION(S, m) .type = RELMQ__CONFIG_DURATION, AT(S, m, int64_t)
#define CHOICE(S, m)   .type = RELMQ__CONFIG_CHOICE, AT(S, m, int)
#define LIST(S, m, T, count)                                      \
	.type = RELMQ__CONFIG_LIST, AT(S, m, T),                      \
	.size = sizeof(*((relmq__##S *) 0)->m),                       \
	.count_offset = RELMQ__CONFIG_AT(relmq__##S, count, size_t)
#define SECTION(S, m, T) .type = RELMQ__CONFIG_OBJECT, AT(S, m, T)
/* clang-format on */

#define SECOND INT64_C(1000)
#define MINUTE (60 * SECOND)
#define DAY    (24 * 60 * MINUTE)
#define KIB    INT64_C(1024)
#define MIB    (1024 * KIB)

static const relmq__config_key host_item = { .type = RELMQ__CONFIG_STRING, .min = 1, .max = 263 };

static const relmq__config_key tls_keys[] = {
	{ "enabled", BOOL(tls_settings, enabled), .fallback = "false",
	    .help = "TLS 1.2 or later, or no connection at all" },
	{ "verify", BOOL(tls_settings, verify), .fallback = "true",
	    .help = "Refuse a server whose certificate is not good for its host name" },
	{ "ca_file", FILE_AT(tls_settings, ca_file), .fallback = "",
	    .help = "Authorities that are trusted, PEM; empty: the system's" },
	{ "cert_file", FILE_AT(tls_settings, cert_file), .fallback = "",
	    .help = "Own certificate with its chain, PEM, if the server asks for one" },
	{ "key_file", FILE_AT(tls_settings, key_file), .fallback = "",
	    .help = "Its key, PEM, without passphrase" },
	{ .key = NULL },
};

static const relmq__config_key mysql_keys[] = {
	{ "host", TEXT(mysql_settings, host), .fallback = "127.0.0.1", .min = 1, .max = 255,
	    .instead = "hosts", .help = "Server: a name or an address, IPv6 without brackets" },
	{ "port", INT(mysql_settings, port), .fallback = "3306", .min = 1, .max = 65535,
	    .help = "TCP port, also of the hosts that name none" },
	{ "hosts", LIST(mysql_settings, hosts, char **, host_count), .max = 32, .sub = &host_item,
	    .help = "Instead of host: servers in order of preference, NAME, NAME:PORT or "
	            "[IPV6]:PORT; one that is down or read-only is left for the next" },
	{ "socket", TEXT(mysql_settings, socket), .fallback = "", .max = 107, .instead = "hosts",
	    .help = "Unix socket, used instead of host and port unless empty" },
	{ "user", TEXT(mysql_settings, user), .fallback = "relmq", .min = 1, .max = 255,
	    .help = "Account" },
	{ "password_file", FILE_AT(mysql_settings, password_file), .fallback = "",
	    .help = "File whose first line is the password; else RELMQ_MYSQL_PASSWORD" },
	{ "password", SECRET(mysql_settings, password) },
	{ "database", TEXT(mysql_settings, database), .fallback = "relmq", .min = 1, .max = 255,
	    .help = "Database that holds the relmq tables" },
	{ "connect_timeout", DURATION(mysql_settings, connect_timeout_ms), .fallback = "5s",
	    .min = SECOND, .max = 10 * MINUTE, .help = "Longest wait for a connection" },
	{ "read_timeout", DURATION(mysql_settings, read_timeout_ms), .fallback = "30s",
	    .min = SECOND, .max = 60 * MINUTE, .help = "Longest wait for an answer" },
	{ "write_timeout", DURATION(mysql_settings, write_timeout_ms), .fallback = "30s",
	    .min = SECOND, .max = 60 * MINUTE, .help = "Longest wait to send a statement" },
	{ "tls", SECTION(mysql_settings, tls, relmq__tls_settings), .sub = tls_keys },
	{ .key = NULL },
};

static const relmq__config_key rabbitmq_keys[] = {
	{ "host", TEXT(rabbitmq_settings, host), .fallback = "127.0.0.1", .min = 1, .max = 255,
	    .instead = "hosts", .help = "Broker: a name or an address, IPv6 without brackets" },
	{ "port", INT(rabbitmq_settings, port), .fallback = "0", .min = 0, .max = 65535,
	    .help = "TCP port, also of the hosts that name none; 0: 5672, with TLS 5671" },
	{ "hosts", LIST(rabbitmq_settings, hosts, char **, host_count), .max = 32,
	    .sub = &host_item,
	    .help =
	        "Instead of host: brokers, NAME, NAME:PORT or [IPV6]:PORT; begins anywhere, and "
	        "one that is lost is left for the next" },
	{ "vhost", TEXT(rabbitmq_settings, vhost), .fallback = "/", .min = 1, .max = 255,
	    .help = "Virtual host, as it is called: no percent-encoding here" },
	{ "user", TEXT(rabbitmq_settings, user), .fallback = "relmq", .min = 1, .max = 255,
	    .help = "Account" },
	{ "password_file", FILE_AT(rabbitmq_settings, password_file), .fallback = "",
	    .help = "File whose first line is the password; else RELMQ_RABBITMQ_PASSWORD" },
	{ "password", SECRET(rabbitmq_settings, password) },
	{ "connect_timeout", DURATION(rabbitmq_settings, connect_timeout_ms), .fallback = "5s",
	    .min = 100, .max = 10 * MINUTE, .help = "Longest wait for connect and login" },
	{ "send_timeout", DURATION(rabbitmq_settings, send_timeout_ms), .fallback = "15s",
	    .min = SECOND, .max = 10 * MINUTE,
	    .help = "A send without progress for so long ends the connection" },
	{ "heartbeat", DURATION(rabbitmq_settings, heartbeat_ms), .fallback = "10s", .min = SECOND,
	    .max = 10 * MINUTE, .flags = RELMQ__CONFIG_WHOLE_SECONDS,
	    .help = "A dead broker is noticed within two of these" },
	{ "frame_max", INT(rabbitmq_settings, frame_max), .fallback = "131072", .min = 8 * KIB,
	    .max = MIB, .help = "Largest AMQP frame, bytes" },
	{ "tls", SECTION(rabbitmq_settings, tls, relmq__tls_settings), .sub = tls_keys },
	{ .key = NULL },
};

static const char *const orderings[] = { "key", "none", NULL };

static const relmq__config_key delay_item = {
	.type = RELMQ__CONFIG_DURATION, .min = 1, .max = 30 * DAY
};

static const relmq__config_key publisher_keys[] = {
	{ "window", INT(publisher_settings, window), .fallback = "1000", .min = 1, .max = 65535,
	    .help = "Messages sent and not yet confirmed" },
	{ "window_bytes", INT(publisher_settings, window_bytes), .fallback = "8388608", .min = KIB,
	    .max = 1024 * MIB, .help = "The same in bytes; one message always fits" },
	{ "ordering", CHOICE(publisher_settings, ordering), .fallback = "key", .choices = orderings,
	    .help = "What keeps its order: messages of one key, or nothing" },
	{ "lease", DURATION(publisher_settings, lease_ms), .fallback = "10s", .min = SECOND,
	    .max = 10 * MINUTE, .help = "How long a dead relay keeps its rows from another" },
	{ "poll_max", DURATION(publisher_settings, poll_max_ms), .fallback = "20ms", .min = 1,
	    .max = 5 * SECOND, .help = "Longest pause between looks for work" },
	{ "confirm_timeout", DURATION(publisher_settings, confirm_timeout_ms), .fallback = "30s",
	    .min = SECOND, .max = 60 * MINUTE,
	    .help = "A confirm that takes longer ends the connection; its row goes again" },
	{ "shutdown_timeout", DURATION(publisher_settings, shutdown_timeout_ms), .fallback = "30s",
	    .min = 0, .max = 60 * MINUTE,
	    .help = "Longest wait for confirms in flight when stopping" },
	{ "retry_delays", LIST(publisher_settings, retry_delays_ms, int64_t *, retry_delay_count),
	    .fallback = "30s 1m 5m 30m 2h", .min = 1, .max = 32, .sub = &delay_item,
	    .help = "Waits after a refusal, the last one repeated" },
	{ "max_attempts", INT(publisher_settings, max_attempts), .fallback = "10", .min = 1,
	    .max = 1000, .help = "Refusals after which a row is abandoned" },
	{ "max_message_bytes", INT(publisher_settings, max_message_bytes), .fallback = "16777216",
	    .min = KIB, .max = 512 * MIB, .help = "A larger payload is abandoned at once" },
	{ "keep_sent", BOOL(publisher_settings, keep_sent), .fallback = "false",
	    .help = "Keep confirmed rows as SENT instead of deleting them" },
	{ "sent_retention", DURATION(publisher_settings, sent_retention_ms), .fallback = "7d",
	    .min = 0, .max = 3650 * DAY,
	    .help = "How long, before they are deleted after all; 0s: for ever" },
	{ "rate_limit", INT(publisher_settings, rate_limit), .fallback = "0", .min = 0,
	    .max = 1000000,
	    .help = "Messages a second that this relay sends at most; 0: no limit" },
	{ "breaker_after", INT(publisher_settings, breaker_after), .fallback = "10", .min = 0,
	    .max = 100000,
	    .help =
	        "Refusals in a row after which a destination (exchange and routing key) is left "
	        "alone for a while, and its rows are charged nothing; 0: never" },
	{ "breaker_pause", DURATION(publisher_settings, breaker_pause_ms), .fallback = "5s",
	    .min = 1, .max = DAY,
	    .help = "How long, until one row tries; doubles while it is refused" },
	{ "breaker_pause_max", DURATION(publisher_settings, breaker_pause_max_ms), .fallback = "5m",
	    .min = 1, .max = DAY, .help = "Longest such pause" },
	{ "stats_interval", DURATION(publisher_settings, stats_interval_ms), .fallback = "1m",
	    .min = 0, .max = DAY, .help = "A log line with the numbers this often; 0s: none" },
	{ .key = NULL },
};

static const char *const handler_kinds[] = { "sql", "plugin", NULL };

static const relmq__config_key statement_item = {
	.type = RELMQ__CONFIG_STRING, .min = 1, .max = 64 * KIB
};

static const relmq__config_key handler_keys[] = {
	{ "kind", CHOICE(handler_settings, kind), .flags = RELMQ__CONFIG_REQUIRED,
	    .choices = handler_kinds, .help = "Who gives a message its effect" },
	{ "statements", LIST(handler_settings, statements, char **, statement_count), .max = 64,
	    .sub = &statement_item, .help = "sql: run in this order, in the inbox's transaction" },
	{ "path", FILE_AT(handler_settings, path), .fallback = "",
	    .help = "plugin: shared object" },
	{ "argument", TEXT(handler_settings, argument), .fallback = "", .max = 4 * KIB,
	    .help = "plugin: handed to it when it is opened" },
	{ .key = NULL },
};

static const char *const retries[] = { "pass", NULL };

static const relmq__config_key consumer_queue_keys[] = {
	{ "queue", TEXT(consumer_queue, queue), .flags = RELMQ__CONFIG_REQUIRED, .min = 1,
	    .max = 200, .help = "Work queue" },
	{ "name", TEXT(consumer_queue, name), .fallback = "", .max = 255,
	    .help = "Consumer's name in message_inbox; empty: the queue's" },
	{ "max_attempts", INT(consumer_queue, max_attempts), .fallback = "5", .min = 1, .max = 1000,
	    .help = "Attempts after which a message is parked" },
	{ "on_retry", CHOICE(consumer_queue, on_retry), .fallback = "pass", .choices = retries,
	    .help = "Later messages of the key pass one that waits for its next attempt" },
	{ "handler", SECTION(consumer_queue, handler, relmq__handler_settings),
	    .flags = RELMQ__CONFIG_REQUIRED, .sub = handler_keys },
	{ .key = NULL },
};

static const relmq__config_key consumer_queue_item = { .type = RELMQ__CONFIG_OBJECT,
	.sub = consumer_queue_keys };

static const relmq__config_key consumer_keys[] = {
	{ "workers", INT(consumer_settings, workers), .fallback = "2", .min = 1, .max = 64,
	    .help = "Threads with a database connection each" },
	{ "batch_max", INT(consumer_settings, batch_max), .fallback = "100", .min = 1, .max = 1000,
	    .help = "Most messages in one transaction" },
	{ "prefetch", INT(consumer_settings, prefetch), .fallback = "0", .min = 0, .max = 2000,
	    .help = "Messages held unacknowledged; 0: 2 * workers * batch_max, at most 2000" },
	{ "batch_time", DURATION(consumer_settings, batch_time_ms), .fallback = "100ms", .min = 1,
	    .max = MINUTE, .help = "A batch is cut when its handlers took so long" },
	{ "shutdown_timeout", DURATION(consumer_settings, shutdown_timeout_ms), .fallback = "30s",
	    .min = 0, .max = 60 * MINUTE,
	    .help = "Longest wait for running handlers when stopping" },
	{ "queues", LIST(consumer_settings, queues, relmq__consumer_queue *, queue_count),
	    .max = 256, .sub = &consumer_queue_item, .help = "What is consumed" },
	{ .key = NULL },
};

static const relmq__config_key tier_item = {
	.type = RELMQ__CONFIG_DURATION_TEXT, .min = 1, .max = 30 * DAY
};

const relmq__config_key relmq__dlx_queue_keys[] = {
	{ "queue", TEXT(dlx_queue, queue), .flags = RELMQ__CONFIG_REQUIRED, .min = 1, .max = 200,
	    .help = "Work queue" },
	{ "tiers", LIST(dlx_queue, tiers, char **, tier_count), .fallback = "5s 30s 5m", .min = 1,
	    .max = 10, .flags = RELMQ__CONFIG_UNIQUE, .sub = &tier_item,
	    .help = "Waits before each next attempt; a queue each, called after the text" },
	{ .key = NULL },
};

static const relmq__config_key dlx_queue_item = { .type = RELMQ__CONFIG_OBJECT,
	.sub = relmq__dlx_queue_keys };

static const relmq__config_key dlx_keys[] = {
	{ "queues", LIST(dlx_settings, queues, relmq__dlx_queue *, queue_count), .max = 256,
	    .sub = &dlx_queue_item,
	    .help = "Ladders; empty: the default one for each consumer queue" },
	{ .key = NULL },
};

static const char *const log_levels[] = { "error", "warn", "info", "debug", NULL };

static const relmq__config_key log_keys[] = {
	{ "level", CHOICE(log_settings, level), .fallback = "info", .choices = log_levels,
	    .help = "Least important line that is written" },
	{ .key = NULL },
};

const relmq__config_key relmq__settings_keys[] = {
	{ "mysql", SECTION(settings, mysql, relmq__mysql_settings), .sub = mysql_keys },
	{ "rabbitmq", SECTION(settings, rabbitmq, relmq__rabbitmq_settings), .sub = rabbitmq_keys },
	{ "publisher", SECTION(settings, publisher, relmq__publisher_settings),
	    .sub = publisher_keys },
	{ "consumer", SECTION(settings, consumer, relmq__consumer_settings), .sub = consumer_keys },
	{ "dlx", SECTION(settings, dlx, relmq__dlx_settings), .sub = dlx_keys },
	{ "log", SECTION(settings, log, relmq__log_settings), .sub = log_keys },
	{ .key = NULL },
};
