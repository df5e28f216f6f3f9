/* A fake of cuBLASLt and the GPU. It computes products on the host from the descriptors, which are column-major as cuBLASLt documents, so that wrong
 * layouts, transposes, leading dimensions, batches or epilogues give wrong results. */
#ifndef DDM_TESTS_FAKELT_H
#define DDM_TESTS_FAKELT_H

#include "kernels/cublaslt.h"

enum { FAKE_ALGOS = 3, FAKE_EPILOGUES = 1024 };

struct fake {
	struct cublaslt_library library;
	struct cublaslt_host host;
	size_t version;           /* of the library */
	int alive;                /* handles, descriptors, layouts and preferences that exist */
	int asked, timed, ran;    /* number of calls of recommend, of timings, of products */
	int seen[FAKE_EPILOGUES]; /* products by epilogue */
	int compute;              /* of the last product */
	uint64_t algo, split;     /* of the last product */
	int refuse;               /* mask of epilogue bits for which no algorithm is recommended */
	int64_t refuse_k;         /* products over this K take no algorithm but the second */
	int slow;                 /* mask of epilogue bits with which a product takes a millisecond */
	int epilogue;             /* of the last product */
	int fails;                /* not 0: every product fails with this status */
	int varies;               /* 1: rounding depends on the number of columns, as it may in the library */
	int capturing;
	int poison;                                                       /* 1: products are NaN */
	void *stream;                                                     /* the stream that every product must be on; NULL: any */
	int (*submit)(void *stream, void (*run)(void *body), void *body); /* queues a product and takes over its body; NULL: products run at once */
	uint64_t swift, swift_split;                                      /* the algorithm and split with the best timing */
	int fail_count;
	struct err failed;
};

extern struct fake fake;

/* Replace the fake by a new one. */
void fake_init(void);

/* A new fake's products, and their end, which fails if descriptors are left or a failure was reported. */
struct cublaslt *fake_open(void);
void fake_close(struct cublaslt *t);

#endif
