/* bench.c - see bench.h. */
#include "bench.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/uuid.h"
#include "db/migrate.h"
#include "mq/topology.h"

enum { LOCK_WAIT_S = 10, STOP_MS = 30000, ANSWER_S = 30, BURST = 64 };

void bench_die(const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	(void) fputs("bench: ", stderr);
	(void) vfprintf(stderr, fmt, args);
	(void) fputc('\n', stderr);
	va_end(args);
	exit(1);
}

void bench_say(const char *fmt, ...)
{
	va_list args;
	va_start(args, fmt);
	(void) fputs("bench: ", stderr);
	(void) vfprintf(stderr, fmt, args);
	(void) fputc('\n', stderr);
	va_end(args);
}

int64_t bench_operand(int argc, char **argv, int which, int64_t otherwise, int64_t max)
{
	char *end;
	if (argc <= which)
		return otherwise;
	errno = 0;
	long long value = strtoll(argv[which], &end, 10);
	if (errno != 0 || *end != '\0' || value < 1 || value > max)
		bench_die(
		    "%s: must be a whole number from 1 to %lld", argv[which], (long long) max);
	return value;
}

bool bench_flag(int *argc, char **argv, const char *name)
{
	for (int i = 1; i < *argc; i++) {
		if (strcmp(argv[i], name) != 0)
			continue;
		memmove(argv + i, argv + i + 1, (size_t) (*argc - i) * sizeof(*argv));
		(*argc)--;
		return true;
	}
	return false;
}

int64_t bench_option(int *argc, char **argv, const char *name, int64_t otherwise, int64_t max)
{
	for (int i = 1; i < *argc; i++) {
		if (strcmp(argv[i], name) != 0)
			continue;
		if (i + 1 == *argc)
			bench_die("%s needs a number", name);
		int64_t value = bench_operand(*argc, argv, i + 1, otherwise, max);
		memmove(argv + i, argv + i + 2, (size_t) (*argc - i - 1) * sizeof(*argv));
		*argc -= 2;
		return value;
	}
	return otherwise;
}

void bench_pause_ms(int ms)
{
	(void) poll(NULL, 0, ms);
}

static void must(relmq_code code, const relmq_error *err)
{
	if (code != RELMQ_OK)
		bench_die("%s", err->text);
}

/* --- database and broker ------------------------------------------------------------------ */

static const char *variable(const char *name)
{
	const char *value = getenv(name);
	if (value == NULL)
		bench_die("%s is not set: start this by tests/bench/run.sh", name);
	return value;
}

static void replace(char **at, const char *value)
{
	free(*at);
	*at = strdup(value);
	if (*at == NULL)
		bench_die("out of memory");
}

static void read_settings(bench *b)
{
	relmq_error err;
	relmq__mysql_settings *m = &b->settings.mysql;
	relmq__rabbitmq_settings *r = &b->settings.rabbitmq;
	must(relmq__settings_default(&b->settings, &err), &err);
	replace(&m->host, variable("RELMQ_MYSQL_HOST"));
	replace(&m->user, variable("RELMQ_MYSQL_USER"));
	replace(&m->password, variable("RELMQ_MYSQL_PASSWORD"));
	replace(&m->database, "");
	m->port = strtoll(variable("RELMQ_MYSQL_PORT"), NULL, 10);
	replace(&r->host, variable("RELMQ_AMQP_HOST"));
	replace(&r->user, variable("RELMQ_AMQP_USER"));
	replace(&r->password, variable("RELMQ_AMQP_PASSWORD"));
	r->port = strtoll(variable("RELMQ_AMQP_PORT"), NULL, 10);
	(void) setenv("RELMQ_RABBITMQ_PASSWORD", r->password, 1);
}

void bench_sql(bench *b, const char *fmt, ...)
{
	relmq_error err;
	char *sql = NULL;
	va_list args;
	va_start(args, fmt);
	int n = vasprintf(&sql, fmt, args);
	va_end(args);
	if (n < 0)
		bench_die("out of memory");
	must(relmq__db_exec(&b->db, sql, (size_t) n, NULL, &err), &err);
	free(sql);
}

int64_t bench_number(bench *b, const char *sql)
{
	relmq_error err;
	int64_t value = 0;
	must(relmq__db_number(&b->db, sql, 0, &value, &err), &err);
	return value;
}

