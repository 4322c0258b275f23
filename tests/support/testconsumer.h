/* support/testconsumer.h - a work queue with its ladder, a consumer on it, messages that
 * tell the test plugin what to do, and what became of them.
 *
 * Message N has the id "m-N" (six digits), the same as body, and the key "k-" N mod KEYS. */
#ifndef RELMQ_TEST_CONSUMER_H
#define RELMQ_TEST_CONSUMER_H

#include "support/testenv.h"

#define PLUGIN      "{\"kind\":\"plugin\",\"path\":\"" RELMQ_BINARY_DIR "/tests/test_plugin.so\"}"
#define PLUGIN_LATE /* writes to the table `late`, which is not there at first */      \
	"{\"kind\":\"plugin\",\"path\":\"" RELMQ_BINARY_DIR "/tests/test_plugin.so\"," \
	"\"argument\":\"late\"}"

/* Parts of the configuration; NULL members take what stands behind them. */
typedef struct setup {
	const char *tiers;    /* "\"200ms\""                                          */
	const char *consumer; /* keys of section consumer, e.g. "\"workers\":3"       */
	const char *queue;    /* keys of the queue, e.g. "\"max_attempts\":3"         */
	const char *handler;  /* PLUGIN                                               */
	bool undeclared;      /* the queues are the test's to make                    */
	bool keeps_order;     /* delivery-limit, so that returned messages keep their place */
} setup;

/** env_open(), the table `effects`, the configuration, and the queues by relmq-dlx. */
void consumer_open(env *e, const setup *s);
/** Write the configuration anew. */
void consumer_config(env *e, const setup *s);
/** Removes the queues too. */
void consumer_close(env *e);
/** relmq-consumer; `fail` is RELMQ_FAIL or NULL. */
proc consumer_start(env *e, const char *fail);
/** Wait until it has said so. */
void consumer_consumes(proc *p);
/** A number of the totals it logs when it stops, e.g. "duplicates"; -1: it has not said. */
int64_t consumer_total(const proc *p, const char *what);
/** SIGTERM; it must end well. */
void consumer_stop(proc *p);

/** relmq-dlx with these operands (NULL-ended list): its exit status. */
int dlx(env *e, char **output, ...) __attribute__((sentinel));

/* --- messages --- */
typedef struct note {
	const char *id;    /* NULL: none                                          */
	const char *key;   /* NULL: none                                          */
	const char *order; /* header x-test-verdict; NULL: none                   */
	amqp_bytes_t body; /* empty: the id, unless `hollow`                      */
	bool hollow;
	amqp_bytes_t type;
	const amqp_table_entry_t *header; /* one more, or NULL                    */
} note;

/** Publish with confirms, on one connection, in this order. */
void put(env *e, const char *queue, const note *notes, size_t count);
/** Messages FIRST to FIRST + COUNT - 1, all with this order (or NULL). */
void put_numbered(env *e, const char *queue, int first, int count, int keys, const char *order);

/** Names of the ladder's queues; valid until the next few calls. */
const char *parked(const env *e);
const char *tier(const env *e, const char *delay);
const char *text_of(amqp_bytes_t bytes);
/** A header of a message as text, "" when it has none. */
const char *header_of(const relmq__msg *msg, const char *name);

/* --- effects --- */
int64_t effects(env *e);
int64_t effects_of(env *e, const char *id);
/** Begun and perhaps not committed. */
int64_t effects_begun(env *e);
/** Each of the numbered messages has its effect, once, and there are no others. */
void effects_are(env *e, int first, int count);
/** Within each key the effects are in the order of the numbers. */
void effects_in_order(env *e);

#endif
