/* The definition of an op: its gradient rules, its cost, and properties that the planner and the executor use. An op's recorder, rules and
 * definition, `const struct op_def op_def_NAME`, are together in one of lib/tape/ops_*.c; lib/tape/opdef.c makes the table from the list in
 * kernels/op.h. The rest of lib/tape names no op, except the copies, fills and views that the tape records by itself. */
#ifndef DDM_TAPE_OPDEF_H
#define DDM_TAPE_OPDEF_H

#include "tape/record.h"

/* A gradient rule. n's tensors hold values to read (recomputed, if the block is recomputed). dy[k] is the gradient of output k or
 * NULL. For every input j with need[j] the rule sets dx[j] to a tensor of the input's shape before broadcasting. acc[j], when not NULL,
 * is the gradient accumulated so far: a rule that includes it in dx[j] sets acc[j] to NULL. */
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
	struct tensor *(*again)(struct tape *t, const struct node *n); /* records output 0 once more, cheaply; NULL, or returns NULL: not so */
	/* Called by tape_layout for node i: it may take over the work of another node, which is then not live. NULL: no such ways. */
	void (*fuse)(struct tape *t, int i);
	double (*flops)(const struct op_call *c); /* FLOPs of the matrix products; NULL: none */
	unsigned optional;                        /* bit k: output k may be absent */
	int in_place;                             /* 1 + the input that output 0 may overwrite at its last use */
	unsigned exact;                           /* bit k: output k is never stored in bfloat16 */
	enum strided strided;                     /* the strides that outputs may have */
	/* Bit masks of inputs that may be read from another copy of the parameters: */
	unsigned weight;  /* in bfloat16, if the plan sets bf16_weights */
	unsigned bias;    /* likewise, if output 0 is stored in bfloat16: cuBLASLt only adds a bias of the output's type */
	unsigned compact; /* as a struct compact, if one is bound */
	int view;         /* no kernel: outputs share the inputs' memory */
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