static void make_database(bench *b)
{
	relmq_error err;
	int from, to;
	must(relmq__db_open(&b->db, &b->settings.mysql, LOCK_WAIT_S, &err), &err);
	bench_sql(b, "DROP DATABASE IF EXISTS relmq_bench");
	bench_sql(b, "CREATE DATABASE relmq_bench");
	bench_sql(b, "USE relmq_bench");
	replace(&b->settings.mysql.database, "relmq_bench");
	must(relmq__migrate(&b->db, &from, &to, &err), &err);
	bench_sql(b,
	    "CREATE TABLE bench_effect (id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,"
	    " n BIGINT UNSIGNED NOT NULL, business_key VARBINARY(255) NOT NULL,"
	    " at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)) ENGINE=InnoDB");
}

void bench_empty_tables(bench *b)
{
	static const char *const tables[] = { "message_outbox", "message_inbox", "bench_effect" };
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++)
		bench_sql(b, "TRUNCATE TABLE %s", tables[i]);
}

void bench_connect(bench *b, relmq__conn *conn, const char *name)
{
	relmq_error err;
	memset(conn, 0, sizeof(*conn));
	must(relmq__conn_open(conn, &b->settings.rabbitmq, name, &err), &err);
}

void bench_fresh_queue(bench *b, bool by_dlx)
{
	relmq_error err;
	relmq__conn mq;
	amqp_table_entry_t type = { .key = amqp_cstring_bytes("x-queue-type") };
	type.value.kind = AMQP_FIELD_KIND_UTF8;
	type.value.value.bytes = amqp_cstring_bytes("quorum");
	bench_connect(b, &mq, "bench");
	(void) amqp_queue_delete(mq.state, RELMQ__CHANNEL, amqp_cstring_bytes(BENCH_QUEUE), 0, 0);
	if (by_dlx)
		bench_run(b, "relmq-dlx", "declare");
	else
		must(
		    relmq__queue_declare(&mq, BENCH_QUEUE, (amqp_table_t){ 1, &type }, &err), &err);
	relmq__conn_close(&mq, true);
}

uint32_t bench_queue_depth(bench *b)
{
	relmq_error err;
	relmq__conn mq;
	relmq__queue_info info = { 0 };
	bench_connect(b, &mq, "bench");
	must(relmq__queue_inspect(&mq, BENCH_QUEUE, &info, &err), &err);
	relmq__conn_close(&mq, true);
	return info.ready;
}

void bench_configure(bench *b, const char *publisher, int64_t amqp_port)
{
	const relmq__mysql_settings *m = &b->settings.mysql;
	const relmq__rabbitmq_settings *r = &b->settings.rabbitmq;
	FILE *f = fopen(b->config, "w");
	if (f == NULL)
		bench_die("%s: %s", b->config, strerror(errno));
	(void) fprintf(f,
	    "{\"mysql\":{\"host\":\"%s\",\"port\":%lld,\"user\":\"%s\",\"database\":\"%s\"},\n"
	    "\"rabbitmq\":{\"host\":\"%s\",\"port\":%lld,\"user\":\"%s\"},\n"
	    "\"publisher\":{%s},\n"
	    "\"consumer\":{\"queues\":[{\"queue\":\"" BENCH_QUEUE "\","
	    "\"handler\":{\"kind\":\"sql\",\"statements\":[\"" BENCH_STATEMENT "\"]}}]}}\n",
	    m->host, (long long) m->port, m->user, m->database, r->host,
	    (long long) (amqp_port != 0 ? amqp_port : r->port), r->user, publisher);
	if (fclose(f) != 0)
		bench_die("%s: %s", b->config, strerror(errno));
}

static pid_t server(const char *stack, const char *name)
{
	char path[512];
	long pid = 0;
	(void) snprintf(path, sizeof(path), "%s/run/%s.pid", stack, name);
	FILE *f = fopen(path, "r");
	if (f == NULL || fscanf(f, "%ld", &pid) != 1)
		bench_die("%s holds no pid", path);
	(void) fclose(f);
	return (pid_t) pid;
}

void bench_open(bench *b)
{
	const char *stack = variable("RELMQ_STACK_DIR");
	memset(b, 0, sizeof(*b));
	b->database = server(stack, "mysqld");
	b->broker = server(stack, "broker");
	(void) snprintf(b->dir, sizeof(b->dir), "%s/bench", stack);
	(void) snprintf(b->config, sizeof(b->config), "%s/config.json", b->dir);
	(void) mkdir(b->dir, 0755);
	read_settings(b);
	make_database(b);
	bench_configure(b, "", 0);
}

void bench_close(bench *b)
{
	relmq__db_close(&b->db);
	relmq__settings_free(&b->settings);
}

/* --- messages ------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t x) /* splitmix64 */
{
	x += 0x9e3779b97f4a7c15U;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
	return x ^ (x >> 31);
}

