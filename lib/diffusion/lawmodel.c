/* Reads and writes exact experts and routers as model folders. */
#include "diffusion/lawmodel.h"

#include <math.h>
#include <string.h>

#include "core/hash.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "diffusion/schedule.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "file/safetensors.h"
#include "file/standing.h"

static const char tensor_name[] = "samples";

/* The tensors of a mixture of Gaussians: F64, the first dimension the components. */
enum { MEAN, BASIS, VARIANCE, NOISE, WEIGHT, GAUSSIAN_TENSORS };
static const char *const gaussian_names[] = {"mean", "basis", "variance", "noise", "weight"};

struct law_model {
	struct model_config config;
	const struct path *path; /* of an expert */
	struct schedule schedule;
	enum prediction kind;
	struct safetensors *file;
	struct law *law;
	int64_t *first;     /* (clusters + 1) of samples */
	double *weight;     /* (clusters) of samples in a router */
	struct gaussians g; /* k 0: none */
};

/* Read a router's "cluster_samples": how many samples of each cluster the file holds, in the order of the clusters. A sample of cluster k has
 * weight cluster_sizes[k] / cluster_samples[k]. */
static int load_samples(struct law_model *m, const json_t *o, int64_t n, const char *where, struct err *e)
{
	const struct model_config *c = &m->config;
	const json_t *v = json_object_get(o, "cluster_samples");
	int64_t k = c->net.clusters;

	m->first = mem_zalloc((size_t)k + 1, sizeof *m->first);
	m->weight = mem_zalloc((size_t)k, sizeof *m->weight);
	if (!c->cluster_sizes || json_array_size(v) != (size_t)k)
		return err_set(e, ERR_DATA, "%s: \"cluster_samples\" and \"cluster_sizes\" must be lists of %lld numbers", where, (long long)k);
	for (int64_t i = 0; i < k; i++) {
		const json_t *s = json_array_get(v, (size_t)i);
		int64_t some = json_is_integer(s) ? json_integer_value(s) : -1, size = c->cluster_sizes[i];

		if (some < 0 || some > size || (size > 0) != (some > 0))
			return err_set(e, ERR_DATA,
			               "%s: \"cluster_samples\"[%lld] must be from 1 to the cluster's size, %lld (0 for an empty cluster)", where,
			               (long long)i, (long long)size);
		m->first[i + 1] = m->first[i] + (some < n ? some : n + 1);
		m->weight[i] = some ? (double)size / (double)some : 1;
		if (m->first[i + 1] > n)
			break;
	}
	if (m->first[k] != n)
		return err_set(e, ERR_DATA, "%s: \"cluster_samples\" must add up to the %lld samples in the file", where, (long long)n);
	return 0;
}

static int check_file(const json_t *o, const char *data, const char *where, char *hash, struct err *e)
{
	const char *said;
	char hex[65];

	if (jsonio_str(o, "weights_sha256", 1, &said, where, e) || sha256_file(data, hex, NULL, e))
		return -1;
	if (strcmp(said, hex))
		return err_set(e, ERR_DATA, "%s: is not the file that config.json names: its SHA-256 is %.16s, expected %.16s", data, hex, said);
	if (hash)
		memcpy(hash, hex, sizeof hex);
	return 0;
}

static int load_set(struct law_model *m, const json_t *o, const char *where, const char *data, struct pool *pool, struct err *e)
{
	const struct net_config *c = &m->config.net;
	const struct st_tensor *t = st_find(m->file, tensor_name);
	int64_t want[4] = {0, c->channels, c->size, c->size};
	struct finite_set s = {0};

	if (!t || t->rank != 4 || memcmp(t->shape + 1, want + 1, 3 * sizeof *want) || t->shape[0] < 1 || (t->type != ST_F32 && t->type != ST_U8))
		return err_set(e, ERR_DATA, "%s: no tensor \"%s\" of U8 or F32 and shape (n, %lld, %lld, %lld)", data, tensor_name,
		               (long long)c->channels, (long long)c->size, (long long)c->size);
	s.n = t->shape[0];
	s.d = c->channels * c->size * c->size;
	s.sample = t->data;
	s.bytes = t->type == ST_U8;
	if (net_is_classifier(c)) {
		if (load_samples(m, o, s.n, where, e))
			return -1;
		s.clusters = (int)c->clusters;
		s.weight = m->weight;
	} else {
		m->first = mem_zalloc(2, sizeof *m->first);
		m->first[1] = s.n;
		s.clusters = 1;
	}
	s.first = m->first;
	m->law = finite_new(&s, pool, e);
	return m->law ? 0 : err_prefix(e, "%s", data);
}

