/* Measures a device's peak speed with its own kernels, for the percentages in logs. No result depends on it. */
#ifndef DDM_KERNELS_PROBE_H
#define DDM_KERNELS_PROBE_H

#include "kernels/device.h"

/* FLOP/s of the fastest square product among sizes from 512 up, in the device's fastest precision. Sizes grow until one product takes a
 * millisecond. 0 if there is not enough memory. Waits. */
double probe_flops(struct device *d);

/* Bytes/s read plus written by the fastest of several copies within the device, of blocks of 256 MiB or as much as fits. 0 if there is not
 * enough memory. Waits. */
double probe_bytes(struct device *d);

#endif
