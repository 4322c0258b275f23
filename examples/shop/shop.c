/* shop.c - a small application that writes orders, each with its message in one transaction.
 *
 *     shop ORDERS PER_SECOND
 *
 * Writes until table `orders` holds ORDERS rows, about PER_SECOND a second. Each order belongs
 * to one of 100 customers and takes the customer's next number. One in twenty is rolled back
 * on purpose: it must leave no message. Read it from place_order() on.
 *
 * It keeps nothing in memory that matters: killed and started again, it goes on from what the
 * tables say. Where the database is, and as whom, stands in the environment:
 * RELMQ_MYSQL_HOST, _PORT, _USER, _PASSWORD, _DATABASE. SHOP_EXCHANGE: where messages go. */
#include <errmsg.h>
#include <mysql.h>
#include <mysqld_error.h>
#include <relmq/outbox.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { CUSTOMERS = 100, ROLLED_BACK_ONE_IN = 20, TIMEOUT_S = 10, RECONNECT_MS = 200 };

typedef enum outcome {
	FINE,
	AGAIN,     /* nothing was committed: roll back, and do the whole unit once more       */
	RECONNECT, /* the connection is of no use: only the tables know what was committed    */
	HOPELESS   /* no later attempt can help: a wrong password, a missing table            */
} outcome;

typedef struct shop {
	MYSQL *db;
	relmq_outbox *outbox;
	const char *exchange;
} shop;

/* --- what an error means ------------------------------------------------------------- */

/* Decided by its number, never by its text. */
static outcome meaning(unsigned error)
{
	switch (error) {
	case ER_LOCK_DEADLOCK:
	case ER_LOCK_WAIT_TIMEOUT:
		return AGAIN;
	case CR_CONNECTION_ERROR:
	case CR_CONN_HOST_ERROR:
	case CR_SERVER_GONE_ERROR:
	case CR_SERVER_LOST:
	case ER_SERVER_SHUTDOWN:
	case ER_CON_COUNT_ERROR:
		return RECONNECT;
	default:
		return HOPELESS;
	}
}

static outcome failed(shop *s)
{
	fprintf(stderr, "shop: (%u) %s\n", mysql_errno(s->db), mysql_error(s->db));
	return meaning(mysql_errno(s->db));
}

static outcome run(shop *s, const char *sql)
{
	return mysql_query(s->db, sql) == 0 ? FINE : failed(s);
}

/* The one number that `sql` selects. */
static outcome number(shop *s, const char *sql, long long *value)
{
	MYSQL_RES *result = NULL;
	MYSQL_ROW row;
	if (mysql_query(s->db, sql) != 0 || (result = mysql_store_result(s->db)) == NULL)
		return failed(s);
	row = mysql_fetch_row(result);
	bool there = row != NULL && row[0] != NULL;
	if (there)
		*value = strtoll(row[0], NULL, 10);
	else
		fprintf(stderr, "shop: no row: %s\n", sql);
	mysql_free_result(result);
	return there ? FINE : HOPELESS;
}

/* --- an order and its message ------------------------------------------------------- */

/* The business change. The lock on the customer's row comes first and is held until COMMIT:
 * who writes for the same customer waits here. So the order in which messages are inserted
 * is the order in which orders are committed, and that is the order they take effect in. */
static outcome insert_order(shop *s, int customer, long long *order_id, long long *seq)
{
	char sql[128];
	(void) snprintf(
	    sql, sizeof(sql), "SELECT next_seq FROM customers WHERE id = %d FOR UPDATE", customer);
	outcome o = number(s, sql, seq);
	if (o != FINE)
		return o;
	(void) snprintf(sql, sizeof(sql),
	    "UPDATE customers SET next_seq = next_seq + 1 WHERE id = %d", customer);
	o = run(s, sql);
	if (o != FINE)
		return o;
	(void) snprintf(sql, sizeof(sql), "INSERT INTO orders (customer, seq) VALUES (%d, %lld)",
	    customer, *seq);
	o = run(s, sql);
	*order_id = (long long) mysql_insert_id(s->db);
	return o;
}

/* The message, through the same connection and so in the same transaction. */
static outcome add_message(shop *s, int customer, long long order_id, long long seq)
{
	char key[32], body[128];
	relmq_error err;
	relmq_msg m = RELMQ_MSG_INIT;
	(void) snprintf(key, sizeof(key), "customer-%d", customer);
	int n = snprintf(body, sizeof(body), "{\"order_id\":%lld,\"customer\":%d,\"seq\":%lld}",
	    order_id, customer, seq);
	m.exchange = s->exchange;
	m.routing_key = "orders";
	m.business_key = key;
	m.type = "order.placed";
	m.content_type = "application/json";
	m.body = body;
	m.body_len = (size_t) n;
	if (relmq_outbox_add(s->outbox, &m, NULL, &err) == RELMQ_OK)
		return FINE;
	fprintf(stderr, "shop: %s\n", err.text);
	if ((err.flags & RELMQ_F_TX_LOST) == 0)
		return HOPELESS;
	return meaning((unsigned) err.native);
}

