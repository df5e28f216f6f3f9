/* What lies in a model's folder: which experts, a router, and the checkpoints that stand for those still in training. */
#ifndef DDM_DIFFUSION_LAYOUT_H
#define DDM_DIFFUSION_LAYOUT_H

#include <stdint.h>

#include "core/err.h"
#include "diffusion/membership.h"
#include "net/model.h"

enum { MAX_EXPERTS = 4096 };

/* What the folders' names and the router's config say, before any weights are read. */
struct layout {
	unsigned char *present; /* (MAX_EXPERTS) */
	int highest;            /* -1: no expert_* folder */
	const char *lone;       /* of an only expert: "" where the folder itself is it, "transformer" in a pipeline of diffusers */
	int has_router;
	struct model_config router;
	char *router_sub;       /* "router", or the checkpoint that stands for it */
	int64_t router_step;    /* -1, or its step */
	struct membership together; /* of what has been opened */
};

/* Release with layout_release, after failure too. */
int layout_survey(struct layout *l, const char *dir, struct err *e);
void layout_release(struct layout *l);
/* What stands for the network in dir/sub: sub itself, or a checkpoint of its training. With *step, -1 for the former. Caller frees. */
char *layout_settle_sub(const char *dir, const char *sub, enum net_role role, int64_t want, int64_t *step, struct err *e);

#endif
