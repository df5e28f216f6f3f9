/* The definition of an op: its gradient rules, its cost, and properties that the planner and the executor use. The definition,
 * `const struct op_def op_def_NAME`, is in one of lib/tape/ops_*.c, beside the functions that record the op. lib/tape/opdef.c makes the table from
 * the list in kernels/op.h. Other files of lib/tape know no particular op, except the copies, fills and views that the tape records itself. */
#ifndef DDM_TAPE_OPDEF_H
#define DDM_TAPE_OPDEF_H

#include "tape/record.h"

/* The arguments of a gradient rule, which records the nodes that compute the gradients of n's inputs. It reads the values of n's tensors, which are
 * the recomputed ones where values are recomputed. dy[k]: the gradient of output k; NULL: zero. For every input j with need[j] the rule sets dx[j] to
 * a tensor of the shape that the input had before broadcasting. acc[j]: the sum of the gradients of input j from other nodes so far, or NULL. A rule
 * may add it to dx[j] itself; it then sets acc[j] to NULL. */
struct vjp {
	struct tape *t;
	const struct node *n;
	struct tensor *dy[OP_OUT], *dx[OP_IN], *acc[OP_IN];
	int need[OP_IN];
};

/* The arguments of a forward-mode rule. dx[j]: the tangent of input j; NULL: zero. The rule sets dy[k]. */
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
	/* Records a node that computes output 0 a second time, and returns the new tensor. NULL, or returns NULL: too expensive to compute twice. */
	struct tensor *(*again)(struct tape *t, const struct node *n);
	/* Called by tape_layout for node i. The node may take over the work of another node, whose `live` it sets to 0. NULL: it never does. */
	void (*fuse)(struct tape *t, int i);
	double (*flops)(const struct op_call *c); /* FLOPs of the matrix products; NULL: none */
	unsigned optional;                        /* bit k: output k may be absent */
	/* For CPUs that multiply bf16 numbers (device_has_bf16_products). narrow: bit k: output k may be stored in bfloat16. narrows: whether that
	 * holds for a node; NULL: for each. rounds: bit j: input j may be stored so, because all that the kernel does with it is to round it. */
	unsigned narrow;
	int (*narrows)(const struct node *n);
	unsigned rounds;
	int in_place;         /* 1 + the input that output 0 may overwrite if nothing reads it later; 0: none */
	unsigned exact;       /* bit k: output k is never stored in bfloat16 */
	enum strided strided; /* the strides that outputs may have */
	/* Bit j: if input j is a parameter, the kernel may read another copy of it: */
	unsigned weight;  /* in bfloat16, if the plan sets bf16_weights. Products set it for their matrix */
	unsigned bias;    /* likewise, if output 0 is stored in bfloat16, because cuBLASLt only adds a bias of the output's type */
	unsigned compact; /* as a struct compact, if one is bound */
	int view;         /* 1: no kernel, because outputs share the inputs' memory */
};

/* clang-format off */
#define X(id, fn) extern const struct op_def op_def_##fn;
X(VIEW, view) OPS_RECORDED(X)
/* clang-format on */
#undef X

    /* The definition of an op in OPS_RECORDED, or of OP_VIEW. */
    const struct op_def *op_def_of(enum op op);

/* Make dst (a view with memory) hold g's value. If g has memory of its own and its producer can write to dst, g moves there; otherwise
 * a copy is recorded. */
void grad_place(struct tape *t, struct tensor *g, struct tensor *dst);

#endif
