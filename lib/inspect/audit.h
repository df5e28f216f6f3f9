/* Whether a training did what its hash chain (train/chain.h) says, for ddm-audit. */
#ifndef DDM_INSPECT_AUDIT_H
#define DDM_INSPECT_AUDIT_H

#include <signal.h>

#include "core/err.h"
#include "kernels/device.h"

/* The largest relative difference of the mean loss of a replayed part if it need not agree to the bit. Between runs that differ only in
 * the order of sums (--accumulate 1 and 4; three optimizers, two seeds, 1500 steps of a DiT) it was at most .06 over every part from the start;
 * that of 25 steps alone reached .86, at the spikes of a loss. */
#define AUDIT_LOSS_BOUND .15

struct audit_options {
	const char *run;    /* the training's folder */
	const char *shards; /* NULL: the shards are not checked; a replay needs them */
	const char *head;   /* NULL, or the hash of a line that the chain must hold, as an earlier audit told it */
	/* NULL, or "A..B" or "all": train again from the newest checkpoint at or before step A to step B, in a new folder `scratch`, which is removed
	 * at the end. The others are those of the training, where it had them. */
	const char *replay, *scratch, *init_weights, *pretrained, *pictures, *experts, *null_text, *null_pooled;
	/* Not 0: train again to this step, without comparing, and write its trace (inspect/trace.h) to trace_to. */
	int64_t trace;
	const char *trace_to;
	struct device *device; /* for the replay. Borrowed */
	volatile sig_atomic_t *stop;
	/* Called for each check: result is "ok", "failed", "near" (losses within the bound), or "open" for what these
	 * checks cannot decide. */
	void (*tell)(void *arg, const char *check, const char *result, const char *detail);
	void *arg;
};

/* Never changes the run's folder. 0: nothing contradicts the chain. ERR_DATA: something does, which the message says. ERR_NOINPUT: there is no chain.
 * ERR_AGAIN: stopped. */
int audit_run(const struct audit_options *o, struct err *e);

#endif
