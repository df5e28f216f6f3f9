/* Where a device's time goes, by op. Switched on, everything that tape_run and device_run submit to the device is timed.
 *
 * On a device with timers the device takes the times: a graph holds the timers beside the kernels, so that what is timed is what runs
 * without a profile, but for a pause after each run in which they are read; a run before its graph, in which libraries choose their
 * algorithms, is not counted. On another each op is waited for, and the host's clock taken. */
#ifndef DDM_KERNELS_PROFILE_H
#define DDM_KERNELS_PROFILE_H

#include "kernels/device.h"

struct op_profile {
	int64_t count;
	double seconds, flops, bytes; /* flops: of products; bytes: of arrays, each once */
};

/* From now on. Borrows the device, of which there is one profile at a time. Caller frees with profile_free, before the device. */
struct profile *profile_new(struct device *d);
void profile_free(struct profile *p); /* NULL is allowed */

/* Run one op and count it, with this many FLOPs. */
void profile_run(struct profile *p, enum op op, const struct op_call *c, double flops);
/* Count one that was timed elsewhere. */
void profile_add(struct profile *p, enum op op, const struct op_call *c, double flops, double seconds);

/* What has been counted; waits for what was submitted. */
void profile_read(struct profile *p, struct op_profile out[OP_COUNT]);
/* The same as a table with shares and percentages of the device's measured peaks, line by line. */
void profile_table(struct profile *p, void (*line)(void *arg, const char *text), void *arg);

#endif
