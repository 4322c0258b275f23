/* publisher/report.h - tell how the relay stands: into the log every stats_interval, and into its
 * row of outbox_relay at every renewal of the lease, where `relmq status` reads it. */
#ifndef RELMQ_PUBLISHER_REPORT_H
#define RELMQ_PUBLISHER_REPORT_H

#include "publisher/breaker.h"
#include "publisher/relay.h"

typedef struct relmq__report {
	relmq_publisher_stats logged; /* as of the last line                    */
	relmq_publisher_stats told;   /* as of the last writing into the table  */
	int64_t next_line_ms;         /* 0: not begun                           */
	relmq__buf text;
} relmq__report;

void relmq__report_free(relmq__report *r);
/** Write the log line if it is due. */
void relmq__report_log(relmq__report *r, const relmq__relay *relay);
/** Look at the backlog and at the database's clock, and write the row. */
RELMQ_CHECK relmq_code relmq__report_tell(relmq__report *r, relmq__relay *relay, relmq__db *db,
    const relmq__breakers *breakers, relmq_error *err);

#endif
