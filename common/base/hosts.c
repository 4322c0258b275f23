/* base/hosts.c - see hosts.h. */
#include "base/hosts.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"

enum { FRESH = 0, STAY, LEAVE }; /* what the next pick does */

static bool is_ipv6(const char *text)
{
	struct in6_addr address;
	return inet_pton(AF_INET6, text, &address) == 1;
}

static bool read_port(const char *text, int64_t *port)
{
	size_t digits = strspn(text, "0123456789");
	long n = digits > 0 && digits <= 5 && text[digits] == '\0' ? strtol(text, NULL, 10) : 0;
	if (n < 1 || n > 65535)
		return false;
	*port = n;
	return true;
}

static const char *take_name(const char *from, size_t n, char name[RELMQ__HOST_SIZE])
{
	if (n == 0)
		return "has no name";
	if (n >= RELMQ__HOST_SIZE)
		return "has a name of more than 255 bytes";
	memcpy(name, from, n);
	name[n] = '\0';
	return NULL;
}

static const char *parse_bracketed(const char *text, char name[RELMQ__HOST_SIZE], int64_t *port)
{
	const char *end = strchr(text, ']');
	if (end == NULL)
		return "has a '[' without ']'";
	const char *wrong = take_name(text + 1, (size_t) (end - text) - 1, name);
	if (wrong != NULL)
		return wrong;
	if (!is_ipv6(name))
		return "has no IPv6 address in its brackets";
	if (end[1] == '\0' || (end[1] == ':' && read_port(end + 2, port)))
		return NULL;
	return "may have only :PORT after ']', from 1 to 65535";
}

const char *relmq__host_parse(const char *text, char name[RELMQ__HOST_SIZE], int64_t *port)
{
	if (text[0] == '[')
		return parse_bracketed(text, name, port);
	const char *colon = strchr(text, ':');
	if (colon != NULL && strchr(colon + 1, ':') != NULL)
		return "is ambiguous: an IPv6 address stands in brackets here, [::1] or "
		       "[::1]:5672";
	if (colon != NULL && !read_port(colon + 1, port))
		return "must have a port from 1 to 65535 after ':'";
	return take_name(text, colon != NULL ? (size_t) (colon - text) : strlen(text), name);
}

const char *relmq__host_alone(const char *text, int64_t port)
{
	const char *last = strrchr(text, ':');
	int64_t group = 0;
	if (text[0] == '[')
		return "has brackets: here an IPv6 address has none, and the port stands in port";
	if (last == NULL)
		return NULL;
	if (!is_ipv6(text))
		return "is no name and no IPv6 address; the port stands in port";
	/* Eight groups, with this one: it can be nothing but a part of the address. */
	if (strstr(text, "::") != NULL && read_port(last + 1, &group) && group == port)
		return "is ambiguous: does it end in its port? That stands in port";
	return NULL;
}

void relmq__hosts_leave(relmq__hosts *h)
{
	h->state = LEAVE;
}

void relmq__hosts_pick(relmq__hosts *h, const relmq__servers *from, bool anywhere)
{
	size_t count = from->count > 0 ? from->count : 1;
	if (h->state == FRESH)
		h->at = anywhere ? (size_t) relmq__random_below(count) : 0;
	else if (h->state == LEAVE)
		h->at++;
	h->state = STAY;
	h->at %= count;
	h->port = from->port;
	const char *text = from->count > 0 ? from->list[h->at] : from->host;
	/* The list was checked when it was read; a host alone is what it is. */
	if (from->count == 0 || relmq__host_parse(text, h->name, &h->port) != NULL)
		(void) snprintf(h->name, sizeof(h->name), "%s", text);
	bool ipv6 = strchr(h->name, ':') != NULL;
	(void) snprintf(h->text, sizeof(h->text), "%s%s%s:%lld", ipv6 ? "[" : "", h->name,
	    ipv6 ? "]" : "", (long long) h->port);
}
