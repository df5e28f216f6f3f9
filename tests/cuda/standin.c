/* Settings of the stand-in for the CUDA runtime (tests/op/fakecuda.h) in the programs of a visit: 128 MB of memory, and streams whose work runs in
 * an odd order. STANDIN_LOST=N: the device is lost at submission N. STANDIN_DEVICES=N: there are N devices, not 4. STANDIN_EAGER=MASK: the streams
 * that run ahead, not the second alone. STANDIN_ODD=N: steps of random streams at every call, not 3. STANDIN_OPENED=FILE: each process adds a line
 * with the number of its rank and of its device. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/op/fakecuda.h"

static long setting(const char *name, long otherwise)
{
	const char *value = getenv(name);

	return value ? strtol(value, NULL, 10) : otherwise;
}

static void opened(int index)
{
	const char *rank = getenv("OMPI_COMM_WORLD_RANK");
	int fd = open(getenv("STANDIN_OPENED"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);

	if (fd < 0 || dprintf(fd, "%s %d\n", rank ? rank : "0", index) < 0)
		abort();
	close(fd);
}

__attribute__((constructor)) static void standin_start(void)
{
	fake_cuda = (struct fake_cuda){.eager = (unsigned)setting("STANDIN_EAGER", 2),
	                               .odd = (unsigned)setting("STANDIN_ODD", 3),
	                               .total = (size_t)128 << 20,
	                               .lost_at = setting("STANDIN_LOST", 0),
	                               .devices = (int)setting("STANDIN_DEVICES", 4),
	                               .opened = getenv("STANDIN_OPENED") ? opened : NULL};
}
