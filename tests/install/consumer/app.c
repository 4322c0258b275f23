/* app.c - touches each public header once; what it does is refused before any I/O. */
#include <relmq/consumer.h>
#include <relmq/log.h>
#include <relmq/outbox.h>
#include <relmq/plugin.h>
#include <relmq/version.h>

#include <stdio.h>
#include <string.h>

int main(void)
{
	relmq_error err = RELMQ_ERROR_INIT;
	relmq_consumer_opts opts = RELMQ_CONSUMER_OPTS_INIT;
	relmq_consumer *consumer = NULL;
	relmq_outbox *outbox = NULL;
	relmq_log_set(NULL, RELMQ_LOG_INFO, NULL);
	if (strcmp(relmq_version(), RELMQ_VERSION) != 0)
		return 1;
	if (relmq_consumer_open(&consumer, &opts, &err) != RELMQ_EINVAL)
		return 2;
	if (relmq_outbox_open(&outbox, NULL, NULL, &err) != RELMQ_EINVAL)
		return 3;
	relmq_consumer_close(consumer);
	relmq_outbox_close(outbox);
	printf("%s: %s\n", relmq_code_name(err.code), relmq_code_text(err.code));
	return RELMQ_PLUGIN_ABI == 1 ? 0 : 4;
}
