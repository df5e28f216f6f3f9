/* Compares one op with a reference on the CPU, in float and double: with dense and padded strides, several pools, in place, and one sample at a time.
 * Memory that a kernel must not read is NaN. Memory that it must not write is checked afterwards. */
#ifndef DDM_TESTS_OPTEST_H
#define DDM_TESTS_OPTEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "kernels/device.h"

/* An array of a test. `shape` is what the op sees; a dimension whose bit is set in bcast has one element in memory. */
struct operand {
	int rank; /* 0: absent */
	int64_t shape[ARRAY_RANK];
	unsigned bcast;
	int dense;            /* the op requires it to be contiguous */
	int batch;            /* dimension 0 counts samples */
	int limit;            /* > 0: DT_I32 indices below it */
	int like;             /* > 0: has the same values as input like - 1 */
	int exact;            /* stays float when the others are bfloat16 */
	int finer;            /* with exact: its values are not rounded to bfloat16 first, because the op must not round them either */
	int free;             /* the op allows any strides: try dimensions in reverse order too */
	double scale, shift;  /* filled with scale * normal + shift; scale 0 is 1 */
	const double *values; /* used in place of random values, one per element in memory; or NULL */
};

struct optest {
	const char *name;
	enum op op;
	struct op_attr attr;
	int nin, nout;
	struct operand in[OP_IN], out[OP_OUT];
	/* Writes the outputs from the inputs; all arrays double and dense, with strides of 0 where the size is 1. NULL: the double
	 * kernel is the reference of the float one. */
	void (*ref)(const struct op_call *c);
	double tol32, tol64;  /* largest error over largest value of the reference, for each output */
	int in_place;         /* output 0 may be input in_place - 1 */
	int samples;          /* a run on some of the samples (operands with `batch`) gives the same bits, in any layout */
	double tol16;         /* tolerance of a twin in bfloat16, added to that for rounding the outputs */
	int layouts;          /* bits may differ between layouts, within the tolerance */
	int no_dropout;       /* of the run's keys */
	double terms[OP_OUT]; /* for an output whose terms cancel: the size of the terms. Errors are relative to it if the values are smaller */
};

/* Run t in all ways. Fails the cmocka test with a message. */
void optest_run(const struct optest *t);

/* Compare another kernel of the same op, in host memory, with the CPU's float kernel: in float within tol of the largest value (0: same bits), and
 * in bfloat16 within that plus, for outputs that are not `exact`, half a unit in the last place. Strides are dense, padded and, if the op allows
 * it, reversed; also in place. */
void optest_twin(const struct optest *t, const struct kernel *twin, double tol);

/* Run k on c in host memory. Kernels other than the CPU's run through optest_remote if it is set. */
void optest_call(const struct kernel *k, const struct op_call *c);
extern void (*optest_remote)(const struct kernel *k, const struct op_call *c);

/* The values of t's inputs, and of its outputs from the double kernel. Caller frees each with mem_free. */
void optest_values(const struct optest *t, double *in[OP_IN], double *out[OP_OUT]);

/* Compare the gradients of `back` with central differences of `fwd` in double. from[j] selects input j of `back`: FROM_OWN (its own values), FROM_DY
 * (the cotangent of output 0 of `fwd`), FROM_IN + i or FROM_OUT + i (of `fwd`). Output o of `back` is the gradient with respect to input wrt[o] of
 * `fwd`. If acc, output 0 also contains input acc - 1 of `back`. Then `back` is run in all ways. */
enum { FROM_OWN, FROM_DY, FROM_IN = 10, FROM_OUT = 20 };
void optest_gradient(const struct optest *fwd, const struct optest *back, const int from[OP_IN], const int wrt[OP_OUT], int acc, double tol);

/* Advance idx to the next index of a; it starts at zeros. Returns 0 after the last. */
int index_next(const struct array *a, int64_t idx[ARRAY_RANK]);
double *element(const struct array *a, const int64_t idx[ARRAY_RANK]); /* of DT_F64 */
int64_t index_value(const struct array *a, int64_t i);                 /* element i of a vector of DT_I32 */

#endif
