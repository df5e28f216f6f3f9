/* Whether the networks of a model belong together: each expert in the folder of its own cluster, all of one partition of the data. */
#ifndef DDM_DIFFUSION_MEMBERSHIP_H
#define DDM_DIFFUSION_MEMBERSHIP_H

#include "core/err.h"
#include "net/model.h"

/* What the networks seen so far agree on, and which of them said it first. Zeroed: none; release with membership_release. */
struct membership {
	int64_t clusters;
	char partition[65];
	json_t *class_names;
	char clusters_by[32], partition_by[32], names_by[32];
};

/* The next network of the model in `dir`, in its folder `name` ("expert_3", "router"). number: that of the folder, -1 where it has none
 * (a router, a model of one network). What config.json does not say is taken to be right, and so is a network that was trained on all clusters.
 * ERR_DATA names both sides of what does not fit. */
int membership_add(struct membership *m, const char *dir, const char *name, int number, const struct model_config *c, struct err *e);
void membership_release(struct membership *m);

#endif
