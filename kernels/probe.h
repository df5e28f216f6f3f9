/* What a device can do, measured by its own kernels: it need not be in any list. No result depends on it. */
#ifndef DDM_KERNELS_PROBE_H
#define DDM_KERNELS_PROBE_H

#include "kernels/device.h"

/* FLOP/s of the fastest square product among sizes from 512 up, in the type the device is fastest in: a size is large enough once a
 * product takes a millisecond. 0 where there is no memory for one. Waits. */
double probe_flops(struct device *d);

/* Bytes/s read plus written by the fastest of several copies within the device, of blocks of 256 MiB or what there is memory for.
 * Likewise. */
double probe_bytes(struct device *d);

#endif
