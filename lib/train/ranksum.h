/* Sums of gradients over the ranks of a training, wherever they are made: in the memory of the ranks' GPUs by NCCL (comm/devicesum.h), or in that of
 * the host (comm/comm.h). Both give the same bytes. Private to lib/train. */
#ifndef DDM_TRAIN_RANKSUM_H
#define DDM_TRAIN_RANKSUM_H

#include "comm/devicesum.h"
#include "kernels/device.h"
#include "train/trainer.h"

struct rank_sum {
	struct device *device;
	struct comm *comm;            /* NULL: one rank, and nothing is summed */
	struct comm_devices *devices; /* NULL: sums are made on the host */
	int64_t n;                    /* most elements of a sum */
	float *scratch;               /* ((n + 1) / 2), on the device if it is a GPU */
	float *host, *host_scratch;   /* (n), ((n + 1) / 2), if vectors of a GPU are summed on the host */
	void (*stuck)(void *arg, const char *why);
	void *arg;
};

/* For vectors of at most n floats in d's memory. Fails on one rank alone. comm and d are borrowed. Release with rank_sum_release. */
int rank_sum_init(struct rank_sum *s, struct device *d, struct comm *comm, int64_t n, struct err *e);
/* Join the devices of all ranks, as `where` asks, by the engine in a shared object. Collective; before it, nothing can be summed. stuck(arg, why) is
 * that of struct comm_device. 0, and `why` then says why sums are made on the host (code 0: nothing else was asked for); or -1. */
int rank_sum_join(struct rank_sum *s, enum sum_place where, const char *engine_path, void (*stuck)(void *arg, const char *why), void *arg,
                  struct err *why, struct err *e);
/* Leave the devices of the other ranks. together: as of comm_devices_close. */
void rank_sum_leave(struct rank_sum *s, int together);
void rank_sum_release(struct rank_sum *s);

/* x[i] becomes its sum over all ranks. all + r * each becomes the `each` numbers of rank r, the caller's being at their place. Both lie in the memory
 * of the device. On GPUs by NCCL they are submitted to stream 0; else they wait for the device. ERR_UNAVAILABLE if a rank is lost. */
int rank_sum_add(struct rank_sum *s, float *x, int64_t n, struct err *e);
int rank_sum_gather(struct rank_sum *s, float *all, int64_t each, struct err *e);

/* 0, or -1 if another rank is lost, so that what sums have left in the device's memory is void. Does not wait. */
int rank_sum_error(struct rank_sum *s, struct err *e);

const char *rank_sum_text(const struct rank_sum *s); /* as comm_devices_text; "host": on the host */
uint64_t rank_sum_sent(const struct rank_sum *s);    /* bytes that this rank sent from its GPU */

#endif
