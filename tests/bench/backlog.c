/* backlog.c - is the end of a large outbox sent as fast as its start? The rate of the first and
 * of the last million rows (a tenth of fewer than ten million), and the most memory resident.
 *
 * What was sent is counted in the queue, and taken out of it now and then: the queue's own
 * growth is not what is measured. */
#include <stdio.h>

#include "base/clock.h"
#include "outbox.h"

enum {
	ROWS_DEFAULT = 10000000,
	ROWS_MAX = 100000000,
	PARTS = 10,
	LOOK_MS = 50,
	PURGE_AT = 200000, /* messages */
	STANDSTILL_MS = 60000
};

typedef struct progress {
	relmq__conn mq;
	int64_t purged, sent;
	int64_t began_us;
} progress;

static uint32_t purge(relmq__conn *mq)
{
	amqp_queue_purge_ok_t *ok =
	    amqp_queue_purge(mq->state, RELMQ__CHANNEL, amqp_cstring_bytes(BENCH_QUEUE));
	if (ok == NULL)
		bench_die("queue.purge failed");
	return ok->message_count;
}

static uint32_t depth(relmq__conn *mq)
{
	amqp_queue_declare_ok_t *ok = amqp_queue_declare(mq->state, RELMQ__CHANNEL,
	    amqp_cstring_bytes(BENCH_QUEUE), 1, 0, 0, 0, amqp_empty_table);
	if (ok == NULL)
		bench_die("queue.declare failed");
	return ok->message_count;
}

static void look(progress *p)
{
	uint32_t waiting = depth(&p->mq);
	p->sent = p->purged + waiting;
	if (waiting >= PURGE_AT)
		p->purged += purge(&p->mq);
	amqp_maybe_release_buffers(p->mq.state);
}

/* The moment, in seconds from the start, when so many had been sent. */
static double await(bench *b, progress *p, pid_t pid, int64_t rows)
{
	int64_t moved_ms = relmq__now_ms();
	for (int64_t before = p->sent; p->sent < rows; before = p->sent) {
		bench_pause_ms(LOOK_MS);
		bench_check_alive(pid, "relmq-publisher");
		look(p);
		if (p->sent > before)
			moved_ms = relmq__now_ms();
		else if (relmq__now_ms() - moved_ms > STANDSTILL_MS)
			bench_die("standing still at %lld messages of %lld", (long long) p->sent,
			    (long long) rows);
		(void) bench_number(b, "SELECT 1"); /* our session is not to be dropped */
	}
	return (double) (relmq__now_us() - p->began_us) / 1e6;
}

int main(int argc, char **argv)
{
	bench b;
	bench_span span;
	progress p = { 0 };
	double at[PARTS + 1] = { 0 };
	int64_t rows = bench_operand(argc, argv, 1, ROWS_DEFAULT, ROWS_MAX);
	bench_open(&b);
	bench_fill(&b, rows, false);
	bench_fresh_queue(&b, false);
	bench_wait_quiet(&b);
	bench_connect(&b, &p.mq, "bench backlog");
	bench_begin(&b, &span, 0);
	p.began_us = span.began_us;
	pid_t pid = bench_start(&b, "relmq-publisher");
	for (int i = 1; i <= PARTS; i++) {
		at[i] = await(&b, &p, pid, rows * i / PARTS);
		bench_say("%d of %d parts: %.0f/s, %lld KiB resident at most", i, PARTS,
		    (double) rows / PARTS / (at[i] - at[i - 1]), (long long) bench_peak_kib(pid));
	}
	bench_end(&b, &span, pid, "relay", rows);
	int64_t kib = bench_peak_kib(pid);
	bench_stop(pid, "relmq-publisher");
	look(&p);
	int64_t doubled = p.sent - rows;
	relmq__conn_close(&p.mq, true);
	bench_close(&b);
	double first = (double) rows / PARTS / at[1];
	double last = (double) rows / PARTS / (at[PARTS] - at[PARTS - 1]);
	(void) printf("{\"rows\":%lld,\"per_s\":%.0f,\"first_per_s\":%.0f,\"last_per_s\":%.0f,"
	              "\"ratio\":%.3f,\"rss_kib\":%lld,\"doubled\":%lld}\n",
	    (long long) rows, (double) rows / span.seconds, first, last, last / first,
	    (long long) kib, (long long) doubled);
	return doubled == 0 ? 0 : 1;
}
