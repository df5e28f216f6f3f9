/* What the files of attention by cuDNN share: a shape's key, its choice and its plan. */
#ifndef DDM_KERNELS_CUDNNIMPL_H
#define DDM_KERNELS_CUDNNIMPL_H

#include <string.h>

#include "kernels/cudnn.h"
#include "kernels/tuning.h"

/* All that a choice depends on, in the order of the tuning file's first column: the shape, and the strides of each operand and of lse. */
enum { KEY_GRAD, KEY_SAMPLES, KEY_T, KEY_S, KEY_HEADS, KEY_D, KEY_STRIDES, KEY_SIDES = 8, KEYS = KEY_STRIDES + 3 * KEY_SIDES + 3 };

struct cudnn_key {
	int64_t v[KEYS];
};

/* A choice and the times it rests on, in nanoseconds; 0: not timed. */
struct cudnn_chosen {
	int64_t config; /* 0: our kernels; else 1 + the index among the library's configurations */
	int64_t engine; /* of the configuration, to see that it is the same one */
	int64_t tried;
	int64_t own_ns, first_ns, best_ns;
};

/* The tensors of both graphs that are arrays or numbers. */
enum { ID_Q = 1, ID_K, ID_V, ID_O, ID_LSE, ID_SCALE, ID_DQ, ID_DK, ID_DV, ID_DY, ID_ONE, ID_DELTA, ID_VIRTUAL };

enum { MADE = 160 };

/* A graph and the descriptors it refers to. */
struct cudnn_graph {
	void *made[MADE];
	int nmade;
	void *graph; /* one of `made` */
};

struct cudnn_plan {
	struct cudnn_key key;
	struct cudnn_graph graph;
	struct cudnn_chosen chosen;
	void *run;   /* the plan of the library, one of the graph's descriptors; NULL: our kernels */
	int configs; /* that the library offers; 0: it refuses the shape */
	int64_t calls;
};

struct cudnn {
	const struct cudnn_library *lib;
	const struct cublaslt_host *host;
	void *handle;
	int forced;
	struct cudnn_plan **plan;
	size_t nplans;
	struct tuning tuning;
};

/* Make a descriptor that g owns. Returns the library's status; *desc is NULL if it fails. */
int cudnn_make(const struct cudnn_library *l, struct cudnn_graph *g, int kind, void **desc);
/* Destroy one that nothing refers to. */
void cudnn_unmake(const struct cudnn_library *l, struct cudnn_graph *g, void *desc);

/* Describe a pass. Returns the library's status; release with cudnn_graph_release in either case. */
int cudnn_graph_init(struct cudnn_graph *g, const struct cudnn_library *l, void *handle, const struct cudnn_attention *p);
void cudnn_graph_release(struct cudnn_graph *g, const struct cudnn_library *l);

/* Forget all plans, and what is known of choices from the file. */
void cudnn_drop_plans(struct cudnn *t);

/* Prepare t->tuning, from t's library and host. */
void cudnn_file_init(struct cudnn *t);

/* 1 and the choice that is stored for a key, or 0. */
int cudnn_find_tuned(const struct cudnn *t, const struct cudnn_key *k, struct cudnn_chosen *chosen);

/* Store plan->chosen in the file. Where another process has stored a choice for the same key, plan->chosen becomes that one. */
int cudnn_keep(struct cudnn *t, struct cudnn_plan *plan, struct err *e);

#endif
