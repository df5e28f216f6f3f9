/* One op against a reference, on the CPU, in float and double: dense and padded strides, several pools, in place, one sample at a
 * time. Everything a kernel must not read is NaN; everything it must not write is checked afterwards. */
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
	int dense;            /* the op wants it contiguous */
	int batch;            /* dimension 0 counts samples */
	int limit;            /* > 0: indices below it */
	int like;             /* an input equal to element: values of input like - 1 */
	int exact;            /* float where the others are bfloat16 */
	int free;             /* the op allows any strides: try dimensions in reverse order too */
	double scale, shift;  /* of the standard normals it is filled with; scale 0 is 1 */
	const double *values; /* instead of them, as many as are in memory */
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
	int samples;          /* operands with `batch` set may be cut along dimension 0 without changing a bit, in any layout */
	double tol16;         /* of a twin in bfloat16, more than what rounding the outputs costs */
	int layouts;          /* bits may differ between layouts, within the tolerance */
	double terms[OP_OUT]; /* of an output whose terms cancel: their size, against which errors are measured if the values are smaller */
};

/* Run t in all ways. Fails the cmocka test with a sentence. */
void optest_run(const struct optest *t);

/* The float kernel of the CPU beside another kernel of the same op, whose memory is the host's: in float within tol of the largest
 * value (0: bit for bit), and in bfloat16 within that and half a unit in its last place; dense, padded and, where the op allows it,
 * reversed; in place. */
void optest_twin(const struct optest *t, const struct kernel *twin, double tol);

/* Run k on c, whose memory is the host's. Kernels that are none of the CPU's go to optest_remote where there is one. */
void optest_call(const struct kernel *k, const struct op_call *c);
extern void (*optest_remote)(const struct kernel *k, const struct op_call *c);

/* Values of t's operands and, after a run of the double kernel, of its outputs: caller frees each with mem_free. */
void optest_values(const struct optest *t, double *in[OP_IN], double *out[OP_OUT]);

/* Gradients by central differences in double. Input j of `back` is chosen by from[j]: FROM_OWN (its own values), FROM_DY (the
 * cotangent of output 0 of `fwd`), FROM_IN + i or FROM_OUT + i (of `fwd`). Output o of `back` is the gradient with respect to
 * input wrt[o] of `fwd`, plus, for output 0, input acc - 1 of `back` if acc. Then `back` is run in all ways. */
enum { FROM_OWN, FROM_DY, FROM_IN = 10, FROM_OUT = 20 };
void optest_gradient(const struct optest *fwd, const struct optest *back, const int from[OP_IN], const int wrt[OP_OUT], int acc, double tol);

/* Walk every index of a: idx starts at zeros; 0 after the last. */
int index_next(const struct array *a, int64_t idx[ARRAY_RANK]);
double *element(const struct array *a, const int64_t idx[ARRAY_RANK]); /* of DT_F64 */
int64_t index_value(const struct array *a, int64_t i);                 /* element i of a vector of DT_I32 */

#endif
