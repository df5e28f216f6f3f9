/* What the files of the cuBLASLt products share: a product's key, its plan, and the choices of algorithms that were made. */
#ifndef DDM_KERNELS_CUBLASLTIMPL_H
#define DDM_KERNELS_CUBLASLTIMPL_H

#include <string.h>

#include "kernels/cublaslt.h"
#include "kernels/tuning.h"

/* The key of a plan, all that the choice of an algorithm depends on, in the order of the tuning file's first column. */
enum {
	/* clang-format off */
	KEY_TA, KEY_TB, KEY_M, KEY_N, KEY_K, KEY_COUNT, KEY_LDA, KEY_LDB, KEY_LDC, KEY_BATCH_A, KEY_BATCH_B, KEY_BATCH_C, KEY_TYPE_A,
	KEY_TYPE_B, KEY_TYPE_C, KEY_COMPUTE, KEY_EPILOGUE, KEY_LDAUX, KEY_ALIGN_A, KEY_ALIGN_B, KEY_ALIGN_C, KEY_ALIGN_AUX,
	KEY_ALIGN_VECTOR, KEYS
	/* clang-format on */
};

struct cublaslt_key {
	int64_t v[KEYS];
};

/* A choice and the times it rests on, in nanoseconds; 0: not timed. */
struct cublaslt_chosen {
	struct cublaslt_algo algo;
	int64_t apart; /* 1: finish->run completes the product */
	int64_t tried; /* algorithms */
	int64_t first_ns, best_ns, apart_ns;
};

struct cublaslt_plan {
	struct cublaslt_key key;
	void *desc, *a, *b, *c; /* a describes the product's B, b its A, because the library's matrices are column-major; NULL: `own` counts */
	struct cublaslt_chosen chosen;
	int usable;         /* 0: no algorithm can do this product */
	int64_t calls, own; /* products asked for; of them, those left to other kernels */
};

struct cublaslt {
	const struct cublaslt_library *lib;
	const struct cublaslt_host *host;
	void *handle;
	int tf32, forced;            /* forced: 1 + the index of the candidate that every plan uses; 0: chosen */
	struct cublaslt_plan **slot; /* hash table; a power of two */
	size_t slots, plans;
	struct tuning tuning;
};

static inline int cublaslt_same_key(const struct cublaslt_key *a, const struct cublaslt_key *b)
{
	return !memcmp(a, b, sizeof *a);
}

/* Submit the product with this algorithm. Returns the library's status. */
int cublaslt_submit(const struct cublaslt *t, int stream, const struct cublaslt_plan *plan, const struct product *p, const struct cublaslt_algo *algo,
                    void *workspace);

/* Release all plans. */
void cublaslt_drop_plans(struct cublaslt *t);

/* Whether the library takes this algorithm for the plan's product, with at most `workspace` bytes. */
int cublaslt_runs_with(const struct cublaslt *t, const struct cublaslt_plan *plan, const struct cublaslt_algo *algo, size_t workspace);

/* What remains for the library beside finish->run: all of a product, the product and its bias, or the bare product. */
enum { CUBLASLT_FUSED, CUBLASLT_BIASED, CUBLASLT_BARE, CUBLASLT_PARTS };

/* Set *q to the part of *p that is left to the library. 0: p has no such part. */
int cublaslt_part(const struct product *p, int part, struct product *q);

/* The plan of a product, made if there is none, or NULL on failure; borrowed until the next call. *p must be expressible. */
struct cublaslt_plan *cublaslt_plan_of(struct cublaslt *t, int stream, const struct product *p, const struct cublaslt_finish *finish, void *workspace,
                                       struct err *e);

/* Whether the library can describe this product. */
int cublaslt_expressible(const struct cublaslt *t, const struct product *p);

/* Set plan->chosen, or usable = 0 if there is no algorithm. -1 if the choice cannot be stored, because a later run could then choose differently.
 * May compute the product, several times, and make other plans. */
int cublaslt_choose(struct cublaslt *t, int stream, struct cublaslt_plan *plan, const struct product *p, const struct cublaslt_finish *finish,
                    void *workspace, struct err *e);

/* Prepare t->tuning, from t's library and host. */
void cublaslt_file_init(struct cublaslt *t);

/* 1 and the choice that is stored for a key, or 0. */
int cublaslt_find_tuned(const struct cublaslt *t, const struct cublaslt_key *k, struct cublaslt_chosen *chosen);

/* Store plan->chosen in the file. Another process may have stored a choice for the same key, or be writing: this waits for its lock, and replaces
 * plan->chosen by its choice if there is one. */
int cublaslt_keep(struct cublaslt *t, const struct cublaslt_key *key, struct cublaslt_plan *plan, size_t workspace, struct err *e);

#endif
