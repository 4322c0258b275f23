/* admin/main.c - the program `relmq`: what a person does to the tables. */
#include "admin/admin.h"
#include "base/program.h"

static const relmq__command commands[] = {
	{ "migrate", "", "create or update relmq's tables; safe to run again",
	    relmq__admin_migrate },
	{ "status", "[--json] [--max-age DURATION]",
	    "what waits, fails and runs; exit 1 when a ready row is older than --max-age",
	    relmq__admin_status },
	{ "outbox", "list|show|retry|skip [OPTION]... [ID]...",
	    "rows of the outbox; ID is a row id (digits) or a msg_id\n"
	    "      list   [--status STATE[,STATE]...] [--key K] [--exchange X] [--routing-key R]\n"
	    "             [--limit N] [--json]: failed and abandoned rows unless told otherwise\n"
	    "      show   ID | --msg-id ID  [--payload] [--json]: everything of one row\n"
	    "      retry  ID... | --all [--yes] and the filters of list: failed rows at once,\n"
	    "             abandoned ones in their turn; with --all it says what it would do\n"
	    "      skip   ID...: give up failed rows, so that their keys go on",
	    relmq__admin_outbox },
	{ 0 },
};

int main(int argc, char **argv)
{
	static const relmq__program program = {
		.name = "relmq",
		.summary = "look after the tables of relmq",
		.commands = commands,
	};
	return relmq__program_main(&program, argc, argv);
}
