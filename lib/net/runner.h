/* A network that is used and not trained: its tape, weights, inputs, outputs and batches, on any device.
 *
 *     r = runner_new(record, &config, NULL, 32, COMPACT_NONE, device, &e);   batches of up to 32
 *     runner_weights(r, file, "model.safetensors", families, 2, &e);          which weights
 *     runner_load(r, NULL, NULL, &e);                                         read them
 *     runner_run(r, n, inputs, outputs);                                      any n
 *
 * and record() describes the network:
 *
 *     x = recording_input(c, DT_F32, 3, (int64_t[]){3, 224, 224}, 1);        (B, 3, 224, 224)
 *     recording_output(c, layer_linear(&c->l, .., "head", ..)); */
#ifndef DDM_NET_RUNNER_H
#define DDM_NET_RUNNER_H

#include "net/layers.h"
#include "net/pager.h"
#include "net/rename.h"
#include "net/weightstore.h"

enum { RUNNER_INPUTS = 8, RUNNER_OUTPUTS = 8 };

/* ---- what is recorded ---- */

struct recording {
	struct layers l;
	int64_t capacity; /* B */
	int inputs, outputs;
	struct tensor *input[RUNNER_INPUTS], *output[RUNNER_OUTPUTS];
};

/* Describes a network of a configuration. size: (channels, height, width) of its pictures where they may have any; else NULL. */
typedef void runner_record(struct recording *c, const void *config, const int64_t *size);

/* The next input, of this shape for one sample where `batched`, else for all of them. */
struct tensor *recording_input(struct recording *c, enum dtype dtype, int rank, const int64_t *shape, int batched);
/* The next input is this tensor (tape_input). NULL: it has none, and what runner_run is given for it is not read. */
void recording_take(struct recording *c, struct tensor *x);
/* The next output: contiguous and batched. */
void recording_output(struct recording *c, struct tensor *x);

/* The table of parameters alone, laid out; params_release. */
void runner_params(runner_record *record, const void *config, const int64_t *size, struct params *p);

/* ---- weights ---- */

struct runner;

/* Batches of up to `capacity`. bulk: how the matrices of PARAM_BULK are held (weightstore_choose), in one of these types on the CPU;
 * COMPACT_VIEW: those that lie in their file as floats, one tensor a matrix, stay there, and the others are COMPACT_F32. On a GPU COMPACT_BF16
 * is PRECISION_BF16. ERR_USAGE for a type that the device does not hold. config and device are borrowed. NULL: error. */
struct runner *runner_new(runner_record *record, const void *config, const int64_t *size, int64_t capacity, enum compact_type bulk, struct device *d,
                          struct err *e);
void runner_free(struct runner *r); /* NULL is allowed */

/* The weights are these, in one of n families of names or in ours. Takes s, also on failure, and keeps it until they are loaded, or as long as
 * matrices are views of it. The families are borrowed until they are loaded. ERR_DATA naming `where` and the tensor that is missing,
 * superfluous or of another shape. */
int runner_weights(struct runner *r, struct safetensors *s, const char *where, const struct renames *const *families, int n, struct err *e);

/* Read the weights and, unless pictures may have any size, allocate work space. Later calls do nothing. lender: NULL, or a runner that lends
 * (runner_lends), in whose work space this one computes. pager: NULL, or weights are a page of it, with slots large enough; borrowed. */
int runner_load(struct runner *r, const struct runner *lender, struct pager *pager, struct err *e);
/* The same where values are computed one parameter at a time, out[q->count], and not read as they are from a file. fill: 0, or -1 and e. */
int runner_fill(struct runner *r, int (*fill)(void *arg, const struct param *q, float *out, struct err *e), void *arg, struct err *e);

/* Whether the two need the same work space, given that record() and configurations are the same; and whether lender has one already. */
int runner_alike(const struct runner *a, const struct runner *b);
int runner_lends(const struct runner *lender, const struct runner *r);
int runner_loaded(const struct runner *r);
int runner_page(const struct runner *r); /* its number with the pager; -1: it has none */

/* ---- use ---- */

/* Be ready for pictures of this size: until another is asked for, sizes, shapes and FLOPs are those. Fails where there is no memory. */
int runner_plan(struct runner *r, const int64_t *size, struct err *e);

/* Input i where it is not batched: the same for all samples. After runner_load. */
void runner_set(struct runner *r, int i, const void *data);
/* in[i] (n, ..): the batched inputs, NULL: zeros; what in[i] is for others does not matter. out[i] (n, ..), NULL: not wanted. All of the
 * host. A sample's bits do not depend on its neighbours. Errors stick to the device. */
void runner_run(struct runner *r, int64_t n, const void *const *in, float *const *out);
/* The same with outputs in memory of the device, and the inputs whose bits are set in `there`. Does not wait. */
void runner_submit(struct runner *r, int64_t n, const void *const *in, unsigned there, float *const *out);

const struct params *runner_table(const struct runner *r); /* borrowed */
int64_t runner_capacity(const struct runner *r);
int64_t runner_elements(const struct runner *r, int output); /* of one sample */
double runner_flops(const struct runner *r);                 /* of one sample */
int64_t runner_bytes(const struct runner *r);                /* that the weights take: none before they are loaded */
/* Bytes that weights and work space will take, on a device that does not compute in memory of the host. */
void runner_needs(struct runner *r, uint64_t *weights, uint64_t *work);
/* Bytes that the weights of runner_weights will take on the CPU with matrices held as `bulk`; COMPACT_NONE: as runner_new was asked to. */
uint64_t runner_takes(const struct runner *r, enum compact_type bulk);

#endif
