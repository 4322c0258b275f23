/* handlers/sql_lexer.h - words, quotes, comments and parameters of a SQL text, as far as
 * one must tell them apart to find the parameters. Knows no statement. */
#ifndef RELMQ_HANDLERS_SQL_LEXER_H
#define RELMQ_HANDLERS_SQL_LEXER_H

#include <stdbool.h>
#include <stddef.h>

typedef enum relmq__sql_token_kind {
	RELMQ__SQL_END = 0,
	RELMQ__SQL_BLANK,  /* white space, a comment                                        */
	RELMQ__SQL_WORD,   /* keyword, name, variable, digits                               */
	RELMQ__SQL_QUOTED, /* '..' "..": backslash and doubled quote; `..`: doubled quote   */
	RELMQ__SQL_PARAM,  /* ":" and a name; what follows the name is not looked at        */
	RELMQ__SQL_SYMBOL, /* one byte, or "::" or ":="                                     */
	RELMQ__SQL_OPEN    /* a quote or a comment that does not end: the rest of the text  */
} relmq__sql_token_kind;

typedef struct relmq__sql_token {
	relmq__sql_token_kind kind;
	const char *at; /* the next token is at `at + len` */
	size_t len;
} relmq__sql_token;

relmq__sql_token relmq__sql_next(const char *at, const char *end);

/** Is this a WORD, and that one? ASCII letters compare without case. */
bool relmq__sql_is_word(relmq__sql_token t, const char *word);
/** Is it this one-byte SYMBOL? */
bool relmq__sql_is(relmq__sql_token t, char symbol);

#endif
