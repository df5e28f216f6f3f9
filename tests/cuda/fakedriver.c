/* A CUDA driver (libcuda.so.1) that always fails. FAKE_DRIVER_VERSION is its version, such as 12080 for CUDA 12.8. FAKE_DRIVER_INIT is the result of
 * its initialisation, such as 100 for no GPU. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { NOT_FOUND = 500, NOT_SUPPORTED = 801 };

static int number(const char *name)
{
	const char *text = getenv(name);

	return text ? (int)strtol(text, NULL, 10) : 0;
}

int cuDriverGetVersion(int *version);
int cuInit(unsigned flags);
int cuGetExportTable(const void **table, const void *id);
int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, void *status);

int cuDriverGetVersion(int *version)
{
	*version = number("FAKE_DRIVER_VERSION");
	return 0;
}

int cuInit(unsigned flags)
{
	(void)flags;
	return number("FAKE_DRIVER_INIT");
}

static int refuse(void)
{
	return NOT_SUPPORTED;
}

int cuGetExportTable(const void **table, const void *id)
{
	(void)id;
	*table = NULL;
	return NOT_FOUND;
}

/* The runtime looks up every function that it knows before it starts. */
int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, void *status)
{
	static const struct {
		const char *name;
		void *function;
	} known[] = {
	    {"cuDriverGetVersion", (void *)cuDriverGetVersion},
	    {"cuInit", (void *)cuInit},
	    {"cuGetExportTable", (void *)cuGetExportTable},
	    {"cuGetProcAddress", (void *)cuGetProcAddress_v2},
	};

	(void)version;
	(void)flags;
	(void)status;
	*function = *name ? (void *)refuse : NULL;
	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (!strcmp(name, known[i].name))
			*function = known[i].function;
	return *function ? 0 : NOT_FOUND;
}
