/* handlers/sql_template.c - see sql_template.h. */
#include "consumer/handlers/sql_template.h"

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "consumer/handlers/sql_insert.h"
#include "consumer/handlers/sql_lexer.h"

static const struct {
	const char *name; /* with the colon */
	relmq__sql_part_kind kind;
} params[] = {
	{ ":msg_id", RELMQ__SQL_MSG_ID },
	{ ":business_key", RELMQ__SQL_BUSINESS_KEY },
	{ ":type", RELMQ__SQL_TYPE },
	{ ":attempt", RELMQ__SQL_ATTEMPT },
	{ ":queue", RELMQ__SQL_QUEUE },
	{ ":header", RELMQ__SQL_HEADER },
	{ ":payload", RELMQ__SQL_PAYLOAD },
};

static const char allowed[] = ":msg_id :business_key :type :attempt :queue :header.NAME :payload"
                              " :payload.path.to[0].field";

/* First words of what ends the transaction that a statement runs in, by itself or by an
 * implicit commit: the inbox row and the effect would no longer stand or fall together. */
static const char *const ending[] = { "BEGIN", "START", "COMMIT", "ROLLBACK", "CREATE", "ALTER",
	"DROP", "TRUNCATE", "RENAME", "LOCK", "UNLOCK", "GRANT", "REVOKE", "ANALYZE", "OPTIMIZE",
	"REPAIR" };

/* --- which statement is it? -------------------------------------------------------- */

static relmq_code check_first_word(relmq__sql_token word, relmq_error *err)
{
	for (size_t i = 0; i < sizeof(ending) / sizeof(ending[0]); i++)
		if (relmq__sql_is_word(word, ending[i]))
			return relmq__fail(err, RELMQ_ECONFIG, RELMQ_F_FATAL,
			    "%s would end the transaction that relmq runs the statement in",
			    ending[i]);
	return RELMQ_OK;
}

/* Where the one statement ends: at its ";" or with the text. */
static relmq_code find_end(const char *sql, const char **end, relmq_error *err)
{
	const char *text_end = sql + strlen(sql);
	relmq__sql_token first = { RELMQ__SQL_END, sql, 0 };
	*end = NULL;
	for (const char *at = sql; at < text_end;) {
		relmq__sql_token t = relmq__sql_next(at, text_end);
		at += t.len;
		if (t.kind == RELMQ__SQL_OPEN)
			return relmq__fail(err, RELMQ_ECONFIG, RELMQ_F_FATAL,
			    "a quote or comment does not end: %.40s", t.at);
		if (t.kind == RELMQ__SQL_BLANK)
			continue;
		if (*end != NULL)
			return relmq__fail(err, RELMQ_ECONFIG, RELMQ_F_FATAL,
			    "only one statement in a text, but after ';' comes: %.40s", t.at);
		if (relmq__sql_is(t, ';'))
			*end = t.at;
		else if (first.kind == RELMQ__SQL_END)
			first = t;
	}
	if (first.kind == RELMQ__SQL_END)
		return relmq__fail(err, RELMQ_ECONFIG, RELMQ_F_FATAL, "the statement is empty");
	if (*end == NULL)
		*end = text_end;
	return check_first_word(first, err);
}

/* --- parts ------------------------------------------------------------------------- */

static relmq__sql_part *add_part(relmq__sql_template *t, relmq__sql_part_kind kind)
{
	if (t->count == t->capacity) {
		size_t capacity = t->capacity != 0 ? t->capacity * 2 : 16;
		relmq__sql_part *parts = realloc(t->parts, capacity * sizeof(*parts));
		if (parts == NULL)
			return NULL;
		t->parts = parts;
		t->capacity = capacity;
	}
	relmq__sql_part *part = &t->parts[t->count++];
	*part = (relmq__sql_part){ .kind = kind };
	return part;
}

static bool add_text(relmq__sql_template *t, const char *from, size_t len)
{
	if (len == 0)
		return true;
	relmq__sql_part *part = add_part(t, RELMQ__SQL_TEXT);
	if (part == NULL)
		return false;
	part->text = from;
	part->len = len;
	return true;
}

static relmq_code fail_param(const char *what, const char *at, size_t len, relmq_error *err)
{
	return relmq__fail(err, RELMQ_ECONFIG, RELMQ_F_FATAL, "%s parameter %.*s (allowed: %s)",
	    what, (int) (len < 60 ? len : 60), at, allowed);
}

/* ".NAME" behind ":header". */
static relmq_code add_header(
    relmq__sql_part *part, relmq__sql_token *name, const char *end, relmq_error *err)
{
	static const char bytes[] =
	    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
	const char *at = name->at + name->len;
	size_t n = at < end && *at == '.' ? strspn(at + 1, bytes) : 0;
	if (n == 0)
		return fail_param("malformed", name->at, name->len + (at < end), err);
	name->len += n + 1;
	part->header = strndup(at + 1, n);
	return part->header != NULL ? RELMQ_OK : relmq__fail_nomem(err);
}

