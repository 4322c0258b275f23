/* handlers/sql_insert.c - see sql_insert.h. */
#include "consumer/handlers/sql_insert.h"

#include <stddef.h>

#include "consumer/handlers/sql_lexer.h"

typedef struct cursor {
	relmq__sql_token t; /* never a blank              */
	const char *behind; /* of the last token before t */
	const char *end;
} cursor;

static void step(cursor *c)
{
	c->behind = c->t.at + c->t.len;
	do
		c->t = relmq__sql_next(c->t.at + c->t.len, c->end);
	while (c->t.kind == RELMQ__SQL_BLANK);
}

static bool take_word(cursor *c, const char *word)
{
	if (!relmq__sql_is_word(c->t, word))
		return false;
	step(c);
	return true;
}

/* Same result in one statement as in several? */
static bool is_local(relmq__sql_token t)
{
	return t.kind != RELMQ__SQL_OPEN && !relmq__sql_is_word(t, "SELECT") &&
	    !relmq__sql_is_word(t, "LAST_INSERT_ID");
}

/* table, `table`, db.table */
static bool take_table(cursor *c)
{
	for (;;) {
		if (c->t.kind != RELMQ__SQL_WORD &&
		    (c->t.kind != RELMQ__SQL_QUOTED || *c->t.at != '`'))
			return false;
		step(c);
		if (!relmq__sql_is(c->t, '.'))
			return true;
		step(c);
	}
}

/* From "(" to behind its ")". */
static bool take_group(cursor *c, bool may_have_params)
{
	size_t open = 0;
	if (!relmq__sql_is(c->t, '('))
		return false;
	do {
		if (c->t.kind == RELMQ__SQL_END || !is_local(c->t))
			return false;
		if (c->t.kind == RELMQ__SQL_PARAM && !may_have_params)
			return false;
		if (relmq__sql_is(c->t, '('))
			open++;
		else if (relmq__sql_is(c->t, ')'))
			open--;
		step(c);
	} while (open > 0);
	return true;
}

static bool take_tail(cursor *c)
{
	if (c->t.kind != RELMQ__SQL_END && !relmq__sql_is_word(c->t, "AS") &&
	    !relmq__sql_is_word(c->t, "ON"))
		return false;
	for (; c->t.kind != RELMQ__SQL_END; step(c))
		if (c->t.kind == RELMQ__SQL_PARAM || !is_local(c->t))
			return false;
	return true;
}

bool relmq__sql_find_tuple(const char *sql, const char *end, const char **from, const char **to)
{
	cursor c = { { RELMQ__SQL_BLANK, sql, 0 }, sql, end };
	step(&c);
	if (!take_word(&c, "INSERT"))
		return false;
	(void) take_word(&c, "IGNORE");
	if (!take_word(&c, "INTO") || !take_table(&c))
		return false;
	if (relmq__sql_is(c.t, '(') && !take_group(&c, false))
		return false;
	if (!take_word(&c, "VALUES"))
		return false;
	*from = c.t.at;
	if (!take_group(&c, true))
		return false;
	*to = c.behind; /* not later: a comment without its line end would swallow the next tuple */
	return take_tail(&c);
}
