/* publisher/outbox_json.h - a message's headers and properties as the JSON objects of their
 * columns: ASCII alone, so that they arrive as they are through a connection of any
 * character set. */
#ifndef RELMQ_PUBLISHER_OUTBOX_JSON_H
#define RELMQ_PUBLISHER_OUTBOX_JSON_H

#include <relmq/outbox.h>

#include "base/buf.h"

/**
 * Into `b`, which is emptied first; nothing for a message without headers.
 * @retval RELMQ_EINVAL  no name, no value, a name twice, or bytes that are not UTF-8
 * @retval RELMQ_ETOOBIG a name of over 255 bytes, or 120 KiB together
 */
RELMQ_CHECK relmq_code relmq__outbox_headers(relmq__buf *b, const relmq_msg *m, relmq_error *err);

/** The same for the properties. @retval RELMQ_EINVAL out of range, or bytes that are not UTF-8
 *  @retval RELMQ_ETOOBIG a text of over 255 bytes */
RELMQ_CHECK relmq_code relmq__outbox_properties(
    relmq__buf *b, const relmq_msg *m, relmq_error *err);

#endif
