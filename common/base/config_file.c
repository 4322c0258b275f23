/* base/config_file.c - a configuration file's bytes and its JSON. See config.h. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/config_inside.h"
#include "base/error.h"

enum { FILE_MAX_BYTES = 1 << 20, STEP_BYTES = 4096 };

static relmq_code cannot_read(relmq_error *err, const char *file, int why)
{
	relmq_code rc = relmq__config_refuse(err, file, "cannot read: %s", strerror(why));
	if (err != NULL) {
		err->origin = RELMQ_FROM_OS;
		err->native = why;
	}
	return rc;
}

relmq_code relmq__config_slurp(const char *file, size_t max, relmq__buf *out, relmq_error *err)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (fd < 0)
		return cannot_read(err, file, errno);
	relmq_code rc = RELMQ_OK;
	ssize_t n = 1;
	while (rc == RELMQ_OK && n > 0) {
		char *at = relmq__buf_reserve(out, STEP_BYTES);
		n = at != NULL ? read(fd, at, STEP_BYTES) : 0;
		if (at == NULL)
			rc = relmq__fail_nomem(err);
		else if (n < 0)
			rc = cannot_read(err, file, errno);
		else if ((out->len += (size_t) n) > max)
			rc = relmq__config_refuse(err, file, "is larger than %zu bytes", max);
	}
	(void) close(fd);
	return rc;
}

/* jansson quotes the text around a mistake. Only a doubled key is worth that: the rest
 * is found by line and column, and may be a password in the wrong place. */
static relmq_code refuse_syntax(const char *file, json_error_t *e, relmq_error *err)
{
	enum json_error_code why = json_error_code(e);
	char *near = why != json_error_duplicate_key ? strstr(e->text, " near ") : NULL;
	if (near != NULL)
		*near = '\0';
	if (why == json_error_out_of_memory || e->text[0] == '\0')
		return relmq__fail_nomem(err);
	relmq__buf where = { 0 };
	relmq__buf_addf(&where, "%s:%d:%d", file, e->line, e->column);
	relmq_code rc = relmq__config_refuse(
	    err, where.failed ? file : where.data, "not valid JSON: %s", e->text);
	relmq__buf_free(&where);
	return rc;
}

relmq_code relmq__config_json(
    const char *file, const char *text, size_t len, json_t **root, relmq_error *err)
{
	json_error_t e;
	/* NUL is let in here to be refused by the key's path, in config.c. */
	*root = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &e);
	if (*root == NULL)
		return refuse_syntax(file, &e, err);
	if (json_is_object(*root))
		return RELMQ_OK;
	json_decref(*root);
	*root = NULL;
	return relmq__config_refuse(err, file, "must be a JSON object");
}

relmq_code relmq__config_load(const char *file, json_t **root, relmq_error *err)
{
	relmq__buf text = { 0 };
	relmq_code rc = relmq__config_slurp(file, FILE_MAX_BYTES, &text, err);
	if (rc == RELMQ_OK)
		rc = relmq__config_json(file, text.data, text.len, root, err);
	relmq__buf_free(&text);
	return rc;
}
