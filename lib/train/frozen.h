/* Frozen experts that a router learns from: their errors at the noised samples of a batch become its targets.
 *
 * Expert k predicts the velocity v_k at (x_t, t), and the sample and its noise give y = eps - x0. Everything that a target needs is in the matrix
 * G_jk = <v_j - y, v_k - y> / d: the diagonal holds the experts' squared errors, and w'Gw is the squared error of the mixture SUM w_k v_k. */
#ifndef DDM_TRAIN_FROZEN_H
#define DDM_TRAIN_FROZEN_H

#include <stdint.h>

#include <jansson.h>

#include "core/err.h"
#include "diffusion/objective.h"
#include "kernels/device.h"

/* What a router is trained on. The letter e stands for the diagonal of G. */
enum target_kind {
	TARGET_CLUSTER, /* cross-entropy of the sample's cluster; without experts */
	TARGET_ERROR,   /* cross-entropy of softmax(-e / temperature) */
	TARGET_REGRET, /* cross-entropy of every expert k, weighted by max_j e_j - e_k: what the worst choice costs beyond k. In expectation the weights
	                 * of the optimum are proportional to max e - e_k, so its largest is that of the expert with the least expected error */
	TARGET_VARIANCE, /* the mean over k of (e_k exp(z_k) - z_k) / 2 with z the router's logits, which learn the negative log of the expected error, so
	                  * that the softmax of z weighs each expert by the inverse of its expected squared error */
	TARGET_UNCERTAINTY, /* TARGET_VARIANCE of one expert alone, on the samples of its own cluster: the router has one logit */
	TARGET_MIXTURE      /* w'Gw with w the router's softmax, plus `anchor` times the cross-entropy of the sample's cluster */
};

struct router_target {
	enum target_kind kind;
	double temperature; /* TARGET_ERROR: in units of e */
	double anchor;      /* TARGET_MIXTURE: 0 or more */
	int expert;         /* TARGET_UNCERTAINTY: its number, and that of its cluster */
};

/* Parse cluster, error[:T], regret, variance, uncertainty:K or mixture[:ANCHOR]; else ERR_USAGE. The text of one: caller frees with mem_free. */
int target_parse(const char *text, struct router_target *t, struct err *e);
char *target_text(const struct router_target *t);

/* The loss of training towards a target that reads errors of experts. */
enum loss_kind target_loss(const struct router_target *t);
/* The numbers that a sample's loss reads, from its matrix (k, k) and its cluster: out (k), or of TARGET_MIXTURE (k, k), followed with an anchor by
 * a row (k) that is the anchor at the cluster and 0 elsewhere. Returns the expert with the least error. */
int target_of(const struct router_target *t, const double *gram, int k, int32_t cluster, float *out);

struct frozen;

/* Open the experts of a model whose errors the target reads, for up to `capacity` samples at a time: all of them, or the one of TARGET_UNCERTAINTY.
 * Their weights are read when they first run. The device is borrowed. ERR_USAGE if a router would have one expert alone, one is missing, or they read
 * texts, are told the cluster or are for a part of the times. Caller frees with frozen_free. */
struct frozen *frozen_open(const char *model, const struct router_target *t, int64_t capacity, struct device *d, struct err *e);
/* Allocate what frozen_gram works with. */
int frozen_allocate(struct frozen *f, struct err *e);
void frozen_free(struct frozen *f);

struct frozen_info {
	int k;                          /* experts that are measured */
	int64_t channels, size, frames; /* frames 0: pictures */
	int classes, null_label;        /* as in struct ensemble */
	double flops;                   /* of one sample by all experts */
	const char *hash;               /* SHA-256 of what determines the experts; borrowed */
	const char *partition;          /* of the data that they were trained on; empty: unknown; borrowed */
	const json_t *extends;          /* the partitions that it extends (core/extends.h), or NULL; borrowed */
	const char *weights;            /* SHA-256 of the weights of the one expert of TARGET_UNCERTAINTY; else NULL; borrowed */
};
struct frozen_info frozen_info(const struct frozen *f);

/* Bytes that the experts need for up to n samples at a time. The work space of networks is taken to grow with n. */
struct frozen_bytes {
	uint64_t host;          /* buffers in the host's memory */
	uint64_t device, least; /* on the device, with the weights of all experts, and of one alone on a GPU, which then exchanges them */
};
struct frozen_bytes frozen_bytes(const struct frozen *f, int64_t n);

/* G (n, k, k) at x and y (n, d), on the device, and t (n). label (n): the samples' classes, -1: none. NULL on error; borrowed until the next call. */
const double *frozen_gram(struct frozen *f, int64_t n, const float *x, const float *y, const float *t, const int32_t *label, struct err *e);

#endif
