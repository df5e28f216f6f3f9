/* Matrix products by cuBLASLt, which is opened at run time, so programs start without it.
 *
 * Each shape gets one plan: descriptors and an algorithm. Without a tuning file the algorithm is the library's first recommendation. With one,
 * the recommended algorithms are timed on the device, and the file stores the choice, so that later runs and resumed runs use the same. Shapes
 * whose rows differ by less than an eighth share a choice, because routing gives an expert another number of rows in every step. A product with
 * GELU, its derivative or column sums is also timed without them in the library (struct cublaslt_finish).
 * Partial sums over K are added in a fixed order (no reduction in place).
 *
 * The library and the device are tables of functions, which tests replace. */
#ifndef DDM_KERNELS_CUBLASLT_H
#define DDM_KERNELS_CUBLASLT_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "kernels/product.h"

/* Copies of the types and values in cublasLt.h; kernels/cublaslt_cuda.cu includes both and compares them. */
struct cublaslt_algo {
	uint64_t data[8];
};

struct cublaslt_choice { /* cublasLtMatmulHeuristicResult_t */
	struct cublaslt_algo algo;
	size_t workspace;
	int state;
	float waves;
	int reserved[4];
};

enum {
	LT_OK = 0,
	LT_INVALID_VALUE = 7,
	LT_ARCH_MISMATCH = 8,
	LT_NOT_SUPPORTED = 15,
	LT_R_32F = 0,
	LT_R_16BF = 14,
	LT_COMPUTE_32F = 68,
	LT_COMPUTE_32F_FAST_TF32 = 77,
	LT_OP_N = 0,
	LT_OP_T = 1,
	LT_LAYOUT_BATCH_COUNT = 5,
	LT_LAYOUT_BATCH_STRIDE = 6,
	LT_DESC_TRANSA = 3,
	LT_DESC_TRANSB = 4,
	LT_DESC_EPILOGUE = 7,
	LT_DESC_BIAS_POINTER = 8,
	LT_DESC_AUX_POINTER = 11,
	LT_DESC_AUX_LD = 12,
	LT_DESC_BIAS_TYPE = 26,
	LT_EPILOGUE_DEFAULT = 1,
	LT_EPILOGUE_BIAS = 4,
	LT_EPILOGUE_GELU = 32,
	LT_EPILOGUE_AUX = 128,
	LT_EPILOGUE_DGELU = 64 | LT_EPILOGUE_AUX,
	LT_EPILOGUE_BGRADB = 512,
	LT_PREF_WORKSPACE = 1,
	LT_PREF_REDUCTION = 3,
	LT_PREF_ALIGN_A = 5,
	LT_PREF_ALIGN_B = 6,
	LT_PREF_ALIGN_C = 7,
	LT_PREF_ALIGN_D = 8,
	LT_REDUCTION_COMPUTE_TYPE = 2,
	LT_CONFIG_SPLIT_K = 2,
	LT_CONFIG_REDUCTION = 3
};

/* The library's functions. Handles are void *; functions of type int return LT_OK or another status. */
struct cublaslt_library {
	size_t (*version)(void);
	const char *(*status_text)(int status);
	int (*create)(void **handle);
	int (*destroy)(void *handle);
	int (*layout_create)(void **layout, int type, uint64_t rows, uint64_t cols, int64_t ld);
	int (*layout_destroy)(void *layout);
	int (*layout_set)(void *layout, int attribute, const void *value, size_t size);
	int (*desc_create)(void **desc, int compute, int scale);
	int (*desc_destroy)(void *desc);
	int (*desc_set)(void *desc, int attribute, const void *value, size_t size);
	int (*preference_create)(void **preference);
	int (*preference_destroy)(void *preference);
	int (*preference_set)(void *preference, int attribute, const void *value, size_t size);
	int (*recommend)(void *handle, void *desc, void *a, void *b, void *c, void *d, void *preference, int want, struct cublaslt_choice *found,
	                 int *count);
	int (*check)(void *handle, void *desc, void *a, void *b, void *c, void *d, const struct cublaslt_algo *algo, struct cublaslt_choice *result);
	int (*config_set)(struct cublaslt_algo *algo, int attribute, const void *value, size_t size);
	int (*matmul)(void *handle, void *desc, const void *alpha, const void *a, void *la, const void *b, void *lb, const void *beta, const void *c,
	              void *lc, void *d, void *ld, const struct cublaslt_algo *algo, void *workspace, size_t bytes, void *stream);
};

