/* idle.c - what relmq-publisher costs while there is nothing to do: an empty outbox, user and
 * system time of the process over some seconds; and what its looking costs the database. */
#include <stdio.h>

#include "bench.h"

enum { SECONDS_DEFAULT = 20, SECONDS_MAX = 3600, READY_MS = 30000, SETTLE_MS = 1000 };

static void await_leases(bench *b)
{
	for (int waited = 0;
	     bench_number(b, "SELECT COUNT(*) FROM outbox_lease WHERE expires_at > NOW(6)") !=
	     RELMQ__SHARDS;
	     waited += 50) {
		if (waited >= READY_MS)
			bench_die("relmq-publisher is not ready: see its log");
		bench_pause_ms(50);
	}
}

static double percent(const bench_span *s, int which)
{
	return (double) s->cpu_us[which] / 1e4 / s->seconds;
}

int main(int argc, char **argv)
{
	bench b;
	bench_span span;
	int64_t seconds = bench_operand(argc, argv, 1, SECONDS_DEFAULT, SECONDS_MAX);
	bench_open(&b);
	bench_fresh_queue(&b, false);
	pid_t pid = bench_start(&b, "relmq-publisher");
	await_leases(&b);
	bench_pause_ms(SETTLE_MS);
	bench_begin(&b, &span, pid);
	for (int64_t i = 0; i < seconds; i++) {
		bench_pause_ms(1000);
		bench_check_alive(pid, "relmq-publisher");
	}
	bench_measure(&b, &span, pid);
	int64_t kib = bench_peak_kib(pid);
	bench_stop(pid, "relmq-publisher");
	bench_close(&b);
	(void) printf("{\"cpu_percent\":%.2f,\"database_percent\":%.2f,\"broker_percent\":%.2f,"
	              "\"seconds\":%.1f,\"rss_kib\":%lld}\n",
	    percent(&span, 0), percent(&span, 1), percent(&span, 2), span.seconds, (long long) kib);
	return 0;
}
