/* publisher/main.c - relmq-publisher: a table and a call. */
#include "base/log.h"
#include "base/program.h"
#include "publisher/relay.h"

static relmq__relay relay;

static int run(const relmq__settings *settings)
{
	relmq_error err;
	if (relmq__relay_run(&relay, settings, &err) == RELMQ_OK)
		return 0;
	LOG_ERROR("relmq-publisher", "%s", err.text);
	return 1;
}

static void stop(void)
{
	relmq__relay_stop(&relay);
}

static const relmq__program program = {
	.name = "relmq-publisher",
	.summary = "publish the committed rows of message_outbox with confirms",
	.run = run,
	.stop = stop,
};

int main(int argc, char **argv)
{
	return relmq__program_main(&program, argc, argv);
}
