/* support/fakebroker.h - a broker that does what a test says, and nothing by itself but the
 * handshake: confirms, returns, closes, alarms, silence and nonsense come on command. For
 * what a real broker does rarely or never.
 *
 * One thread behind a port of its own on loopback; one caller at a time, of whom the newest
 * wins. Commands go to the caller of the moment, from any thread, and return false when
 * there is none. Knows no Criterion and no database. */
#ifndef RELMQ_TEST_FAKE_BROKER_H
#define RELMQ_TEST_FAKE_BROKER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "mq/amqp.h"

/* What the broker says of itself, in the order of the conversation. */
typedef enum fake_answer {
	FAKE_START,
	FAKE_TUNE,
	FAKE_OPEN_OK,
	FAKE_CHANNEL_OPEN_OK,
	FAKE_SELECT_OK,
	FAKE_CLOSE_OK,
	FAKE_ALL
} fake_answer;

/* A publish that came whole. Owned by the broker, until fake_stop(). */
typedef struct fake_publish {
	int session;  /* openings of a channel, from 1: tags count anew in each */
	uint64_t tag; /* by our own count                                       */
	char id[256], exchange[256], routing_key[256];
	relmq__buf header; /* payload of its header frame, as it came */
	relmq__buf body;
} fake_publish;

typedef struct fake {
	/* set before fake_start(), or left zero */
	void (*on_publish)(void *arg, const fake_publish *p); /* on the broker's thread, locked */
	void *arg;
	uint32_t frame_max; /* what it asks for at login, and cuts its own bodies to; 0: 131072 */
	/* to be read */
	int64_t port;
	/* the broker's own */
	pthread_t thread;
	pthread_mutex_t lock; /* recursive: commands may come from on_publish */
	pthread_cond_t changed;
	int listener, wake[2], fd;
	bool quit, deaf, mute, batch, reset;
	bool open, selected, channel_closing, connection_closing; /* of the caller of the moment */
	fake_answer silent_from;
	size_t piece;
	int callers, session, closes_ok, heartbeats;
	uint64_t tag;
	int64_t heartbeat_due_ms;
	relmq__buf in, out, client; /* client: the last start-ok, raw */
	fake_publish *part;         /* of which the body is still to come */
	uint64_t part_left;
	fake_publish **publishes;
	size_t count, room, taken;
} fake;

void fake_start(fake *f);
void fake_stop(fake *f);

/* --- what it saw --- */
/** The next publish, in the order of arrival; NULL: none within `ms`. */
const fake_publish *fake_next(fake *f, int64_t ms);
size_t fake_published(fake *f);
int fake_callers(fake *f);    /* connections that were made                       */
int fake_session(fake *f);    /* openings of a channel                            */
int fake_closes_ok(fake *f);  /* closes of ours, channel or connection, that were answered */
int fake_heartbeats(fake *f); /* of the client */
/** Did the client announce this capability at login? */
bool fake_announced(fake *f, const char *capability);

/* --- what it says --- */
bool fake_ack(fake *f, uint64_t tag, bool multiple);
bool fake_nack(fake *f, uint64_t tag, bool multiple);
/** The same for a publish, and only while its session lasts. */
bool fake_confirm(fake *f, const fake_publish *p, bool multiple, bool ack);
/** basic.return of what was published; the confirm that follows is another command. */
bool fake_return(fake *f, const fake_publish *p, int code, const char *text);
/** The method frame of a return, without the content that must follow. */
bool fake_return_bare(fake *f, const fake_publish *p, int code, const char *text);
/** What the client sends from now until it has answered is not heard, as with a real one. */
bool fake_close_channel(fake *f, int code, const char *text);
bool fake_close_connection(fake *f, int code, const char *text);
bool fake_blocked(fake *f, bool blocked);
/** A method frame; `format`, a letter an argument: b octet, w short, l long, L long long,
 *  s short string, S long string or table. */
bool fake_method(fake *f, int channel, amqp_method_number_t id, const char *format, ...);
bool fake_frame(fake *f, int type, int channel, const void *payload, size_t len);
bool fake_raw(fake *f, const void *bytes, size_t len);

/* --- how it behaves --- */
/** From this answer on it gives none; FAKE_ALL: it gives them all. */
void fake_silent_from(fake *f, fake_answer answer);
/** No heartbeats; they come twice a second else. */
void fake_mute(fake *f, bool mute);
/** Read nothing more from the caller of the moment, nor notice that it goes. */
void fake_stop_reading(fake *f);
/** Everything is sent in pieces of so many bytes, a send each; 0: whole. */
void fake_split(fake *f, size_t piece);
/** Keep what is said until the batch ends, then send it at once. */
void fake_batch(fake *f, bool begin);
/** The same, and take it instead of sending it. */
void fake_take_batch(fake *f, relmq__buf *out);
/** End the connection: by a reset, which destroys what the client has not read; or so that
 *  it reads everything first. */
void fake_reset(fake *f);
void fake_hang_up(fake *f);

/** Several commands as one, against what on_publish does meanwhile. */
void fake_lock(fake *f);
void fake_unlock(fake *f);

#endif
