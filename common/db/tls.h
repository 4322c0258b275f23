/* db/tls.h - TLS for a session.
 *
 * The client libraries do most of it, and each has its own traps. MariaDB's (3.3) sends plain
 * text to a server without TLS unless it is to verify the certificate, and some of its versions
 * look at the chain only if they were given authorities; so it is always given some, and what
 * came of it is looked at. Oracle's refuses to verify without any, and keeps what
 * MYSQL_OPT_SSL_MODE says. */
#ifndef RELMQ_DB_TLS_H
#define RELMQ_DB_TLS_H

#include <mysql.h>

#include "base/settings.h"

/** Before mysql_real_connect(). */
void relmq__db_set_tls(MYSQL *mysql, const relmq__tls_settings *t);
/** mysql_real_connect(), with the handshake bounded by connect_timeout too: Oracle's client would
 *  wait in it for ever. `*bounded`: that bound was reached. */
bool relmq__db_connect(
    MYSQL *mysql, const relmq__mysql_settings *s, const char *host, unsigned port, bool *bounded);
/** After it: false when TLS was asked for and the connection has none. */
bool relmq__db_tls_kept(MYSQL *mysql, const relmq__tls_settings *t);

#endif
