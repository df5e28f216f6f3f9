/* Noise schedules of discrete time, as config.json and diffusers' scheduler_config.json tell them (man ddm-formats). */
#ifndef DDM_NET_BETAS_H
#define DDM_NET_BETAS_H

#include <jansson.h>
#include <stdint.h>

#include "core/err.h"

/* The standard deviation of the data that EDM's path and prediction are scaled for: sigma_data of Karras et al. 2022. A field `sigma_data` of 0
 * means the usual one. */
#define SIGMA_DATA_USUAL .5
#define SIGMA_DATA_LEAST .1
#define SIGMA_DATA_MOST 10.

struct betas {
	int64_t steps;     /* T; 0: none, time is continuous */
	double start, end; /* of the rules that have them */
	double *v;         /* (steps), where the table itself is given; else NULL. Owned: betas_release */
};

/* Whether a path is of discrete time: "linear_betas", "scaled_linear_betas", "cosine_betas", "betas". */
int betas_path(const char *path);
/* num_train_timesteps, beta_start, beta_end, trained_betas for a path of discrete time. */
int betas_parse(const json_t *o, const char *path, struct betas *b, const char *where, struct err *e);
/* ERR_DATA for a time_scale of T - 1: step k is at t = k / T, so that a network which was told the steps 0 .. T - 1 has T. */
int betas_check_scale(const struct betas *b, const char *path, double time_scale, const char *where, struct err *e);
/* "sigma_data" of a network on `path`: *sigma_data is 0 if it is absent or the usual one. ERR_DATA if it is out of range, or if the path is not
 * "edm", which alone has it. */
int sigma_data_parse(const json_t *o, const char *path, double *sigma_data, const char *where, struct err *e);
void betas_to_json(const struct betas *b, json_t *o);
void betas_release(struct betas *b);

/* scheduler_config.json as Python writes it, whose -Infinity and Infinity, which are no JSON, are null here. Caller json_decref()s. */
json_t *scheduler_load(const char *file, struct err *e);
/* What it says: *path and *prediction (diffusion/path.h) are static texts. ERR_DATA for a schedule that is not known here. */
int scheduler_parse(const json_t *o, const char *where, const char **path, const char **prediction, struct betas *b, struct err *e);
/* Where the scheduler of the network in `dir` is: DIR/scheduler/scheduler_config.json, or beside DIR. NULL: nowhere. Caller frees with
 * mem_free. */
char *scheduler_find(const char *dir);

#endif
