/* Tests on the GPU. DDM_TEST_DEVICE names another device than "cuda"; "far" is tests/unit/far.h and "emulated"
 * tests/op/emulated.h: on them a build without CUDA can try the tests themselves. */
#ifndef DDM_TESTS_REMOTE_H
#define DDM_TESTS_REMOTE_H

#include "kernels/device.h"

/* Caller frees with device_free. NULL: there is none, and e says why. */
struct device *remote_open(struct pool *pool, struct err *e);

/* The device that remote_run uses; borrowed. */
void remote_use(struct device *d);

/* For optest_remote: arrays, scratch and keys go to the device, the kernel runs there, and they come back. Arrays that overlap here do
 * there; every allocation is as long as what is in it, so that a checker of memory sees what is beyond. */
void remote_run(const struct kernel *k, const struct op_call *c);

#endif
