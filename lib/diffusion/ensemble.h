/* A model folder (MODEL/expert_I, MODEL/router) as experts and a router. */
#ifndef DDM_DIFFUSION_ENSEMBLE_H
#define DDM_DIFFUSION_ENSEMBLE_H

#include <jansson.h>
#include <stdint.h>

#include "core/err.h"
#include "diffusion/convert.h"
#include "diffusion/denoiser.h"
#include "diffusion/route.h"
#include "diffusion/schedule.h"
#include "diffusion/scheduler.h"
#include "kernels/compact.h"
#include "kernels/device.h"

/* How much of the experts' weights the memory of a device of its own holds at a time; the others wait in pinned memory of the host and are
 * sent when the router asks for them (net/pager.h). No result depends on it. Zeroed: all, or what fits into the memory that is free. */
struct resident {
	int64_t experts; /* so many; 0: by bytes */
	uint64_t bytes;  /* as many experts as fit into them; 0: into what is free */
};

struct ensemble_options {
	struct policy policy;   /* only what it needs is loaded: one expert for POLICY_EXPERT, the router where it is asked */
	enum convert_mode mode; /* of experts on another path */
	int own;                /* not converted at all: for solvers of discrete time, on the experts' path */
	int64_t capacity;       /* rows of one call of an expert */
	enum compact_type bulk; /* of the experts' weights (model_open); the router's are floats: a small error there is another route */
	struct device *device;  /* borrowed */
	struct resident resident;
	int64_t step;           /* > 0: the average of the experts' checkpoint of that step; 0: the weights, or without them the newest average */
};

struct ensemble_file {
	char *name;    /* "expert_0/config.json", relative to the model */
	char hash[65]; /* SHA-256 */
};

struct ensemble {
	int k;                     /* clusters the model knows; some experts may be absent */
	int64_t channels, size, d; /* of a picture; d = channels * size * size */
	int classes;               /* 0: unconditional */
	json_t *class_names;       /* of the classes (core/names.h); NULL: they have none */
	int null_label;            /* every expert was trained with the null label, so it can go without a class and be guided */
	int64_t text_tokens, text_width; /* features of a text that the experts read; 0: none */
	int lower;                 /* there is an expert whose texts are in lower case (struct model_config) */
	int masked;                /* there is an expert that is told which of them are padding (struct condition) */
	struct expert *expert;     /* (k) */
	struct router router;      /* logits NULL where it was not needed or is not there */
	/* With `own`: the path of the first expert, to which those of others are converted at equal log-SNR, what all answer on it (epsilon where
	 * they differ; x0 where the paths do), and how many elements: d, or 2 d where all have learned a variance on this path. */
	const struct schedule *schedule;
	enum prediction kind;
	int64_t out;
	double *shares;            /* (k) sizes of the clusters, or NULL: unknown */
	double *class_shares;      /* (classes, k) from "class_cluster_sizes" of the router, or NULL */
	struct ensemble_file *file;
	int files;                 /* what the results depend on */
	char hash[65];             /* SHA-256 over names and hashes of `file` */
	struct resident resident;
	enum compact_type bulk;    /* as asked for */
	struct pager *pager;       /* NULL: weights that were read stay where they are needed */
	int paged;                 /* it has been decided */
	struct member *member;     /* (k + 1) networks; the router last */
	int members;
	int64_t *step;             /* (k + 1) of the checkpoint whose average stands for an expert, last the router; -1: its weights do */
};

/* The weights of a network are read when it is first asked: those of an expert that no sample is sent to never are, but for their hash.
 * Networks of one architecture share the memory that they compute in.
 *
 * A folder that holds weights itself is an ensemble of one, expert 0. Experts and router must agree on channels, size, classes, text
 * and K (else ERR_DATA); K is the router's, or the number of cluster_sizes, or one more than the highest expert. No such folder
 * or nothing in it: ERR_NOINPUT. `resident` on a device that computes in memory of the host: ERR_USAGE. Release with
 * ensemble_release, after failure too. */
int ensemble_open(struct ensemble *s, const char *dir, const struct ensemble_options *o, struct err *e);
/* The solver that the scheduler of its experts names (diffusion/scheduler.h): 1 and *s, or 0 where one of them is not of diffusers, or has
 * none. ERR_DATA for what is not known here, or where they differ. */
int ensemble_solver(struct scheduler_solver *s, const char *dir, struct err *e);
/* The number of the only network of a model that has no router: a folder with weights, a pipeline of diffusers, or one expert; -1 of others. */
int ensemble_lone(const char *dir);
/* The number of a folder's name: "expert_12" -> 12; -1 for anything else. */
int ensemble_number(const char *name);
/* What a sampler of its experts is given to tell (mixer_tell); arg is the ensemble. */
void ensemble_order(void *arg, const int *expert, int n);
/* After ERR_FAIL, which numbers that are not finite are: where the weights of one of its networks are not, *e becomes ERR_DATA that names it. */
void ensemble_blame(const struct ensemble *s, const char *dir, struct err *e);
int64_t ensemble_bytes(const struct ensemble *s); /* of the weights that are in memory */
int64_t ensemble_member_bytes(const struct ensemble *s, int i); /* of expert i's, or i = k: of the router's */
void ensemble_release(struct ensemble *s);

#endif
