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

int device_cuda_count(void)
{
	return 0;
}
#endif

/* The GPU of a process among several of this computer. */
static int gpu_of(int process)
{
	int n = device_cuda_count();

	return n ? process % n : 0;
}

/* A GPU, or the CPU if none can be used. */
static struct device *open_any(int process, struct pool *pool)
{
	struct err none = {0};
	struct device *d = device_cuda(gpu_of(process), pool, &none);

	return d ? d : device_cpu(pool, DT_F32);
}

struct device *device_open(const char *name, struct pool *pool, struct err *e)
{
	return device_open_among(name, 0, pool, e);
}

struct device *device_open_among(const char *name, int process, struct pool *pool, struct err *e)
{
	int64_t index = 0;

	if (!strcmp(name, "cpu"))
		return device_cpu(pool, DT_F32);
	if (!strcmp(name, "auto"))
		return open_any(process, pool);
	if (!strcmp(name, "cuda"))
		return device_cuda(gpu_of(process), pool, e);
	if (strncmp(name, "cuda:", 5) || parse_i64(name + 5, 0, 1023, &index)) {
		err_set(e, ERR_USAGE, "device \"%s\": expected auto, cpu, cuda or cuda:N", name);
		return NULL;
	}
	return device_cuda((int)index, pool, e);
}