/* The steps behind ":payload", if any. */
static relmq_code add_path(relmq__sql_template *t, relmq__sql_part *part, relmq__sql_token *name,
    const char *end, relmq_error *err)
{
	relmq__json_step steps[RELMQ__JSON_STEPS_MAX];
	const char *at = name->at + name->len;
	size_t n = relmq__json_steps(at, (size_t) (end - at), steps, &part->step_count);
	name->len += n;
	if (part->step_count == SIZE_MAX)
		return fail_param("malformed path in", name->at, name->len + 1, err);
	if (part->step_count == 0)
		return RELMQ_OK;
	part->kind = RELMQ__SQL_PAYLOAD_PATH;
	t->reads_json = true;
	part->steps = malloc(part->step_count * sizeof(steps[0]));
	if (part->steps == NULL)
		return relmq__fail_nomem(err);
	memcpy(part->steps, steps, part->step_count * sizeof(steps[0]));
	return RELMQ_OK;
}

/* `name` grows by what belongs to the parameter. */
static relmq_code add_param(
    relmq__sql_template *t, relmq__sql_token *name, const char *end, relmq_error *err)
{
	size_t i = 0, known = sizeof(params) / sizeof(params[0]);
	while (i < known &&
	    (strlen(params[i].name) != name->len ||
	        memcmp(params[i].name, name->at, name->len) != 0))
		i++;
	if (i == known)
		return fail_param("unknown", name->at, name->len, err);
	relmq__sql_part *part = add_part(t, params[i].kind);
	if (part == NULL)
		return relmq__fail_nomem(err);
	relmq_code code = RELMQ_OK;
	if (part->kind == RELMQ__SQL_PAYLOAD)
		code = add_path(t, part, name, end, err);
	else if (part->kind == RELMQ__SQL_HEADER)
		code = add_header(part, name, end, err);
	const char *behind = name->at + name->len;
	if (code == RELMQ_OK && behind < end && (*behind == '.' || *behind == '['))
		return fail_param("malformed", name->at, name->len + 1, err);
	return code;
}

/* --- the whole --------------------------------------------------------------------- */

/* A value must not grow together with what the template has beside it: 1:payload.n,
 * 'x':msg_id. Behind an operator a blank could do harm: "--" is a comment with it only. */
static bool needs_blank(char neighbour)
{
	return isalnum((unsigned char) neighbour) || (unsigned char) neighbour >= 0x80 ||
	    strchr("_$@.:]'\"`", neighbour) != NULL;
}

static relmq_code add_spaced_param(
    relmq__sql_template *t, relmq__sql_token *name, const char *end, relmq_error *err)
{
	if (name->at > t->sql && needs_blank(name->at[-1]) && !add_text(t, " ", 1))
		return relmq__fail_nomem(err);
	relmq_code code = add_param(t, name, end, err);
	const char *behind = name->at + name->len;
	if (code == RELMQ_OK && behind < end && needs_blank(*behind) && !add_text(t, " ", 1))
		return relmq__fail_nomem(err);
	return code;
}

/* Parts end where a parameter starts and at both ends of the tuple. */
static relmq_code cut(relmq__sql_template *t, const char *end, relmq_error *err)
{
	const char *tuple_from = NULL, *tuple_to = NULL, *text = t->sql;
	bool has_tuple = relmq__sql_find_tuple(t->sql, end, &tuple_from, &tuple_to);
	for (const char *at = t->sql;;) {
		relmq__sql_token token = relmq__sql_next(at, end);
		bool edge = has_tuple && (at == tuple_from || at == tuple_to);
		bool param = token.kind == RELMQ__SQL_PARAM, done = token.kind == RELMQ__SQL_END;
		if (edge || param || done) {
			if (!add_text(t, text, (size_t) (at - text)))
				return relmq__fail_nomem(err);
			text = at;
		}
		if (edge)
			*(at == tuple_from ? &t->tuple_from : &t->tuple_to) = t->count;
		relmq_code code = param ? add_spaced_param(t, &token, end, err) : RELMQ_OK;
		if (code != RELMQ_OK || done)
			return code;
		at += token.len;
		if (param)
			text = at;
	}
}

relmq_code relmq__sql_template_parse(relmq__sql_template *t, const char *sql, relmq_error *err)
{
	const char *end = NULL;
	*t = (relmq__sql_template){ .sql = strdup(sql) };
	relmq_code code = t->sql != NULL ? find_end(t->sql, &end, err) : relmq__fail_nomem(err);
	if (code == RELMQ_OK)
		code = cut(t, end, err);
	if (code != RELMQ_OK)
		relmq__sql_template_free(t);
	return code;
}

void relmq__sql_template_free(relmq__sql_template *t)
{
	for (size_t i = 0; i < t->count; i++) {
		free(t->parts[i].header);
		free(t->parts[i].steps);
	}
	free(t->parts);
	free(t->sql);
	*t = (relmq__sql_template){ 0 };
}

void relmq__sql_template_render(const relmq__sql_template *t, size_t from, size_t to,
    relmq__buf *out, relmq__sql_value_fn value, void *arg)
{
	for (size_t i = from; i < to; i++) {
		if (t->parts[i].kind == RELMQ__SQL_TEXT)
			relmq__buf_add(out, t->parts[i].text, t->parts[i].len);
		else
			value(out, &t->parts[i], arg);
	}
}
