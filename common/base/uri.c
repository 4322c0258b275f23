/* base/uri.c - see uri.h. */
#include "base/uri.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/tls.h"

enum { PART_MAX = 255 };

typedef struct parts { /* NULL: not there */
	const char *scheme;
	const char *path_name; /* what the path is called here: vhost, database */
	char *user, *password, *host, *path;
	char *ca_file, *cert_file, *key_file, *verify, *tls; /* of the query */
	int64_t port;                                        /* 0: not there */
	relmq_error *err;
} parts;

static void free_parts(parts *p)
{
	if (p->password != NULL)
		explicit_bzero(p->password, strlen(p->password));
	free(p->user);
	free(p->password);
	free(p->host);
	free(p->path);
	free(p->ca_file);
	free(p->cert_file);
	free(p->key_file);
	free(p->verify);
	free(p->tls);
}

static relmq_code refuse(parts *p, const char *part, const char *why)
{
	return relmq__fail(
	    p->err, RELMQ_ECONFIG, RELMQ_F_FATAL, "%s address: %s: %s", p->scheme, part, why);
}

/* --- one part ----------------------------------------------------------------------- */

static int hex_value(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	c = (char) tolower((unsigned char) c);
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The byte that "%41" at `s` stands for; 0 when it is no such thing, or NUL. */
static int decode_byte(const char *s, size_t left)
{
	int high = left >= 3 ? hex_value(s[1]) : -1;
	int low = left >= 3 ? hex_value(s[2]) : -1;
	return high >= 0 && low >= 0 ? high << 4 | low : 0;
}

static bool is_plain(char c)
{
	return (unsigned char) c > ' ' && c != 0x7f && strchr("/?#@[]%\"<>\\^`{|}", c) == NULL;
}

/* `also`: one more character that has no meaning where this part stands. */
static relmq_code decode_part(
    parts *p, const char *part, const char *s, size_t n, char also, char **out)
{
	free(*out);
	char *to = *out = calloc(1, n + 1);
	if (to == NULL)
		return relmq__fail_nomem(p->err);
	for (size_t i = 0; i < n; i++) {
		if (s[i] == '%') {
			*to = (char) decode_byte(s + i, n - i);
			if (*to++ == '\0')
				return refuse(p, part,
				    "% must be followed by two hex digits, not 00; "
				    "write % itself as %25");
			i += 2;
		} else if (is_plain(s[i]) || s[i] == also) {
			*to++ = s[i];
		} else {
			return refuse(p, part,
			    "has a character that must be percent-encoded, "
			    "such as / (%2F), @ (%40), # (%23), ? (%3F)");
		}
	}
	return strlen(*out) <= PART_MAX ? RELMQ_OK : refuse(p, part, "is longer than 255 bytes");
}

static relmq_code decode(parts *p, const char *part, const char *s, size_t n, char **out)
{
	return decode_part(p, part, s, n, '\0', out);
}

/* --- the parts ---------------------------------------------------------------------- */

static relmq_code parse_user(parts *p, const char *s, size_t n)
{
	const char *colon = memchr(s, ':', n);
	size_t user = colon != NULL ? (size_t) (colon - s) : n;
	relmq_code rc =
	    user > 0 ? decode(p, "user", s, user, &p->user) : refuse(p, "user", "is empty");
	if (rc == RELMQ_OK && colon != NULL)
		rc = decode(p, "password", colon + 1, n - user - 1, &p->password);
	return rc;
}

static relmq_code parse_port(parts *p, const char *s, size_t n)
{
	int64_t port = 0;
	for (size_t i = 0; i < n && port <= 65535; i++)
		port = isdigit((unsigned char) s[i]) ? port * 10 + (s[i] - '0') : 65536;
	if (port < 1 || port > 65535)
		return refuse(p, "port", "must be a whole number from 1 to 65535");
	p->port = port;
	return RELMQ_OK;
}

/* `n` bytes from '[' on. */
static relmq_code parse_ipv6(parts *p, const char *s, size_t n)
{
	unsigned char address[sizeof(struct in6_addr)];
	const char *end = memchr(s, ']', n);
	if (end == NULL)
		return refuse(p, "host", "'[' without ']'");
	p->host = strndup(s + 1, (size_t) (end - s) - 1);
	if (p->host == NULL)
		return relmq__fail_nomem(p->err);
	if (inet_pton(AF_INET6, p->host, address) != 1)
		return refuse(p, "host", "in brackets, but no IPv6 address");
	size_t rest = n - (size_t) (end - s) - 1;
	if (rest == 0)
		return RELMQ_OK;
	if (end[1] != ':')
		return refuse(p, "host", "only a port may follow ']'");
	return parse_port(p, end + 2, rest - 1);
}

static relmq_code parse_host(parts *p, const char *s, size_t n)
{
	if (n > 0 && s[0] == '[')
		return parse_ipv6(p, s, n);
	const char *colon = memchr(s, ':', n);
	size_t host = colon != NULL ? (size_t) (colon - s) : n;
	if (colon != NULL && memchr(colon + 1, ':', n - host - 1) != NULL)
		return refuse(p, "host", "an IPv6 address stands in brackets: [::1]:5672");
	relmq_code rc = host > 0 ? decode(p, "host", s, host, &p->host) : RELMQ_OK;
	if (rc == RELMQ_OK && colon != NULL)
		rc = parse_port(p, colon + 1, n - host - 1);
	return rc;
}

static relmq_code parse_parameter(parts *p, const char *s, size_t n)
{
	const struct {
		const char *name;
		char **value;
	} known[] = {
		{ "cacertfile", &p->ca_file },
		{ "certfile", &p->cert_file },
		{ "keyfile", &p->key_file },
		{ "verify", &p->verify },
		{ "tls", &p->tls },
	};
	const char *equals = memchr(s, '=', n);
	size_t len = equals != NULL ? (size_t) (equals - s) : n;
	for (size_t i = 0; equals != NULL && i < sizeof(known) / sizeof(known[0]); i++)
		if (strlen(known[i].name) == len && strncmp(known[i].name, s, len) == 0)
			return decode_part(
			    p, known[i].name, equals + 1, n - len - 1, '/', known[i].value);
	return refuse(p, "query",
	    "may have only cacertfile=, certfile=, keyfile=, verify= and tls=, with & between; "
	    "? is %3F in another part");
}

/* `s` is what follows the path: nothing, or "?..." */
static relmq_code parse_query(parts *p, const char *s)
{
	relmq_code rc = RELMQ_OK;
	if (*s == '#')
		return refuse(p, "fragment", "there is none here; # is %23 in a part");
	while (rc == RELMQ_OK && *s != '\0') {
		size_t n = strcspn(++s, "&");
		rc = parse_parameter(p, s, n);
		s += n;
	}
	return rc;
}

/* The last '@' ends the user part: what is wrong before it is a character of the user or the
 * password that was not encoded, and must not be taken for a host and shown. */
static relmq_code parse(parts *p, const char *uri)
{
	size_t len = strlen(p->scheme);
	if (strncasecmp(uri, p->scheme, len) != 0 || strncmp(uri + len, "://", 3) != 0)
		return refuse(p, "scheme", "must be this one, followed by ://");
	const char *s = uri + len + 3;
	const char *at = strrchr(s, '@');
	relmq_code rc = RELMQ_OK;
	if (at != NULL) {
		rc = parse_user(p, s, (size_t) (at - s));
		s = at + 1;
	}
	len = strcspn(s, "/?#");
	if (rc == RELMQ_OK)
		rc = parse_host(p, s, len);
	s += len;
	len = strcspn(s, "?#");
	if (rc == RELMQ_OK && len > 1)
		rc = decode(p, p->path_name, s + 1, len - 1, &p->path);
	return rc == RELMQ_OK ? parse_query(p, s + len) : rc;
}

/* --- into the settings -------------------------------------------------------------- */

static void take(char **to, char **from)
{
	if (*from == NULL)
		return;
	free(*to);
	*to = *from;
	*from = NULL;
}

static bool is(const char *value, const char *one, const char *other)
{
	return value != NULL && (strcmp(value, one) == 0 || strcmp(value, other) == 0);
}

static char *either(char *ours, char *theirs)
{
	return ours != NULL ? ours : theirs;
}

/* Whoever names a file for TLS wants TLS. */
static relmq_code take_tls(parts *p, bool enabled, relmq__tls_settings *t)
{
	char why[RELMQ__TLS_TEXT_SIZE];
	bool named =
	    p->ca_file != NULL || p->cert_file != NULL || p->key_file != NULL || p->verify != NULL;
	relmq__tls_settings would = { .enabled = enabled || named || is(p->tls, "on", "true"),
		.verify = p->verify != NULL ? is(p->verify, "verify_peer", "true") : t->verify,
		.ca_file = either(p->ca_file, t->ca_file),
		.cert_file = either(p->cert_file, t->cert_file),
		.key_file = either(p->key_file, t->key_file) };
	if (p->tls != NULL && !is(p->tls, "on", "true"))
		return refuse(p, "tls", "may be only on; leave it out otherwise");
	if (p->verify != NULL && !would.verify && !is(p->verify, "verify_none", "false"))
		return refuse(p, "verify", "must be verify_peer or verify_none");
	if (!relmq__tls_check(&would, why))
		return refuse(p, "query", why);
	t->enabled = would.enabled || t->enabled;
	t->verify = would.verify;
	take(&t->ca_file, &p->ca_file);
	take(&t->cert_file, &p->cert_file);
	take(&t->key_file, &p->key_file);
	return RELMQ_OK;
}

/* A host that is named stands for the whole list. */
static void take_host(parts *p, char **host, char ***hosts, size_t *count)
{
	if (p->host == NULL)
		return;
	for (size_t i = 0; i < *count; i++)
		free((*hosts)[i]);
	free(*hosts);
	*hosts = NULL;
	*count = 0;
	take(host, &p->host);
}

relmq_code relmq__uri_rabbitmq(const char *uri, relmq__rabbitmq_settings *s, relmq_error *err)
{
	bool tls = strncasecmp(uri, "amqps:", 6) == 0;
	parts p = { .scheme = tls ? "amqps" : "amqp", .path_name = "vhost", .err = err };
	relmq_code rc = parse(&p, uri);
	if (rc == RELMQ_OK && p.path == NULL && (p.path = strdup("/")) == NULL)
		rc = relmq__fail_nomem(err);
	if (rc == RELMQ_OK && !tls &&
	    (p.tls != NULL || p.verify != NULL || p.ca_file != NULL || p.cert_file != NULL ||
	        p.key_file != NULL))
		rc = refuse(&p, "query", "is about TLS, which is amqps://");
	if (rc == RELMQ_OK && p.port == 0 && tls && !s->tls.enabled)
		p.port = relmq__settings_amqp_port(tls);
	if (rc == RELMQ_OK)
		rc = take_tls(&p, tls, &s->tls);
	if (rc == RELMQ_OK) {
		take(&s->user, &p.user);
		take(&s->password, &p.password);
		take_host(&p, &s->host, &s->hosts, &s->host_count);
		take(&s->vhost, &p.path);
		s->port = p.port != 0 ? p.port : s->port;
	}
	free_parts(&p);
	return rc;
}

relmq_code relmq__uri_mysql(const char *uri, relmq__mysql_settings *s, relmq_error *err)
{
	parts p = { .scheme = "mysql", .path_name = "database", .err = err };
	relmq_code rc = parse(&p, uri);
	if (rc == RELMQ_OK)
		rc = take_tls(&p, false, &s->tls);
	if (rc == RELMQ_OK) {
		take(&s->user, &p.user);
		take(&s->password, &p.password);
		take_host(&p, &s->host, &s->hosts, &s->host_count);
		take(&s->database, &p.path);
		s->port = p.port != 0 ? p.port : s->port;
	}
	free_parts(&p);
	return rc;
}
