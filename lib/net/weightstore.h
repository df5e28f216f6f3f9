/* How the weights of a network that is not trained are stored. On the CPU each matrix of PARAM_BULK is a struct compact (kernels/compact.h): in fewer
 * bytes, or in the order in which products read it. All other parameters are floats. On a GPU in bfloat16 all weights are rounded; those that are
 * also kept as floats come first. Intermediates are stored in bfloat16 too. */
#ifndef DDM_NET_WEIGHTSTORE_H
#define DDM_NET_WEIGHTSTORE_H

#include "kernels/compact.h"
#include "tape/tape.h"

struct weightstore {
	enum compact_type bulk; /* type of the matrices of PARAM_BULK; COMPACT_NONE: floats, as all other parameters */
	int bf16;               /* 1: PRECISION_BF16, on a device with its own memory */
	int64_t plain;          /* number of elements stored as floats; set by weightstore_layout */
};

/* Choose for a device: on the CPU COMPACT_NONE becomes COMPACT_F32, on a GPU COMPACT_BF16 becomes PRECISION_BF16. ERR_USAGE for a type
 * that the device does not support. */
int weightstore_choose(struct weightstore *w, enum compact_type bulk, const struct device *d, struct err *e);

/* Allocate the matrices, without values; *out is NULL if there are none. view (for COMPACT_VIEW) returns the address of a matrix's floats, or NULL if
 * products cannot read them there; then the matrix becomes COMPACT_F32. Caller frees with weightstore_drop, also after failure. */
int weightstore_matrices(const struct weightstore *w, const struct params *p, const float *(*view)(void *arg, const struct param *q), void *arg,
                         struct compact **out, struct err *e);
void weightstore_drop(struct compact *matrices, const struct params *p); /* NULL is allowed */
/* The same without memory for values, for a plan of the tape. NULL if there are none. */
struct compact *weightstore_shapes(const struct weightstore *w, const struct params *p, const char *in_place);
int64_t weightstore_matrix_bytes(const struct compact *matrices, const struct params *p);

/* Assign offsets and plan the tape. The matrices must be bound before (tape_bind_compact). */
void weightstore_layout(struct weightstore *w, struct params *p, struct tape *t, struct device *d);
size_t weightstore_bytes(const struct weightstore *w, const struct params *p); /* of all but the matrices */
/* Bytes of all weights on the CPU with matrices of this type. in_place[p->n] (for COMPACT_VIEW): 1 for each matrix that view() finds; NULL: none. */
uint64_t weightstore_needs(enum compact_type bulk, const struct params *p, const char *in_place);
/* The tape computes with these from now on. */
void weightstore_bind(const struct weightstore *w, struct tape *t, float *values, const struct compact *matrices);

/* Host memory for the largest parameter. Caller frees with mem_free. */
float *weightstore_room(const struct params *p, struct err *e);
/* Store one parameter, host[q->count], in its matrix or in `values`, which is device memory, or host memory if d is NULL. Overwrites host. */
void weightstore_put(const struct weightstore *w, const struct param *q, struct compact *matrices, struct device *d, float *values, float *host);

#endif
