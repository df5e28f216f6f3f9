/* Opens the cuDNN library at run time and finds the functions that attention calls. */
#include "kernels/cudnn.h"

#include "core/sharedlib.h"

static const char *const usual[] = {"libcudnn.so.9", "libcudnn.so", NULL};

int cudnn_open(struct cudnn_library *l, const char *const *names, struct err *e)
{
	const struct sharedlib_function table[] = {
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

	return sharedlib_open(names ? names : usual, "cuDNN", "NVIDIA's package libcudnn9-cuda-13 or libcudnn9-cuda-12", table,
	                      sizeof table / sizeof *table, e);
}