void bench_body(char body[BENCH_BODY], uint64_t n)
{
	int at = snprintf(body, BENCH_BODY, "{\"n\":%llu,\"pad\":\"", (unsigned long long) n);
	uint64_t bits = 0;
	for (int i = at; i < BENCH_BODY - 2; i++) {
		if ((i - at) % 12 == 0)
			bits = mix(n * BENCH_BODY + (uint64_t) i);
		body[i] = (char) ('A' + (bits & 15));
		bits >>= 5;
	}
	body[BENCH_BODY - 2] = '"'; /* bytes, not a string: no NUL */
	body[BENCH_BODY - 1] = '}';
}

void bench_key(char key[16], uint64_t n)
{
	(void) snprintf(key, 16, "key-%03u", (unsigned) (mix(n) % BENCH_KEYS));
}

/* Confirms that may come out of order and for many at once: a byte a message. */
typedef struct bare {
	amqp_connection_state_t state;
	unsigned char *settled;
	uint64_t sent, base, open;
} bare;

static void publish_one(bare *p, uint64_t n)
{
	char body[BENCH_BODY];
	char id[RELMQ__UUID_SIZE];
	char key[16];
	amqp_table_entry_t header = { .key = amqp_cstring_bytes("x-relmq-key") };
	amqp_basic_properties_t props = { ._flags = AMQP_BASIC_DELIVERY_MODE_FLAG |
		    AMQP_BASIC_MESSAGE_ID_FLAG | AMQP_BASIC_HEADERS_FLAG,
		.delivery_mode = AMQP_DELIVERY_PERSISTENT };
	if (relmq__uuid7(id) != 0)
		bench_die("no random bytes");
	bench_body(body, n);
	bench_key(key, n);
	header.value.kind = AMQP_FIELD_KIND_UTF8;
	header.value.value.bytes = amqp_cstring_bytes(key);
	props.message_id = amqp_cstring_bytes(id);
	props.headers = (amqp_table_t){ 1, &header };
	int rc = amqp_basic_publish(p->state, RELMQ__CHANNEL, amqp_empty_bytes,
	    amqp_cstring_bytes(BENCH_QUEUE), 1, 0, &props, (amqp_bytes_t){ sizeof(body), body });
	if (rc != AMQP_STATUS_OK)
		bench_die("publish: %s", amqp_error_string2(rc));
	p->sent++;
	p->open++;
}

static void settle(bare *p, uint64_t tag)
{
	p->open -= !p->settled[tag];
	p->settled[tag] = 1;
}

/* Everything that has come, after waiting for the first of it at most `seconds`. */
static void read_confirms(bare *p, long seconds)
{
	amqp_frame_t frame;
	struct timeval wait = { seconds, 0 };
	for (;; wait.tv_sec = 0) {
		int rc = amqp_simple_wait_frame_noblock(p->state, &frame, &wait);
		if (rc == AMQP_STATUS_TIMEOUT && wait.tv_sec == 0)
			break;
		if (rc != AMQP_STATUS_OK)
			bench_die("confirms: %s", amqp_error_string2(rc));
		if (frame.frame_type != AMQP_FRAME_METHOD)
			continue;
		if (frame.payload.method.id != AMQP_BASIC_ACK_METHOD)
			bench_die(
			    "confirms: unexpected %s", amqp_method_name(frame.payload.method.id));
		const amqp_basic_ack_t *ack = frame.payload.method.decoded;
		while (ack->multiple && p->base <= ack->delivery_tag)
			settle(p, p->base++);
		settle(p, ack->delivery_tag);
	}
	amqp_maybe_release_buffers(p->state);
}

void bench_publish(bench *b, int64_t count)
{
	relmq__conn conn;
	uint64_t total = (uint64_t) count;
	uint64_t window = (uint64_t) b->settings.publisher.window;
	bench_connect(b, &conn, "bench bare publisher");
	bare p = { .state = conn.state, .settled = calloc(total + 1, 1), .base = 1 };
	if (p.settled == NULL || amqp_confirm_select(p.state, RELMQ__CHANNEL) == NULL)
		bench_die("confirm.select failed");
	while (p.sent < total || p.open > 0) {
		for (int i = 0; i < BURST && p.sent < total && p.open < window; i++)
			publish_one(&p, p.sent + 1);
		read_confirms(&p, p.sent < total && p.open < window ? 0 : ANSWER_S);
	}
	relmq__conn_close(&conn, true);
	free(p.settled);
}

/* --- time and cost ---------------------------------------------------------------------------- */

