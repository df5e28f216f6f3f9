/* Devices, and how they run operations (kernels/op.h).
 *
 * kernels/cpu.c and kernels/cuda.cu fill a table with one kernel for each op. A kernel writes all of its outputs, reads nothing outside its
 * inputs, allocates nothing, and cuts its work by shape, so that its result depends neither on the number of threads nor on what the outputs
 * held. */
#ifndef DDM_KERNELS_DEVICE_H
#define DDM_KERNELS_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "core/pool.h"
#include "kernels/op.h"

enum dtype { DT_F32, DT_F64, DT_BF16, DT_I32, DT_COMPACT /* a matrix: data is a struct compact (kernels/compact.h) */ };

/* A strided view of memory: element [i, j, ..] is data[i * stride[0] + j * stride[1] + ..], strides in elements. An absent
 * optional array has data NULL. */
struct array {
	void *data;
	enum dtype dtype;
	int rank;
	int64_t shape[ARRAY_RANK], stride[ARRAY_RANK];
};

/* What random ops draw by. Kernels read it from device memory, so that a captured graph draws anew at each launch. */
struct run_keys {
	uint64_t seed, step, first; /* sample i of the batch draws as index first + i */
	uint64_t purpose;           /* of NOISE: enum rng_purpose */
};

/* What one execution of an op sees. */
struct op_call {
	int nin, nout;
	struct array in[OP_IN], out[OP_OUT];
	struct op_attr attr;
	const struct run_keys *keys; /* device memory; NULL where no op draws */
	struct device *device;
	int stream;
	struct pool *pool;
	void *scratch; /* as many bytes as the kernel declared, aligned to 64 */
};

/* kernels/NAME.c defines `const struct kernel kernel_NAME_f32, kernel_NAME_f64` through REAL_NAME (kernels/real.h). */
struct kernel {
	void (*run)(const struct op_call *c);
	/* Scratch bytes for arrays of these shapes (data pointers are not set) and this many workers; NULL: none. */
	size_t (*scratch)(const struct op_call *c, int workers);
};

/* How a network is computed; sums, norms, softmax, losses and the optimizer are in float always.
 *
 * F32   in float
 * TF32  the same, but products round what they multiply to 10 bits
 * BF16  what is stored between operations and the weights that products read are bfloat16 */
enum precision { PRECISION_F32, PRECISION_TF32, PRECISION_BF16, PRECISIONS };
extern const char *const precision_names[PRECISIONS + 1]; /* f32 tf32 bf16, NULL */

struct device_memory {
	uint64_t free, total; /* of the device, now; total 0: unknown */
	uint64_t used, peak;  /* by alloc here: now, and the most at a time */
};

/* A device: memory, queues and one kernel per op.
 *
 * Device memory is for the device alone: the host has addresses into it, computes with them, and reads and writes it only
 * by put, get, fetch, send, copy and fill. Work is done in the order of its submission on a stream; stream 0 is always there. Kernels,
 * put, send, copy and fill do not wait for it. Errors stick to the device: the first is kept, later work may be dropped, `error` tells. */
struct device {
	const char *name;
	enum dtype real;  /* DT_F32, or DT_F64 for gradient checks */
	unsigned storage; /* bit per enum dtype: what activations may be stored in */
	int host;         /* its memory is the host's */
	int streams;      /* queues, numbered from 0; of one alone nothing overlaps */
	int compact;      /* LINEAR takes w of DT_COMPACT, in memory of the host */
	int invariant;    /* as device_set_invariant wants it */
	struct pool *pool; /* threads of the host; may be NULL */
	const struct kernel *kernel[OP_COUNT];
	struct cublaslt *cublaslt; /* what matrix products may be left to; NULL: none (kernels/cublaslt.h) */

	void *(*alloc)(struct device *d, size_t bytes, const char *what, struct err *e); /* zeroed, aligned to 64 */
	void (*release)(struct device *d, void *p);                                      /* waits; NULL is allowed */
	/* Memory of the host that `fetch` may write and `send` read; zeroed. */
	void *(*alloc_host)(struct device *d, size_t bytes, const char *what, struct err *e);
	void (*release_host)(struct device *d, void *p);
	void (*memory)(struct device *d, struct device_memory *m);

	void (*put)(struct device *d, int stream, void *dst, const void *src, size_t bytes);   /* src has been read on return */
	void (*get)(struct device *d, int stream, void *dst, const void *src, size_t bytes);   /* waits: dst is there on return */
	void (*fetch)(struct device *d, int stream, void *dst, const void *src, size_t bytes); /* dst is there after an event */
	void (*send)(struct device *d, int stream, void *dst, const void *src, size_t bytes);  /* src is read until an event has passed */
	void (*copy)(struct device *d, int stream, void *dst, const void *src, size_t bytes);
	void (*fill)(struct device *d, int stream, void *dst, int byte, size_t bytes);

	int (*error)(struct device *d, struct err *e); /* does not wait; 0 while all is well */
	int (*sync)(struct device *d, struct err *e);  /* waits for everything, then as error */