static void put_gaussians(struct st_tensor t[GAUSSIAN_TENSORS], const struct gaussians *g, const struct net_config *c)
{
	double *const data[] = {g->mean, g->basis, g->variance, g->noise, g->weight};
	static const int ranks[] = {4, 5, 2, 1, 1};

	for (int i = 0; i < GAUSSIAN_TENSORS; i++)
		t[i] = (struct st_tensor){gaussian_names[i], ST_F64, ranks[i], {g->k, g->rank}, data[i]};
	for (int i = 0; i < 3; i++) {
		t[MEAN].shape[1 + i] = i ? c->size : c->channels;
		t[BASIS].shape[2 + i] = i ? c->size : c->channels;
	}
}

/* The router's components are its clusters, with the shares that its config.json says. */
static int check_shares(const struct law_model *m, const char *where, struct err *e)
{
	const struct model_config *c = &m->config;

	if (m->g.k != c->net.clusters)
		return err_set(e, ERR_DATA, "%s: %lld clusters, but the law has %lld components", where, (long long)c->net.clusters,
		               (long long)m->g.k);
	for (int64_t k = 0; k < m->g.k; k++)
		if (!c->cluster_shares || !(fabs(c->cluster_shares[k] - m->g.weight[k]) < 1e-9))
			return err_set(e, ERR_DATA, "%s: \"cluster_shares\"[%lld] is not the weight of the law's component, %.9g", where,
			               (long long)k, m->g.weight[k]);
	return 0;
}

static int load_gaussians(struct law_model *m, const char *where, const char *data, struct pool *pool, struct err *e)
{
	const struct net_config *c = &m->config.net;
	const struct st_tensor *v = st_find(m->file, gaussian_names[VARIANCE]);
	struct st_tensor want[GAUSSIAN_TENSORS];

	if (!v || v->rank != 2 || v->shape[0] < 1 || v->shape[1] < 1 || v->shape[0] > 100000)
		return err_set(e, ERR_DATA, "%s: no tensor \"variance\" of shape (components, rank)", data);
	m->g = (struct gaussians){.k = v->shape[0], .d = c->channels * c->size * c->size, .rank = v->shape[1]};
	put_gaussians(want, &m->g, c);
	for (int i = 0; i < GAUSSIAN_TENSORS; i++)
		if (st_need(m->file, want[i].name, want[i].rank, want[i].shape, e) == NULL)
			return -1;
		else if (st_find(m->file, want[i].name)->type != ST_F64)
			return err_set(e, ERR_DATA, "%s: tensor \"%s\" is not F64", data, want[i].name);
	if (gaussians_init(&m->g, v->shape[0], m->g.d, v->shape[1], e))
		return -1;
	put_gaussians(want, &m->g, c);
	for (int i = 0; i < GAUSSIAN_TENSORS; i++)
		st_copy((void *)want[i].data, st_find(m->file, want[i].name));
	if (net_is_classifier(c) && check_shares(m, where, e))
		return -1;
	m->law = gaussians_law(&m->g, !net_is_classifier(c), pool, e);
	return m->law ? 0 : err_prefix(e, "%s", data);
}

static int load_kind(struct law_model *m, const char *where, struct err *e)
{
	int kind = net_is_classifier(&m->config.net) ? PREDICT_X0 : prediction_find(m->config.prediction);

	if (!(m->path = schedule_path(&m->schedule, m->config.path, &m->config.betas, m->config.sigma_data, e)))
		return err_prefix(e, "%s", where);
	if (kind < 0)
		return err_set(e, ERR_DATA, "%s: prediction \"%s\" is not known here", where, m->config.prediction);
	m->kind = (enum prediction)kind;
	return 0;
}

struct law_model *law_model_open(const char *dir, struct pool *pool, char *hash, struct err *e)
{
	struct law_model *m = mem_zalloc(1, sizeof *m);
	char *where = path_join(dir, "config.json"), *data = NULL;
	json_t *o = NULL;
	int rc = -1;

	if (model_config_load(dir, &m->config, e) || !(o = jsonio_load(where, e)))
		goto out;
	if (!net_is_exact(&m->config.net)) {
		err_set(e, ERR_DATA, "%s: is a network, and an exact model is expected", where);
		goto out;
	}
	data = path_join(dir, model_weights_name(net_role(&m->config.net)));
	if (load_kind(m, where, e) || check_file(o, data, where, hash, e) || !(m->file = st_open(data, e)))
		goto out;
	rc = st_find(m->file, gaussian_names[BASIS]) ? load_gaussians(m, where, data, pool, e) : load_set(m, o, where, data, pool, e);
out:
	json_decref(o);
	mem_free(data);
	mem_free(where);
	if (!rc)
		return m;
	law_model_free(m);
	return NULL;
}

void law_model_free(struct law_model *m)
{
	if (!m)
		return;
	law_free(m->law);
	schedule_release(&m->schedule);
	st_free(m->file);
	mem_free(m->first);
	mem_free(m->weight);
	gaussians_release(&m->g);
	model_config_release(&m->config);
	mem_free(m);
}

const struct model_config *law_model_config(const struct law_model *m)
{
	return &m->config;
}

