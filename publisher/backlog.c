/* publisher/backlog.c - see backlog.h. */
#include "publisher/backlog.h"

#include <stdlib.h>

#include "base/error.h"

/* A pending row is ready from its birth, and the lowest id of a shard is its oldest; a row
 * that waited for a moment is ready from that moment on. One short range each: MIN() with GROUP BY
 * reads the whole backlog on both servers. */
static void build(relmq__buf *sql)
{
	relmq__buf_adds(sql,
	    "SELECT MAX(age), CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS UNSIGNED) FROM"
	    " (SELECT TIMESTAMPDIFF(MICROSECOND, MIN(o.created_at), NOW(6)) AS age FROM (");
	for (unsigned i = 0; i < RELMQ__SHARDS; i++)
		relmq__buf_addf(sql,
		    "%s(SELECT id FROM message_outbox FORCE INDEX (ready)"
		    " WHERE status = 0 AND shard = %u ORDER BY id LIMIT 1)",
		    i > 0 ? " UNION ALL " : "", i);
	relmq__buf_adds(sql,
	    ") AS head STRAIGHT_JOIN message_outbox o ON o.id = head.id"
	    " UNION ALL SELECT TIMESTAMPDIFF(MICROSECOND, MIN(next_retry_at), NOW(6))"
	    " FROM message_outbox WHERE status = 2 AND next_retry_at <= NOW(6)"
	    " UNION ALL SELECT TIMESTAMPDIFF(MICROSECOND, MIN(next_retry_at), NOW(6))"
	    " FROM message_outbox WHERE status = 4 AND next_retry_at <= NOW(6)) AS ages");
}

relmq_code relmq__backlog_look(
    relmq__db *db, int64_t *oldest_us, int64_t *clock_us, relmq_error *err)
{
	relmq__buf sql = { 0 };
	MYSQL_RES *res = NULL;
	build(&sql);
	relmq_code code =
	    sql.failed ? relmq__fail_nomem(err) : relmq__db_query(db, sql.data, sql.len, &res, err);
	relmq__buf_free(&sql);
	if (code != RELMQ_OK)
		return code;
	MYSQL_ROW row = mysql_fetch_row(res);
	*oldest_us = row != NULL && row[0] != NULL ? strtoll(row[0], NULL, 10) : -1;
	*clock_us = row != NULL && row[1] != NULL ? strtoll(row[1], NULL, 10) : 0;
	if (row != NULL && row[0] != NULL && *oldest_us < 0)
		*oldest_us = 0; /* a writer may date its row ahead */
	mysql_free_result(res);
	return RELMQ_OK;
}
