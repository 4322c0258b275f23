/* handlers/sql_insert.h - can one statement do for many messages?
 *
 * INSERT [IGNORE] INTO t [(columns)] VALUES (one tuple) [AS ..] [ON DUPLICATE KEY UPDATE ..]
 *
 * With more tuples it leaves the same rows as the statements one by one, unless it looks
 * at what the statement before it left: SELECT and LAST_INSERT_ID do. */
#ifndef RELMQ_HANDLERS_SQL_INSERT_H
#define RELMQ_HANDLERS_SQL_INSERT_H

#include <stdbool.h>

/** The tuple with its parentheses, when the statement is of that form, and all of its
 *  parameters stand in the tuple. */
bool relmq__sql_find_tuple(const char *sql, const char *end, const char **from, const char **to);

#endif
