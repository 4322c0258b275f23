/* publisher/choice.h - which of the rows that a sweep found may go now: the order of keys, the
 * holds, and what is out already. No I/O. */
#ifndef RELMQ_PUBLISHER_CHOICE_H
#define RELMQ_PUBLISHER_CHOICE_H

#include "publisher/sweep.h"

/* What one sweep saw, a shard. */
typedef struct relmq__survey {
	size_t limit[RELMQ__SHARDS]; /* of the index range                  */
	size_t read[RELMQ__SHARDS];  /* entries of it                       */
	size_t rank[RELMQ__SHARDS];  /* entries passed on the way up        */
	size_t last[RELMQ__SHARDS];  /* rank of the last chosen             */
	size_t chosen[RELMQ__SHARDS];
	uint64_t epoch[RELMQ__SHARDS]; /* of our lease; 0: not ours         */
	size_t due;                    /* FAILED and SCHEDULED rows that are */
} relmq__survey;

typedef struct relmq__choice {
	relmq__sweep *sweep;
	const relmq__lease *lease;
	relmq__survey *survey;
	size_t at;                  /* candidates passed on the way up                     */
	relmq__idset held;          /* keys of any FAILED row, and of rows that wait       */
	relmq__idset behind_failed; /* keys of those of them that were passed on the way   */
} relmq__choice;

/** Over sweep->found, which is sorted by id. False: out of memory; end it all the same. */
bool relmq__choice_begin(
    relmq__choice *c, relmq__sweep *sweep, const relmq__lease *lease, relmq__survey *survey);
void relmq__choice_end(relmq__choice *c);

/** The next `want` candidates that may go: taken, and put at the front of sweep->found. */
bool relmq__choose(relmq__choice *c, size_t want, size_t *chosen);
/** Of the `chosen` at the front, those that were not handed out (gone meanwhile, no room, held, an
 *  error) are free again; later rows of their keys wait for the next sweep. */
void relmq__choice_take_back(relmq__choice *c, size_t chosen);

#endif
