/* db/tls.c - see tls.h. */
#include "db/tls.h"

#include "base/tls.h"

static const char *or_null(const char *path)
{
	return path != NULL && path[0] != '\0' ? path : NULL;
}

/* Without any, the chain would go unverified with one library, and the other would refuse. */
static void set_authorities(MYSQL *mysql, const relmq__tls_settings *t)
{
	const char *file = or_null(t->ca_file);
	const char *folder = NULL;
	if (file == NULL && t->verify) {
		file = relmq__tls_system_file();
		folder = relmq__tls_system_folder();
	}
	if (file != NULL)
		(void) mysql_options(mysql, MYSQL_OPT_SSL_CA, file);
	if (folder != NULL)
		(void) mysql_options(mysql, MYSQL_OPT_SSL_CAPATH, folder);
}

#if defined(MARIADB_BASE_VERSION) || defined(LIBMARIADB)
static void set_mode(MYSQL *mysql, const relmq__tls_settings *t)
{
	my_bool on = 1;
	my_bool verify =
	    t->enabled && t->verify; /* since 3.4 the default, and fatal to plain text */
	(void) mysql_options(mysql, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &verify);
	if (t->enabled)
		(void) mysql_options(mysql, MYSQL_OPT_SSL_ENFORCE, &on);
}
#else
static void set_mode(MYSQL *mysql, const relmq__tls_settings *t)
{
	unsigned mode = t->verify ? SSL_MODE_VERIFY_IDENTITY : SSL_MODE_REQUIRED;
	if (t->enabled)
		(void) mysql_options(mysql, MYSQL_OPT_SSL_MODE, &mode);
}
#endif

void relmq__db_set_tls(MYSQL *mysql, const relmq__tls_settings *t)
{
	set_mode(mysql, t);
	if (!t->enabled)
		return;
	(void) mysql_options(mysql, MYSQL_OPT_TLS_VERSION, "TLSv1.2,TLSv1.3");
	set_authorities(mysql, t);
	if (or_null(t->cert_file) != NULL)
		(void) mysql_options(mysql, MYSQL_OPT_SSL_CERT, t->cert_file);
	if (or_null(t->key_file) != NULL)
		(void) mysql_options(mysql, MYSQL_OPT_SSL_KEY, t->key_file);
}

bool relmq__db_tls_kept(MYSQL *mysql, const relmq__tls_settings *t)
{
	return !t->enabled || mysql_get_ssl_cipher(mysql) != NULL;
}
