/* Paths of discrete time: T steps of noise from a table, as DDPM (Ho et al. 2020) and Stable Diffusion have them.
 *
 * x_k = sqrt(abar_k) x0 + sqrt(1 - abar_k) eps for k = 0 .. T - 1, abar_k the product of 1 - beta up to k. Step k is at time
 * (k + first) / unit, what the network is asked at; between steps the log-SNR is interpolated linearly, and beyond them there is
 * nothing: `lo` and `hi` of the path are the ends of the table. */
#ifndef DDM_DIFFUSION_SCHEDULE_H
#define DDM_DIFFUSION_SCHEDULE_H

#include "diffusion/path.h"
#include "net/betas.h"

struct schedule {
	struct path path; /* first: a path's functions find the table by it */
	int64_t steps;
	double first, unit;
	double *abar, *logsnr; /* (steps); of double length in one piece */
};

/* The table of `path`: linear_betas and scaled_linear_betas from b's start to its end, cosine_betas (Nichol and Dhariwal 2021, with
 * betas of at most .999), betas: b's own; and of paths whose networks know continuous time, "cosine" in cosine_betas' thousand steps, each
 * other in 999, k/1000. A table's alpha^2 + sigma^2 is 1: where that of a continuous path is not, x is to be scaled. Another path, or a
 * table whose noise does not grow: ERR_DATA. The path points into *s, which must stay where it is. Release with schedule_release. */
int schedule_init(struct schedule *s, const char *path, const struct betas *b, struct err *e);
void schedule_release(struct schedule *s);

/* The path called `path`: path_find's, or *s made for it; NULL where there is none (and *s is zeroed). *s is to be released. */
const struct path *schedule_path(struct schedule *s, const char *path, const struct betas *b);

/* The table behind a path of discrete time; NULL of a continuous one. */
const struct schedule *schedule_of(const struct path *p);

/* The time that the network is asked at for step k, which need not be whole; clamped to the path's ends. */
double schedule_time(const struct schedule *s, double k);

#endif
