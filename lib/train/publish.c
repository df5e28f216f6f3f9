/* Ends a training run: writes config.json, the mean of the data and the weights into OUT, and checks whether they are there already. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/jsonio.h"
#include "core/mem.h"
#include "core/str.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "file/npy.h"
#include "file/safetensors.h"
#include "file/stamp.h"
#include "train/calibrate.h"
#include "train/run.h"

static char *weights_path(const struct trainer *r)
{
	return path_join(r->o->out, model_weights_name(net_role(&r->o->net)));
}

int already_done(struct trainer *r, struct err *e)
{
	char *path = weights_path(r);
	struct str differ = {0};
	struct safetensors *s = NULL;
	const char *was;
	int rc = 0;

	if (path_exists(path)) {
		rc = -1;
		s = st_open(path, e);
		was = s ? st_meta(s, "stamp") : NULL;
		if (s && !was)
			err_set(e, ERR_EXISTS, "%s exists and was not made by %s", path, r->o->program);
		else if (s && (r->o->extend ? extend_differs(r->stamp, was, &differ) : run_differs(r->stamp, was, &differ)))
			err_set(e, ERR_EXISTS, "%s exists and was made with other options (%s)", path, str_text(&differ));
		else if (s)
			rc = !r->o->extend || extend_same_length(r->stamp, was);
	}
	if (rc > 0)
		commit_sweep(r->o->out, NULL); /* the temporaries of a process that died at its very end */
	st_free(s);
	str_release(&differ);
	mem_free(path);
	return rc;
}

char *trainer_config(const struct trainer *r)
{
	const struct dataset_info *info = dataset_info(r->main.data);
	const struct path_choice *path = &r->o->objective.path;
	struct model_config c = {.net = r->net,
	                         .cluster = r->o->cluster,
	                         .clusters = r->frozen ? r->net.clusters : info->clusters,
	                         .betas = path->betas,
	                         .sigma_data = path->sigma_data,
	                         .range = r->o->objective.range};
	char *text;
	json_t *extra = json_object();

	if (!net_is_classifier(&r->net))
		snprintf(c.prediction, sizeof c.prediction, "%s", prediction_name(r->o->objective.prediction));
	snprintf(c.path, sizeof c.path, "%s", path->config);
	if (r->frozen && frozen_info(r->frozen).weights)
		snprintf(c.expert_weights, sizeof c.expert_weights, "%s", frozen_info(r->frozen).weights);
	if (clusters_known(r)) {
		c.cluster_sizes = mem_zalloc((size_t)info->clusters, sizeof *c.cluster_sizes);
		memcpy(c.cluster_sizes, info->sizes, (size_t)info->clusters * sizeof *c.cluster_sizes);
	}
	json_object_set_new(extra, "condition", json_string(net_reads(&r->net, NET_IN_TEXT) ? "text" : conditions[r->o->condition]));
	config_names(r, extra);
	json_object_set_new(extra, "training", json_loads(r->stamp, 0, NULL));
	text = model_config_text(&c, extra);
	model_config_release(&c);
	json_decref(extra);
	return text;
}

static int write_config(struct trainer *r, struct err *e)
{
	char *path = path_join(r->o->out, "config.json"), *text = trainer_config(r);
	int rc = commit_bytes(path, text, strlen(text), e);

	mem_free(text);
	mem_free(path);
	return rc;
}

enum { MEAN_OF = 16384 }; /* samples: the error of the mean is 1/128 of their standard deviation */

/* Writes the mean with a sidecar that holds its hash. The x0 estimate of an epsilon prediction is blended towards it (diffusion/convert.h). */
static int write_mean(struct trainer *r, struct err *e)
{
	const struct net_config *c = &r->net;
	int64_t shape[4];
	int rank = net_sample_shape(c, shape);
	char *path = path_join(r->o->out, MODEL_MEAN_NAME);
	float *mean = mem_alloc((size_t)r->main.objective.d * sizeof *mean);
	struct stamp *stamp = stamp_new("ddm-train");
	struct str npy = {0};
	int rc = dataset_mean(r->main.data, MEAN_OF, r->o->flip, mean, e);

	stamp_json(stamp, "training", json_loads(r->stamp, 0, NULL));
	npy_encode(&npy, NPY_F4, rank, shape, mean);
	rc = rc || stamp_write(stamp, path, npy.p, npy.len, e) ? -1 : 0;
	str_release(&npy);
	stamp_free(stamp);
	mem_free(mean);
	mem_free(path);
	return rc;
}

int publish(struct trainer *r, struct err *e)
{
	const struct train_state *s = &r->state;
	int best = s->best && isfinite(s->best_loss), rc;
	char step[32], *path;
	struct st_text texts[3] = {{"format", "pt"}, {"stamp", r->stamp}, {"step", step}};
	float *result;

	if (state_gather(s, best ? STATE_BEST : STATE_AVERAGE, &result, e))
		return -1;
	if (!is_first_rank(r))
		return 0;
	path = weights_path(r);
	snprintf(step, sizeof step, "%" PRId64, best ? s->best_step : s->step);
	rc = r->o->calibrate && calibrate(r, result, e) ? -1 : 0;
	rc = rc || (!net_is_classifier(&r->net) && r->o->objective.prediction == PREDICT_EPSILON && write_mean(r, e)) ? -1 : 0;
	rc = rc || write_config(r, e) || model_write_weights(path, &r->params, r->device, result, texts, 3, e) ? -1 : 0;
	mem_free(path);
	return rc;
}
