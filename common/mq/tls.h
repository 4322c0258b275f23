/* mq/tls.h - a TLS socket for a connection to the broker.
 *
 * OpenSSL does the verifying, chain and name, within the handshake; rabbitmq-c looks only
 * afterwards, at names alone (an address in the certificate does not count there), and some of
 * its versions look wrongly. A handshake that fails is the end: there is no plain text instead. */
#ifndef RELMQ_MQ_TLS_H
#define RELMQ_MQ_TLS_H

#include <relmq/error.h>

#include "base/settings.h"
#include "mq/amqp.h"

/**
 * A socket of `state`, not yet opened, that will accept `host` only. `*verdict` is written while
 * it is being opened and must live until then; it starts as 0. NULL: `err` names the file.
 */
amqp_socket_t *relmq__tls_socket(amqp_connection_state_t state, const relmq__tls_settings *s,
    const char *host, int *verdict, relmq_error *err);
/** Why opening it failed with `status`, for a person; NULL when it was not about TLS. */
const char *relmq__tls_reason(int status, int verdict);
/** Once a connection is closed: what OpenSSL noted for this thread would be taken by the next who
 *  asks, a database session on the same thread, for a failure of its own. */
void relmq__tls_forget(void);

#endif
