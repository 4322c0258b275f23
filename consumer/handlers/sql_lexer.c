/* handlers/sql_lexer.c - see sql_lexer.h. */
#include "consumer/handlers/sql_lexer.h"

#include <string.h>
#include <strings.h>

static bool is_blank(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_word_byte(char c)
{
	return is_letter(c) || (c >= '0' && c <= '9') || c == '$' || c == '@' ||
	    (unsigned char) c >= 0x80;
}

static relmq__sql_token token(relmq__sql_token_kind kind, const char *at, const char *to)
{
	relmq__sql_token t = { kind, at, (size_t) (to - at) };
	return t;
}

static relmq__sql_token quoted(const char *at, const char *end)
{
	char quote = *at;
	for (const char *p = at + 1; p < end; p++) {
		if (*p == '\\' && quote != '`')
			p++;
		else if (*p == quote && p + 1 < end && p[1] == quote)
			p++;
		else if (*p == quote)
			return token(RELMQ__SQL_QUOTED, at, p + 1);
	}
	return token(RELMQ__SQL_OPEN, at, end);
}

static relmq__sql_token line_comment(const char *at, const char *end)
{
	const char *line_end = memchr(at, '\n', (size_t) (end - at));
	return token(RELMQ__SQL_BLANK, at, line_end != NULL ? line_end + 1 : end);
}

static relmq__sql_token block_comment(const char *at, const char *end)
{
	const char *close = memmem(at + 2, (size_t) (end - at) - 2, "*/", 2);
	return close != NULL ? token(RELMQ__SQL_BLANK, at, close + 2)
	                     : token(RELMQ__SQL_OPEN, at, end);
}

/* The servers take "--" for a comment only when a blank or the end follows. */
static bool starts_line_comment(const char *at, const char *end)
{
	if (*at == '#')
		return true;
	return end - at >= 2 && at[0] == '-' && at[1] == '-' && (end - at == 2 || is_blank(at[2]));
}

static relmq__sql_token colon(const char *at, const char *end)
{
	const char *p = at + 1;
	if (p < end && (*p == ':' || *p == '='))
		return token(RELMQ__SQL_SYMBOL, at, p + 1);
	if (p == end || !is_letter(*p))
		return token(RELMQ__SQL_SYMBOL, at, p);
	while (p < end && is_word_byte(*p))
		p++;
	return token(RELMQ__SQL_PARAM, at, p);
}

relmq__sql_token relmq__sql_next(const char *at, const char *end)
{
	const char *p = at;
	if (at == end)
		return token(RELMQ__SQL_END, at, at);
	if (*at == '\'' || *at == '"' || *at == '`')
		return quoted(at, end);
	if (*at == ':')
		return colon(at, end);
	if (starts_line_comment(at, end))
		return line_comment(at, end);
	if (end - at >= 2 && at[0] == '/' && at[1] == '*')
		return block_comment(at, end);
	while (p < end && is_blank(*p))
		p++;
	if (p > at)
		return token(RELMQ__SQL_BLANK, at, p);
	while (p < end && is_word_byte(*p))
		p++;
	return p > at ? token(RELMQ__SQL_WORD, at, p) : token(RELMQ__SQL_SYMBOL, at, at + 1);
}

bool relmq__sql_is_word(relmq__sql_token t, const char *word)
{
	return t.kind == RELMQ__SQL_WORD && t.len == strlen(word) &&
	    strncasecmp(t.at, word, t.len) == 0;
}

bool relmq__sql_is(relmq__sql_token t, char symbol)
{
	return t.kind == RELMQ__SQL_SYMBOL && t.len == 1 && *t.at == symbol;
}
