/* db/tls.c - see tls.h. */
#include "db/tls.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

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

static bool connect_at_once(
    MYSQL *mysql, const relmq__mysql_settings *s, const char *host, unsigned port)
{
	return mysql_real_connect(mysql, host, s->user, s->password, s->database, port,
	           or_null(s->socket), 0) != NULL;
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

bool relmq__db_connect(
    MYSQL *mysql, const relmq__mysql_settings *s, const char *host, unsigned port, bool *bounded)
{
	*bounded = false; /* by the library */
	return connect_at_once(mysql, s, host, port);
}
#else
static void set_mode(MYSQL *mysql, const relmq__tls_settings *t)
{
	unsigned mode = t->verify ? SSL_MODE_VERIFY_IDENTITY : SSL_MODE_REQUIRED;
	if (t->enabled)
		(void) mysql_options(mysql, MYSQL_OPT_SSL_MODE, &mode);
}

/* A thread that waits as long as a connect may take, and then pulls the plug. */
typedef struct bound {
	MYSQL *mysql;
	int64_t ms;
	int ends[2]; /* a pipe: the connect is over when its writing end is closed */
	bool fired;
} bound;

static void *bound_main(void *arg)
{
	bound *b = arg;
	struct pollfd over = { .fd = b->ends[0], .events = POLLIN };
	if (poll(&over, 1, (int) b->ms) == 0 && b->mysql->net.fd > STDERR_FILENO) {
		b->fired = true;
		(void) shutdown(b->mysql->net.fd, SHUT_RDWR);
	}
	return NULL;
}

static bool start_bound(bound *b, pthread_t *thread)
{
	sigset_t all, old;
	if (pipe2(b->ends, O_CLOEXEC) != 0)
		return false;
	(void) sigfillset(&all);
	(void) pthread_sigmask(SIG_SETMASK, &all, &old);
	bool started = pthread_create(thread, NULL, bound_main, b) == 0;
	(void) pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!started) {
		(void) close(b->ends[0]);
		(void) close(b->ends[1]);
	}
	return started;
}

bool relmq__db_connect(
    MYSQL *mysql, const relmq__mysql_settings *s, const char *host, unsigned port, bool *bounded)
{
	pthread_t thread;
	bound b = { .mysql = mysql, .ms = s->connect_timeout_ms };
	*bounded = false;
	if (!s->tls.enabled || !start_bound(&b, &thread))
		return connect_at_once(mysql, s, host, port);
	bool connected = connect_at_once(mysql, s, host, port);
	(void) close(b.ends[1]);
	(void) pthread_join(thread, NULL);
	(void) close(b.ends[0]);
	*bounded = b.fired;
	return connected && !b.fired;
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
