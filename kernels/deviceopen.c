/* Opens a device by its name. */
#include <string.h>

#include "config.h"
#include "core/str.h"
#include "kernels/cudadevice.h"
#include "kernels/device.h"

#ifndef HAVE_CUDA
struct device *device_cuda(int index, struct pool *pool, struct err *e)
{
	(void)index;
	(void)pool;
	err_set(e, ERR_UNAVAILABLE, "this build has no CUDA (configure --with-cuda=yes)");
	return NULL;
}
#endif

/* The first GPU, or the CPU if none can be used. */
static struct device *open_any(struct pool *pool)
{
	struct err none = {0};
	struct device *d = device_cuda(0, pool, &none);

	return d ? d : device_cpu(pool, DT_F32);
}

struct device *device_open(const char *name, struct pool *pool, struct err *e)
{
	int64_t index = 0;

	if (!strcmp(name, "cpu"))
		return device_cpu(pool, DT_F32);
	if (!strcmp(name, "auto"))
		return open_any(pool);
	if (strcmp(name, "cuda") && (strncmp(name, "cuda:", 5) || parse_i64(name + 5, 0, 1023, &index))) {
		err_set(e, ERR_USAGE, "device \"%s\": expected auto, cpu, cuda or cuda:N", name);
		return NULL;
	}
	return device_cuda((int)index, pool, e);
}