/* Both or neither. */
static outcome place_order(shop *s, int customer, bool commit)
{
	long long order_id = 0, seq = 0;
	outcome o = run(s, "START TRANSACTION");
	if (o == FINE)
		o = insert_order(s, customer, &order_id, &seq);
	if (o == FINE)
		o = add_message(s, customer, order_id, seq);
	if (o == FINE && commit) {
		o = run(s, "COMMIT");
		/* Without an answer it may have worked or not: do not guess. */
		return o == FINE || o == HOPELESS ? o : RECONNECT;
	}
	if (mysql_rollback(s->db) != 0 && o != HOPELESS)
		return RECONNECT;
	return o;
}

/* --- one after the other -------------------------------------------------------------- */

static void rest_ms(long ms)
{
	struct timespec t = { ms / 1000, ms % 1000 * 1000000 };
	(void) nanosleep(&t, NULL);
}

static void wait_for_turn(const struct timespec *start, long long turn, double per_second)
{
	struct timespec now;
	(void) clock_gettime(CLOCK_MONOTONIC, &now);
	double passed =
	    (double) (now.tv_sec - start->tv_sec) + (double) (now.tv_nsec - start->tv_nsec) / 1e9;
	double due = (double) turn / per_second;
	if (due > passed)
		rest_ms((long) ((due - passed) * 1000));
}

/* How many orders there are, by a read that locks the customers and so waits for whatever an
 * earlier connection has not ended: its COMMIT may still be under way although its client is
 * dead, and a plain read would not see that order. */
static outcome count_orders(shop *s, long long *there)
{
	return number(s, "SELECT SUM(next_seq - 1) FROM customers FOR UPDATE", there);
}

static outcome write_orders(shop *s, long long wanted, double per_second)
{
	struct timespec start;
	unsigned dice = (unsigned) time(NULL);
	long long there = 0;
	outcome o = count_orders(s, &there);
	(void) clock_gettime(CLOCK_MONOTONIC, &start);
	for (long long turn = 0; o == FINE && there < wanted; turn++) {
		int customer = rand_r(&dice) % CUSTOMERS + 1;
		bool commit = rand_r(&dice) % ROLLED_BACK_ONE_IN != 0;
		wait_for_turn(&start, turn, per_second);
		do
			o = place_order(s, customer, commit);
		while (o == AGAIN);
		if (o == FINE && commit)
			there++;
	}
	return o;
}

/* --- the connection ---------------------------------------------------------------------- */

static outcome open_shop(shop *s)
{
	relmq_error err;
	unsigned seconds = TIMEOUT_S; /* no call without a bound */
	const char *port = getenv("RELMQ_MYSQL_PORT");
	s->db = mysql_init(NULL);
	if (s->db == NULL)
		return HOPELESS;
	(void) mysql_options(s->db, MYSQL_OPT_CONNECT_TIMEOUT, &seconds);
	(void) mysql_options(s->db, MYSQL_OPT_READ_TIMEOUT, &seconds);
	(void) mysql_options(s->db, MYSQL_OPT_WRITE_TIMEOUT, &seconds);
	if (mysql_real_connect(s->db, getenv("RELMQ_MYSQL_HOST"), getenv("RELMQ_MYSQL_USER"),
	        getenv("RELMQ_MYSQL_PASSWORD"), getenv("RELMQ_MYSQL_DATABASE"),
	        port != NULL ? (unsigned) strtoul(port, NULL, 10) : 0, NULL, 0) == NULL)
		return failed(s);
	s->exchange = getenv("SHOP_EXCHANGE");
	if (relmq_outbox_open(&s->outbox, s->db, NULL, &err) == RELMQ_OK)
		return FINE;
	fprintf(stderr, "shop: %s\n", err.text);
	return HOPELESS;
}

static void close_shop(shop *s)
{
	relmq_outbox_close(s->outbox); /* before its connection */
	s->outbox = NULL;
	mysql_close(s->db);
	s->db = NULL;
}

int main(int argc, char **argv)
{
	shop s = { 0 };
	outcome o;
	long long wanted = argc == 3 ? strtoll(argv[1], NULL, 10) : 0;
	double per_second = argc == 3 ? strtod(argv[2], NULL) : 0;
	if (wanted <= 0 || per_second <= 0) {
		fprintf(stderr, "usage: shop ORDERS PER_SECOND\n");
		return 2;
	}
	do {
		o = open_shop(&s);
		if (o == FINE)
			o = write_orders(&s, wanted, per_second);
		close_shop(&s);
		if (o != FINE && o != HOPELESS)
			rest_ms(RECONNECT_MS);
	} while (o != FINE && o != HOPELESS);
	return o == FINE ? 0 : 1;
}
