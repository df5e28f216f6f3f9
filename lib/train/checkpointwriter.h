/* Writes a checkpoint in the background while training goes on. Private to lib/train. */
#ifndef DDM_TRAIN_CHECKPOINTWRITER_H
#define DDM_TRAIN_CHECKPOINTWRITER_H

#include "core/ahead.h"
#include "train/state.h"

enum { CHECKPOINT_ARENAS = 5 };

/* Zero-initialised: nothing is being written. */
struct checkpoint_writer {
	struct ahead ahead;
	struct train_state state; /* as it was at the start; its arenas are those of the training or copies */
	float *copy[CHECKPOINT_ARENAS];
	struct device *owner; /* of `copy`, which then stays from one checkpoint to the next; NULL: allocated for one checkpoint */
	const char *dir, *stamp;
	uint64_t room;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int active, arenas_free, finished; /* the last two under the lock */
	int rc;
	struct err why;
	double began, seconds; /* clock at the start; how long it took */
};

/* Of a device with memory of its own: allocate the host memory that checkpoints of s are copied to, page-locked, if it takes at most `room` bytes.
 * Without it each checkpoint allocates that memory and copies to it more slowly, while the device waits. s->device is borrowed. Release after
 * checkpoint_writer_end. */
void checkpoint_writer_prepare(struct checkpoint_writer *w, const struct train_state *s, uint64_t room);
void checkpoint_writer_release(struct checkpoint_writer *w);

/* Start to write a checkpoint of s into dir, as checkpoint_save does; nothing else is being written. dir, stamp, the parameter table and the text of
 * config.json are borrowed until checkpoint_writer_end. The state is copied to host memory if that takes at most `room` bytes: on the CPU by the
 * background thread, else before this returns. Without a copy the arenas themselves are written: on the CPU in the background, else before this
 * returns. Of several ranks, rank 0 calls it while the others are in state_follow, and nothing is read from them after it returns. */
void checkpoint_writer_start(struct checkpoint_writer *w, const char *dir, const struct train_state *s, const char *stamp, uint64_t room);

/* Wait until the arenas of the state may be changed. */
void checkpoint_writer_wait_arenas(struct checkpoint_writer *w);

/* Whether checkpoint_writer_end would return at once with a result: the checkpoint is written, or has failed. */
int checkpoint_writer_has_finished(struct checkpoint_writer *w);

/* Wait for the checkpoint. 0: it is complete; -1: it could not be written; 1: none was started since the last call. *step becomes its step and
 * *seconds the time that it took. */
int checkpoint_writer_end(struct checkpoint_writer *w, int64_t *step, double *seconds, struct err *e);

#endif
