/* mq/tls.c - see tls.h. */
#include "mq/tls.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "base/error.h"

/* What OpenSSL said first: what comes after it follows from it. */
static const char *openssl_text(void)
{
	const char *text = ERR_reason_error_string(ERR_peek_error());
	return text != NULL ? text : "unknown reason";
}

/* Keys with a passphrase are refused; OpenSSL would ask for it on the terminal. */
static int no_passphrase(char *buf, int size, int writing, void *arg)
{
	(void) writing;
	(void) arg;
	if (size > 0)
		buf[0] = '\0';
	return 0;
}

static int on_verify(int ok, X509_STORE_CTX *store)
{
	SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
	int *verdict = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
	if (!ok && *verdict == 0)
		*verdict = X509_STORE_CTX_get_error(store);
	return ok;
}

static relmq_code fail_file(const char *key, const char *path, const char *host, relmq_error *err)
{
	return relmq__fail(err, RELMQ_EBROKER, RELMQ_F_RETRY, "rabbitmq %.80s: %s %.80s: %s", host,
	    key, path, openssl_text());
}

static relmq_code load_files(
    SSL_CTX *ctx, const relmq__tls_settings *s, const char *host, relmq_error *err)
{
	bool own_ca = s->ca_file[0] != '\0';
	ERR_clear_error();
	if (own_ca && SSL_CTX_load_verify_locations(ctx, s->ca_file, NULL) != 1)
		return fail_file("tls.ca_file", s->ca_file, host, err);
	if (!own_ca && SSL_CTX_set_default_verify_paths(ctx) != 1)
		return fail_file("authorities", "of the system", host, err);
	if (s->cert_file[0] == '\0')
		return RELMQ_OK;
	if (SSL_CTX_use_certificate_chain_file(ctx, s->cert_file) != 1)
		return fail_file("tls.cert_file", s->cert_file, host, err);
	if (SSL_CTX_use_PrivateKey_file(ctx, s->key_file, SSL_FILETYPE_PEM) != 1)
		return fail_file("tls.key_file", s->key_file, host, err);
	return RELMQ_OK;
}

/* The name is part of the verification of the chain, so that a wrong one ends the handshake. */
static bool expect_host(SSL_CTX *ctx, const char *host)
{
	X509_VERIFY_PARAM *param = SSL_CTX_get0_param(ctx);
	X509_VERIFY_PARAM_set_hostflags(param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
	return X509_VERIFY_PARAM_set1_ip_asc(param, host) == 1 ||
	    X509_VERIFY_PARAM_set1_host(param, host, 0) == 1;
}

amqp_socket_t *relmq__tls_socket(amqp_connection_state_t state, const relmq__tls_settings *s,
    const char *host, int *verdict, relmq_error *err)
{
	amqp_socket_t *socket = amqp_ssl_socket_new(state);
	if (socket == NULL) {
		(void) relmq__fail_nomem(err);
		return NULL;
	}
	SSL_CTX *ctx = amqp_ssl_socket_get_context(socket);
	*verdict = 0;
	amqp_ssl_socket_set_verify_peer(socket, s->verify);
	amqp_ssl_socket_set_verify_hostname(socket, 0);
	SSL_CTX_set_app_data(ctx, verdict);
	SSL_CTX_set_verify(ctx, s->verify ? SSL_VERIFY_PEER : SSL_VERIFY_NONE, on_verify);
	SSL_CTX_set_default_passwd_cb(ctx, no_passphrase);
	if (SSL_CTX_set_min_proto_version(ctx, TLS1_2_VERSION) != 1 ||
	    (s->verify && !expect_host(ctx, host))) {
		(void) relmq__fail_nomem(err);
		return NULL;
	}
	relmq_code code = load_files(ctx, s, host, err);
	ERR_clear_error(); /* so that what is there after the handshake is of the handshake */
	return code == RELMQ_OK ? socket : NULL;
}

const char *relmq__tls_reason(int status, int verdict)
{
	if (verdict != 0)
		return X509_verify_cert_error_string(verdict);
	switch (status) {
	case AMQP_STATUS_SSL_ERROR:
	case AMQP_STATUS_SSL_CONNECTION_FAILED:
	case AMQP_STATUS_SSL_PEER_VERIFY_FAILED:
	case AMQP_STATUS_SSL_HOSTNAME_VERIFY_FAILED:
		break;
	default:
		return NULL;
	}
	unsigned long said = ERR_peek_error();
	if (said == 0)
		return "the server hung up in the TLS handshake";
	if (ERR_GET_LIB(said) == ERR_LIB_SSL && ERR_GET_REASON(said) == SSL_R_WRONG_VERSION_NUMBER)
		return "the server does not speak TLS on this port";
	return openssl_text();
}

void relmq__tls_forget(void)
{
	ERR_clear_error();
}
