/* Attention by cuDNN, which is opened at run time. Each shape is timed once by cuDNN and by our own kernels, and the faster of the two is used.
 *
 * cuDNN is given a graph of the products, pointwise operations and sums of a pass, and compiles a kernel for it. In the graph of the gradient dq is
 * the result of a single product. cuDNN then uses its deterministic algorithm, which needs a workspace for the gradients of all scores.
 *
 * To compile a plan takes half a second, and routing gives an expert another number of samples in every step. So cuDNN is only used for powers of
 * two.
 *
 * A tuning file stores the choices, so that later runs and resumed runs make the same ones. Without such a file nothing is timed, and cuDNN is not
 * used. The library and the device are tables of functions, which tests replace. */
#ifndef DDM_KERNELS_CUDNN_H
#define DDM_KERNELS_CUDNN_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"
#include "kernels/cublaslt.h"

/* Copies of the values in cudnn_graph.h; kernels/cudnn_cuda.cu compares them where that header is installed. */
enum {
	DNN_OK = 0,
	DNN_FLOAT = 0,
	DNN_BFLOAT16 = 9,
	/* types of attributes */
	DNN_TYPE_HANDLE = 0,
	DNN_TYPE_DATA_TYPE = 1,
	DNN_TYPE_BOOLEAN = 2,
	DNN_TYPE_INT64 = 3,
	DNN_TYPE_VOID_PTR = 6,
	DNN_TYPE_HEUR_MODE = 8,
	DNN_TYPE_NOTE = 11,
	DNN_TYPE_POINTWISE_MODE = 14,
	DNN_TYPE_DESCRIPTOR = 15,
	DNN_TYPE_REDUCTION = 18,
	/* descriptors */
	DNN_POINTWISE = 0,
	DNN_ENGINE = 2,
	DNN_ENGINECFG = 3,
	DNN_ENGINEHEUR = 4,
	DNN_PLAN = 5,
	DNN_OP_POINTWISE = 13,
	DNN_GRAPH = 15,
	DNN_VARIANT_PACK = 16,
	DNN_TENSOR = 17,
	DNN_MATMUL = 18,
	DNN_OP_MATMUL = 19,
	DNN_REDUCTION = 21,
	DNN_OP_REDUCTION = 22,
	DNN_OP_RESHAPE = 31,
	/* attributes */
	DNN_POINTWISE_MODE = 0,
	DNN_POINTWISE_PRECISION = 1,
	DNN_HEUR_MODE = 200,
	DNN_HEUR_GRAPH = 201,
	DNN_HEUR_RESULTS = 202,
	DNN_CFG_ENGINE = 300,
	DNN_PLAN_HANDLE = 400,
	DNN_PLAN_CFG = 401,
	DNN_PLAN_WORKSPACE = 402,
	DNN_OP_POINTWISE_DESC = 750,
	DNN_OP_POINTWISE_X = 751,
	DNN_OP_POINTWISE_B = 752,
	DNN_OP_POINTWISE_Y = 753,
	DNN_GRAPH_HANDLE = 800,
	DNN_GRAPH_OPS = 801,
	DNN_TENSOR_ALIGNMENT = 900,
	DNN_TENSOR_TYPE = 901,
	DNN_TENSOR_DIMENSIONS = 902,
	DNN_TENSOR_STRIDES = 903,
	DNN_TENSOR_ID = 906,
	DNN_TENSOR_VIRTUAL = 907,
	DNN_TENSOR_BY_VALUE = 908,
	DNN_PACK_IDS = 1000,
	DNN_PACK_POINTERS = 1001,
	DNN_PACK_WORKSPACE = 1003,
	DNN_ENGINE_INDEX = 1301,
	DNN_ENGINE_NOTES = 1303,
	DNN_MATMUL_PRECISION = 1500,
	DNN_OP_MATMUL_A = 1520,
	DNN_OP_MATMUL_B = 1521,
	DNN_OP_MATMUL_C = 1522,
	DNN_OP_MATMUL_DESC = 1523,
	DNN_REDUCTION_OPERATOR = 1600,
	DNN_REDUCTION_PRECISION = 1601,
	DNN_OP_REDUCTION_X = 1610,
	DNN_OP_REDUCTION_Y = 1611,
	DNN_OP_REDUCTION_DESC = 1612,
	DNN_OP_RESHAPE_X = 2200,
	DNN_OP_RESHAPE_Y = 2201,
	/* modes */
	DNN_ADD = 0,
	DNN_MUL = 1,
	DNN_DIV = 6,
	DNN_SUB = 9,
	DNN_EXP = 13,
	DNN_LOG = 15,
	DNN_SUM = 0,
	DNN_MAX = 3,
	DNN_HEUR_A = 3,
	DNN_NOTE_NONDETERMINISTIC = 4,
	DNN_NOTES = 16 /* more than there are */
};

