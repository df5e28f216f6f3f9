/* Runs tests on the GPU. DDM_TEST_DEVICE selects a device other than "cuda". "far" (tests/unit/far.h) and "emulated" (tests/op/emulated.h) serve to
 * try the tests in a build without CUDA. */
#ifndef DDM_TESTS_REMOTE_H
#define DDM_TESTS_REMOTE_H

#include "kernels/device.h"

/* Open the device. Caller frees with device_free. NULL and e on failure. */
struct device *remote_open(struct pool *pool, struct err *e);

/* 1: shapes must be small, because the device is a stand-in: DDM_TEST_SMALL or DDM_TEST_DEVICE is set. */
int remote_small(void);

/* Run only the tests whose names DDM_TEST_FILTER matches, a pattern of a shell; without it all. Call it before the tests. */
void remote_filter(void);

/* Tell, line by line, what cuBLASLt and cuDNN were asked for and what was chosen; nothing on a device without cuBLASLt. */
void remote_libraries(const struct device *d, void (*say)(void *arg, const char *line), void *arg);

/* Set the device that remote_run uses; borrowed. */
void remote_use(struct device *d);

/* For optest_remote: copy arrays, scratch and keys to the device, run the kernel there, and copy them back. Arrays that overlap here overlap there
 * too. Every allocation has exactly the size of its contents, so that a memory checker detects accesses beyond the end. */
void remote_run(const struct kernel *k, const struct op_call *c);

#endif
