/* The weights of a network whose parameters are not a file's tensors under other names alone. */
#ifndef DDM_NET_WEIGHTPICK_H
#define DDM_NET_WEIGHTPICK_H

#include "file/safetensors.h"
#include "net/runner.h"

/* A file whose tensors are taken one after the other, so that what is left over can be told. */
struct weights {
	const struct safetensors *s; /* borrowed */
	const char *where;           /* its name, for errors; borrowed */
	char *taken;                 /* [tensors] */
};

void weights_init(struct weights *w, const struct safetensors *s, const char *where);
void weights_release(struct weights *w);
int weights_has(const struct weights *w, const char *name);
/* A tensor's values for a parameter: of its shape, [O, C, kh, kw] for one of [O, kh, kw, C], or that with sizes of 1 at the end.
 * Another shape, or none of this name: ERR_DATA. */
int weights_take(struct weights *w, const char *name, const struct param *p, float *out, struct err *e);
/* A tensor that was not taken and whose name begins with `prefix`: ERR_DATA naming it. Single numbers, the counters of batch norms, do
 * not matter. */
int weights_end(const struct weights *w, const char *prefix, struct err *e);

/* One parameter's values: 0, or -1 and e. */
typedef int weights_filler(const void *config, struct weights *file, const struct param *p, float *out, struct err *e);
/* runner_fill by that. */
int weights_fill(struct weights *w, struct runner *r, weights_filler *fill, const void *config, struct err *e);

#endif
