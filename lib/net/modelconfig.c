/* Reads and writes config.json of a network: its architecture, the meaning of its output, and its training data. */
#include <stdio.h>
#include <string.h>

#include "core/extends.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/names.h"
#include "file/fileio.h"
#include "net/diffusers.h"
#include "net/model.h"

static int load_sizes(const json_t *o, struct model_config *c, const char *where, struct err *e)
{
	const json_t *v = json_object_get(o, "cluster_sizes");
	size_t n = json_array_size(v);

	if (!v)
		return 0;
	if (!json_is_array(v) || n == 0 || n > 100000 || (c->clusters && (int64_t)n != c->clusters))
		return err_set(e, ERR_DATA, "%s: \"cluster_sizes\" is not a list of %lld sizes", where, (long long)c->clusters);
	c->clusters = (int64_t)n;
	c->cluster_sizes = mem_zalloc(n, sizeof *c->cluster_sizes);
	for (size_t i = 0; i < n; i++) {
		const json_t *s = json_array_get(v, i);

		if (!json_is_integer(s) || json_integer_value(s) < 0)
			return err_set(e, ERR_DATA, "%s: \"cluster_sizes\"[%zu] is not a size", where, i);
		c->cluster_sizes[i] = json_integer_value(s);
	}
	return 0;
}

/* Read the probabilities of clusters that have no sizes: the data is a law, not a set. */
static int load_shares(const json_t *o, struct model_config *c, const char *where, struct err *e)
{
	const json_t *v = json_object_get(o, "cluster_shares");
	size_t n = json_array_size(v);

	if (!v)
		return 0;
	if (!json_is_array(v) || n == 0 || (int64_t)n != c->clusters)
		return err_set(e, ERR_DATA, "%s: \"cluster_shares\" is not a list of %lld probabilities", where, (long long)c->clusters);
	c->cluster_shares = mem_zalloc(n, sizeof *c->cluster_shares);
	for (size_t i = 0; i < n; i++) {
		c->cluster_shares[i] = json_number_value(json_array_get(v, i));
		if (!(c->cluster_shares[i] > 0 && c->cluster_shares[i] <= 1))
			return err_set(e, ERR_DATA, "%s: \"cluster_shares\"[%zu] is not a probability above 0", where, i);
	}
	return 0;
}

/* Read the partition that the network was trained on, whether its classes are clusters, and the names of clusters and classes, which ddm-shard
 * took from the assignment and the samples. */
static int load_names(const json_t *o, struct model_config *c, const char *where, struct err *e)
{
	const char *partition = "", *condition = "", *weights = "";

	if (jsonio_str(o, "partition", 0, &partition, where, e) || jsonio_str(o, "condition", 0, &condition, where, e) ||
	    jsonio_str(o, "expert_weights", 0, &weights, where, e))
		return -1;
	c->told_cluster = !strcmp(condition, "cluster");
	if (strlen(partition) >= sizeof c->partition)
		return err_set(e, ERR_DATA, "%s: \"partition\" is not a SHA-256", where);
	snprintf(c->partition, sizeof c->partition, "%s", partition);
	if (strlen(weights) >= sizeof c->expert_weights)
		return err_set(e, ERR_DATA, "%s: \"expert_weights\" is not a SHA-256", where);
	snprintf(c->expert_weights, sizeof c->expert_weights, "%s", weights);
	return extends_load(&c->extends, o, where, e) ||
	               names_load(&c->cluster_names, o, "cluster_names", c->clusters ? c->clusters : -1, where, e) ||
	               names_load(&c->class_names, o, "class_names", c->net.classes ? c->net.classes : -1, where, e)
	           ? -1
	           : 0;
}

int model_config_parse(const json_t *o, const char *where, struct model_config *c, struct err *e)
{
	const char *prediction, *path = "linear";

	memset(c, 0, sizeof *c);
	c->cluster = -1;
	if (net_from_json(o, where, &c->net, e))
		return -1;
	prediction = net_prediction(&c->net);
	if (diffusers_config(o)) { /* its prediction and path stand in the scheduler's file; these are the defaults */
		prediction = net_is_flow(&c->net) ? "velocity" : "epsilon";
		path = net_is_flow(&c->net) ? "linear" : "linear_betas";
		c->lower = net_lower_case(&c->net);
	}
	if (jsonio_str(o, "prediction", !prediction, &prediction, where, e) || jsonio_str(o, "path", 0, &path, where, e) ||
	    jsonio_i64(o, "cluster", 0, -1, INT32_MAX, &c->cluster, where, e))
		return -1;
	if (net_is_classifier(&c->net))
		c->clusters = c->net.clusters;
	if (jsonio_i64(o, "num_clusters", 0, 0, INT32_MAX, &c->clusters, where, e))
		return -1;
	if (strlen(prediction) >= sizeof c->prediction || strlen(path) >= sizeof c->path)
		return err_set(e, ERR_DATA, "%s: prediction \"%s\" on path \"%s\" is unknown", where, prediction, path);
	snprintf(c->prediction, sizeof c->prediction, "%s", prediction);
	snprintf(c->path, sizeof c->path, "%s", path);
	if (sigma_data_parse(o, path, &c->sigma_data, where, e) || time_range_load(o, &c->range, where, e))
		return -1;
	if (betas_path(path) && (betas_parse(o, path, &c->betas, where, e) || betas_check_scale(&c->betas, path, c->net.time_scale, where, e)))
		return -1;
	return load_sizes(o, c, where, e) || load_shares(o, c, where, e) || load_names(o, c, where, e) ? -1 : 0;
}

