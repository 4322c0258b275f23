/* plugin.h - a handler as a shared object, loaded by relmq-consumer.
 *
 * A plugin is one exported function, relmq_plugin_entry(), that returns a table.
 * The table's handler follows the contract of relmq_handler_fn in consumer.h.
 * Do not link a plugin with librelmq: the program that loads it provides every
 * function of consumer.h and outbox.h.
 *
 *     static relmq_verdict on_order(relmq_delivery *d, MYSQL *tx, void *state) { ... }
 *     static const relmq_plugin plugin = { RELMQ_PLUGIN_ABI, NULL, on_order, NULL };
 *     RELMQ_API const relmq_plugin *relmq_plugin_entry(void) { return &plugin; }
 */
#ifndef RELMQ_PLUGIN_H
#define RELMQ_PLUGIN_H

#include <relmq/consumer.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RELMQ_PLUGIN_ABI 1

typedef struct relmq_plugin {
	unsigned abi; /* RELMQ_PLUGIN_ABI of the header it was compiled with */

	/** Once, before the first message. May be NULL. `argument` is the configured
	 *  text or "". Non-zero refuses to start; say why in `err->text`. */
	int (*open)(const char *argument, void **state, relmq_error *err);

	relmq_handler_fn handle; /* required; `arg` is *state */

	/** Once, after the last message. May be NULL. */
	void (*close)(void *state);
} relmq_plugin;

/** The one entry point; the table must stay valid for the process's life. */
RELMQ_API const relmq_plugin *relmq_plugin_entry(void);

#ifdef __cplusplus
}
#endif
#endif
