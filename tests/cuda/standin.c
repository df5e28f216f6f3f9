/* Settings of the stand-in for the CUDA runtime (tests/op/fakecuda.h) in the programs of a visit: 128 MB of memory, and streams whose work runs in
 * an odd order. STANDIN_LOST=N: the device is lost at submission N. STANDIN_DEVICES=N: there are N devices, not 4. */
#include <stdlib.h>

#include "tests/op/fakecuda.h"

__attribute__((constructor)) static void standin_start(void)
{
	const char *lost = getenv("STANDIN_LOST"), *devices = getenv("STANDIN_DEVICES");

	fake_cuda = (struct fake_cuda){.eager = 2,
	                               .odd = 3,
	                               .total = (size_t)128 << 20,
	                               .lost_at = lost ? strtol(lost, NULL, 10) : 0,
	                               .devices = devices ? (int)strtol(devices, NULL, 10) : 4};
}
