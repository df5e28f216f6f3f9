/* A stand-in for cuBLASLt and the GPU: products computed on the host from the descriptors, column by column as cuBLASLt documents
 * them, so that layouts, transposes, leading dimensions, batches and epilogues that are wrong give wrong results. */
#ifndef DDM_TESTS_FAKELT_H
#define DDM_TESTS_FAKELT_H

#include "kernels/cublaslt.h"

enum { FAKE_ALGOS = 3, FAKE_EPILOGUES = 1024 };

struct fake {
	struct cublaslt_library library;
	struct cublaslt_host host;
	size_t version;           /* of the library */
	int alive;                /* handles, descriptors, layouts, preferences */
	int asked, timed, ran;    /* calls of recommend, times taken, products */
	int seen[FAKE_EPILOGUES]; /* products by epilogue */
	int compute;              /* of the last product */
	uint64_t algo, split;     /* of the last product */
	int refuse;               /* bits of epilogues for which nothing is recommended */
	int fails;                /* status of every product */
	int varies;               /* products round otherwise for another number of columns, as the library's may */
	int capturing;
	uint64_t swift, swift_split; /* the algorithm and the split that are fast */
	int fail_count;
	struct err failed;
};

extern struct fake fake;

/* A new fake, in place of the last. */
void fake_init(void);

#endif
