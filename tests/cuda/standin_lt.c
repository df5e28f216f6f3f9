/* A libcublasLt.so.13 that computes on the host, for programs whose CUDA runtime is tests/op/fakecuda.c: the functions that kernels/cublaslt_open.c
 * looks up, on tests/op/fakelt.c. Products are queued on the stream. STANDIN_POISON=1 makes them NaN. */
#include <stdlib.h>

#include "tests/op/fakecuda.h"
#include "tests/op/fakelt.h"

static struct cublaslt_library *library(void)
{
	if (!fake.submit) {
		fake_init();
		fake.stream = NULL;
		fake.submit = fake_cuda_work;
		fake.poison = getenv("STANDIN_POISON") != NULL;
	}
	return &fake.library;
}

/* name, parameters, arguments; all but the first two return a status */
#define FUNCTIONS(X) \
	X(Create, create, (void **h), (h)) \
	X(Destroy, destroy, (void *h), (h)) \
	X(MatrixLayoutCreate, layout_create, (void **p, int type, uint64_t rows, uint64_t cols, int64_t ld), (p, type, rows, cols, ld)) \
	X(MatrixLayoutDestroy, layout_destroy, (void *p), (p)) \
	X(MatrixLayoutSetAttribute, layout_set, (void *p, int what, const void *value, size_t size), (p, what, value, size)) \
	X(MatmulDescCreate, desc_create, (void **p, int compute, int scale), (p, compute, scale)) \
	X(MatmulDescDestroy, desc_destroy, (void *p), (p)) \
	X(MatmulDescSetAttribute, desc_set, (void *p, int what, const void *value, size_t size), (p, what, value, size)) \
	X(MatmulPreferenceCreate, preference_create, (void **p), (p)) \
	X(MatmulPreferenceDestroy, preference_destroy, (void *p), (p)) \
	X(MatmulPreferenceSetAttribute, preference_set, (void *p, int what, const void *value, size_t size), (p, what, value, size)) \
	X(MatmulAlgoGetHeuristic, recommend, \
	  (void *h, void *desc, void *a, void *b, void *c, void *d, void *preference, int want, struct cublaslt_choice *found, int *count), \
	  (h, desc, a, b, c, d, preference, want, found, count)) \
	X(MatmulAlgoCheck, check, \
	  (void *h, void *desc, void *a, void *b, void *c, void *d, const struct cublaslt_algo *algo, struct cublaslt_choice *result), \
	  (h, desc, a, b, c, d, algo, result)) \
	X(MatmulAlgoConfigSetAttribute, config_set, (struct cublaslt_algo * algo, int what, const void *value, size_t size), \
	  (algo, what, value, size)) \
	X(Matmul, matmul, \
	  (void *h, void *desc, const void *alpha, const void *a, void *la, const void *b, void *lb, const void *beta, const void *c, void *lc, \
	   void *d, void *ld, const struct cublaslt_algo *algo, void *workspace, size_t bytes, void *stream), \
	  (h, desc, alpha, a, la, b, lb, beta, c, lc, d, ld, algo, workspace, bytes, stream))

#define DECLARE(name, member, parameters, arguments) int cublasLt##name parameters;
#define DEFINE(name, member, parameters, arguments) \
	int cublasLt##name parameters \
	{ \
		return library()->member arguments; \
	}

size_t cublasLtGetVersion(void);
const char *cublasLtGetStatusString(int status);
FUNCTIONS(DECLARE)
FUNCTIONS(DEFINE)

size_t cublasLtGetVersion(void)
{
	return library()->version();
}

const char *cublasLtGetStatusString(int status)
{
	return library()->status_text(status);
}
