/* Lists the contents of a model folder: the experts, the router, and the checkpoints used for networks still in training. */
#ifndef DDM_DIFFUSION_LAYOUT_H
#define DDM_DIFFUSION_LAYOUT_H

#include <stdint.h>

#include "core/err.h"
#include "diffusion/membership.h"
#include "net/model.h"

enum { MAX_EXPERTS = 4096 };

/* Facts from the names of the folders and the router's config, before any weights are read. */
struct layout {
	unsigned char *present; /* (MAX_EXPERTS) */
	int highest;            /* -1: no expert_* folder */
	const char *lone;       /* folder of a single expert: "" for dir itself, "transformer" or "unet" in a pipeline of diffusers; else NULL */
	int has_router;
	struct model_config router;
	char *router_sub;           /* "router", or the checkpoint used for it */
	int64_t router_step;        /* step of that checkpoint, or -1 */
	struct membership together; /* consistency of the networks opened so far */
};

/* Fill *l (zeroed) from the folder `dir`. Release with layout_release, after failure too. */
int layout_survey(struct layout *l, const char *dir, struct err *e);
void layout_release(struct layout *l);
/* The folder, relative to dir, to open for the network in dir/sub: sub itself with *step -1, or a checkpoint of its training with its *step. The
 * checkpoint is that of step `want` > 0, or with want 0 the newest if sub holds no weights. NULL on error. Caller frees with mem_free. */
char *layout_settle_sub(const char *dir, const char *sub, enum net_role role, int64_t want, int64_t *step, struct err *e);

#endif
