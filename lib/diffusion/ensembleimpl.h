/* A network of an ensemble, shared by its files: ensemble.c opens and runs the networks, ensemblememory.c brings their weights into memory,
 * ensemblesolver.c reads their schedulers. */
#ifndef DDM_DIFFUSION_ENSEMBLEIMPL_H
#define DDM_DIFFUSION_ENSEMBLEIMPL_H

#include "diffusion/ensemble.h"
#include "diffusion/finitemodel.h"
#include "net/model.h"

/* One network, or samples in its place, and how its output becomes a velocity. */
struct member {
	struct model *model;
	struct finite_model *exact;
	const struct model_config *config; /* of the one that is there; NULL: absent */
	int64_t elements;                  /* of one output */
	struct device *device;
	struct ensemble *all; /* that this is a member of */
	const struct path *path;
	struct schedule schedule; /* of `path` where it is of discrete time, or its steps with `own` */
	int elsewhere;            /* with `own`: that is another schedule than the ensemble's */
	enum prediction kind;
	enum convert_mode mode;
	int64_t d, capacity;
	int plain;       /* the output is the velocity of the linear path */
	float *x, *out;  /* (capacity, d), (capacity, elements) where not plain; on the device */
	float *mean;     /* (d) of its data, on the device, for an epsilon prediction that is converted; NULL: unknown */
	float *time;     /* (capacity), of the host */
	float *micro;    /* (capacity, 3), of the host: height, width, aspect ratio; NULL where it is not told */
	float *host_x, *host_out; /* (capacity, d), (capacity, elements): of `exact`, which computes on the host */
};

/* ERR_USAGE where o->resident cannot be had on the device. Once all networks are open. */
int ensemble_check_resident(const struct ensemble *s, const struct ensemble_options *o, struct err *e);
/* Weights of a network into memory, unless they are there. ERR_NOMEM tells what would fit. */
int ensemble_load_member(struct member *m, struct err *e);

#endif
