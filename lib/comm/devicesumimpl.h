/* Ranks whose devices are joined. Shared by devicesum.c, which submits sums, devicejoin.c, which joins and leaves, and devicewatch.c. */
#ifndef DDM_COMM_DEVICESUMIMPL_H
#define DDM_COMM_DEVICESUMIMPL_H

#include <pthread.h>

#include "comm/deviceengine.h"
#include "comm/devicesum.h"

enum { DEVICE_CALLS = 64 /* most calls that are submitted and not finished */ };

/* A call: marks before and behind its work. */
struct device_call {
	void *begin, *end;
	int complete; /* `end` is submitted */
};

/* A wait of the device's own work for sums: marks before and behind it. */
struct device_wait {
	void *from, *to;
};

struct comm_devices {
	struct comm *comm;
	const struct comm_device_engine *engine;
	struct comm_device own;
	double timeout;
	struct str text;
	uint64_t sent;
	pthread_mutex_t calling;  /* held around calls of the engine */
	struct device_call *open; /* the call that is being submitted */
	void *mark;               /* a point of one queue that the other waits for */

	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t changed;
	pthread_t thread, aborter;
	int watching, ending;
	struct err failed;  /* the first failure; code 0: none */
	int abort, aborted; /* the engine's abort was begun, in the thread aborter; has ended */
	struct device_call call[DEVICE_CALLS];
	int64_t first, count; /* unfinished calls; that of `first` is in slot first % DEVICE_CALLS */
	struct device_wait wait[DEVICE_CALLS];
	int64_t first_wait, waits; /* those whose seconds were not read yet, in the same way */
	double seconds, exposed;   /* of the calls and the waits that have ended */
	double since;              /* clock when the oldest one's work was seen to have begun; 0: it was not */
	int asked;                 /* the other ranks were asked since then */
};

/* Begin to watch, in a thread. */
int device_watch_begin(struct comm_devices *d, struct err *e);
void device_watch_end(struct comm_devices *d);

/* Around the work of a call: a slot for it, for which it waits if there is none free; and its end. The call begins after the work of the device that
 * was submitted before. */
int device_call_begin(struct comm_devices *d, struct err *e);
void device_call_end(struct comm_devices *d);

/* Wait until the engine has done what the call that returned rc asked of the host. `what` it was, for the message. */
int device_settle(struct comm_devices *d, int rc, const char *what, char *why, struct err *e);

/* Keep the first failure, and end the work in the queue. Any thread. Returns -1 with the failure that is kept. */
int device_fail(struct comm_devices *d, struct err *e, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* After a failure: wait until the engine's abort has ended. If it does not, this says so and ends all ranks. */
void device_wait_aborted(struct comm_devices *d);

#endif
