/* Opens the learned uncertainties of an ensemble's experts, for weights by uncertainty. Each is a network of its own with one number for a sample:
 * the negative logarithm of the expert's expected squared error there. It was trained on the expert's own cluster alone. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/str.h"
#include "diffusion/ensembleimpl.h"
#include "diffusion/layout.h"
#include "diffusion/ondevice.h"
#include "file/fileio.h"

static struct member *uncertainty_of(struct ensemble *s, int k)
{
	return &s->member[s->k + 1 + k];
}

/* out (n, k): column k is expert k's. Columns of absent experts are not written. */
static int run_uncertainties(void *arg, int64_t n, const float *x, const float *t, float *out, struct err *e)
{
	struct ensemble *s = arg;

	for (int k = 0; k < s->k; k++) {
		struct member *m = uncertainty_of(s, k);

		if (!m->model)
			continue;
		if (ensemble_run_plain(m, n, x, t, m->one, e))
			return -1;
		ondevice_combine(m->device, out + k, s->k, &(struct term){1, m->one, 1}, 1, 0, n, 1);
	}
	return 0;
}

static int check_uncertainty(const struct ensemble *s, int k, const char *folder, const struct model_config *c, struct err *e)
{
	if (!net_is_classifier(&c->net) || c->net.clusters != 1 || !*c->expert_weights)
		return err_set(e, ERR_DATA, "%s: is not a learned uncertainty (ddm-route-train --target uncertainty:%d)", folder, k);
	if (strcmp(c->expert_weights, s->member[k].weights_hash) != 0)
		return err_set(e, ERR_DATA, "%s: was trained with other weights of expert_%d: train it again", folder, k);
	return 0;
}

static int open_one(struct ensemble *s, int k, const char *dir, const struct ensemble_options *o, struct err *e)
{
	struct member *m = uncertainty_of(s, k);
	char name[32], *sub = NULL, *folder;
	int64_t *step = &s->step[s->k + 1 + k];
	int rc = -1;

	snprintf(name, sizeof name, UNCERTAINTY_PREFIX "%d", k);
	folder = path_join(dir, name);
	if (s->member[k].config->range.to > 0)
		err_set(e, ERR_USAGE, "weights by uncertainty need experts for all times, and expert_%d is for %g..%g", k,
		        s->member[k].config->range.from, s->member[k].config->range.to);
	else if (!path_exists(folder))
		err_set(e, ERR_NOINPUT,
		        "%s: no such folder: weights by uncertainty need one of each expert: train it with ddm-route-train --target "
		        "uncertainty:%d --experts %s -o %s SHARDS",
		        folder, k, dir, folder);
	else if ((sub = layout_settle_sub(dir, name, NET_CLASSIFIER, 0, step, e)))
		rc = ensemble_open_classifier(s, m, dir, sub, o, e) || check_uncertainty(s, k, folder, m->config, e) ? -1 : 0;
	if (!rc && !(m->one = m->device->alloc(m->device, (size_t)o->capacity * sizeof *m->one, "uncertainties", e)))
		rc = -1;
	mem_free(sub);
	mem_free(folder);
	return rc;
}

int ensemble_open_uncertainties(struct ensemble *s, const char *dir, const struct ensemble_options *o, struct err *e)
{
	double flops = 0;

	if (!policy_uses(&o->policy, WEIGHT_UNCERTAINTY))
		return 0;
	for (int k = 0; k < s->k; k++) {
		if (!s->member[k].config)
			continue;
		if (open_one(s, k, dir, o, e))
			return -1;
		flops += model_flops(uncertainty_of(s, k)->model);
	}
	s->uncertainty = (struct router){run_uncertainties, s, o->capacity, flops};
	return 0;
}
