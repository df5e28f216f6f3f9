/* Several processes, the ranks, that share one work: ranks that train a network together, or sample from a model together.
 *
 * In training every rank holds the whole network and computes the gradient of its share of each batch; the shares are then added. Sums are the same
 * bytes for any number of ranks. The gradients of the parts of a batch are added as a binary tree over the parts' index (train/update.h). With a
 * number of ranks that is a power of two, each with a power of two of consecutive parts, a rank adds its own parts as the lower levels of that tree,
 * and comm_sum adds the upper ones: at level l ranks r and r XOR 2^l exchange halves of what they still sum, and each adds one half. Then the halves
 * are gathered in the reverse order. A rank sends and receives 2 (R - 1) / R of the vector in all, like a ring. MPI_Allreduce and NCCL's sums promise
 * no such order. comm_sum_shares and comm_gather_shares are the two halves of comm_sum, a reduce-scatter and an all-gather. comm/devicesum.h does the
 * same with vectors in the memory of devices.
 *
 * Calls are collective, except comm_send and comm_receive: every rank makes the same calls in the same order with the same sizes. They fail with
 * ERR_UNAVAILABLE, naming the rank that holds up the others (comm/rollcall.h), when a rank has not answered within the time limit. From then on
 * every call fails with the same error, because the other ranks may be at other calls; the process should end by comm_abort.
 *
 * One thread at a time uses a communicator; comm/background.h lends it to another thread. */
#ifndef DDM_COMM_COMM_H
#define DDM_COMM_COMM_H

#include <stddef.h>
#include <stdint.h>

#include "comm/engine.h"
#include "core/err.h"
#include "core/str.h"

struct comm;

/* Join the ranks that were started together with this process, by the engine in a shared object. timeout: seconds that a rank may take to answer.
 * ERR_UNAVAILABLE if the engine cannot be loaded or started. Leave with comm_close. */
struct comm *comm_open(const char *engine_path, double timeout, struct err *e);
/* The same by an engine that is loaded and has not been started. */
struct comm *comm_open_engine(const struct comm_engine *engine, double timeout, struct err *e);
/* Waits until all ranks have come here. NULL is allowed. */
void comm_close(struct comm *c);
/* End all ranks, this one with the exit status `code`. Does not return. */
void comm_abort(struct comm *c, int code) __attribute__((noreturn));

/* NULL is one rank alone, for these and for the collective calls below. */
int comm_rank(const struct comm *c);
int comm_size(const struct comm *c);
const char *comm_engine_name(const struct comm *c); /* "none" for NULL */
/* The network interfaces that connect the ranks, as comm_links (comm/links.h) found and comm_name_network told; "none" otherwise. */
const char *comm_network(const struct comm *c);
void comm_name_network(struct comm *c, const char *network);

/* ERR_USAGE if a number of ranks is no power of two, which comm_sum needs. */
int comm_can_sum(int ranks, struct err *e);
/* x[i] becomes the sum of x[i] over all ranks, added by the tree above. scratch has room for (n + 1) / 2 numbers. */
int comm_sum(struct comm *c, float *x, int64_t n, float *scratch, struct err *e);

/* A vector cut into one share for each rank: cut (ranks + 1) ascends, and elements [cut[p], cut[p + 1]) are the share of the rank with place p. The
 * places are the ranks with the order of their bits reversed: of 4 ranks, rank 1 has the third share. Shares may be empty. The elements before cut[0]
 * and from cut[ranks] on are not touched. */
int comm_place(int rank, int ranks);
/* Equal shares of n elements. Caller frees with mem_free. */
int64_t *comm_equal_cut(int ranks, int64_t n);
/* In the caller's share x becomes the sum over all ranks, the same bytes as by comm_sum; elsewhere between the outer cuts its contents are lost.
 * scratch has room for the larger half: max(cut[R / 2] - cut[0], cut[R] - cut[R / 2]) numbers of R ranks. */
int comm_sum_shares(struct comm *c, float *x, const int64_t *cut, float *scratch, struct err *e);
/* Every rank gets the shares of all the others into its x. */
int comm_gather_shares(struct comm *c, float *x, const int64_t *cut, struct err *e);
/* Bytes that a rank sends in these two calls, and in comm_sum and comm_gather, without making them. */
uint64_t comm_sum_shares_bytes(int rank, int ranks, const int64_t *cut);
uint64_t comm_gather_shares_bytes(int rank, int ranks, const int64_t *cut);
uint64_t comm_sum_bytes(int rank, int ranks, int64_t n);
uint64_t comm_gather_bytes(int rank, int ranks, size_t bytes);

/* Every rank gets the `bytes` of all of them, in order: all + r * bytes holds those of rank r. On entry the caller's own are at their place. */
int comm_gather(struct comm *c, void *all, size_t bytes, struct err *e);

/* Every rank gets the bytes of rank 0. */
int comm_share(struct comm *c, void *x, size_t bytes, struct err *e);

/* Every rank says whether it has failed: rc is 0, or negative and e holds the error. If any has, all fail: 0, or -1 and e is the error of the first
 * that failed, beginning with "rank R: ". Then all know it, and leave by comm_close. Without other ranks it returns rc and leaves e alone. */
int comm_agree(struct comm *c, int rc, struct err *e);
/* Whether the last comm_agree failed. */
int comm_has_failed_together(const struct comm *c);

/* The rank that this one waits for now, or -1. Any thread may ask. */
int comm_waits_for(const struct comm *c);

/* Compare builds and stamps, each a text, with rank 0's. ERR_EXISTS, on all ranks, names a rank that differs, and how: differs appends to *what the
 * differences between the caller's stamp and rank 0's, as stamp_line_differs (file/stamp.h) does, and returns their number. */
int comm_agree_stamp(struct comm *c, const char *build, const char *stamp, int (*differs)(const char *now, const char *line, struct str *what),
                     struct err *e);

/* From one rank to another, which makes the other call with the same size. `peer` is not the caller. */
int comm_send(struct comm *c, int peer, const void *x, size_t bytes, struct err *e);
int comm_receive(struct comm *c, int peer, void *x, size_t bytes, struct err *e);
/* For a rank that works while it waits. 1 if something that `peer` sent has arrived, which comm_receive would take; 0 if not. Does not wait. */
int comm_arrived(struct comm *c, int peer, struct err *e);
/* Fails with ERR_UNAVAILABLE if the last exchange with `peer` is longer ago than the time limit. */
int comm_overdue(struct comm *c, int peer, struct err *e);
double comm_timeout(const struct comm *c); /* the time limit, in seconds */
/* From here on this rank waits for others without a time limit, or with it again. For a rank that waits for work. */
void comm_be_patient(struct comm *c, int patient);
/* Whether a call failed because another rank did not answer or ended. */
int comm_is_lost(const struct comm *c);

/* Bytes sent so far by this rank, and the seconds spent in the calls above. */
uint64_t comm_sent(const struct comm *c);
double comm_seconds(const struct comm *c);
/* Of these seconds, those in which the training or sampling waited: all but the hidden ones, in which it did other work meanwhile. */
double comm_exposed_seconds(const struct comm *c);
void comm_count_hidden(struct comm *c, double seconds);

#endif
