/* Opens the cuBLASLt library at run time and finds the functions that kernels/cublaslt.c calls. */
#include "kernels/cublaslt.h"

#include <dlfcn.h>

#include "config.h"
#include "core/str.h"

#ifdef CUBLASLT_NAME
#define BUILT_WITH CUBLASLT_NAME, CUBLASLT_PATH,
#else
#define BUILT_WITH
#endif

static const char *const usual[] = {BUILT_WITH "libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so", NULL};

static void *open_first(const char *const *names, struct err *e)
{
	struct str tried = {0};
	void *so = NULL;

	for (int i = 0; names[i] && !so; i++) {
		so = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
		str_printf(&tried, "%s%s", i ? ", " : "", names[i]);
	}
	if (!so)
		err_set(e, ERR_UNAVAILABLE,
		        "cuBLASLt, which multiplies matrices on the GPU, cannot be opened (%s): it is in NVIDIA's package "
		        "libcublas (libcublas-13-0 with CUDA 13.0) and in libcublaslt12 of Debian",
		        str_text(&tried));
	str_release(&tried);
	return so;
}

static int find(void *so, const char *name, void *place, struct err *e)
{
	void *f = dlsym(so, name);

	if (!f)
		return err_set(e, ERR_UNAVAILABLE, "cuBLASLt has no function %s", name);
	*(void **)place = f; /* POSIX: a function's address fits */
	return 0;
}

int cublaslt_open(struct cublaslt_library *l, const char *const *names, struct err *e)
{
	const struct {
		const char *name;
		void *place;
	} table[] = {
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
	void *so = open_first(names ? names : usual, e);

	if (!so)
		return -1;
	for (size_t i = 0; i < sizeof table / sizeof *table; i++)
		if (find(so, table[i].name, table[i].place, e)) {
			dlclose(so);
			return -1;
		}
	return 0;
}
