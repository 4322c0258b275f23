/* mq/table.h - between JSON text and AMQP tables.
 *
 *   JSON                AMQP                  back to JSON
 *   string              UTF8 (longstr)        string (bytes that are not UTF-8: "base64:...")
 *   whole number        I64                   number
 *   other number        F64                   number (15 digits where they are enough, else 17)
 *   number that neither UTF8, its digits      string
 *     of the two keeps
 *   true, false         BOOLEAN               true, false
 *   null                VOID                  null
 *   array, object       ARRAY, TABLE          array, object
 *                       DECIMAL               number, all digits
 *
 * A double keeps 15 significant digits of any number; a whole number beyond 64 bits, or one
 * with more digits, goes as a string rather than as another number.
 */
#ifndef RELMQ_MQ_TABLE_H
#define RELMQ_MQ_TABLE_H

#include <stdbool.h>

#include "base/buf.h"
#include "mq/message.h"

/** Parse an object into `out`, in the message's pool. False: `why` says what is wrong
 *  with the text, or is "" when memory ran out. */
bool relmq__table_from_json(
    relmq__msg *m, const char *text, size_t len, amqp_table_t *out, char *why, size_t why_size);

/** Append the table as a JSON object. */
void relmq__table_to_json(relmq__buf *out, const amqp_table_t *table);

#endif
