/* Devices, and how they run operations (kernels/op.h).
 *
 * kernels/cpu.c and kernels/cuda.cu fill a table with one kernel for each op. A kernel writes all elements of its outputs, reads only its
 * inputs, allocates nothing, and divides its work by shape alone. So its result does not depend on the number of threads or on the old
 * contents of the outputs. */
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

/* The keys of random draws. Kernels read them from device memory, so a captured graph draws new numbers at each launch. */
struct run_keys {
	uint64_t seed, step, first; /* sample i of the batch draws as index first + i */
	uint64_t purpose;           /* of NOISE: enum rng_purpose */
	uint64_t no_dropout;        /* 1: DROPOUT copies its input; 0: it drops, as in training */
};

/* The arguments of one execution of an op. */
struct op_call {
	int nin, nout;
	struct array in[OP_IN], out[OP_OUT];
	struct op_attr attr;
	const struct run_keys *keys; /* in device memory; NULL if the op draws no random numbers */
	struct device *device;
	int stream;
	struct pool *pool;
	void *scratch; /* kernel.scratch bytes, aligned to 64 */
};

/* kernels/NAME.c defines `const struct kernel kernel_NAME_f32, kernel_NAME_f64` through REAL_NAME (kernels/real.h). */
struct kernel {
	void (*run)(const struct op_call *c);
	/* The bytes of scratch that `run` needs with this many workers. c has the shapes, but no data pointers. The bytes are enough for fewer samples
	 * too. NULL: `run` needs none. */
	size_t (*scratch)(const struct op_call *c, int workers);
};

/* The precision in which a network is computed; sums, norms, softmax, losses and the optimizer always use float.
 *
 * F32            float
 * TF32           float, but products round their inputs to 10 bits (GPU)
 * BF16           GPU: values stored between operations, and weights read by products, are bfloat16; a transformer's residual stream is float.
 *                CPU with AVX512-BF16 or AMX: values are stored in float, and the products of LINEAR, ATTENTION and their gradients
 *                round their inputs to bfloat16 (kernels/gemm_bf16.h, kernels/attention_bf16.h)
 * BF16_EMULATED  CPU: the numbers that BF16 has with AVX512-BF16, on any CPU */
enum precision { PRECISION_F32, PRECISION_TF32, PRECISION_BF16, PRECISION_BF16_EMULATED, PRECISIONS };
extern const char *const precision_names[PRECISIONS + 1]; /* f32 tf32 bf16 bf16-emulated, NULL */

struct device_memory {
	uint64_t free, total; /* of the device, now; total 0: unknown */
	uint64_t used, peak;  /* allocated through this device: now, and at most at one time */
};

/* A device: memory, queues and one kernel per op.
 *
 * The host accesses device memory only by put, get, fetch, send, copy and fill; it may compute addresses within it. Work on a stream runs in
 * the order of submission; stream 0 always exists. Kernels, put, fetch, send, copy and fill return without waiting for the work. Errors stick to
 * the device: the first is kept for `error`, and later work may be dropped. */
struct device {
	const char *name;
	enum dtype real;   /* DT_F32, or DT_F64 for gradient checks */
	unsigned storage;  /* bit per enum dtype: the types that activations may be stored in */
	int host;          /* device memory is host memory */
	int streams;       /* number of queues, numbered from 0; with 1, nothing overlaps */
	int processors;    /* multiprocessors of a GPU; 0: not known. No result depends on it */
	int gated_norms;   /* NORM and NORM_GRAD accept a gate */
	int compact;       /* LINEAR accepts w of DT_COMPACT, in host memory */
	int invariant;     /* set by device_set_invariant */
	int bf16_products; /* LINEAR, ATTENTION and their gradients on floats round their inputs to bfloat16; set by device_set_precision on the CPU */
	int bf16_isa;      /* enum compact_isa: the instructions of those products */
	struct pool *pool; /* host threads; may be NULL */
	const struct kernel *kernel[OP_COUNT];
	struct cublaslt *cublaslt; /* for matrix products (kernels/cublaslt.h); NULL: none */
	struct cudnn *cudnn;       /* for attention (kernels/cudnn.h); NULL: none */
	char no_cudnn[512];        /* why a GPU has none; else empty */
	size_t shared;             /* of a GPU: most bytes of shared memory of a block */

