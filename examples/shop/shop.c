/* shop.c - a small application that writes orders, each with its message in one transaction.
 *
 *     RELMQ_MYSQL_PASSWORD=... shop HOST PORT USER DATABASE ORDERS PER_SECOND
 *
 * Writes until table `orders` holds ORDERS rows, about PER_SECOND a second. Every order
 * belongs to one of 100 customers and takes the customer's next number under the lock of
 * the customer's row: that lock is what makes the order of a customer's messages the order
 * of its commits. One order in twenty is rolled back on purpose: it must leave no message.
 *
 * It keeps nothing in memory that matters. Killed and started again, it goes on from what
 * the tables say. */
#include <mysql.h>
#include <relmq/outbox.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CUSTOMERS = 100, ROLL_BACK_ONE_IN = 20, TRY_AGAIN_MS = 100 };

typedef struct shop {
	const char *host, *user, *database;
	unsigned port;
	MYSQL *db;
	relmq_outbox *outbox;
} shop;

static void rest_ms(long ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000 };
	(void) nanosleep(&t, NULL);
}

static void disconnect(shop *s)
{
	relmq_outbox_close(s->outbox); /* before its connection */
	s->outbox = NULL;
	if (s->db != NULL)
		mysql_close(s->db);
	s->db = NULL;
}

static bool connect_db(shop *s)
{
	relmq_error err;
	unsigned seconds = 5; /* no call without a bound */
	s->db = mysql_init(NULL);
	if (s->db == NULL)
		return false;
	(void) mysql_options(s->db, MYSQL_OPT_CONNECT_TIMEOUT, &seconds);
	(void) mysql_options(s->db, MYSQL_OPT_READ_TIMEOUT, &seconds);
	(void) mysql_options(s->db, MYSQL_OPT_WRITE_TIMEOUT, &seconds);
	if (mysql_real_connect(s->db, s->host, s->user, getenv("RELMQ_MYSQL_PASSWORD"), s->database,
	        s->port, NULL, 0) == NULL) {
		fprintf(stderr, "shop: %s\n", mysql_error(s->db));
		return false;
	}
	if (relmq_outbox_open(&s->outbox, s->db, NULL, &err) != RELMQ_OK) {
		fprintf(stderr, "shop: %s\n", err.text);
		return false;
	}
	return true;
}

static bool number(shop *s, const char *sql, long long *out)
{
	if (mysql_query(s->db, sql) != 0)
		return false;
	MYSQL_RES *res = mysql_store_result(s->db);
	MYSQL_ROW row = res != NULL ? mysql_fetch_row(res) : NULL;
	bool ok = row != NULL && row[0] != NULL;
	if (ok)
		*out = atoll(row[0]);
	mysql_free_result(res);
	return ok;
}

/* The business change: the customer's next number, and the order. */
static bool insert_order(shop *s, int customer, long long *order_id, long long *seq)
{
	char sql[160];
	(void) snprintf(sql, sizeof(sql), "SELECT next_seq FROM customers WHERE id = %d FOR UPDATE",
	    customer);
	if (!number(s, sql, seq))
		return false;
	(void) snprintf(sql, sizeof(sql),
	    "UPDATE customers SET next_seq = next_seq + 1 WHERE id = %d", customer);
	if (mysql_query(s->db, sql) != 0)
		return false;
	(void) snprintf(sql, sizeof(sql), "INSERT INTO orders (customer, seq) VALUES (%d, %lld)",
	    customer, *seq);
	if (mysql_query(s->db, sql) != 0)
		return false;
	*order_id = (long long) mysql_insert_id(s->db);
	return true;
}

/* Its message, in the same transaction. */
static bool insert_message(shop *s, int customer, long long order_id, long long seq)
{
	char key[32], body[128];
	relmq_error err;
	relmq_msg m = RELMQ_MSG_INIT;
	(void) snprintf(key, sizeof(key), "customer-%d", customer);
	int n = snprintf(body, sizeof(body), "{\"order_id\":%lld,\"customer\":%d,\"seq\":%lld}", order_id,
	    customer, seq);
	m.exchange = "shop";
	m.routing_key = "orders";
	m.business_key = key;
	m.type = "order.placed";
	m.content_type = "application/json";
	m.body = body;
	m.body_len = (size_t) n;
	if (relmq_outbox_add(s->outbox, &m, NULL, &err) == RELMQ_OK)
		return true;
	fprintf(stderr, "shop: %s\n", err.text);
	return false;
}

/* One unit, whole or not at all. False: nothing can be said of the connection any more. */
static bool place_order(shop *s, bool roll_back, bool *committed)
{
	int customer = rand() % CUSTOMERS + 1;
	long long order_id = 0, seq = 0;
	*committed = false;
	if (mysql_query(s->db, "START TRANSACTION") != 0)
		return false;
	if (!insert_order(s, customer, &order_id, &seq) ||
	    !insert_message(s, customer, order_id, seq) || roll_back)
		return mysql_rollback(s->db) == 0;
	*committed = mysql_commit(s->db) == 0;
	return *committed; /* a COMMIT without an answer may have worked: count anew */
}

static void wait_for_turn(const struct timespec *start, double orders_per_s, long long turn)
{
	struct timespec now;
	(void) clock_gettime(CLOCK_MONOTONIC, &now);
	double passed = (double) (now.tv_sec - start->tv_sec) +
	    (double) (now.tv_nsec - start->tv_nsec) / 1e9;
	double due = (double) turn / orders_per_s;
	if (due > passed)
		rest_ms((long) ((due - passed) * 1000));
}

/* Until the tables hold `wanted` orders, or the connection is lost. */
static bool write_orders(shop *s, long long wanted, double orders_per_s)
{
	struct timespec start;
	long long there = 0;
	if (!number(s, "SELECT COUNT(*) FROM orders", &there))
		return false;
	(void) clock_gettime(CLOCK_MONOTONIC, &start);
	for (long long turn = 0; there < wanted; turn++) {
		bool committed;
		wait_for_turn(&start, orders_per_s, turn);
		if (!place_order(s, rand() % ROLL_BACK_ONE_IN == 0, &committed))
			return false;
		there += committed;
	}
	return true;
}

int main(int argc, char **argv)
{
	shop s = { 0 };
	if (argc != 7 || atoll(argv[5]) <= 0 || atof(argv[6]) <= 0) {
		fprintf(stderr, "usage: shop HOST PORT USER DATABASE ORDERS PER_SECOND\n");
		return 2;
	}
	s.host = argv[1];
	s.port = (unsigned) atoi(argv[2]);
	s.user = argv[3];
	s.database = argv[4];
	srand((unsigned) time(NULL));
	while (!connect_db(&s) || !write_orders(&s, atoll(argv[5]), atof(argv[6]))) {
		disconnect(&s);
		rest_ms(TRY_AGAIN_MS);
	}
	disconnect(&s);
	return 0;
}
