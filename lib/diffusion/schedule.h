/* Discrete-time paths: T noise levels from a table, as in DDPM (Ho et al. 2020) and Stable Diffusion.
 *
 * x_k = sqrt(abar_k) x0 + sqrt(1 - abar_k) eps for k = 0 .. T - 1, abar_k the product of 1 - beta up to k. Step k is at time
 * (k + first) / unit, the network's time input. Between steps the log-SNR is interpolated linearly. `lo` and `hi` of the path are the ends of the
 * table. */
#ifndef DDM_DIFFUSION_SCHEDULE_H
#define DDM_DIFFUSION_SCHEDULE_H

#include "diffusion/path.h"
#include "net/betas.h"

struct schedule {
	struct path path; /* must be the first member: a table's functions cast it to the schedule */
	int64_t steps;
	double first, unit;
	double *abar, *logsnr; /* (steps) each, in one allocation at abar */
};

/* Make the table of `path`:
 *   linear_betas, scaled_linear_betas   from b's start to its end
 *   cosine_betas                        Nichol and Dhariwal 2021, with betas of at most .999
 *   betas                               b's own
 *   cosine (continuous)                 the thousand steps of cosine_betas
 *   other continuous paths              999 steps at times k/1000
 * A table has alpha^2 + sigma^2 = 1; on a continuous path where that does not hold, the caller must scale x. ERR_DATA for another path, or a table
 * whose noise does not increase. The path points into *s, which must not move. Release with schedule_release. */
int schedule_init(struct schedule *s, const char *path, const struct betas *b, struct err *e);
void schedule_release(struct schedule *s);

/* The path called `path`: path_find's, with *s zeroed, or one inside *s, which must then not move: a table made from b, or edm with another
 * sigma_data than the usual one (0: the usual one; other paths ignore it). NULL and *e if there is none, or its
 * table is refused by schedule_init. Release *s with schedule_release in each case. */
const struct path *schedule_path(struct schedule *s, const char *path, const struct betas *b, double sigma_data, struct err *e);

/* The table of a discrete-time path; NULL for a continuous path. */
const struct schedule *schedule_of(const struct path *p);

/* The network's time input for step k, which may be fractional; clamped to the path's lo and hi. */
double schedule_time(const struct schedule *s, double k);

#endif
