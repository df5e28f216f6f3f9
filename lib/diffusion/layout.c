/* Finds the experts, the router and the configuration in a model folder. */
#include "diffusion/layout.h"

#include <string.h>

#include "core/mem.h"
#include "core/str.h"
#include "diffusion/ensemble.h"
#include "diffusion/intraining.h"
#include "file/fileio.h"

/* The number after a prefix, written in one way only; -1: none. */
static int number_after(const char *prefix, const char *name)
{
	size_t n = strlen(prefix);
	int64_t k;

	if (strncmp(name, prefix, n) || name[n] == '+' || (name[n] == '0' && name[n + 1]) || parse_i64(name + n, 0, MAX_EXPERTS - 1, &k))
		return -1;
	return (int)k;
}

int ensemble_number(const char *name)
{
	return number_after("expert_", name);
}

int ensemble_uncertainty_number(const char *name)
{
	return number_after(UNCERTAINTY_PREFIX, name);
}

void layout_release(struct layout *l)
{
	membership_release(&l->together);
	mem_free(l->router_sub);
	model_config_release(&l->router);
	mem_free(l->present);
}

/* Reports everything that could have been an expert in a folder that holds none. */
static int nothing_there(const char *dir, struct err *e)
{
	return err_set(e, ERR_NOINPUT,
	               "%s: no expert_* folder, no transformer/config.json, no unet/config.json, no "
	               "diffusion_pytorch_model.safetensors and no checkpoint of a training in it",
	               dir);
}

char *layout_settle_sub(const char *dir, const char *sub, enum net_role role, int64_t want, int64_t *step, struct err *e)
{
	char *folder = *sub ? path_join(dir, sub) : mem_strdup(dir), *weights = want ? NULL : model_weights_path(folder, role, NULL), *part;
	char *found = NULL;
	int rc = 0;

	*step = -1;
	if (!weights)
		rc = training_find(folder, want, step, &part, e);
	if (rc > 0) {
		found = *sub ? str_new("%s/%s", sub, part) : mem_strdup(part);
		mem_free(part);
	} else if (!rc) {
		found = mem_strdup(sub);
	}
	mem_free(folder);
	mem_free(weights);
	return found;
}

static int survey_router(struct layout *l, const char *dir, struct err *e)
{
	char *folder;
	int rc = -1;

	l->router_sub = layout_settle_sub(dir, "router", NET_CLASSIFIER, 0, &l->router_step, e);
	if (l->router_sub) {
		folder = path_join(dir, l->router_sub);
		rc = model_config_load(folder, &l->router, e);
		mem_free(folder);
	}
	return rc;
}

/* Whether a folder is one network: it holds weights or checkpoints of a training. */
static int is_network(const char *dir)
{
	char *weights = model_weights_path(dir, NET_EXPERT, NULL), *part = NULL;
	int64_t step;
	int yes = weights || training_find(dir, 0, &step, &part, &(struct err){0}) != 0;

	mem_free(weights);
	mem_free(part);
	return yes;
}

int layout_survey(struct layout *l, const char *dir, struct err *e)
{
	char **names;
	size_t n;
	int rc = 0, own;

	l->present = mem_zalloc(MAX_EXPERTS, 1);
	l->highest = -1;
	if (dir_list(dir, &names, &n, e)) {
		rc = -1;
		goto out;
	}
	for (size_t i = 0; i < n; i++) {
		int k = ensemble_number(names[i]);

		l->has_router |= !strcmp(names[i], "router");
		if (k < 0)
			continue;
		l->present[k] = 1;
		l->highest = k > l->highest ? k : l->highest;
	}
	names_free(names, n);
	if (l->highest < 0 && ((own = is_network(dir)) || path_holds(dir, "transformer/config.json") || path_holds(dir, "unet/config.json"))) {
		l->lone = own ? "" : path_holds(dir, "transformer/config.json") ? "transformer" : "unet";
		l->has_router = 0;
		l->present[0] = 1;
		l->highest = 0;
	}
	if (l->highest < 0)
		rc = nothing_there(dir, e);
	else if (l->has_router)
		rc = survey_router(l, dir, e);
out:
	return rc;
}

int ensemble_lone(const char *dir)
{
	struct layout l = {0};
	int lone = -1, n = 0;

	if (!layout_survey(&l, dir, &(struct err){0}) && !l.has_router)
		for (int k = 0; k <= l.highest; k++)
			if (l.present[k]) {
				lone = k;
				n++;
			}
	layout_release(&l);
	return n == 1 ? lone : -1;
}
