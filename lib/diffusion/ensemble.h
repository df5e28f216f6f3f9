/* Opens a model folder (MODEL/expert_I, MODEL/router) as experts and a router for a sampler. */
#ifndef DDM_DIFFUSION_ENSEMBLE_H
#define DDM_DIFFUSION_ENSEMBLE_H

#include <jansson.h>
#include <stdint.h>

#include "core/err.h"
#include "diffusion/confidence.h"
#include "diffusion/convert.h"
#include "diffusion/denoiser.h"
#include "diffusion/mixture.h"
#include "diffusion/owners.h"
#include "diffusion/policy.h"
#include "diffusion/schedule.h"
#include "diffusion/scheduler.h"
#include "kernels/compact.h"
#include "kernels/device.h"

/* How many experts' weights are in GPU memory at a time. The others stay in pinned host memory and are uploaded when the router selects them
 * (net/pager.h). Results do not depend on it. Zeroed: all experts, or as many as fit into free memory. */
struct resident {
	int64_t experts; /* number of experts; 0: given by bytes */
	uint64_t bytes;  /* as many experts as fit into so many bytes; 0: into free memory */
};

struct ensemble_options {
	struct policy policy;   /* loads only what the policy needs: the experts that it may select, the router if it is used */
	enum convert_mode mode; /* conversion of experts on another path */
	int own;                /* no conversion to the linear path: for discrete-time solvers on the experts' path */
	int64_t capacity;       /* most rows of one expert call */
	int64_t frames;         /* of clips; 0: as many as the experts were trained on */
	enum compact_type bulk; /* storage of the experts' weights (model_open). The router's stay floats: a small error can change a route */
	struct device *device;  /* borrowed */
	struct resident resident;
	int gradient; /* for diffusion/ensemblepull.h; the experts' weights are then plain floats, and `bulk` is COMPACT_NONE */
	int64_t step; /* > 0: use the averaged weights of the checkpoint of this step; 0: the final weights, else the newest average */
};

struct ensemble_file {
	char *name;    /* "expert_0/config.json", relative to the model */
	char hash[65]; /* SHA-256 */
};

struct ensemble {
	int k;                /* experts that the model may have: its clusters, or more if some are for a part of the times; some may be absent */
	int clusters;         /* clusters the model knows; k unless `owners` has experts */
	struct owners owners; /* the times and clusters of the experts; zeroed: all times, and expert i is of cluster i */
	struct owner *owner;  /* (k) held for `owners`, or NULL */
	int64_t channels, size, frames, d; /* of a sample; frames 0: pictures; d: its elements */
	int classes;                       /* 0: unconditional */
	json_t *class_names;               /* (core/names.h); NULL: classes have no names */
	int told_cluster;                  /* the experts' classes are clusters (struct model_config) */
	int null_label;                    /* every expert was trained with the null label: unconditional sampling and guidance work */
	int64_t text_tokens, text_width;   /* size of the text features that the experts read; 0: none */
	int64_t pooled_width;              /* of the pooled vectors that some of them read; 0: none does */
	int64_t first_frame;               /* elements of a first frame (struct expert) that some of them read; 0: none does */
	int needs_first;                   /* some expert was never trained without first frames */
	int lower;                         /* some expert was trained on lower-case texts (struct model_config) */
	int masked;                        /* some expert reads the padding mask (struct condition) */
	struct expert *expert;             /* (k) */
	struct guidance_native *native;    /* (k) what the experts predict, for guidance that rescales inside them */
	struct router router;              /* logits is NULL if the policy does not need a router or there is none */
	struct router uncertainty;         /* the learned uncertainties of the experts (struct mixture); logits NULL: the policy needs none */
	/* With `own`: */
	const struct schedule *schedule; /* the first expert's; experts on other paths are converted to it at equal log-SNR */
	enum prediction kind;            /* of all experts' predictions: epsilon if their kinds differ, x0 if their paths differ */
	int64_t out;                     /* elements of a prediction: d, or 2 d if all learned a variance on this path */
	char partition[65];              /* of the data that its networks were trained on (struct model_config); empty: unknown */
	json_t *extends;                 /* the partitions that it extends, of which some experts may be (core/extends.h); NULL: none */
	double *shares;                  /* (clusters) sizes or probabilities of the clusters, or NULL: unknown */
	int sized;                       /* `shares` are sizes: numbers of training samples */
	struct confidence confidence;    /* if the policy takes weights from it */
	double *class_shares;            /* (classes, clusters) from "class_cluster_sizes" of the router, or NULL */
	struct ensemble_file *file;
	int files;     /* number of `file`: all files that results depend on */
	char hash[65]; /* SHA-256 of the names and hashes in `file` */
	struct resident resident;
	enum compact_type bulk;  /* as in ensemble_options */
	struct pager *pager;     /* NULL: loaded weights stay in device memory */
	int paged;               /* whether a pager is needed has been decided */
	struct ensemble *beside; /* another one that shares the device's memory (diffusion/ensembleguide.h), borrowed, or NULL */
	struct member *member;   /* (members) networks: k experts, the router, and k uncertainties if the policy needs them */
	int members;
	int64_t *step; /* (members) step of the checkpoint used for each network; -1: its final weights */
};

