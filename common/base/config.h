/* base/config.h - read a JSON file into plain structs, by a table.
 *
 * One row a key drives parsing, ranges, defaults, showing, freeing and the reference
 * text, so that none of them can drift from the others. Knows JSON (jansson) and no key
 * by its name: the keys are in settings.c. */
#ifndef RELMQ_BASE_CONFIG_H
#define RELMQ_BASE_CONFIG_H

#include <stddef.h>
#include <stdint.h>

#include <relmq/error.h>

#include "base/buf.h"

typedef enum relmq__config_type {
	RELMQ__CONFIG_STRING,        /* char *, min..max bytes, no NUL inside                   */
	RELMQ__CONFIG_PATH,          /* char *; a relative one starts at the file's own folder  */
	RELMQ__CONFIG_SECRET,        /* char *, never in the file and never shown               */
	RELMQ__CONFIG_BOOL,          /* bool                                                    */
	RELMQ__CONFIG_INT,           /* int64_t, min..max                                       */
	RELMQ__CONFIG_DURATION,      /* int64_t milliseconds, min..max; "5s" in the file        */
	RELMQ__CONFIG_DURATION_TEXT, /* char *: a duration kept as written                      */
	RELMQ__CONFIG_CHOICE,        /* int: index into `choices`                               */
	RELMQ__CONFIG_LIST,          /* array and size_t count, min..max items, each as `sub`   */
	RELMQ__CONFIG_OBJECT         /* a struct inside the struct, by the table `sub`          */
} relmq__config_type;

enum {                                   /* flags */
	RELMQ__CONFIG_REQUIRED = 1,      /* no default: the file must have it */
	RELMQ__CONFIG_WHOLE_SECONDS = 2, /* DURATION */
	RELMQ__CONFIG_UNIQUE = 4         /* LIST of DURATION_TEXT: no delay twice */
};

typedef struct relmq__config_key {
	const char *key; /* NULL ends a table */
	relmq__config_type type;
	size_t offset;        /* of the value in its struct                             */
	size_t count_offset;  /* LIST: of the count                                     */
	const char *fallback; /* default as plain text; LIST: words; NULL: "" or no item */
	int64_t min, max;
	const char *const *choices;          /* CHOICE: names, NULL ends                 */
	const struct relmq__config_key *sub; /* OBJECT: table. LIST: the row of one item */
	size_t size;                         /* LIST: sizeof one item                    */
	unsigned flags;
	const char
	    *instead; /* a list of the same table: when it has items this key must not be there */
	const char *help; /* one line */
} relmq__config_key;

/* How a table names a member: the compiler refuses one of another type than the row says. */
#define RELMQ__CONFIG_AT(S, member, T) \
	(offsetof(S, member) + 0 * sizeof(_Generic(((S *) 0)->member, T : 1)))

/** Every key at its default; required ones stay zero. `out` must be zero before; after RELMQ_ENOMEM
 *  nothing in it needs to be freed. */
RELMQ_CHECK relmq_code relmq__config_default(
    const relmq__config_key *table, void *out, relmq_error *err);
/** Defaults, then the file; otherwise the same. RELMQ_ECONFIG names file, path of the key, what is
 *  allowed and what is there. */
RELMQ_CHECK relmq_code relmq__config_read(
    const relmq__config_key *table, const char *file, void *out, relmq_error *err);
/** The same from a text that messages call `name`; a relative path in it starts where the
 *  process stands. */
RELMQ_CHECK relmq_code relmq__config_read_text(const relmq__config_key *table, const char *name,
    const char *text, void *out, relmq_error *err);
/** Free what the reader allocated, and the pointers are NULL; a zero struct is allowed. */
void relmq__config_free(const relmq__config_key *table, void *out);

/** The values as a JSON object that relmq__config_read() accepts. Secrets show as "(hidden)" or
 *  "(none)", the only two texts that it lets a secret have, and ignores. */
void relmq__config_show(const relmq__config_key *table, const void *in, relmq__buf *out);
/** Every key with its default, meaning and range, as text for a person. */
void relmq__config_reference(const relmq__config_key *table, relmq__buf *out);
/** What a key may be: "a whole number from 1 to 65535". */
void relmq__config_allowed(const relmq__config_key *key, relmq__buf *out);

/** RELMQ_ECONFIG with "FILE: text", shortened where the record is too small for it. */
relmq_code relmq__config_refuse(relmq_error *err, const char *file, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/** A whole file, at most `max` bytes. RELMQ_ECONFIG with "FILE: cannot read: why". */
RELMQ_CHECK relmq_code relmq__config_slurp(
    const char *file, size_t max, relmq__buf *out, relmq_error *err);

#endif