/* The library's functions. Handles and descriptors are void *; functions of type int return DNN_OK or another status. */
struct cudnn_library {
	size_t (*version)(void);
	const char *(*status_text)(int status);
	int (*create)(void **handle);
	int (*destroy)(void *handle);
	int (*set_stream)(void *handle, void *stream);
	int (*desc_create)(int kind, void **desc);
	int (*desc_destroy)(void *desc);
	int (*desc_finalize)(void *desc);
	int (*desc_set)(void *desc, int attribute, int type, int64_t count, const void *values);
	int (*desc_get)(void *desc, int attribute, int type, int64_t want, int64_t *count, void *values);
	int (*execute)(void *handle, void *plan, void *pack);
};

/* An operand (samples, tokens, heads, d) in bfloat16; the last dimension is contiguous. */
struct cudnn_side {
	void *p;
	int64_t sample, token, head; /* strides */
};

/* ATTENTION or, with `grad`, ATTENTION_GRAD, without bias or mask. Rows are aligned to 16 bytes. */
struct cudnn_attention {
	int grad;
	int64_t samples, t, s, heads, d; /* t queries, s keys */
	float scale;
	struct cudnn_side q, k, v, o, dy, dq, dk, dv; /* those from dy on with `grad` only */
	float *lse;
	int64_t lse_sample, lse_head, lse_token;
};

/* The kernels of our own for the same call: submits them to the same stream. */
struct cudnn_own {
	void (*run)(void *arg);
	void *arg;
};

struct cudnn;
struct str;

/* Open the first of these files that exists (NULL: the usual names) for the rest of the process. ERR_UNAVAILABLE, naming file and package, if
 * none exists or a function is missing. */
int cudnn_open(struct cudnn_library *l, const char *const *names, struct err *e);

/* Both tables are borrowed. The library is begun when it is first needed. Caller frees with cudnn_free, before the device's context is destroyed. */
struct cudnn *cudnn_new(const struct cudnn_library *l, const struct cublaslt_host *h);
void cudnn_free(struct cudnn *t); /* NULL is allowed */

/* As cublaslt_tune and cublaslt_tune_in. Call these and cudnn_force before tapes are laid out, because workspace depends on the choices. */
size_t cudnn_tune(struct cudnn *t, const char *path);
size_t cudnn_tune_in(struct cudnn *t, const char *dir);

/* For tests: from now on use this configuration, 1, 2, .., of the library's, and leave shapes that have fewer to our kernels. 0: the choice. */
enum { CUDNN_CONFIGS = 8 };
void cudnn_force(struct cudnn *t, int config);

/* Bytes of workspace, aligned to CUBLASLT_ALIGN, that cudnn_run may use for this shape. 0: it returns 0, because the library does not take the
 * shape, our kernel is the stored choice, or there is neither a tuning file nor a forced configuration. Addresses in *p are not read. */
size_t cudnn_workspace(const struct cudnn *t, const struct cudnn_attention *p);
/* The most of this shape with p->samples or fewer. */
size_t cudnn_most_workspace(const struct cudnn *t, const struct cudnn_attention *p);

/* 1: submitted, or failed and reported to host->failed. 0: not submitted; use our kernels. workspace: cudnn_workspace(t, p) bytes. May run `own`, to
 * time it, if the shape is new, there is a tuning file, and the stream is not being captured. */
int cudnn_run(struct cudnn *t, int stream, const struct cudnn_attention *p, const struct cudnn_own *own, void *workspace);

/* Append a table to s: a line for each shape, with the calls, the library's configurations that were timed, the microseconds of our kernels, of
 * the library's first configuration and of its fastest, and which is used: `own`, `cudnn`, or `refused` (the library has no kernel). */
void cudnn_log(const struct cudnn *t, struct str *s);

#endif
