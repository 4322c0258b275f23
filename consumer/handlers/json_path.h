/* handlers/json_path.h - what stands at `order.items[0].price`?
 *
 * A path is found by walking checked text each time: the values keep the digits they were
 * written with, and 16 MiB of brackets cost no more memory than an empty object. Knows
 * no SQL and no delivery. */
#ifndef RELMQ_HANDLERS_JSON_PATH_H
#define RELMQ_HANDLERS_JSON_PATH_H

#include <stddef.h>

enum { RELMQ__JSON_STEPS_MAX = 32 };

typedef enum relmq__json_kind {
	RELMQ__JSON_MISSING = 0,
	RELMQ__JSON_NULL,
	RELMQ__JSON_FALSE,
	RELMQ__JSON_TRUE,
	RELMQ__JSON_NUMBER,
	RELMQ__JSON_STRING,
	RELMQ__JSON_ARRAY,
	RELMQ__JSON_OBJECT
} relmq__json_kind;

/* A slice of the text it was found in. A string comes without its quotes, still escaped. */
typedef struct relmq__json_value {
	relmq__json_kind kind;
	const char *text;
	size_t len;
} relmq__json_value;

typedef struct relmq__json_step {
	const char *name; /* member of an object, borrowed; NULL: element of an array */
	size_t len;
	size_t index;
} relmq__json_step;

/** Look into text that passed relmq__json_check(). Of members with the same name the
 *  first counts. */
relmq__json_value relmq__json_find(
    const char *text, size_t len, const relmq__json_step *steps, size_t count);

/**
 * Read steps as far as they go: `.name`, `."any name"`, `[0]`. A bare name is of letters,
 * digits, `_` and bytes above 127; a quoted one ends at the next quote. Names stay where
 * they are in `text`.
 * Returns the bytes read. *count is SIZE_MAX when the step behind them is malformed, or
 * one more than RELMQ__JSON_STEPS_MAX.
 */
size_t relmq__json_steps(
    const char *text, size_t len, relmq__json_step steps[RELMQ__JSON_STEPS_MAX], size_t *count);

#endif
