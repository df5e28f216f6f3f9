/* Opens the cuDNN library at run time and finds the functions that attention calls. */
#include "kernels/cudnn.h"

#include <dlfcn.h>

#include "core/str.h"

static const char *const usual[] = {"libcudnn.so.9", "libcudnn.so", NULL};

static void *open_first(const char *const *names, struct err *e)
{
	struct str tried = {0};
	void *so = NULL;

	for (int i = 0; names[i] && !so; i++) {
		so = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
		str_printf(&tried, "%s%s", i ? ", " : "", names[i]);
	}
	if (!so)
		err_set(e, ERR_UNAVAILABLE, "cuDNN cannot be opened (%s): it is in NVIDIA's package libcudnn9-cuda-13 or libcudnn9-cuda-12",
		        str_text(&tried));
	str_release(&tried);
	return so;
}

int cudnn_open(struct cudnn_library *l, const char *const *names, struct err *e)
{
	const struct {
		const char *name;
		void *place;
	} table[] = {
	    {"cudnnGetVersion", &l->version},
	    {"cudnnGetErrorString", &l->status_text},
	    {"cudnnCreate", &l->create},
	    {"cudnnDestroy", &l->destroy},
	    {"cudnnSetStream", &l->set_stream},
	    {"cudnnBackendCreateDescriptor", &l->desc_create},
	    {"cudnnBackendDestroyDescriptor", &l->desc_destroy},
	    {"cudnnBackendFinalize", &l->desc_finalize},
	    {"cudnnBackendSetAttribute", &l->desc_set},
	    {"cudnnBackendGetAttribute", &l->desc_get},
	    {"cudnnBackendExecute", &l->execute},
	};
	void *so = open_first(names ? names : usual, e);

	if (!so)
		return -1;
	for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
		void *f = dlsym(so, table[i].name);

		if (!f) {
			dlclose(so);
			return err_set(e, ERR_UNAVAILABLE, "cuDNN has no function %s", table[i].name);
		}
		*(void **)table[i].place = f; /* POSIX: a function's address fits */
	}
	return 0;
}
