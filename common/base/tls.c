/* base/tls.c - see tls.h. */
#include "base/tls.h"

#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/config.h"

enum { PEM_MAX = 1 << 20 };

static bool readable(const char *key, const char *path, relmq__buf *text, char *why)
{
	relmq_error err = RELMQ_ERROR_INIT;
	if (path == NULL || path[0] == '\0' ||
	    relmq__config_slurp(path, PEM_MAX, text, &err) == RELMQ_OK)
		return true;
	(void) snprintf(why, RELMQ__TLS_TEXT_SIZE, "%s: %s", key, err.text);
	return false;
}

/* Both forms that PEM has for it: the newer says so in its first line, the older in a header. */
static bool encrypted(const relmq__buf *key)
{
	static const char newer[] = "-----BEGIN ENCRYPTED PRIVATE KEY-----";
	static const char older[] = "Proc-Type: 4,ENCRYPTED";
	return key->len > 0 &&
	    (memmem(key->data, key->len, newer, sizeof(newer) - 1) != NULL ||
	        memmem(key->data, key->len, older, sizeof(older) - 1) != NULL);
}

static bool check_files(const relmq__tls_settings *t, relmq__buf *key, char *why)
{
	relmq__buf other = { 0 };
	bool ok = readable("ca_file", t->ca_file, &other, why) &&
	    readable("cert_file", t->cert_file, &other, why) &&
	    readable("key_file", t->key_file, key, why);
	relmq__buf_free(&other);
	if (ok && encrypted(key)) {
		(void) snprintf(why, RELMQ__TLS_TEXT_SIZE,
		    "key_file: %.200s: is encrypted, which is not supported; give a key without "
		    "passphrase and mode 0600",
		    t->key_file);
		ok = false;
	}
	return ok;
}

bool relmq__tls_check(const relmq__tls_settings *t, char why[RELMQ__TLS_TEXT_SIZE])
{
	relmq__buf key = { 0 };
	if (!t->enabled)
		return true;
	if ((t->cert_file[0] != '\0') != (t->key_file[0] != '\0')) {
		(void) snprintf(why, RELMQ__TLS_TEXT_SIZE,
		    "%s: is missing; cert_file and key_file "
		    "belong together",
		    t->key_file[0] == '\0' ? "key_file" : "cert_file");
		return false;
	}
	bool ok = check_files(t, &key, why);
	if (key.data != NULL)
		explicit_bzero(key.data, key.cap);
	relmq__buf_free(&key);
	return ok;
}

static const char *there(const char *variable, const char *otherwise)
{
	const char *named = getenv(variable);
	const char *path = named != NULL && named[0] != '\0' ? named : otherwise;
	return access(path, R_OK) == 0 ? path : NULL;
}

const char *relmq__tls_system_file(void)
{
	return there(X509_get_default_cert_file_env(), X509_get_default_cert_file());
}

const char *relmq__tls_system_folder(void)
{
	return there(X509_get_default_cert_dir_env(), X509_get_default_cert_dir());
}