/* Open a model. The weights of a network are loaded when it first runs; an expert that no sample uses is only hashed. Networks of one architecture
 * share their work space.
 *
 * A folder that holds weights itself is an ensemble of one network, expert 0. Experts and router must agree on channels, size, classes, text
 * and K, else ERR_DATA. K is the router's number of clusters, or without a router one more than the highest expert. Experts for a part of the times
 * may have any numbers, and need one path. A folder that is missing or holds no expert: ERR_NOINPUT. `resident` on a device that computes in host
 * memory: ERR_USAGE. Release with ensemble_release, after failure too. */
int ensemble_open(struct ensemble *s, const char *dir, const struct ensemble_options *o, struct err *e);
/* ERR_USAGE naming `model` if some expert of *s was never trained without a first frame, for callers that give none. */
int ensemble_without_first(const struct ensemble *s, const char *model, struct err *e);
/* A mixture of its experts and router by this policy, for velocities: without guidance, reference items and distances. It borrows from *s, and is
 * valid until ensemble_release. */
struct mixture ensemble_mixture(const struct ensemble *s, const struct policy *p, uint64_t seed, struct device *device);
/* The solver named by the experts' scheduler files (diffusion/scheduler.h): 1 and *s; 0 if some expert is not in diffusers' format or has no
 * scheduler. ERR_DATA if a scheduler is unsupported or the experts' schedulers differ. */
int ensemble_solver(struct scheduler_solver *s, const char *dir, struct err *e);
/* The expert's number if the model is a single network: a folder with weights, a pipeline of diffusers, or one expert without a router; else -1. */
int ensemble_lone(const char *dir);
/* 1 if the model has no router and each of its experts is for a part of the times: sampling it needs no policy but `time`. */
int ensemble_timed(const char *dir);
/* The number in a folder's name: "expert_12" -> 12; -1 for any other name. */
int ensemble_number(const char *name);
/* The same of a learned uncertainty: "uncertainty_12" -> 12. */
#define UNCERTAINTY_PREFIX "uncertainty_"
int ensemble_uncertainty_number(const char *name);
/* The callback for struct sampler's `order` (mixer_tell): uploads paged weights in this order. arg is the ensemble. */
void ensemble_order(void *arg, const int *expert, int n);
/* After ERR_FAIL for non-finite samples: if a weights file holds NaN or infinity, *e becomes ERR_DATA naming the file and tensor. */
void ensemble_blame(const struct ensemble *s, const char *dir, struct err *e);
/* Leave to other ranks the experts that are not this rank's (expert_rank, of the experts dealt (k), its own or those it guides), or with rank -1 all.
 * Their weights count for no memory here. */
void ensemble_spread(struct ensemble *s, const struct expert *dealt, int k, int rank, int ranks);
const char *ensemble_weights_hash(const struct ensemble *s, int k); /* SHA-256 of expert k's weights; borrowed */
int64_t ensemble_member_bytes(const struct ensemble *s, int i);     /* bytes of expert i's weights; i = k: the router's */
/* Counts the experts that are networks. Bytes that the weights of the largest take, or will take, those of all experts, and the rest: the router's
 * weights and the work space of each architecture. */
int64_t ensemble_weigh(const struct ensemble *s, uint64_t *largest, uint64_t *all, uint64_t *rest);
void ensemble_release(struct ensemble *s);

#endif