	void *(*alloc)(struct device *d, size_t bytes, const char *what, struct err *e); /* zeroed, aligned to 64 */
	void (*release)(struct device *d, void *p);                                      /* waits; NULL is allowed */
	/* Host memory that `fetch` may write and `send` may read; zeroed. */
	void *(*alloc_host)(struct device *d, size_t bytes, const char *what, struct err *e);
	void (*release_host)(struct device *d, void *p);
	void (*memory)(struct device *d, struct device_memory *m);

	void (*put)(struct device *d, int stream, void *dst, const void *src, size_t bytes);   /* src has been read on return */
	void (*get)(struct device *d, int stream, void *dst, const void *src, size_t bytes);   /* waits: dst is written on return */
	void (*fetch)(struct device *d, int stream, void *dst, const void *src, size_t bytes); /* dst is valid once a later event has passed */
	void (*send)(struct device *d, int stream, void *dst, const void *src, size_t bytes);  /* src must stay until a later event has passed */
	void (*copy)(struct device *d, int stream, void *dst, const void *src, size_t bytes);
	void (*fill)(struct device *d, int stream, void *dst, int byte, size_t bytes);

	int (*error)(struct device *d, struct err *e); /* does not wait; 0: no error so far */
	int (*sync)(struct device *d, struct err *e);  /* waits for all work, then returns as `error` does */

	/* An event marks a point of a stream. */
	void *(*event_new)(struct device *d);
	void (*event_free)(struct device *d, void *event);
	void (*event_record)(struct device *d, void *event, int stream);
	void (*event_follow)(struct device *d, void *event, int stream); /* later work on the stream waits for the event */
	int (*event_passed)(struct device *d, void *event, int wait);    /* waits if `wait`; always 1 after a device error */

	/* For libraries that work on the queues of this device. place: what tells it from the other devices of this computer, for a GPU its address on
	 * the PCI bus, "0000:3b:00.0". queue: a stream as such a library takes it, a cudaStream_t; NULL: no library can. event_reached: as event_passed
	 * without waiting, but any thread may ask, and a device error, which is not kept, counts as reached. */
	char place[32];
	void *(*queue)(struct device *d, int stream);
	int (*event_reached)(struct device *d, void *event);

	/* A timer marks a point of a stream and holds the time it was last reached. A timer recorded in a captured graph is recorded again at each
	 * launch. Freed by event_free. NULL on a device that the host can time by waiting and reading its own clock. */
	void *(*timer_new)(struct device *d);
	void (*timer_record)(struct device *d, void *timer, int stream);
	double (*timer_seconds)(struct device *d, void *from, void *to); /* call after a sync; 0 if the time is unavailable */
	struct profile *profile;                                         /* kernels/profile.h; NULL: no timing */

	/* A named range of submitted work, shown by an external profiler; ranges nest. NULL if the device has no such profiler. */
	void (*range_begin)(struct device *d, const char *name);
	void (*range_end)(struct device *d);

	/* Graphs: work submitted to the stream between begin and end is recorded instead of run, and launched later as a whole. NULL if the
	 * device has no graphs. put, get, fetch and send must not be called during a capture. A failed capture is not a device error: `uncaptured`
	 * holds the reason of the last failed one, empty if none has failed. */
	int (*capture_begin)(struct device *d, int stream);
	void *(*capture_end)(struct device *d, int stream); /* NULL: the capture failed and nothing was run */
	void (*graph_launch)(struct device *d, void *graph, int stream);
	void (*graph_free)(struct device *d, void *graph);

	char uncaptured[256];

	double (*peak_flops)(struct device *d); /* FLOP/s of its fastest matrix product, measured at the first call */
	double (*peak_bytes)(struct device *d); /* bytes/s read plus written by a device copy, measured at the first call */
	void (*close)(struct device *d);
};

/* The CPU, computing in float or double. The pool is borrowed and may be NULL (serial). Caller frees with device_free. */
struct device *device_cpu(struct pool *pool, enum dtype real);
void device_free(struct device *d); /* NULL is allowed */