/* Read the scheduler's file beside a network of diffusers. Such a network takes the number of a step as its time; time_scale is the number of steps,
 * because our t is in 0..1. */
int model_config_schedule(const char *dir, const json_t *config, struct model_config *c, struct err *e)
{
	char *where = diffusers_config(config) ? scheduler_find(dir) : NULL;
	json_t *o = where ? scheduler_load(where, e) : NULL;
	const char *path, *prediction;
	int rc = where && !o ? -1 : 0;

	if (o) {
		c->scheduled = 1;
		betas_release(&c->betas);
		rc = scheduler_parse(o, where, &path, &prediction, &c->betas, e);
		if (!rc) {
			snprintf(c->path, sizeof c->path, "%s", path);
			snprintf(c->prediction, sizeof c->prediction, "%s", prediction);
			c->net.time_scale = c->betas.steps ? (double)c->betas.steps : c->net.time_scale;
		}
	}
	json_decref(o);
	mem_free(where);
	return rc;
}

int model_config_load(const char *dir, struct model_config *c, struct err *e)
{
	char *path = path_join(dir, "config.json");
	json_t *o = jsonio_load(path, e);
	int rc = -1;

	memset(c, 0, sizeof *c);
	if (o)
		rc = model_config_parse(o, path, c, e) || model_config_schedule(dir, o, c, e) ? -1 : 0;
	if (rc)
		model_config_release(c);
	json_decref(o);
	mem_free(path);
	return rc;
}

void model_config_release(struct model_config *c)
{
	mem_free(c->cluster_sizes);
	mem_free(c->cluster_shares);
	c->cluster_sizes = NULL;
	c->cluster_shares = NULL;
	json_decref(c->extends);
	json_decref(c->cluster_names);
	json_decref(c->class_names);
	c->extends = c->cluster_names = c->class_names = NULL;
	betas_release(&c->betas);
}

char *model_config_text(const struct model_config *c, const json_t *extra)
{
	json_t *o = json_object();
	char *text;

	net_to_json(&c->net, o);
	if (c->prediction[0])
		json_object_set_new(o, "prediction", json_string(c->prediction));
	json_object_set_new(o, "path", json_string(c->path));
	betas_to_json(&c->betas, o);
	if (c->sigma_data)
		json_object_set_new(o, "sigma_data", json_real(c->sigma_data));
	if (c->range.to > 0)
		json_object_set_new(o, "time_range", time_range_json(c->range));
	if (!net_is_classifier(&c->net))
		json_object_set_new(o, "cluster", json_integer(c->cluster));
	if (c->clusters)
		json_object_set_new(o, "num_clusters", json_integer(c->clusters));
	if (c->cluster_sizes) {
		json_t *v = json_array();

		for (int64_t i = 0; i < c->clusters; i++)
			json_array_append_new(v, json_integer(c->cluster_sizes[i]));
		json_object_set_new(o, "cluster_sizes", v);
	}
	if (c->cluster_shares) {
		json_t *v = json_array();

		for (int64_t i = 0; i < c->clusters; i++)
			json_array_append_new(v, json_real(c->cluster_shares[i]));
		json_object_set_new(o, "cluster_shares", v);
	}
	if (*c->expert_weights)
		json_object_set_new(o, "expert_weights", json_string(c->expert_weights));
	if (*c->partition)
		json_object_set_new(o, "partition", json_string(c->partition));
	if (c->extends)
		json_object_set(o, "extends", c->extends);
	if (c->cluster_names)
		json_object_set(o, "cluster_names", c->cluster_names);
	if (c->class_names)
		json_object_set(o, "class_names", c->class_names);
	if (extra)
		json_object_update_missing(o, (json_t *)extra);
	text = jsonio_pretty(o);
	json_decref(o);
	return text;
}
