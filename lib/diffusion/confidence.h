/* The measured errors of experts by time, for weights by confidence: each expert counts by the inverse of its loss at t, whatever the sample.
 *
 * MODEL/expert_I/loss.json is what `ddm-diagnose loss --routes expert:I` writes. */
#ifndef DDM_DIFFUSION_CONFIDENCE_H
#define DDM_DIFFUSION_CONFIDENCE_H

#include "core/err.h"

#define CONFIDENCE_NAME "loss.json"

/* Zeroed: empty. */
struct confidence {
	int k, times;
	double *time;      /* (times), increasing */
	double *loss;      /* (k, times); 0 for experts that were not added */
	char measured[65]; /* SHA-256 of the samples on which the losses were measured */
	char told[16];     /* what the experts were told then: "nothing", "class" or "cluster" */
};

/* A file that the measured expert is made of. */
struct confidence_file {
	const char *name, *hash; /* "expert_0/config.json" */
};

/* Add expert i of k from the file at `path`. ERR_DATA if it is no such result, if it was measured with other files than these (n), or if the
 * times, the samples or what the expert was told are not those of the experts before it. Release with confidence_release, after failure too. */
int confidence_add(struct confidence *c, int k, int i, const char *path, const struct confidence_file *file, int n, struct err *e);
void confidence_release(struct confidence *c);

/* inverse (k) = 1 / loss at time t of the linear path, the loss being linear between the times and constant beyond them; 0 for experts that were not
 * added. */
void confidence_at(const struct confidence *c, double t, double *inverse);

#endif