/* The functions of the device that the plans need. */
struct cublaslt_host {
	void *arg;
	const char *gpu; /* model, architecture and driver; borrowed like the table itself */
	int processors;
	void *(*stream)(void *arg, int stream); /* cudaStream_t */
	int (*capturing)(void *arg, int stream);
	void (*start)(void *arg, int stream);           /* start a time measurement */
	double (*stop)(void *arg, int stream);          /* seconds since start; waits; negative: measuring failed */
	void (*failed)(void *arg, const struct err *e); /* the error sticks to the device */
};

/* Completes a product of which the library computed only a part. */
struct cublaslt_finish {
	/* Submit to the same stream what `asked` has and `done` has not: bias, activation or its derivative, sums. done->c holds the values before
	 * them; it is asked->aux where the two are of one type. `workspace` is cublaslt_run's. */
	void (*run)(void *arg, const struct product *asked, const struct product *done, void *workspace);
	void *arg;
};

struct cublaslt;
struct str;

/* Open the first of these files that exists (NULL: the usual names) for the rest of the process. ERR_UNAVAILABLE, naming file and package, if
 * none exists or a function is missing. */
int cublaslt_open(struct cublaslt_library *l, const char *const *names, struct err *e);

/* Both tables are borrowed. NULL on failure. Caller frees with cublaslt_free, before the device's context is destroyed. */
struct cublaslt *cublaslt_new(const struct cublaslt_library *l, const struct cublaslt_host *h, struct err *e);
void cublaslt_free(struct cublaslt *t); /* NULL is allowed */

/* Products of float may round their inputs to TF32 (10 bits). Off by default. */
void cublaslt_allow_tf32(struct cublaslt *t, int on);

/* For tests: from now on every product uses candidate 1, 2, .. of those that tuning would time, and one that has fewer is left to our kernels.
 * 0: the choice, as before. */
enum { CUBLASLT_CANDIDATES = 32 };
void cublaslt_force(struct cublaslt *t, int candidate);

/* Read choices of algorithms from this file, and rewrite it after each new choice. Returns the number of choices read: 0 if the file is
 * missing, damaged, or of another GPU or library. Without a tuning file nothing is timed. Processes may share a file: entries that another
 * process added are kept, and its choice for the same shape is used. */
size_t cublaslt_tune(struct cublaslt *t, const char *path);
/* The same with a file in `dir`, which must exist, named for the GPU, its driver and the library. */
size_t cublaslt_tune_in(struct cublaslt *t, const char *dir);

/* Bytes of workspace for a product, aligned to CUBLASLT_ALIGN; depends on M, N and count alone and does not decrease with them. */
enum { CUBLASLT_ALIGN = 256 };
size_t cublaslt_workspace(const struct product *p);

/* 1: submitted, or failed and reported to host->failed. 0: not submitted, the library cannot do this product. workspace holds
 * cublaslt_workspace(p) bytes, and what finish->run needs. finish is used where the library has no epilogue for the product or is slower with
 * it; NULL: such products are not submitted. A plan made while the stream is being captured is not timed. */
int cublaslt_run(struct cublaslt *t, int stream, const struct product *p, const struct cublaslt_finish *finish, void *workspace);

/* Append a table to s: a line for each shape, those that took longest first, with its epilogue, the number of products, of algorithms that were
 * timed, the microseconds of the library's first and of the fastest one and of the product that finish->run completes, and what is used: `library`,
 * `apart` (completed by finish->run), `refused` (by the library, for this epilogue) or `own` (neither way; left to other kernels). */
void cublaslt_log(const struct cublaslt *t, struct str *s);

#endif
