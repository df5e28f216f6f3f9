/* The definition of an op: its gradient, its cost, and what the planner and the executor must know of it. The recorder, the rules and the
 * definition of an op lie together in one of lib/tape/ops_*.c, as `const struct op_def op_def_NAME`; lib/tape/opdef.c makes the table from
 * the list in kernels/op.h. Nothing else in lib/tape knows an op by its name, but for the copies, fills and views that the tape records by
 * itself. */
#ifndef DDM_TAPE_OPDEF_H
#define DDM_TAPE_OPDEF_H

#include "tape/record.h"

/* A gradient rule. n's tensors are values to read (recomputed ones where the block is). dy[k] is the gradient of output k or
 * NULL. The rule sets dx[j] for every input j with need[j] to a tensor of the input's (unstretched) shape. acc[j], when not NULL,
 * is the gradient collected so far: a rule that adds it itself sets acc[j] to NULL. */
struct vjp {
	struct tape *t;
	const struct node *n;
	struct tensor *dy[OP_OUT], *dx[OP_IN], *acc[OP_IN];
	int need[OP_IN];
};

/* The forward-mode rule: dx[j] is the tangent of input j or NULL; sets dy[k]. */
struct jvp {
	struct tape *t;
	const struct node *n;
	struct tensor *dx[OP_IN], *dy[OP_OUT];
};

enum strided {
	STRIDED_NO,   /* contiguous */
	STRIDED_ROWS, /* rows at one stride */
	STRIDED_YES   /* any strides, the last dimension contiguous */
};

struct op_def {
	void (*vjp)(struct vjp *v);
	void (*jvp)(struct jvp *j);
	double (*flops)(const struct op_call *c); /* of the products; NULL: none */
	unsigned optional;                        /* outputs, as bits, that may be absent */
	int in_place;                             /* 1 + the input that output 0 may overwrite at its last use */
	unsigned exact;                           /* bit k: output k is never stored in bfloat16 */
	enum strided strided;                     /* how outputs may lie in memory */
	/* Inputs, as bits, that may be read from another copy of the parameters: */
	unsigned weight;  /* in bfloat16, where the plan says bf16_weights */
	unsigned bias;    /* likewise, where output 0 is stored in bfloat16: cuBLASLt adds a bias of the output's type alone */
	unsigned compact; /* as a struct compact, where one is bound */
	int view;         /* no kernel: outputs share the inputs' memory */
};

#define X(id, fn) extern const struct op_def op_def_##fn;
X(VIEW, view) OPS_RECORDED(X)
#undef X

/* Of an op that is recorded. */
const struct op_def *op_def_of(enum op op);

/* Make dst (a view with memory) hold g's value: move g there when it has memory of its own and its producer can write there, else
 * record a copy. */
void grad_place(struct tape *t, struct tensor *g, struct tensor *dst);

#endif
