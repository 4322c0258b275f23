/* app.c - touches each public header once; what it does is refused before any I/O. */
#include <relmq/consumer.h>
#include <relmq/log.h>
#include <relmq/outbox.h>
#include <relmq/plugin.h>
#include <relmq/publisher.h>
#include <relmq/version.h>

#include <stdio.h>
#include <string.h>

int main(void)
{
	relmq_error err = RELMQ_ERROR_INIT;
	relmq_consumer_opts opts = RELMQ_CONSUMER_OPTS_INIT;
	relmq_consumer *consumer = NULL;
	relmq_publisher_opts relay = RELMQ_PUBLISHER_OPTS_INIT;
	relmq_publisher_stats stats = RELMQ_PUBLISHER_STATS_INIT;
	relmq_publisher *publisher = NULL;
	relmq_outbox *outbox = NULL;
	relmq_log_set(NULL, RELMQ_LOG_INFO, NULL);
	if (strcmp(relmq_version(), RELMQ_VERSION) != 0)
		return 1;
	if (relmq_consumer_open(&consumer, &opts, &err) != RELMQ_EINVAL)
		return 2;
	if (relmq_outbox_open(&outbox, NULL, NULL, &err) != RELMQ_EINVAL)
		return 3;
	relay.config = "{\"publisher\":{\"window\":0}}";
	if (relmq_publisher_open(&publisher, &relay, &err) != RELMQ_ECONFIG)
		return 5;
	relay.config = "{}";
	if (relmq_publisher_open(&publisher, &relay, &err) != RELMQ_OK)
		return 6;
	relmq_publisher_stats_get(publisher, &stats);
	if (stats.struct_size != sizeof(stats) || stats.read != 0)
		return 7;
	relmq_publisher_close(publisher);
	relmq_consumer_close(consumer);
	relmq_outbox_close(outbox);
	printf("%s: %s\n", relmq_code_name(err.code), relmq_code_text(err.code));
	return RELMQ_PLUGIN_ABI == 1 ? 0 : 4;
}
