/* Sums over the ranks of a training in the memory of their GPUs, by NCCL (comm/devicesum.h). Where they are not joined, train/rankupdate.c sums on
 * the host, to the same bytes. Private to lib/train. */
#ifndef DDM_TRAIN_RANKSUM_H
#define DDM_TRAIN_RANKSUM_H

#include "comm/devicesum.h"
#include "kernels/device.h"
#include "train/trainer.h"

struct rank_sum {
	struct device *device;
	int stream;                   /* of the device, for sums alone */
	struct comm *comm;            /* NULL: one rank, and nothing is summed */
	struct comm_devices *devices; /* NULL: sums are made on the host */
	float *scratch;               /* on the device, if it can be joined */
	void (*stuck)(void *arg, const char *why);
	void *arg;
};

/* For sums that need `scratch` floats on the device (comm_sum_shares). Fails on one rank alone. comm and d are borrowed. Release with
 * rank_sum_release. */
int rank_sum_init(struct rank_sum *s, struct device *d, struct comm *comm, int64_t scratch, struct err *e);
/* Join the devices of all ranks, as `where` asks, by the engine in a shared object. Collective; before it, nothing can be summed. stuck(arg, why) is
 * that of struct comm_device. 0, and `why` then says why sums are made on the host (code 0: nothing else was asked for); or -1. */
int rank_sum_join(struct rank_sum *s, enum sum_place where, const char *engine_path, void (*stuck)(void *arg, const char *why), void *arg,
                  struct err *why, struct err *e);
/* Leave the devices of the other ranks. together: as of comm_devices_close. */
void rank_sum_leave(struct rank_sum *s, int together);
void rank_sum_release(struct rank_sum *s);

/* Of devices that are joined: comm_sum, comm_sum_shares, comm_gather_shares; and all + r * each becomes the `each` numbers of rank r, the caller's
 * being at their place. They begin after what was submitted to stream 0 before, and run beside what is submitted later: rank_sum_await comes before
 * work on stream 0 that reads what they leave or writes what they read. ERR_UNAVAILABLE if a rank is lost. */
int rank_sum_add(struct rank_sum *s, float *x, int64_t n, struct err *e);
int rank_sum_shares(struct rank_sum *s, float *x, const int64_t *cut, struct err *e);
int rank_sum_gather_shares(struct rank_sum *s, float *x, const int64_t *cut, struct err *e);
int rank_sum_gather(struct rank_sum *s, float *all, int64_t each, struct err *e);
/* What is submitted to stream 0 from here on begins after the sums that were submitted before. */
void rank_sum_await(struct rank_sum *s);

/* 0, or -1 if another rank is lost, so that what sums have left in the device's memory is void. Does not wait. */
int rank_sum_error(struct rank_sum *s, struct err *e);

const char *rank_sum_text(const struct rank_sum *s); /* as comm_devices_text; "host": on the host */
uint64_t rank_sum_sent(const struct rank_sum *s);    /* bytes that this rank sent from its GPU */
/* As comm_devices_seconds and comm_devices_exposed_seconds. */
double rank_sum_seconds(const struct rank_sum *s);
double rank_sum_exposed_seconds(const struct rank_sum *s);

#endif
