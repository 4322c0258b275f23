/* consumer.c - how fast relmq-consumer gives the messages of a queue their effect (its sql
 * handler with one INSERT), beside a bare consumer that acknowledges by hand, with the same
 * prefetch, many at once, and does nothing else.
 *
 * The consumer's time runs from the start of its process until the last effect is committed.
 * Bare and consumer take turns; the rates and the ratio are those of all rounds together. */
#include <stdio.h>
#include <unistd.h>

#include "bench.h"

enum { COUNT_DEFAULT = 100000, COUNT_MAX = 10000000, LOOK_MS = 5, ANSWER_S = 30 };

/* What relmq-consumer takes when the configuration names none. */
static uint16_t prefetch(const bench *b)
{
	return (uint16_t) (2 * b->settings.consumer.workers * b->settings.consumer.batch_max);
}

static void refill(bench *b, int64_t count)
{
	bench_empty_tables(b);
	bench_fresh_queue(b, true);
	bench_publish(b, count);
	bench_wait_quiet(b);
}

static void take(amqp_connection_state_t state, int64_t count, int64_t ack_every)
{
	for (int64_t n = 1; n <= count; n++) {
		amqp_envelope_t message;
		struct timeval wait = { ANSWER_S, 0 };
		amqp_maybe_release_buffers(state);
		amqp_rpc_reply_t reply = amqp_consume_message(state, &message, &wait, 0);
		if (reply.reply_type != AMQP_RESPONSE_NORMAL)
			bench_die("consume: no message, after %lld", (long long) n - 1);
		uint64_t tag = message.delivery_tag;
		amqp_destroy_envelope(&message);
		if ((n % ack_every == 0 || n == count) &&
		    amqp_basic_ack(state, RELMQ__CHANNEL, tag, 1) != AMQP_STATUS_OK)
			bench_die("ack failed");
	}
}

static double run_bare(bench *b, int64_t count)
{
	bench_span span;
	relmq__conn conn;
	refill(b, count);
	bench_begin(b, &span, getpid());
	bench_connect(b, &conn, "bench bare consumer");
	if (amqp_basic_qos(conn.state, RELMQ__CHANNEL, 0, prefetch(b), 0) == NULL ||
	    amqp_basic_consume(conn.state, RELMQ__CHANNEL, amqp_cstring_bytes(BENCH_QUEUE),
	        amqp_empty_bytes, 0, 0, 0, amqp_empty_table) == NULL)
		bench_die("basic.consume failed");
	take(conn.state, count, b->settings.consumer.batch_max);
	bench_end(b, &span, getpid(), "bare", count);
	relmq__conn_close(&conn, true);
	return span.seconds;
}

/* The highest id is one index entry; counting is for the end, once ids say it may be. */
static bool all_done(bench *b, int64_t count)
{
	return bench_number(b, "SELECT MAX(id) FROM bench_effect") >= count &&
	    bench_number(b, "SELECT COUNT(*) FROM bench_effect") >= count;
}

static double run_consumer(bench *b, int64_t count, int64_t *peak_kib)
{
	bench_span span;
	refill(b, count);
	bench_begin(b, &span, 0);
	pid_t pid = bench_start(b, "relmq-consumer");
	do {
		bench_pause_ms(LOOK_MS);
		bench_check_alive(pid, "relmq-consumer");
	} while (!all_done(b, count));
	bench_end(b, &span, pid, "consumer", count);
	int64_t kib = bench_peak_kib(pid);
	*peak_kib = kib > *peak_kib ? kib : *peak_kib;
	bench_stop(pid, "relmq-consumer");
	if (bench_number(b, "SELECT COUNT(DISTINCT n) FROM bench_effect") != count)
		bench_die("an effect is missing or came twice");
	return span.seconds;
}

int main(int argc, char **argv)
{
	bench b;
	double bare = 0, consumer = 0;
	int64_t peak_kib = 0;
	int64_t count = bench_operand(argc, argv, 1, COUNT_DEFAULT, COUNT_MAX);
	bench_open(&b);
	for (int round = 0; round < BENCH_ROUNDS; round++) {
		bare += run_bare(&b, count);
		consumer += run_consumer(&b, count, &peak_kib);
	}
	bench_close(&b);
	double taken = (double) count * BENCH_ROUNDS;
	(void) printf(
	    "{\"bare_per_s\":%.0f,\"consumer_per_s\":%.0f,\"ratio\":%.3f,\"rss_kib\":%lld}\n",
	    taken / bare, taken / consumer, bare / consumer, (long long) peak_kib);
	return 0;
}
