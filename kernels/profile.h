/* Profiles a device's time by op: while a profile exists, all work that tape_run and device_run submit to the device is timed.
 *
 * A device with timers measures the times itself. Graphs then contain timers beside the same kernels, and each run is followed by a pause in
 * which the timers are read. A first run, in which libraries choose their algorithms, is not counted. On a device without timers the host
 * waits for each op and reads its own clock. */
#ifndef DDM_KERNELS_PROFILE_H
#define DDM_KERNELS_PROFILE_H

#include "kernels/device.h"

struct op_profile {
	int64_t count;
	double seconds, flops, bytes; /* flops: of matrix products; bytes: of all arrays, each counted once */
};

/* Start profiling. Borrows the device; one profile per device at a time. Caller frees with profile_free, before the device. */
struct profile *profile_new(struct device *d);
void profile_free(struct profile *p); /* NULL is allowed */

/* Run one op and count it, with this many FLOPs. */
void profile_run(struct profile *p, enum op op, const struct op_call *c, double flops);
/* Count an op that was timed elsewhere. */
void profile_add(struct profile *p, enum op op, const struct op_call *c, double flops, double seconds);

/* The totals so far; waits for submitted work. */
void profile_read(struct profile *p, struct op_profile out[OP_COUNT]);
/* The same as a table with shares and percentages of the device's measured peaks, line by line. If there was attention on a GPU without cuDNN, a
 * last line says why. */
void profile_table(struct profile *p, void (*line)(void *arg, const char *text), void *arg);
/* A table with a line for each op and shapes of its arrays, in milliseconds, the longest time first; each line ends with the shapes. */
void profile_shapes(struct profile *p, void (*line)(void *arg, const char *text), void *arg);

#endif
