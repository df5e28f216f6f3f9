/* Internals of the tape: nodes, storages, and functions for op recorders and gradient rules. Included by lib/tape only. */
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
	int tensors;          /* number of tensors in this storage */
	int param;            /* STORE_PARAM, STORE_GRAD: index in the table */
	struct tensor *owner; /* STORE_PARAM: the tensor that tape_param returned */
	struct storage *into; /* NULL, or the storage that this one was merged into, at into_offset elements */
	int64_t into_offset;
	int keep, needed;
	int exact;             /* never stored in bfloat16 */
	int first, last;       /* first and last node that reads or writes it */
	int64_t place;         /* byte offset in the arena */
	void *bound;           /* STORE_INPUT */
	const void *constant;  /* STORE_INPUT of tape_constant: its values; `bound` is then the tape's own device memory */
	struct storage *clone; /* during recomputation of a block, or of this value alone */
	int again_by;          /* 1 + the node that computes it, if that can be repeated alone; else 0 */
	struct storage *next;
};

struct node {
	enum op op;
	int nin, nout;
	struct tensor *in[OP_IN], *out[OP_OUT]; /* optional ones may be NULL */
	struct op_attr attr;
	int block; /* 0: none */
	int again; /* 1: recomputes an earlier node */
	int live;
	int stream;
	void (*then)(void *arg, struct device *d, int stream);
	void *then_arg;
};

/* A run that the device keeps as a graph. It is found again by n, the range, the bound parameter arenas and the profile. */
struct replay {
	int64_t n, used; /* used: tape->runs at its last use */
	int from, to;
	void *values, *grad_values;
	const uint16_t *rounded;
	const struct profile *profile; /* the profile whose timers the graph records; NULL: none */
	void *graph;                   /* NULL: it has run only once, or the capture failed */
	int refused;                   /* the capture failed; not tried again */
};

/* Most replays per set of parameter arenas, or the tape's capacity if that is more: routing gives an expert any number of samples up to it, each a
 * graph of its own. */
enum { TAPE_GRAPHS = 32 };

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
	int block, blocks, again;
	enum recompute recompute;
	int frozen; /* parameters get no gradient */
	int64_t dropouts;
	int stream;           /* the stream of nodes being recorded */
	int forward_end;      /* number of nodes before the gradient */
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
	void (*watch)(void *arg, const struct tape_event *v);
	void *watch_arg;
	void *hop;    /* event between nodes of different streams */
	void **timer; /* (nnodes + 1); NULL until a run is profiled on a device with timers */
};

/* A new tensor with memory of its own. */
struct tensor *tensor_new(struct tape *t, enum dtype dtype, int rank, const int64_t *shape, int batched);
struct tensor *tensor_like(struct tape *t, const struct tensor *x);
/* A tensor in x's storage; strides and offset are relative to the storage. */
struct tensor *tensor_view(struct tape *t, const struct tensor *x, int rank, const int64_t *shape, const int64_t *stride, int64_t offset,
                           int batched);
/* x broadcast to the shape of `to` (missing leading dimensions added) without a node, for operands that kernels read with strides
 * of 0. */
struct tensor *tensor_stretch(struct tape *t, struct tensor *x, const struct tensor *to);
void tensor_array(const struct tensor *x, struct array *a); /* at capacity, data NULL; x may be NULL */
int tensor_contiguous(const struct tensor *x);
int64_t tensor_count(const struct tensor *x);

struct node *node_add(struct tape *t, enum op op, int nin, struct tensor *const *in, int nout, struct tensor *const *out, const struct op_attr *attr);

/* A node with one output; returns it. */
struct tensor *node_one(struct tape *t, enum op op, int nin, struct tensor *const *in, struct tensor *y, const struct op_attr *attr);

struct storage *storage_end(struct storage *s, int64_t *offset); /* follow `into`, adding to *offset */
struct storage *tensor_home(const struct tensor *x);             /* the storage whose memory x has */

/* Whether a node after `from` and before `to` writes to the memory of x or, unless `writes`, reads it. Before tape_layout all nodes count, later the
 * live ones. x may be NULL. */
int memory_used(const struct tape *t, int from, int to, const struct tensor *x, int writes);

/* Fill c with a node's arrays for this many samples; data pointers are set only after tape_allocate. */
void node_call(const struct tape *t, const struct node *n, int64_t samples, struct op_call *c);
/* Free every graph: an address or a timer that they contain has changed. */
void replay_drop(struct tape *t);
void timers_drop(struct tape *t); /* after replay_drop */

#endif
