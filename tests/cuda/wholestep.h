/* A whole training step on fixed inputs, on any device, and the first op that two devices disagree on. */
#ifndef DDM_TESTS_WHOLESTEP_H
#define DDM_TESTS_WHOLESTEP_H

#include "net/net.h"
#include "train/noised.h"

struct str;

struct step_options {
	int64_t rows, used; /* the tape's capacity, and the samples of the step */
	int bf16, times;    /* bf16: weights and intermediates; times: that the step is run */
	int no_reuse;       /* every intermediate stays readable (step_differs) */
	enum recompute recompute;
};

struct step {
	struct loss_tape loss;
	struct params params;
	float *out, *each, *grads; /* on the host: (outs), (used), (trainable) */
	int64_t outs;
	struct device *device;
	struct noised noised;
	void *there[4]; /* on the device: values, gradients, seeds, rounded values */
};

/* Every weight is drawn: those that begin at zero would hide the rest. Fails the cmocka test on an error. Caller frees with step_free. */
void step_run(struct step *s, const struct net_config *c, struct device *d, const struct step_options *o);
void step_free(struct step *s);

/* |a - b| / |b|; not a number where either holds one that is none. */
double step_distance(const float *a, const float *b, int64_t n);

/* The largest error of a parameter's gradient, and in *which its name if which is not NULL. A gradient that is almost nothing beside the others
 * is held to the mean of all. */
double step_gradient_error(const struct step *got, const struct step *want, const char **which);

/* Compare the outputs of all nodes of two steps with no_reuse, in order. 1: s tells the first whose error is above tol; 0: there is none, and s
 * tells the largest error. */
int step_differs(const struct step *got, const struct step *want, int64_t used, double tol, struct str *s);

/* Run the step again on both devices with no_reuse, and print what step_differs says. */
void step_explain(const struct net_config *c, struct device *want, struct device *got, int64_t rows, int64_t used, int bf16, double tol);

#endif
