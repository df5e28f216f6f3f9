/* Runs a network that is not trained: holds its tape, weights, inputs, outputs and batches, on any device.
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

enum { RUNNER_INPUTS = 48, RUNNER_OUTPUTS = 8, RUNNER_STAGES = 2 };

/* ---- recording ---- */

struct recording {
	struct layers l;
	int64_t capacity; /* B */
	int inputs, outputs;
	struct tensor *input[RUNNER_INPUTS], *output[RUNNER_OUTPUTS];
	int forward; /* with recording_gradient: the nodes before the gradient (tape_mark); else 0 */
	/* of networks that run over a sequence piece by piece */
	int stages;                                         /* 0: one stage, never named */
	int end[RUNNER_STAGES];                             /* tape_mark at the end of each stage */
	int stage_of[RUNNER_OUTPUTS];                       /* the stage that computes an output */
	unsigned char is_state[RUNNER_INPUTS];              /* 1: the input is a state */
	struct tensor *carry[RUNNER_STAGES][RUNNER_INPUTS]; /* the state's next value after a run of the stage; NULL: it stays */
};

/* Records a network of a configuration. size: (channels, height, width) of its pictures if they may have any size, else NULL; of an autoencoder
 * for clips (frames of latents, height, width). */
typedef void runner_record(struct recording *c, const void *config, const int64_t *size);

/* Make the next input. With `batched` the shape is that of one sample, else of the whole input. */
struct tensor *recording_input(struct recording *c, enum dtype dtype, int rank, const int64_t *shape, int batched);
/* Make this tensor (tape_input) the next input. NULL: the network does not read this input, and runner_run ignores it. */
void recording_take(struct recording *c, struct tensor *x);
/* Make this tensor the next output; it is contiguous and batched. */
void recording_output(struct recording *c, struct tensor *x);

/* Append the gradient with respect to the input x, after the only output y has been recorded. x is made with TAPE_GRAD on a tape with tape_freeze.
 * The next input is a cotangent dy of y's shape, the next output J' dy of x's shape, where J = dy/dx of each sample. runner_run computes it if that
 * output is wanted. The weights are then plain floats: COMPACT_NONE. */
void recording_gradient(struct recording *c, struct tensor *x);

/* A network that runs over a sequence piece by piece, with one sample at a time, keeps what a later piece needs in states: inputs of this shape,
 * without B, that are zeros at first (runner_restart). recording_carry: after a run of the present stage the state becomes x. */
struct tensor *recording_state(struct recording *c, int rank, const int64_t *shape);
void recording_carry(struct recording *c, const struct tensor *state, struct tensor *x);
/* End a stage. The nodes recorded up to here, from the end of the previous stage on, are run by runner_stage(r, number of the stage, ..), and the
 * outputs made among them are its outputs. All stages share inputs, states and parameters. */
void recording_stage(struct recording *c);

/* The table of parameters, laid out, without a runner. Free with params_release. */
void runner_params(runner_record *record, const void *config, const int64_t *size, struct params *p);

/* ---- weights ---- */

struct runner;

/* A runner for batches of up to `capacity`. bulk: storage type of the matrices of PARAM_BULK (weightstore_choose). COMPACT_VIEW: matrices that are
 * one tensor of floats in their file stay there, the others are COMPACT_F32. On a GPU COMPACT_BF16 means PRECISION_BF16. ERR_USAGE for a type that
 * the device does not support. config and device are borrowed. NULL on error; caller frees with runner_free. */
struct runner *runner_new(runner_record *record, const void *config, const int64_t *size, int64_t capacity, enum compact_type bulk, struct device *d,
                          struct err *e);
void runner_free(struct runner *r); /* NULL is allowed */

/* Set the file of the weights, whose names are of one of n families or ours. Takes s, also on failure, and keeps it until the weights are loaded, or
 * as long as matrices are views of it. The families are borrowed until then. ERR_DATA naming `where` and the tensor that is missing, superfluous or
 * of another shape. */
int runner_weights(struct runner *r, struct safetensors *s, const char *where, const struct renames *const *families, int n, struct err *e);

/* Read the weights and, unless pictures may have any size, allocate work space. Later calls do nothing. lender: NULL, or a runner (runner_lends)
 * whose work space this one shares. pager: NULL, or a pager with large enough slots, to which the weights are added as a page; borrowed. */
int runner_load(struct runner *r, const struct runner *lender, struct pager *pager, struct err *e);
/* The same with values that fill() computes one parameter at a time, out[q->count]. fill returns 0, or -1 and sets e. */
int runner_fill(struct runner *r, int (*fill)(void *arg, const struct param *q, float *out, struct err *e), void *arg, struct err *e);

/* runner_alike: whether two runners of the same record() and configuration can use the same work space. runner_lends: whether lender has allocated
 * one that r can use. */
int runner_alike(const struct runner *a, const struct runner *b);
int runner_lends(const struct runner *lender, const struct runner *r);
int runner_loaded(const struct runner *r);
int runner_page(const struct runner *r); /* its page number in the pager; -1: none */

/* ---- use ---- */

/* Prepare for pictures of this size, which holds until the next call. ERR_NOMEM if memory is short. */
int runner_plan(struct runner *r, const int64_t *size, struct err *e);

/* Set input i, which is not batched: the same for all samples. Call after runner_load. */
void runner_set(struct runner *r, int i, const void *data);
/* Run n samples. in[i] (n, ..): the batched inputs; NULL: zeros. in[i] of other inputs is ignored. out[i] (n, ..); NULL: not wanted. All are in host
 * memory. A sample's output does not depend, to the bit, on the other samples. Errors stick to the device. */
void runner_run(struct runner *r, int64_t n, const void *const *in, float *const *out);
/* The same with outputs, and the inputs whose bits are set in `there`, in device memory. Does not wait. */
void runner_submit(struct runner *r, int64_t n, const void *const *in, unsigned there, float *const *out);

/* Set all states to zeros. After runner_plan or runner_load. */
void runner_restart(struct runner *r);
/* Run one stage on one sample and update the states. in[] and out[] are as for runner_run, with places for all inputs and outputs; states and the
 * outputs of other stages are ignored. */
void runner_stage(struct runner *r, int stage, const void *const *in, float *const *out);

const struct params *runner_table(const struct runner *r); /* borrowed */
int64_t runner_capacity(const struct runner *r);
int64_t runner_elements(const struct runner *r, int output); /* of one sample */
double runner_flops(const struct runner *r);                 /* of one sample; of its first stage */
int64_t runner_bytes(const struct runner *r);                /* of the weights; 0 before they are loaded */
/* Bytes that weights and work space take, or will take. */
void runner_needs(struct runner *r, uint64_t *weights, uint64_t *work);
/* Bytes that the weights of runner_weights will take on the CPU with matrices of type `bulk`; COMPACT_NONE: the type given to runner_new. */
uint64_t runner_takes(const struct runner *r, enum compact_type bulk);

#endif
