/* What a training step exchanges with other ranks: the gradient, bucket by bucket while the backward pass goes on, and the losses of the batch. Used
 * by train/update.h. Private to lib/train. */
#ifndef DDM_TRAIN_RANKUPDATE_H
#define DDM_TRAIN_RANKUPDATE_H

#include "comm/background.h"
#include "train/ranksum.h"
#include "train/shares.h"

/* The sum of one bucket, in the other thread. */
struct bucket_sum {
	const struct rank_update *r;
	const struct bucket *bucket;
};

struct rank_update {
	struct comm *comm; /* NULL: one rank alone; then all is zero but `device` */
	const struct shares *shares;
	struct device *device;
	struct comm_background *background;
	struct buckets buckets;
	struct bucket_sum job[BUCKETS];
	struct rank_sum sum;     /* where the devices of the ranks are joined, sums are made there, and not in the background */
	float *grads, *host;     /* (room): on the device; on the host, the same memory if the device is the host */
	void *event[BUCKETS][2]; /* of a bucket: complete, and copied to the host; NULL if the device is the host */
	float *scratch;          /* for the largest bucket, on the host */
	float *losses;           /* (ranks, parts, samples), on the device: of the whole batch */
	float *host_losses;      /* the same on the host */
	double *partial;         /* [chunks of the gradient], on the device: the squares of the gradient, summed over each chunk */
	double *gathered;        /* (ranks, most_chunks), on the device: those of each rank, in the order of its share */
	double *host_gathered;   /* the same on the host; the same memory if the device is the host */
	int64_t chunks, most_chunks;
	int64_t n, parts, samples;
	int copying; /* buckets of this step whose copy to the host was submitted */
};

/* For gradients grads [n] on the device, in memory with `room` for a whole arena of the state, and losses of `parts` parts of `samples` samples on
 * each rank. comm may be NULL, else shares are its rank's. The device, comm, shares and grads are borrowed. Release with rank_update_release. */
int rank_update_init(struct rank_update *r, struct device *d, struct comm *comm, const struct shares *shares, float *grads, int64_t room,
                     int64_t parts, int64_t samples, struct err *e);
void rank_update_release(struct rank_update *r);
uint64_t rank_update_bytes(int64_t n, int ranks); /* memory on the host, without a copy of the gradient */
/* Bytes that rank 0 sends in a step of a batch of `batch` samples whose gradient is not wanted whole. */
uint64_t rank_update_step_bytes(const struct shares *s, int64_t batch);

/* Keep the losses each [samples] (on the device) of part i of this rank. */
void rank_update_take_losses(struct rank_update *r, int64_t i, const float *each);

/* Bucket k of this step is complete on stream 0: let its sum begin. In order, each once in a step. */
void rank_update_begin_sum(struct rank_update *r, int k);

/* Wait for the sums of all buckets. Then grads holds the sum over the ranks, in this rank's share, or with `whole` and of Muon everywhere; and
 * `losses` the losses of the whole batch. ERR_UNAVAILABLE if a rank is lost. */
int rank_update_end_sums(struct rank_update *r, int whole, struct err *e);

/* *sumsq, on the device, becomes the sum of the squares of the whole gradient, the same bits as by SUMSQ; scratch is that of SUMSQ over it. */
int rank_update_sumsq(struct rank_update *r, double *sumsq, void *scratch, struct err *e);

/* Gather values [n], on the device, of which each rank has updated its share. */
int rank_update_gather(struct rank_update *r, float *values, struct err *e);

#endif
