/* Noise schedules of discrete time, as in config.json and diffusers' scheduler_config.json (man ddm-formats). */
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
	double start, end; /* beta_start, beta_end; not used by "cosine_betas" and "betas" */
	double *v;         /* (steps) trained_betas if given, else NULL. Owned: betas_release */
};

/* 1 if the path has discrete time: "linear_betas", "scaled_linear_betas", "cosine_betas", "betas". */
int betas_path(const char *path);
/* Read num_train_timesteps, beta_start, beta_end and trained_betas for a path of discrete time. ERR_DATA naming `where`. Free with betas_release. */
int betas_parse(const json_t *o, const char *path, struct betas *b, const char *where, struct err *e);
/* ERR_DATA if time_scale is T - 1. Step k is at t = k / T, so a network that was trained on the steps 0 .. T - 1 needs time_scale T. */
int betas_check_scale(const struct betas *b, const char *path, double time_scale, const char *where, struct err *e);
/* "sigma_data" of a network on `path`: *sigma_data is 0 if it is absent or the usual one. ERR_DATA if it is out of range, or if the path is not
 * "edm", which alone has it. */
int sigma_data_parse(const json_t *o, const char *path, double *sigma_data, const char *where, struct err *e);
/* Add the keys of betas_parse to `o`. */
void betas_to_json(const struct betas *b, json_t *o);
void betas_release(struct betas *b);

/* Load scheduler_config.json. Python writes -Infinity and Infinity, which are not JSON; they are read as null. Caller json_decref()s. */
json_t *scheduler_load(const char *file, struct err *e);
/* Read the path and the prediction (diffusion/path.h; static strings) and *b from it. ERR_DATA if the schedule is not supported. Free *b with
 * betas_release. */
int scheduler_parse(const json_t *o, const char *where, const char **path, const char **prediction, struct betas *b, struct err *e);
/* The path of the scheduler for the network in `dir`: DIR/scheduler/scheduler_config.json, or scheduler/ beside DIR. NULL if there is none. Caller
 * frees with mem_free. */
char *scheduler_find(const char *dir);

#endif
