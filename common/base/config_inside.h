/* base/config_inside.h - between config.c, config_file.c, config_text.c and config_show.c. */
#ifndef RELMQ_BASE_CONFIG_INSIDE_H
#define RELMQ_BASE_CONFIG_INSIDE_H

#include <jansson.h>
#include <stdbool.h>

#include "base/config.h"

enum { RELMQ__CONFIG_SHOWN_SIZE = 64 };

/** A file's JSON object; the caller's to json_decref(). */
relmq_code relmq__config_load(const char *file, json_t **root, relmq_error *err);
/** The same of a text; `file` is what messages call it. */
relmq_code relmq__config_json(
    const char *file, const char *text, size_t len, json_t **root, relmq_error *err);
/** What stands in the file, short: `"x"`, `17`, `an object`, `a list of 3`. */
void relmq__config_describe(const json_t *value, char out[RELMQ__CONFIG_SHOWN_SIZE]);
/** `unknown key "hots"; did you mean "host"? allowed here: ...`. */
void relmq__config_unknown(const relmq__config_key *table, const char *key, relmq__buf *out);
/** Is this what a secret shows as? */
bool relmq__config_is_placeholder(const char *text);

#endif
