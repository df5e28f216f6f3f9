/* How the weights of a network that is run and not trained lie in memory. In few bytes, or in the order in which products read them: on the
 * CPU the matrices of PARAM_BULK are each a struct compact (kernels/compact.h), and the others floats. On a GPU in bfloat16 all weights
 * are there rounded, behind those that are floats too, and what is stored between operations is rounded likewise. */
#ifndef DDM_NET_WEIGHTSTORE_H
#define DDM_NET_WEIGHTSTORE_H

#include "kernels/compact.h"
#include "tape/tape.h"

struct weightstore {
	enum compact_type bulk; /* of the matrices of PARAM_BULK; COMPACT_NONE: as the others */
	int bf16;               /* on a device of its own: PRECISION_BF16 */
	int64_t plain;          /* floats that are held as such; set by weightstore_layout */
};

/* What `bulk` is on a device: COMPACT_NONE there is COMPACT_F32 where it takes that, COMPACT_BF16 on a GPU is PRECISION_BF16. ERR_USAGE for
 * what it does not take. */
int weightstore_choose(struct weightstore *w, enum compact_type bulk, const struct device *d, struct err *e);

/* Memory for the matrices, by part of the table, in *out, which is NULL where there are none; not written yet. view: the floats of a matrix
 * where they lie, for COMPACT_VIEW. weightstore_drop frees, after failure too. */
int weightstore_matrices(const struct weightstore *w, const struct params *p, const float *(*view)(void *arg, const struct param *q),
                         void *arg, struct compact **out, struct err *e);
void weightstore_drop(struct compact *matrices, const struct params *p); /* NULL is allowed */
int64_t weightstore_matrix_bytes(const struct compact *matrices, const struct params *p);

/* Offsets, and the plan of a tape to which matrices of such types, where there are any, are bound. */
void weightstore_layout(struct weightstore *w, struct params *p, struct tape *t, struct device *d);
size_t weightstore_bytes(const struct weightstore *w, const struct params *p);          /* of all but the matrices, */
uint16_t *weightstore_rounded(const struct weightstore *w, float *values);              /* of which this part is bfloat16; or NULL */
/* Bytes of all weights where the matrices are held so, on the CPU. */
uint64_t weightstore_needs(enum compact_type bulk, const struct params *p);
/* The tape computes with these from now on. */
void weightstore_bind(const struct weightstore *w, struct tape *t, float *values, const struct compact *matrices);

/* Room on the host for the largest parameter. */
float *weightstore_room(const struct params *p, struct err *e);
/* One parameter, host[q->count], to its place: a matrix, or `values` of the device, or of the host where d is NULL. host is used up. */
void weightstore_put(const struct weightstore *w, const struct param *q, struct compact *matrices, struct device *d, float *values, float *host);

#endif
