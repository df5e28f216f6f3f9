/* Checks that the networks of a model belong together: each expert is in the folder of its own cluster, and all share one partition of the data, or
 * partitions of which each extends those before (core/extends.h). */
#ifndef DDM_DIFFUSION_MEMBERSHIP_H
#define DDM_DIFFUSION_MEMBERSHIP_H

#include "core/err.h"
#include "net/model.h"

/* Facts that the networks seen so far agree on, and the first network that stated each. Where experts are of extended partitions, the facts are those
 * of the last one. Zeroed: none. Release with membership_release. */
struct membership {
	int64_t clusters;
	char partition[65];
	json_t *extends;
	json_t *class_names;
	char clusters_by[32], partition_by[32], names_by[32];
	char router[32]; /* the name of the router, if one was seen: it must know all clusters */
};

/* Check the next network of the model in `dir`, in its folder `name` ("expert_3", "router"). number: the number in its name, or -1 (a router,
 * a model of one network). It is the expert's cluster, unless the expert is for a part of the times. Facts missing from config.json are not
 * checked; a network trained on all clusters fits any partition. ERR_DATA names both sides of a contradiction. */
int membership_add(struct membership *m, const char *dir, const char *name, int number, const struct model_config *c, struct err *e);
void membership_release(struct membership *m);

#endif
