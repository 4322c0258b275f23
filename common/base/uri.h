/* base/uri.h - amqp://, amqps:// and mysql:// addresses into settings.
 *
 *     amqp://user:password@host:port/vhost      mysql://user:password@host:port/database
 *     amqps://user:password@host:port/vhost?cacertfile=/etc/ca.pem
 *     mysql://user:password@host:port/database?tls=on&cacertfile=/etc/ca.pem
 *
 * amqps is TLS, on port 5671 if none is named; for mysql a query says so. In it may stand
 * cacertfile, certfile, keyfile (PEM files), verify=verify_peer (or verify_none), tls=on.
 *
 * Every part may be left out and then keeps what the settings have (TLS too: amqp:// does not
 * turn it off; a host takes the place of a whole list), but for the vhost: no
 * path and "/" alone both mean the vhost "/"; "/%2F" is the same in full, "/a%2Fb" is "a/b".
 * Every part is percent-decoded, to any byte but NUL. What has a meaning in an address (/ ? #
 * @ [ ] % and space) must be encoded in a part. An IPv6 address stands in brackets. */
#ifndef RELMQ_BASE_URI_H
#define RELMQ_BASE_URI_H

#include "base/settings.h"

/** Replaces what the address names; `s` must come from relmq__settings_default() or _load().
 *  RELMQ_ECONFIG names the part, never its text; after a failure `s` is as before. */
RELMQ_CHECK relmq_code relmq__uri_rabbitmq(
    const char *uri, relmq__rabbitmq_settings *s, relmq_error *err);
RELMQ_CHECK relmq_code relmq__uri_mysql(
    const char *uri, relmq__mysql_settings *s, relmq_error *err);

#endif
