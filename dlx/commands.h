/* dlx/commands.h - what a person can ask relmq-dlx to do. */
#ifndef RELMQ_DLX_COMMANDS_H
#define RELMQ_DLX_COMMANDS_H

#include "base/program.h"

extern const relmq__command relmq__dlx_commands[]; /* ended by a NULL name */

#endif
