/* base/tls.h - what both kinds of TLS connection have in common: the files that are named,
 * and where the system keeps its authorities. Opens no connection. */
#ifndef RELMQ_BASE_TLS_H
#define RELMQ_BASE_TLS_H

#include <stdbool.h>
#include <stddef.h>

#include <relmq/error.h>

#include "base/settings.h"

enum { RELMQ__TLS_TEXT_SIZE = 320 };

/** False when something is wrong with what is named: `why` says which key, and what. Looks at
 *  the files: what cannot be read at start cannot be read at a reconnect either. An encrypted
 *  key is refused: nobody could be asked for its passphrase. */
bool relmq__tls_check(const relmq__tls_settings *t, char why[RELMQ__TLS_TEXT_SIZE]);

/** Where OpenSSL looks for authorities (SSL_CERT_FILE and SSL_CERT_DIR count); NULL where there
 *  is no such file or folder. Static, or the environment's. */
const char *relmq__tls_system_file(void);
const char *relmq__tls_system_folder(void);

#endif
