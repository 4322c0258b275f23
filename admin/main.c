/* admin/main.c - the program `relmq`: what a person does to the tables. */
#include "admin/admin.h"
#include "base/program.h"

static const relmq__command commands[] = {
	{ "migrate", "", "create or update relmq's tables; safe to run again",
	    relmq__admin_migrate },
	{ "status", "[--json] [--max-age DURATION]",
	    "what waits, fails and runs; exit 1 when a ready row is older than --max-age",
	    relmq__admin_status },
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
