/* admin/admin.h - the commands of the program `relmq`. Each opens a session of its own,
 * prints its result on stdout and returns the exit status; what went wrong is one line on
 * stderr. Must not know AMQP, as long as no command needs it. */
#ifndef RELMQ_ADMIN_ADMIN_H
#define RELMQ_ADMIN_ADMIN_H

#include "base/settings.h"

/** Bring the database to the schema of this program. */
int relmq__admin_migrate(const relmq__settings *s, int argc, char **argv);

/** What waits, fails and runs, as a table for people or (`--json`) as one JSON object.
 *  `--max-age 60s`: exit status 1 when a row has been ready for longer. */
int relmq__admin_status(const relmq__settings *s, int argc, char **argv);

/** `outbox list|show|retry|skip`: rows of the outbox, for a person. Safe beside relays at work:
 *  every change is one statement that names the state which it leaves. Exit status 1: something
 *  was not done. */
int relmq__admin_outbox(const relmq__settings *s, int argc, char **argv);

#endif
