/* A fake of cuDNN and of the GPU's clock. It runs the graphs of attention on the host, operation by operation as cuDNN documents them, so that wrong
 * operations, strides or identifiers give wrong results. */
#ifndef DDM_TESTS_FAKEDNN_H
#define DDM_TESTS_FAKEDNN_H

#include "kernels/cudnn.h"

enum { FAKE_CONFIGS = 3 };

struct fake_dnn {
	struct cudnn_library library;
	struct cublaslt_host host;
	size_t version;
	int alive;              /* handles and descriptors that exist */
	int plans;              /* compiled plans that exist */
	int configs;            /* offered, at most FAKE_CONFIGS; config i has engine 10 + i */
	int engine_shift;       /* added to the numbers of the engines */
	int random;             /* mask of configurations whose engine is not deterministic */
	int64_t workspace;      /* bytes that plans ask for */
	int graphs, ran, timed; /* graphs described, executions, timings */
	int last;               /* 1 + the configuration of the last execution */
	int swift;              /* what is fastest: 0 our kernels, else 1 + the index of a configuration */
	int begins;             /* not 0: the library does not begin, with this status */
	int fails;              /* not 0: executions fail with this status */
	int capturing;
	int fail_count;
	struct err failed;
};

extern struct fake_dnn fake_dnn;

/* Replace the fake by a new one. */
void fake_dnn_init(void);

#endif