/* User and system time of a process, fields 14 and 15 of its stat; 0 when there is none. */
int64_t bench_cpu_us(pid_t pid)
{
	char path[64];
	char line[1024] = "";
	unsigned long user = 0, kernel = 0;
	if (pid == 0)
		return 0;
	(void) snprintf(path, sizeof(path), "/proc/%ld/stat", (long) pid);
	FILE *f = fopen(path, "r");
	if (f == NULL)
		return 0;
	size_t n = fread(line, 1, sizeof(line) - 1, f);
	(void) fclose(f);
	line[n] = '\0';
	const char *behind_name = strrchr(line, ')');
	if (behind_name == NULL ||
	    sscanf(behind_name + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user,
	        &kernel) != 2)
		return 0;
	return (int64_t) (user + kernel) * (1000000 / sysconf(_SC_CLK_TCK));
}

static void read_cpu(const bench *b, pid_t pid, int64_t us[3])
{
	us[0] = bench_cpu_us(pid);
	us[1] = bench_cpu_us(b->database);
	us[2] = bench_cpu_us(b->broker);
}

void bench_begin(const bench *b, bench_span *s, pid_t pid)
{
	read_cpu(b, pid, s->cpu_us);
	s->began_us = relmq__now_us();
}

void bench_measure(const bench *b, bench_span *s, pid_t pid)
{
	int64_t now[3];
	s->seconds = (double) (relmq__now_us() - s->began_us) / 1e6;
	read_cpu(b, pid, now);
	for (int i = 0; i < 3; i++)
		s->cpu_us[i] = now[i] - s->cpu_us[i];
}

void bench_end(const bench *b, bench_span *s, pid_t pid, const char *what, int64_t count)
{
	bench_measure(b, s, pid);
	double n = (double) count;
	bench_say("%s: %lld in %.2f s, %.0f/s; processor us a message: itself %.1f, database %.1f,"
	          " broker %.1f",
	    what, (long long) count, s->seconds, n / s->seconds, (double) s->cpu_us[0] / n,
	    (double) s->cpu_us[1] / n, (double) s->cpu_us[2] / n);
}

void bench_wait_quiet(const bench *b)
{
	enum { LOOK_MS = 500, LOOKS = 40, QUIET_US = 50000 };
	for (int i = 0; i < LOOKS; i++) {
		int64_t before = bench_cpu_us(b->database) + bench_cpu_us(b->broker);
		bench_pause_ms(LOOK_MS);
		if (bench_cpu_us(b->database) + bench_cpu_us(b->broker) - before <= QUIET_US)
			return;
	}
	bench_say("the servers do not come to rest: going on");
}

/* --- programs ------------------------------------------------------------------------------- */

static _Noreturn void child(const bench *b, const char *name, const char *command)
{
	char path[512];
	char log[512];
	(void) prctl(PR_SET_PDEATHSIG, SIGKILL); /* nothing is left running, however we end */
	(void) snprintf(path, sizeof(path), "%s/%s", variable("RELMQ_BUILD_DIR"), name);
	(void) snprintf(log, sizeof(log), "%s/%s.log", b->dir, name);
	int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0644);
	(void) dup2(fd, STDOUT_FILENO);
	(void) dup2(fd, STDERR_FILENO);
	(void) execl(path, name, "--config", b->config, command, (char *) NULL);
	_exit(127);
}

static pid_t launch(const bench *b, const char *name, const char *command)
{
	pid_t pid = fork();
	if (pid < 0)
		bench_die("fork: %s", strerror(errno));
	if (pid == 0)
		child(b, name, command);
	return pid;
}

pid_t bench_start(const bench *b, const char *name)
{
	return launch(b, name, NULL);
}

int64_t bench_peak_kib(pid_t pid)
{
	char path[64];
	char line[256];
	long long kib = 0;
	(void) snprintf(path, sizeof(path), "/proc/%ld/status", (long) pid);
	FILE *f = fopen(path, "r");
	while (f != NULL && fgets(line, sizeof(line), f) != NULL)
		if (sscanf(line, "VmHWM: %lld", &kib) == 1)
			break;
	if (f != NULL)
		(void) fclose(f);
	return kib;
}

void bench_check_alive(pid_t pid, const char *name)
{
	if (waitpid(pid, NULL, WNOHANG) != 0)
		bench_die("%s ended by itself: see its log in the stack's folder", name);
}

static void await_end(pid_t pid, const char *name)
{
	int status = 0;
	int64_t end = relmq__now_ms() + STOP_MS;
	while (waitpid(pid, &status, WNOHANG) == 0) {
		if (relmq__now_ms() > end) {
			(void) kill(pid, SIGKILL);
			bench_die("%s did not end within %d ms", name, STOP_MS);
		}
		bench_pause_ms(2);
	}
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
		bench_die("%s failed: see its log in the stack's folder", name);
}

void bench_stop(pid_t pid, const char *name)
{
	(void) kill(pid, SIGTERM);
	await_end(pid, name);
}

void bench_run(const bench *b, const char *name, const char *command)
{
	await_end(launch(b, name, command), name);
}
