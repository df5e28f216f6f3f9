/* Sums over ranks of vectors in the memory of devices, each rank having one of its own, such as a GPU. The bytes move from device to device by an
 * engine (comm/deviceengine.h), and each device adds. The order of every sum is that of comm_sum (comm/comm.h), so the results are the same bytes as
 * those of sums on the host, for any number of ranks.
 *
 * Calls are collective. They submit work to a queue of the device that is for sums alone, and return without waiting for it. A sum begins when all
 * work that the device's other queue, that of its own work, has got before the call is done, and then runs beside the work that it gets later.
 * Work that reads what a sum leaves, or writes what a sum reads, is submitted after comm_devices_await.
 *
 * A thread of its own watches the sums: when another rank does not take part within the time limit of the communicator, or the engine reports an
 * error, it ends them, and what the sums since then hold is void. Ask comm_devices_error after every wait for the device and before its results are
 * used. */
#ifndef DDM_COMM_DEVICESUM_H
#define DDM_COMM_DEVICESUM_H

#include "comm/comm.h"

struct comm_devices;

/* The queues of a device. */
enum comm_queue { COMM_WORK, COMM_SUMS };

/* What a rank says of its device. */
struct comm_device {
	const char *refusal; /* why it has none for sums; "": it is not meant to. NULL: it has one, which the other members describe */
	void *arg;           /* of the functions */
	void *queue;         /* that of sums, as the engine's library knows it: a cudaStream_t */
	const char *place;   /* tells it from the other devices of its computer */
	void (*add)(void *arg, float *x, const float *y, int64_t n); /* submits x += y to the queue of sums */
	void *(*event_new)(void *arg);                               /* a mark that keeps the time when it was reached */
	void (*event_free)(void *arg, void *event);
	void (*event_record)(void *arg, void *event, enum comm_queue queue); /* submits the mark */
	void (*event_follow)(void *arg, void *event, enum comm_queue queue); /* later work of the queue waits for the mark */
	void (*event_wait)(void *arg, void *event);
	int (*event_reached)(void *arg, void *event);             /* does not wait; any thread may ask, as for the next */
	double (*event_seconds)(void *arg, void *from, void *to); /* between two marks that were reached */
	/* Called in the watching thread, just before it ends all ranks by comm_abort because the device does not come to an end. */
	void (*stuck)(void *arg, const char *why);
};

/* Join the devices of all ranks of c by the engine in a shared object. `mine` is copied; what it points to and c are borrowed. 0: *d is set; leave
 * with comm_devices_close. 1: sums must be made on the host, because a rank has no device, engine or library for them, or another version of it: *e
 * names the rank and the reason, or has code 0 if no rank is meant to. -1: ERR_USAGE if two ranks share a device, both of which are named;
 * ERR_UNAVAILABLE if the devices cannot be joined. All ranks return the same, and fail together (comm_agree). */
int comm_devices_open(struct comm_devices **d, struct comm *c, const struct comm_device *mine, const char *engine_path, struct err *e);
/* together: every rank has come to this point after the same calls, and waits for the others here; else what is submitted is ended. NULL is
 * allowed. */
void comm_devices_close(struct comm_devices *d, int together);

/* "NCCL 2.28.9: rank 0 on node1 0000:3b:00.0, rank 1 on node1 0000:86:00.0"; borrowed. */
const char *comm_devices_text(const struct comm_devices *d);
uint64_t comm_devices_sent(const struct comm_devices *d); /* bytes that this rank has submitted to send */
/* Seconds in which this rank's device ran sums or waited in them for other ranks, and those of them in which its own work waited for sums. Of work
 * that is done. 0 for NULL. */
double comm_devices_seconds(struct comm_devices *d);
double comm_devices_exposed_seconds(struct comm_devices *d);

/* 0, or -1 with ERR_UNAVAILABLE if another rank is lost. */
int comm_devices_error(struct comm_devices *d, struct err *e);

/* As comm_sum_shares, comm_gather_shares and comm_sum (comm/comm.h), with x and scratch on the device. */
int comm_devices_sum_shares(struct comm_devices *d, float *x, const int64_t *cut, float *scratch, struct err *e);
int comm_devices_gather_shares(struct comm_devices *d, float *x, const int64_t *cut, struct err *e);
int comm_devices_sum(struct comm_devices *d, float *x, int64_t n, float *scratch, struct err *e);

/* all + r * each becomes the `each` numbers of rank r. On entry the caller's own are at their place. */
int comm_devices_gather(struct comm_devices *d, float *all, int64_t each, struct err *e);

/* Work that is submitted later begins after all sums that were submitted before. Does not wait. */
void comm_devices_await(struct comm_devices *d);

#endif