	/* An event marks a point of a stream. */
	void *(*event_new)(struct device *d);
	void (*event_free)(struct device *d, void *event);
	void (*event_record)(struct device *d, void *event, int stream);
	void (*event_follow)(struct device *d, void *event, int stream); /* what is submitted to the stream from now on comes after it */
	int (*event_passed)(struct device *d, void *event, int wait);    /* waits if `wait`; a failed device has passed everything */

	/* A timer marks a point of a stream and keeps when it was reached, last; one that is recorded while a graph is captured is recorded
	 * anew by each of its launches. Freed by event_free. NULL where the host's clock after a wait says the same. */
	void *(*timer_new)(struct device *d);
	void (*timer_record)(struct device *d, void *timer, int stream);
	double (*timer_seconds)(struct device *d, void *from, void *to); /* both reached: after a sync; 0 when it cannot be said */
	struct profile *profile; /* kernels/profile.h; NULL: nothing is timed */

	/* A named stretch of what the host submits, for a profiler to show; stretches nest. NULL where there is nobody to show it. */
	void (*range_begin)(struct device *d, const char *name);
	void (*range_end)(struct device *d);

	/* Graphs: what is submitted to the stream between begin and end is not run but kept, to be launched as a whole; NULL where the
	 * device has none. put, get, fetch and send must not be called in between. A capture that fails is no error of the device: `uncaptured`
	 * says why the last that failed did, and is empty while none has. */
	int (*capture_begin)(struct device *d, int stream);
	void *(*capture_end)(struct device *d, int stream); /* NULL: it failed, nothing was run */
	void (*graph_launch)(struct device *d, void *graph, int stream);
	void (*graph_free)(struct device *d, void *graph);

	char uncaptured[256];

	double (*peak_flops)(struct device *d); /* of its fastest matrix product, measured at the first call */
	double (*peak_bytes)(struct device *d); /* read plus written by its copy, likewise */
	void (*close)(struct device *d);
};

/* The CPU, computing in float or double. The pool is borrowed and may be NULL (serial). Caller frees with device_free. */
struct device *device_cpu(struct pool *pool, enum dtype real);
void device_free(struct device *d); /* NULL is allowed */

/* The device called `name`: "cpu", "cuda", "cuda:N", or "auto", the first GPU where there is one that this build has code for, and the CPU
 * elsewhere. The pool is borrowed. What is not a name is ERR_USAGE; a GPU that is not there, or a build that knows none, ERR_UNAVAILABLE. */
struct device *device_open(const char *name, struct pool *pool, struct err *e);

/* Let products round to TF32, or not. ERR_USAGE where the device cannot compute so. */
int device_set_precision(struct device *d, enum precision p, struct err *e);

/* Whether a sample's bits may depend on the samples beside it in a batch, on how many and in what order, or not: of what is computed
 * forward. On the CPU they never do. On a GPU without it products are made by what is fastest for their number of rows; with it, in every
 * precision, by one kernel of our own. */
void device_set_invariant(struct device *d, int on);

/* What it is fastest at. */
enum precision device_precision(const struct device *d);

/* What d->peak_flops and d->peak_bytes say; not a number where the device does not know. */
struct device_peaks {
	double flops, bytes; /* a second */
};
struct device_peaks device_peaks(struct device *d);

/* Ranges, where the device has them. */
void device_range(struct device *d, const char *name);
void device_range_number(struct device *d, const char *name, int number); /* "expert 3" */
void device_range_end(struct device *d);

/* On stream 0. */
void device_put(struct device *d, void *dst, const void *src, size_t bytes);
void device_get(struct device *d, void *dst, const void *src, size_t bytes);
void device_copy(struct device *d, void *dst, const void *src, size_t bytes);

/* Run one op outside a tape on stream 0. Sets c's device and pool; scratch as device_scratch asks for the same shapes, or NULL. */
void device_run(struct device *d, enum op op, struct op_call *c, void *scratch);
size_t device_scratch(struct device *d, enum op op, const struct op_call *c);

/* A contiguous array of one dimension. */
struct array array_vector(enum dtype t, void *data, int64_t n);

size_t dtype_size(enum dtype t); /* not of DT_COMPACT, whose elements have no size of their own */
const char *op_name(enum op op); /* "LINEAR" */

int64_t array_count(const struct array *a);  /* elements */
int array_contiguous(const struct array *a); /* row-major without gaps */
int64_t array_rows(const struct array *a);   /* product of all dimensions but the last */
/* When the leading dimensions (all but the last) can be walked with one stride, store it and return 1: a matrix of
 * array_rows x shape[rank - 1]. */
int array_row_stride(const struct array *a, int64_t *stride);
/* Whether a sum of x into y follows x's memory along its last summed dimension: that is denser than the last one kept. Dimension 0 counts
 * with one sample as with many, so that a sample's sum is made in one order in any batch; a sample repeated lies far apart. */
int array_sums_runs(const struct array *x, const struct array *y);
/* Offset in elements of row r (leading dimensions in row-major order). */
int64_t array_row_offset(const struct array *a, int64_t row);

#endif
