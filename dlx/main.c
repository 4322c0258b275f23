/* dlx/main.c - relmq-dlx: a table and a call. */
#include "dlx/commands.h"

static const relmq__program program = {
	.name = "relmq-dlx",
	.summary = "the retry ladder and the parked messages of a queue",
	.commands = relmq__dlx_commands,
};

int main(int argc, char **argv)
{
	return relmq__program_main(&program, argc, argv);
}
