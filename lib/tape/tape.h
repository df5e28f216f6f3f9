/* The tape: records a network and runs it. A network is a C function that calls op_* (tape/ops.h); each call records a node.
 * tape_backward appends the gradient, made of ops too; tape_layout plans the memory, all intermediates in one arena by liveness; tape_run
 * executes the nodes on any device.
 *
 *     struct tape *t = tape_new(DT_F32, 32);                     capacity: batches of up to 32
 *     struct tensor *x = tape_input(t, DT_F32, 4, shape, TAPE_BATCHED);
 *     struct tensor *y = network(t, &params, x);                 records
 *     tape_keep(t, y);
 *     tape_backward(t, loss, dloss);                             optional
 *     params_layout(&params);
 *     tape_layout(t, device, NULL);  tape_allocate(t, &e);
 *     tape_bind(t, x, pixels);  tape_bind_params(t, values, grads);
 *     tape_run(t, n, 0, tape_mark(t));                           for any n up to 32
 *
 * A tape never branches on values. The leading dimension of batched tensors is a run-time value: shapes are recorded at
 * capacity, and a run with n samples uses the first n / capacity of every batched leading dimension. Nothing else is dynamic. */
#ifndef DDM_TAPE_TAPE_H
#define DDM_TAPE_TAPE_H

#include <stdint.h>

#include "kernels/compact.h"
#include "kernels/device.h"
#include "tape/params.h"

struct tape;

/* A recorded value. Read-only for callers; owned by the tape. */
struct tensor {
	int id;
	enum dtype dtype;
	int rank;
	int64_t shape[ARRAY_RANK], stride[ARRAY_RANK]; /* at capacity; strides in elements */
	int batched;                                   /* dimension 0 scales with the batch */
	int needs_grad;
	int float_grad;      /* tape_float_grad */
	struct tensor *root; /* itself, or the tensor that it broadcasts */
	struct storage *st;
	int64_t offset; /* elements into the storage */
};

enum {
	TAPE_BATCHED = 1, /* the size of dimension 0 is a multiple of the batch size */
	TAPE_GRAD = 2     /* compute the gradient with respect to it (tape_grad) */
};

/* `real` is the dtype of every floating-point tensor: DT_F32, or DT_F64 to check gradients. */
struct tape *tape_new(enum dtype real, int64_t capacity);
void tape_free(struct tape *t);
int64_t tape_capacity(const struct tape *t);
enum dtype tape_real(const struct tape *t);

/* An input, bound to memory before each run (or once). Contiguous. */
struct tensor *tape_input(struct tape *t, enum dtype dtype, int rank, const int64_t *shape, int flags);

/* An input whose values never change, such as a table of positions: the tape copies them, rounded to its type, and binds them by itself. */
struct tensor *tape_constant(struct tape *t, int rank, const int64_t *shape, const double *values);

/* A parameter of the table, added to it if its name is new. One table per tape. */
struct tensor *tape_param(struct tape *t, struct params *p, const char *name, int rank, const int64_t *shape, int flags, struct init init);

/* Parameters recorded from now on get no gradient: tape_backward differentiates with respect to TAPE_GRAD inputs alone. */
void tape_freeze(struct tape *t);

/* Keep a tensor's value readable after the run. Its strides stay the same: a view remains a view. */
void tape_keep(struct tape *t, struct tensor *x);

/* Store x and its gradient in float, also where the plan stores intermediates in bfloat16. For sums of many terms, such as a residual stream,
 * where each rounding adds to those before it. tape_float_grad: only the gradient, which is a sum if several ops read x. x has memory of its own (it
 * is no view) or is a view of which the whole may be float. Call them before tape_backward; they return x. */
struct tensor *tape_float(struct tape *t, struct tensor *x);
struct tensor *tape_float_grad(struct tape *t, struct tensor *x);

/* Which values the backward pass computes again, instead of keeping them since the forward pass. This takes less memory and more time, and the
 * gradients have the same bits. */
enum recompute {
	RECOMPUTE_NONE,
	RECOMPUTE_BLOCKS, /* all values inside a block, from the block's inputs */
	RECOMPUTE_NORMS,  /* the outputs of norms and of op_unary that only products read, one by one */
	/* As RECOMPUTE_NORMS, and the outputs of op_linear_act: the activation is applied again to the product's result, which is kept. For float
	 * only: in bfloat16 and TF32 the product itself may apply the activation, before the result is rounded, and the bits would differ. */
	RECOMPUTE_ACTS
};

/* Nodes recorded between begin and end form a block. Blocks do not nest. */
void tape_block_begin(struct tape *t);
void tape_block_end(struct tape *t);
/* Before tape_backward. */
void tape_recompute(struct tape *t, enum recompute what);

