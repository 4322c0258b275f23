/* publisher/outbox_headers.h - a message's headers as the JSON object of their column. */
#ifndef RELMQ_PUBLISHER_OUTBOX_HEADERS_H
#define RELMQ_PUBLISHER_OUTBOX_HEADERS_H

#include <relmq/outbox.h>

#include "base/buf.h"

/**
 * Into `b`, which is emptied first: ASCII alone, so that it arrives as it is through a
 * connection of any character set. Nothing for a message without headers.
 * @retval RELMQ_EINVAL  no name, no value, a name twice, or bytes that are not UTF-8
 * @retval RELMQ_ETOOBIG a name of over 255 bytes, or 120 KiB together
 */
RELMQ_CHECK relmq_code relmq__outbox_headers(relmq__buf *b, const relmq_msg *m, relmq_error *err);

#endif
