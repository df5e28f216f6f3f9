/* Inside the tape: nodes, storages, and what op recorders and gradient rules use. Included by lib/tape only. */
#ifndef DDM_TAPE_RECORD_H
#define DDM_TAPE_RECORD_H

#include "core/mem.h"
#include "tape/tape.h"

enum storage_kind { STORE_ARENA, STORE_INPUT, STORE_PARAM, STORE_GRAD };

/* Memory that tensors are views of. */
struct storage {
	enum storage_kind kind;
	enum dtype dtype;
	int64_t elements;
	int tensors;          /* how many tensors live here */
	int param;            /* STORE_PARAM, STORE_GRAD: index in the table */
	struct tensor *owner; /* STORE_PARAM: the tensor tape_param made */
	struct storage *into; /* NULL, or the storage this one became a part of, at into_offset elements */
	int64_t into_offset;
	int keep, needed;
	int exact;            /* not to be rounded to bfloat16 */
	int first, last;       /* nodes that touch it */
	int64_t place;         /* byte offset in the arena */
	void *bound;           /* STORE_INPUT */
	struct storage *clone; /* during recomputation of a block */
	struct storage *next;
};

struct node {
	enum op op;
	int nin, nout;
	struct tensor *in[OP_IN], *out[OP_OUT]; /* optional ones may be NULL */
	struct op_attr attr;
	int block;                              /* 0: none */
	int again;                              /* recomputes an earlier node */
	int live;
	int stream;
	void (*then)(void *arg, struct device *d, int stream);
	void *then_arg;
};

/* A run that the device keeps as a graph. What was bound to parameters is a part of what it is. */
struct replay {
	int64_t n, used; /* used: when, by the count of runs */
	int from, to;
	void *values, *grad_values;
	const uint16_t *rounded;
	const struct profile *profile; /* whose timers it holds */
	void *graph; /* NULL: it has run once, or the device could not keep it */
	int refused;
};

enum { TAPE_GRAPHS = 32 }; /* of the same parameter arenas */

struct tape {
	enum dtype real;
	int64_t capacity;
	struct arena mem;
	struct node *node;
	int nnodes, node_cap;
	struct tensor **tensor;
	int ntensors, tensor_cap;
	struct storage *storages;
	struct params *params;
	int block, blocks, recompute, again;
	int64_t dropouts;
	int stream;           /* of the nodes being recorded */
	int forward_end;      /* nodes before the gradient */
	struct tensor **grad; /* [grads]: by tensor id, after tape_backward */
	int grads;
	struct device *device;
	struct plan_options options;
	int64_t arena_bytes, scratch_bytes;
	char *arena, *scratch;
	void *values, *grad_values;
	const uint16_t *rounded;       /* values as bfloat16, or NULL */
	const struct compact *compact; /* by part of a parameter, or NULL */
	struct run_keys keys, *device_keys;
	int keys_changed;
	struct replay *replay;
	int replays;
	int64_t runs;
	void *hop; /* event between nodes of different streams */
	void **timer; /* (nnodes + 1), or NULL: no run was profiled on a device that has timers */
};

/* A new tensor with memory of its own. */
struct tensor *tensor_new(struct tape *t, enum dtype dtype, int rank, const int64_t *shape, int batched);
struct tensor *tensor_like(struct tape *t, const struct tensor *x);
/* A tensor in x's storage; strides and offset absolute. */
struct tensor *tensor_view(struct tape *t, const struct tensor *x, int rank, const int64_t *shape, const int64_t *stride,
                           int64_t offset, int batched);
/* x stretched to the shape of `to` (missing leading dimensions added), without a node: for operands that ops broadcast
 * themselves. */
struct tensor *tensor_stretch(struct tape *t, struct tensor *x, const struct tensor *to);
void tensor_array(const struct tensor *x, struct array *a); /* at capacity, data NULL; x may be NULL */
int tensor_contiguous(const struct tensor *x);
int64_t tensor_count(const struct tensor *x);

struct node *node_add(struct tape *t, enum op op, int nin, struct tensor *const *in, int nout, struct tensor *const *out,
                      const struct op_attr *attr);

/* A node with one output; returns it. */
struct tensor *node_one(struct tape *t, enum op op, int nin, struct tensor *const *in, struct tensor *y, const struct op_attr *attr);

struct storage *storage_end(struct storage *s, int64_t *offset); /* follow `into`, adding to *offset */

/* The arrays of a node for n samples (data pointers only when the plan is allocated). */
void node_call(const struct tape *t, const struct node *n, int64_t samples, struct op_call *c);
/* Forget every graph: something they hold is another now. */
void replay_drop(struct tape *t);
void timers_drop(struct tape *t); /* after replay_drop */

#endif
