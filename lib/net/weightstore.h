/* How the weights of a network that is used and not trained lie in memory. On the CPU each matrix of PARAM_BULK is a struct compact
 * (kernels/compact.h): in few bytes, or in the order in which products read it. All other parameters are floats. On a GPU in bfloat16 all
 * weights are rounded and lie behind those that are also kept as floats; intermediates are stored in bfloat16 too. */
#ifndef DDM_NET_WEIGHTSTORE_H
#define DDM_NET_WEIGHTSTORE_H

#include "kernels/compact.h"
#include "tape/tape.h"

struct weightstore {
	enum compact_type bulk; /* of the matrices of PARAM_BULK; COMPACT_NONE: as the others */
	int bf16;               /* on a device of its own: PRECISION_BF16 */
	int64_t plain;          /* floats that are held as such; set by weightstore_layout */
};

/* Choose for a device: on the CPU COMPACT_NONE becomes COMPACT_F32, on a GPU COMPACT_BF16 becomes PRECISION_BF16. ERR_USAGE for a type
 * that the device does not hold. */
int weightstore_choose(struct weightstore *w, enum compact_type bulk, const struct device *d, struct err *e);

/* Allocate the matrices, one for each part of the table, without values. *out is NULL where there are none. view (for COMPACT_VIEW): where the
 * floats of a matrix lie; NULL for a matrix that does not lie there as products read it, which becomes COMPACT_F32. weightstore_drop frees, also
 * after failure. */
int weightstore_matrices(const struct weightstore *w, const struct params *p, const float *(*view)(void *arg, const struct param *q), void *arg,
                         struct compact **out, struct err *e);
void weightstore_drop(struct compact *matrices, const struct params *p); /* NULL is allowed */
int64_t weightstore_matrix_bytes(const struct compact *matrices, const struct params *p);

/* Assign offsets and plan the tape. Its matrices are bound before (tape_bind_compact). */
void weightstore_layout(struct weightstore *w, struct params *p, struct tape *t, struct device *d);
size_t weightstore_bytes(const struct weightstore *w, const struct params *p); /* of all but the matrices */
/* Bytes of all weights where the matrices are held so, on the CPU. in_place[p->n] (for COMPACT_VIEW): 1 for each matrix that view() finds; NULL:
 * none. */
uint64_t weightstore_needs(enum compact_type bulk, const struct params *p, const char *in_place);
/* The tape computes with these from now on. */
void weightstore_bind(const struct weightstore *w, struct tape *t, float *values, const struct compact *matrices);

/* Room on the host for the largest parameter. */
float *weightstore_room(const struct params *p, struct err *e);
/* One parameter, host[q->count], to its place: a matrix, or `values` of the device, or of the host where d is NULL. Overwrites host. */
void weightstore_put(const struct weightstore *w, const struct param *q, struct compact *matrices, struct device *d, float *values, float *host);

#endif
