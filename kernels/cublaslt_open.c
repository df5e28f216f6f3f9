/* Opens the cuBLASLt library at run time and finds the functions that kernels/cublaslt.c calls. */
#include "kernels/cublaslt.h"

#include "config.h"
#include "core/sharedlib.h"

#ifdef CUBLASLT_NAME
#define BUILT_WITH CUBLASLT_NAME, CUBLASLT_PATH,
#else
#define BUILT_WITH
#endif

static const char *const usual[] = {BUILT_WITH "libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so", NULL};

int cublaslt_open(struct cublaslt_library *l, const char *const *names, struct err *e)
{
	const struct sharedlib_function table[] = {
	    {"cublasLtGetVersion", &l->version},
	    {"cublasLtGetStatusString", &l->status_text},
	    {"cublasLtCreate", &l->create},
	    {"cublasLtDestroy", &l->destroy},
	    {"cublasLtMatrixLayoutCreate", &l->layout_create},
	    {"cublasLtMatrixLayoutDestroy", &l->layout_destroy},
	    {"cublasLtMatrixLayoutSetAttribute", &l->layout_set},
	    {"cublasLtMatmulDescCreate", &l->desc_create},
	    {"cublasLtMatmulDescDestroy", &l->desc_destroy},
	    {"cublasLtMatmulDescSetAttribute", &l->desc_set},
	    {"cublasLtMatmulPreferenceCreate", &l->preference_create},
	    {"cublasLtMatmulPreferenceDestroy", &l->preference_destroy},
	    {"cublasLtMatmulPreferenceSetAttribute", &l->preference_set},
	    {"cublasLtMatmulAlgoGetHeuristic", &l->recommend},
	    {"cublasLtMatmulAlgoCheck", &l->check},
	    {"cublasLtMatmulAlgoConfigSetAttribute", &l->config_set},
	    {"cublasLtMatmul", &l->matmul},
	};

	return sharedlib_open(names ? names : usual, "cuBLASLt",
	                      "NVIDIA's package libcublas (libcublas-13-0 with CUDA 13.0) and in libcublaslt12 of Debian", table,
	                      sizeof table / sizeof *table, e);
}
