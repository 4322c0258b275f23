/* publisher/backlog.c - see backlog.h. */
#include "publisher/backlog.h"

#include <stdlib.h>

/* A pending row is ready from its birth, and the lowest id of a shard is its oldest; a row
 * that waited for a moment is ready from that moment on. */
relmq_code relmq__backlog_look(
    relmq__db *db, int64_t *oldest_us, int64_t *clock_us, relmq_error *err)
{
	static const char sql[] =
	    "SELECT MAX(age), CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS UNSIGNED) FROM ("
	    "SELECT TIMESTAMPDIFF(MICROSECOND, MIN(o.created_at), NOW(6)) AS age FROM"
	    " (SELECT MIN(id) AS id FROM message_outbox WHERE status = 0 GROUP BY shard) AS head"
	    " JOIN message_outbox o ON o.id = head.id"
	    " UNION ALL SELECT TIMESTAMPDIFF(MICROSECOND, MIN(next_retry_at), NOW(6))"
	    " FROM message_outbox WHERE status = 2 AND next_retry_at <= NOW(6)"
	    " UNION ALL SELECT TIMESTAMPDIFF(MICROSECOND, MIN(next_retry_at), NOW(6))"
	    " FROM message_outbox WHERE status = 4 AND next_retry_at <= NOW(6)) AS ages";
	MYSQL_RES *res = NULL;
	relmq_code code = relmq__db_query(db, sql, sizeof(sql) - 1, &res, err);
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