/* Open the device `name`: "cpu", "cuda", "cuda:N", or "auto", which is the first GPU if this build can use it, else the CPU. The pool is
 * borrowed. NULL with ERR_USAGE for an unknown name, or ERR_UNAVAILABLE if there is no such GPU or the build has no CUDA. */
struct device *device_open(const char *name, struct pool *pool, struct err *e);
/* The same for process number `process` of several that share this computer: "cuda" and "auto" mean GPU number process modulo the number of GPUs. */
struct device *device_open_among(const char *name, int process, struct pool *pool, struct err *e);

/* Compute in p from now on: let products round their inputs to TF32 or, on the CPU, to bfloat16, or not. Call it before tapes are laid out, because
 * the products' scratch depends on it. ERR_USAGE if this kind of device does not compute in p, ERR_UNAVAILABLE if this CPU lacks the instructions. */
int device_set_precision(struct device *d, enum precision p, struct err *e);

/* Whether values between operations, and the weights that products read, are stored in bfloat16. */
int device_stores_bf16(const struct device *d, enum precision p);

/* Whether d computes the same bits in p as every other CPU, in every build of this version: in float, or with bfloat16 emulated, by this project's
 * own products. */
int device_portable(const struct device *d, enum precision p);

/* Whether it has bf16_products. d may be NULL, as in calls of kernels outside a device. */
static inline int device_has_bf16_products(const struct device *d)
{
	return d && d->bf16_products;
}

/* With `on`, the bits of a sample in a forward pass do not depend on the other samples in its batch, their number or their order. On the CPU this
 * always holds. On a GPU, products otherwise use the fastest algorithm for their number of rows; with `on`, they use one kernel of this project
 * in every precision. */
void device_set_invariant(struct device *d, int on);

/* The precision that is used unless another is asked for: BF16 on a GPU that stores it, else F32. */
enum precision device_precision(const struct device *d);

/* The results of d->peak_flops and d->peak_bytes; NAN if the device does not measure them. */
struct device_peaks {
	double flops, bytes; /* per second */
};
struct device_peaks device_peaks(struct device *d);

/* Begin and end a range (range_begin, range_end); no effect on a device without ranges. */
void device_range(struct device *d, const char *name);
void device_range_number(struct device *d, const char *name, int number); /* "expert 3" */
void device_range_end(struct device *d);

/* put, get and copy on stream 0. */
void device_put(struct device *d, void *dst, const void *src, size_t bytes);
void device_get(struct device *d, void *dst, const void *src, size_t bytes);
void device_copy(struct device *d, void *dst, const void *src, size_t bytes);

/* Run one op outside a tape on stream 0. Sets c's device and pool; scratch as device_scratch asks for the same shapes, or NULL. */
void device_run(struct device *d, enum op op, struct op_call *c, void *scratch);
/* The same on another stream, beside stream 0. Not for ops whose products a library computes. */
void device_run_on(struct device *d, int stream, enum op op, struct op_call *c, void *scratch);
size_t device_scratch(struct device *d, enum op op, const struct op_call *c);

/* A contiguous array of one dimension. */
struct array array_vector(enum dtype t, void *data, int64_t n);

size_t dtype_size(enum dtype t); /* bytes of an element; not for DT_COMPACT, which has no element size */
const char *op_name(enum op op); /* "LINEAR" */

int64_t array_count(const struct array *a);  /* elements */
int array_contiguous(const struct array *a); /* row-major without gaps */
int64_t array_rows(const struct array *a);   /* product of all dimensions but the last */
/* If the leading dimensions (all but the last) can be walked with one stride, store it and return 1: the array is then a matrix of
 * array_rows x shape[rank - 1]. */
int array_row_stride(const struct array *a, int64_t *stride);
/* Whether summing x into y should run along x's last summed dimension: its stride in x is smaller than that of the last kept dimension.
 * Dimension 0 is considered even if it holds one sample, so that the order of a sample's sum does not depend on the batch size. */
int array_sums_runs(const struct array *x, const struct array *y);

#endif
