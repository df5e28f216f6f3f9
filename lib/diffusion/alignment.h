/* How well a policy's choice of experts fits the states that they meet: errors of the chosen expert and of the others, their disagreement, and the
 * rank of the chosen one's cluster by the distance of its centroid. A trajectory's or a state's numbers do not depend on how they are batched. */
#ifndef DDM_DIFFUSION_ALIGNMENT_H
#define DDM_DIFFUSION_ALIGNMENT_H

#include "diffusion/law.h"
#include "diffusion/stability.h"

/* Numbers at a time: ROW(column, name). "Chosen" is the expert with the largest weight, lower numbers first; w and u are the policy's weights and
 * velocity, v_k those of the experts that are present.
 *
 *   disagreement  the mean over pairs of experts of |v_j - v_k|^2, over |u|^2
 *   angle         the mean over pairs of experts of the angle between v_j and v_k, in degrees
 *   spread        sum_k w_k |v_k - u|^2 / |u|^2
 *   rank          1 + the number of clusters whose centroids are nearer to x - t u than that of the chosen expert's
 *   chosen        the squared error of the chosen expert's velocity, per element
 *   best          that of the expert with the smallest one
 *   others        the mean over the experts that are not chosen
 *   mixed         that of the policy's velocity u
 *   hit           1 if the chosen expert has the smallest error, else 0
 *
 * The error is |v_k - u*|^2 on the trajectories if the optimum u* is known, else |v_k - (eps - x0)|^2 on noised samples. */
#define ALIGNMENT_LIST(ROW) \
	ROW(DISAGREEMENT, "disagreement") \
	ROW(ANGLE, "angle") \
	ROW(SPREAD, "spread") \
	ROW(RANK, "rank") \
	ROW(CHOSEN, "chosen") \
	ROW(BEST, "best") \
	ROW(OTHERS, "others") \
	ROW(MIXED, "mixed") \
	ROW(HIT, "hit")

#define ALIGNMENT_COLUMN(column, name) ALIGNMENT_##column,
enum alignment_column { ALIGNMENT_LIST(ALIGNMENT_COLUMN) ALIGNMENT_COLUMNS };
extern const char *const alignment_names[]; /* in the order of enum alignment_column */

struct alignment_plan {
	const struct mixture *mixture; /* as in struct stability_plan; its `distances`, if not NULL, give `rank` */
	int64_t steps, count;          /* times of the grid; trajectories */
	int64_t states;                /* noised samples at each time; 0: none */
	struct law *optimum;           /* gives u*; NULL: errors are measured on noised samples */
};

/* The mean loss |v_k - (eps - x0)|^2 per element of an expert on noised samples of its own cluster [0] and of all others [1]; NAN without any. */
struct alignment_loss {
	int64_t n[2];
	double loss[2];
};

struct alignment;

/* Borrows *p. ERR_USAGE as mixer_new. Free with alignment_free. */
struct alignment *alignment_new(const struct alignment_plan *p, int64_t capacity, struct err *e);
void alignment_free(struct alignment *a);

/* Measure the kept run of trajectories `first` .. at the times that *s measures. */
int alignment_add(struct alignment *a, struct stability *s, const struct trajectory *y, int64_t first, struct err *e);

/* Measure n <= capacity noised samples x (n, d) at time number i of the grid, from number `first` on, whose conditional velocity is target (n, d) and
 * which are of `cluster` (n). `j` evaluates the experts. A policy that draws an expert once by the shares uses that of the sample's own cluster, as
 * does one with the weights oracle; one with weights by distance is not measured here. */
int alignment_states(struct alignment *a, struct jacobian *j, int64_t i, int64_t first, int64_t n, const float *x, const float *target,
                     const int32_t *cluster, struct err *e);

/* The mean at time i; NAN: not measured. With i = steps the mean over the times. */
double alignment_at(const struct alignment *a, enum alignment_column c, int64_t i);
struct alignment_loss alignment_loss(const struct alignment *a, int64_t i, int k);

#endif