double law_model_flops(const struct law_model *m)
{
	return law_flops(m->law, LAW_ALL, !net_is_classifier(&m->config.net));
}

void law_model_run(struct law_model *m, int64_t n, const float *x, const float *t, float *out)
{
	if (net_is_classifier(&m->config.net))
		law_logits(m->law, m->path, n, x, t, out);
	else
		law_predict(m->law, LAW_ALL, m->path, m->kind, n, x, t, out);
}

void law_model_pull(struct law_model *m, int64_t n, const float *x, const float *t, const float *r, float *out)
{
	law_pull_logits(m->law, m->path, n, x, t, r, out);
}

const struct gaussians *law_model_gaussians(const struct law_model *m)
{
	return m->g.k ? &m->g : NULL;
}

struct law *law_model_law(struct law_model *m)
{
	return m->law;
}

static int write_config(const char *path, const struct model_config *c, json_t *extra, const char *hash, json_t *stamp, struct err *e)
{
	json_t *o = json_object();
	char *text;
	int rc;

	json_object_set_new(o, "weights_sha256", json_string(hash));
	json_object_update(o, extra);
	json_object_set(o, "stamp", stamp);
	text = model_config_text(c, o);
	rc = commit_bytes(path, text, strlen(text), e);
	mem_free(text);
	json_decref(o);
	return rc;
}

/* Write the folder: the tensors, and a config.json that also has the keys of `extra`. */
static int write_folder(const char *dir, const struct model_config *c, const struct st_tensor *t, int n, json_t *extra, json_t *stamp, struct err *e)
{
	char *data = path_join(dir, model_weights_name(net_role(&c->net))), *config = path_join(dir, "config.json"), *line = jsonio_line(stamp);
	struct st_text texts[2] = {{"format", "pt"}, {"stamp", line}};
	char hash[65];
	int rc = -1;

	if (!dir_make(dir, e) && !st_write(data, t, n, texts, 2, e) && !sha256_file(data, hash, NULL, e))
		rc = write_config(config, c, extra, hash, stamp, e);
	mem_free(line);
	mem_free(config);
	mem_free(data);
	return rc;
}

int law_model_write(const char *dir, const struct model_config *c, const struct finite_set *s, json_t *stamp, struct err *e)
{
	struct st_tensor t = {tensor_name, s->bytes ? ST_U8 : ST_F32, 4, {s->n, c->net.channels, c->net.size, c->net.size}, s->sample};
	json_t *extra = json_object(), *v = json_array();
	int rc;

	for (int k = 0; net_is_classifier(&c->net) && k < s->clusters; k++)
		json_array_append_new(v, json_integer(s->first[k + 1] - s->first[k]));
	if (net_is_classifier(&c->net))
		json_object_set(extra, "cluster_samples", v);
	rc = write_folder(dir, c, &t, 1, extra, stamp, e);
	json_decref(v);
	json_decref(extra);
	return rc;
}

int law_model_write_gaussians(const char *dir, const struct model_config *c, const struct gaussians *g, json_t *stamp, struct err *e)
{
	struct st_tensor t[GAUSSIAN_TENSORS];
	json_t *extra = json_object();
	int rc;

	put_gaussians(t, g, &c->net);
	rc = write_folder(dir, c, t, GAUSSIAN_TENSORS, extra, stamp, e);
	json_decref(extra);
	return rc;
}

int law_model_write_summary(const char *dir, int64_t experts, json_t *stamp, struct err *e)
{
	char *path = path_join(dir, "config.json");
	json_t *o = json_object();
	int rc;

	json_object_set_new(o, "num_experts", json_integer(experts));
	json_object_set(o, "stamp", stamp);
	rc = commit_json(path, o, e);
	mem_free(path);
	json_decref(o);
	return rc;
}

/* Every folder loads, and holds the file that its config.json names. */
static int check_standing(const char *dir, struct pool *pool, struct err *e)
{
	char **names = NULL;
	size_t n = 0;
	int rc = 0, parts_seen = 0;

	if (dir_list(dir, &names, &n, e))
		return -1;
	for (size_t i = 0; i <= n && !rc; i++) {
		char *part = i < n ? path_join(dir, names[i]) : mem_strdup(dir);
		int mine = i < n ? !strncmp(names[i], "expert_", 7) || !strcmp(names[i], "router") : !parts_seen;
		struct law_model *m = mine ? law_model_open(part, pool, NULL, e) : NULL;

		rc = mine && !m ? -1 : 0;
		parts_seen += mine;
		law_model_free(m);
		mem_free(part);
	}
	names_free(names, n);
	return rc;
}

int law_model_finished(const char *dir, const struct stamp *stamp, struct pool *pool, struct err *e)
{
	char *config = path_join(dir, "config.json");
	int rc = path_exists(config) ? 1 : 0;

	if (rc && (standing_check(config, stamp, 0, e) || check_standing(dir, pool, e)))
		rc = -1;
	mem_free(config);
	return rc;
}
