/* A network of an ensemble, shared by its files: ensemble.c opens and runs the networks, ensemblememory.c brings their weights into memory,
 * ensemblelosses.c their measured losses, ensembleuncertainty.c their learned uncertainties, ensemblesolver.c reads their schedulers,
 * ensembletimes.c the times that they are for. */
#ifndef DDM_DIFFUSION_ENSEMBLEIMPL_H
#define DDM_DIFFUSION_ENSEMBLEIMPL_H

#include "diffusion/ensemble.h"
#include "diffusion/lawmodel.h"
#include "net/model.h"

/* One network, or an exact model in its place, and the conversion of its output to a velocity. */
struct member {
	struct model *model;
	struct law_model *exact;
	const struct model_config *config; /* of `model` or `exact`; NULL: absent */
	char weights_hash[65];             /* SHA-256 of its weights */
	int64_t elements;                  /* elements of one output */
	struct device *device;
	struct ensemble *all; /* the ensemble of this member */
	int away;             /* another rank runs it: its weights are never loaded here */
	const struct path *path;
	struct schedule schedule; /* holds a `path` of discrete time, or one with a sigma_data of its own */
	struct schedule steps;    /* with `own`: of a continuous path; others have them in `schedule` */
	int elsewhere;            /* with `own`: its steps differ from the ensemble's */
	enum prediction kind;
	enum convert_mode mode;
	int64_t d, capacity;
	int plain;                /* the output is the velocity on the linear path; no conversion */
	float *x, *out;           /* (capacity, d), (capacity, elements), on the device; NULL if plain */
	float *mean;              /* (d) mean of its data, on the device, to convert an epsilon prediction; NULL: unknown */
	float *time;              /* (capacity), on the host */
	float *micro;             /* (capacity, 3), on the host: height, width, aspect ratio; NULL if the network does not read them */
	float *host_x, *host_out; /* (capacity, d), (capacity, elements): for `exact`, which runs on the host */
	float *one;               /* (capacity) output of an uncertainty, on the device; else NULL */
};

/* ERR_USAGE if the device cannot satisfy o->resident. Call after all networks are open. */
int ensemble_check_resident(const struct ensemble *s, const struct ensemble_options *o, struct err *e);
/* ERR_DATA if an expert's number is beyond the router's clusters and the expert is not for a part of the times. For a model with a router. */
struct layout;
int ensemble_numbers_fit(const struct layout *l, const char *dir, struct err *e);
/* Set `clusters`, and `owners` if some expert is for a part of the times. Call after all experts are open. ERR_DATA if their paths differ. */
int ensemble_take_times(struct ensemble *s, const struct layout *l, const struct ensemble_options *o, const char *dir, struct err *e);
/* Add a file that results depend on; takes over `name`. */
void ensemble_add_file(struct ensemble *s, char *name, const char *hash);
/* If i is an expert and the policy weighs by confidence: read its measured losses in its folder, `sub` of the model, and add their file. The expert's
 * files are those from `first` on. ERR_USAGE if the expert is for a part of the times; ERR_NOINPUT if there is no such file. */
int ensemble_add_losses(struct ensemble *s, int i, const char *folder, const char *sub, int first, const struct policy *p, struct err *e);
/* Open the router or an uncertainty in the folder `sub` of the model as *m, one of s->member. */
int ensemble_open_classifier(struct ensemble *s, struct member *m, const char *dir, const char *sub, const struct ensemble_options *o, struct err *e);
/* If the policy weighs by uncertainty: open the uncertainties of all experts that are open. ERR_USAGE for experts of a part of the times; ERR_NOINPUT
 * if one is missing; ERR_DATA if it is of other weights. */
int ensemble_open_uncertainties(struct ensemble *s, const char *dir, const struct ensemble_options *o, struct err *e);
/* out (n, m->elements) = the network's output at x (n, d) and t (n) of the linear path, not converted. For classifiers. */
int ensemble_run_plain(struct member *m, int64_t n, const float *x, const float *t, float *out, struct err *e);
int ensemble_same_schedule(const struct schedule *a, const struct schedule *b);
/* Convert x (n, d) at t (n) of the linear path to the network's own path, into m->x and m->time. */
void ensemble_to_own_path(struct member *m, int64_t n, const float *x, const float *t);
/* Load the weights of a network unless they are in memory. ERR_NOMEM names options that need less. */
int ensemble_load_member(struct member *m, struct err *e);

/* Load the mean of the expert's data if the file exists and the conversion needs it: for an epsilon prediction in mode CONVERT_MATCH. */
int ensemble_add_mean(struct ensemble *s, struct member *m, const char *folder, const char *sub, const char *slash, const struct ensemble_options *o,
                      struct err *e);

#endif