/* Append the gradient of sum(dy * y) with respect to trainable parameters and TAPE_GRAD inputs. dy has y's shape. Parameter gradients
 * overwrite the gradient arena. Once per tape. */
void tape_backward(struct tape *t, struct tensor *y, struct tensor *dy);

/* After tape_backward: the gradient of an input made with TAPE_GRAD (kept, of any strides), or NULL if y does not depend on
 * it. */
struct tensor *tape_grad(struct tape *t, const struct tensor *x);

/* The current end of the node list, for running parts: tape_run(t, n, from, to). */
int tape_mark(const struct tape *t);

/* Nodes recorded from now on run on this stream of the device. A node always waits for the node before it, even on another stream,
 * because they share memory. Only work that a `then` callback submits can overlap with nodes. */
void tape_stream(struct tape *t, int stream);

/* Call then(arg, device, stream) each time a node has been submitted; `node` is the value of tape_mark before it was recorded. Work that
 * the callback submits to this stream runs after the node. On another stream that follows an event of this one, it can overlap with later
 * nodes. */
void tape_then(struct tape *t, int node, void (*then)(void *arg, struct device *d, int stream), void *arg);

/* A node about to run (after: 0), or that has just run (1). */
struct tape_event {
	enum op op;
	const struct op_call *call;
	const char *in[OP_IN], *out[OP_OUT]; /* names of the parameters among the inputs, and of those whose gradients are outputs; else NULL */
	int after;
};

/* Call watch(arg, event) before and after each node of the following runs; NULL: no longer. On a device whose memory is host memory. */
void tape_watch(struct tape *t, void (*watch)(void *arg, const struct tape_event *v), void *arg);

struct plan_options {
	int no_reuse; /* every intermediate has memory of its own */
	int poison;   /* fill the arena with NaN before a run and each value's memory after its last use */
	int bf16;     /* store intermediates in bfloat16, except kept ones, those of tape_float and those that an op declares exact */
	/* On a CPU that multiplies bf16 numbers: store what only products read in float too, instead of in bfloat16. The bits of all results are the
	 * same. */
	int float_operands;
	int bf16_weights; /* op_linear, op_conv and their gradients read parameters in bfloat16 (tape_bind_bf16); op_linear's bias too,
	                     if its output is bfloat16 */
};

/* Plan the memory, after all recording. Does not allocate. The device is borrowed until tape_free. */
void tape_layout(struct tape *t, struct device *d, const struct plan_options *o);
int64_t tape_arena_bytes(const struct tape *t);
int64_t tape_scratch_bytes(const struct tape *t);
/* Allocate the arena and the scratch. ERR_UNAVAILABLE if the device lacks a kernel, or cannot store bfloat16 when the plan uses it. */
int tape_allocate(struct tape *t, struct err *e);

/* Bind an input to device memory, borrowed until bound again. */
void tape_bind(struct tape *t, struct tensor *x, void *data);
/* Bind the table's arenas: values[total], grads[trainable] (may be NULL without a backward pass). */
void tape_bind_params(struct tape *t, void *values, void *grads);
/* Bind values[total] in bfloat16, required before a run with bf16_weights; borrowed. */
void tape_bind_bf16(struct tape *t, const uint16_t *values);
/* Bind w[parts of the table], borrowed. If w[i] has a type, op_linear reads part i of the parameters from it, and no other op may read
 * that part. Types and sizes must be set before tape_layout; later calls may bind matrices of the same types and sizes. Forward only, in
 * float, on a device with `compact`. */
void tape_bind_compact(struct tape *t, const struct compact *w);
/* The random keys of dropout and noise in the following runs, and whether these drop at all. */
void tape_seed(struct tape *t, const struct run_keys *keys);

/* Run the nodes [from, to) on n samples, 1 <= n <= capacity. Errors stick to the device.
 *
 * On a device with graphs, the first run of a range with given n and parameter arenas submits each node, the second is captured as a graph,
 * and later runs launch the graph. A launch reads the current contents of bound memory, at the addresses bound at capture.
 * No graphs are used with poison or tape_then, nor with a profile (kernels/profile.h) on a device without timers. */
void tape_run(struct tape *t, int64_t n, int from, int to);

/* Device address of a kept tensor, an input or a parameter. */
void *tape_data(struct tape *t, const struct tensor *x);

/* After tape_layout: mark[i] becomes the end of the last node that reads or writes the gradient of parameter i of the table. Once the nodes before it
 * have run, the gradient is complete, and other work may change it. 0: no node does. */
void tape_grad_marks(const struct tape *t, int *mark);

/* FLOPs of the matrix products in [from, to) for n samples, without recomputation. */
double tape_flops(const struct tape *t, int64_t n, int from, int to);

#endif
