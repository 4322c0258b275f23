/* base/settings_keys.h - the tables, between settings_keys.c and settings.c. */
#ifndef RELMQ_BASE_SETTINGS_KEYS_H
#define RELMQ_BASE_SETTINGS_KEYS_H

#include "base/config.h"

extern const relmq__config_key relmq__settings_keys[];  /* of relmq__settings  */
extern const relmq__config_key relmq__dlx_queue_keys[]; /* of relmq__dlx_queue */

#endif
