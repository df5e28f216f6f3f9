#include "net/model.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/jsonio.h"
#include "core/mem.h"
#include "core/str.h"
#include "file/fileio.h"
#include "file/safetensors.h"
#include "file/weightfile.h"
#include "net/diffusers.h"

enum { INPUTS = 6 };

typedef void (*copier)(struct device *, void *, const void *, size_t);

struct model {
	struct model_config config;
	struct params params;
	char *file, *path;       /* of the weights: base name, and all of it */
	struct weightfile *weights; /* until they are loaded */
	const struct model *lender; /* whose `place` this is, or NULL */
	float *values;
	enum compact_type bulk;
	uint16_t *rounded; /* all weights, on a device that computes in bfloat16; NULL elsewhere */
	int bf16;
	struct compact *compact; /* by parameter, with a type where it is PARAM_BULK; NULL where the device takes none */
	struct device *device;
	struct tape *tape;
	struct net_input in;
	struct tensor *out;
	void *place[INPUTS]; /* of the inputs, on the device; NULL where there is none */
	int64_t capacity, out_elements;
	double flops;
};

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

static const char exact_expert[] = "exact", exact_router[] = "exact_router";

/* Samples in the place of a network: their shape, and the number of clusters of a router. */
static int parse_exact(const json_t *o, const char *where, struct net_config *c, struct err *e)
{
	if (jsonio_i64(o, "in_channels", 1, 1, 4096, &c->channels, where, e) || jsonio_i64(o, "sample_size", 1, 1, 65536, &c->size, where, e))
		return -1;
	c->out_channels = c->channels;
	return c->kind == NET_ROUTER ? jsonio_i64(o, "num_clusters", 1, 1, 100000, &c->clusters, where, e) : 0;
}

static int parse_net(const json_t *o, const char *where, struct model_config *c, struct err *e)
{
	const char *type = json_string_value(json_object_get(o, "model_type"));

	c->exact = type && (!strcmp(type, exact_expert) || !strcmp(type, exact_router));
	if (!c->exact)
		return net_from_json(o, where, &c->net, e);
	c->net.kind = strcmp(type, exact_router) ? NET_DIT : NET_ROUTER;
	return parse_exact(o, where, &c->net, e);
}

int model_config_parse(const json_t *o, const char *where, struct model_config *c, struct err *e)
{
	const char *prediction = "", *path = "linear";
	int stated; /* the released Paris experts do not tell, nor does diffusers, which has it with the scheduler */

	memset(c, 0, sizeof *c);
	c->cluster = -1;
	if (parse_net(o, where, c, e))
		return -1;
	stated = c->net.kind != NET_ROUTER && c->net.kind != NET_PARIS && !diffusers_config(o);
	if (c->net.kind == NET_PARIS)
		prediction = "velocity";
	if (diffusers_config(o)) {
		prediction = "epsilon";
		path = "linear_betas";
	}
	if (jsonio_str(o, "prediction", stated, &prediction, where, e) ||
	    jsonio_str(o, "path", 0, &path, where, e) || jsonio_i64(o, "cluster", 0, -1, INT32_MAX, &c->cluster, where, e))
		return -1;
	if (c->net.kind == NET_ROUTER)
		c->clusters = c->net.clusters;
	if (jsonio_i64(o, "num_clusters", 0, 0, INT32_MAX, &c->clusters, where, e))
		return -1;
	if (strlen(prediction) >= sizeof c->prediction || strlen(path) >= sizeof c->path)
		return err_set(e, ERR_DATA, "%s: prediction \"%s\" on path \"%s\" is unknown", where, prediction, path);
	snprintf(c->prediction, sizeof c->prediction, "%s", prediction);
	snprintf(c->path, sizeof c->path, "%s", path);
	if (betas_path(path) && betas_parse(o, path, &c->betas, where, e))
		return -1;
	return load_sizes(o, c, where, e);
}

/* Networks of diffusers are asked at the whole number of a step, and our time is that in parts of all. */
int model_config_schedule(const char *dir, const json_t *config, struct model_config *c, struct err *e)
{
	char *where = diffusers_config(config) ? scheduler_find(dir) : NULL;
	json_t *o = where ? jsonio_load(where, e) : NULL;
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
	c->cluster_sizes = NULL;
	betas_release(&c->betas);
}

static void put_exact(const struct net_config *c, json_t *o)
{
	json_object_set_new(o, "model_type", json_string(c->kind == NET_ROUTER ? exact_router : exact_expert));
	json_object_set_new(o, "in_channels", json_integer(c->channels));
	json_object_set_new(o, "sample_size", json_integer(c->size));
}

char *model_config_text(const struct model_config *c, const json_t *extra)
{
	json_t *o = json_object();
	char *text;

	if (c->exact)
		put_exact(&c->net, o);
	else
		net_to_json(&c->net, o);
	if (c->prediction[0])
		json_object_set_new(o, "prediction", json_string(c->prediction));
	json_object_set_new(o, "path", json_string(c->path));
	betas_to_json(&c->betas, o);
	if (c->net.kind != NET_ROUTER)
		json_object_set_new(o, "cluster", json_integer(c->cluster));
	if (c->clusters)
		json_object_set_new(o, "num_clusters", json_integer(c->clusters));
	if (c->cluster_sizes) {
		json_t *v = json_array();

		for (int64_t i = 0; i < c->clusters; i++)
			json_array_append_new(v, json_integer(c->cluster_sizes[i]));
		json_object_set_new(o, "cluster_sizes", v);
	}
	if (extra)
		json_object_update_missing(o, (json_t *)extra);
	text = jsonio_pretty(o);
	json_decref(o);
	return text;
}

const char *model_weights_name(enum net_kind kind)
{
	return kind == NET_ROUTER ? "model.safetensors" : "diffusion_pytorch_model.safetensors";
}

char *model_weights_path(const char *dir, enum net_kind kind, struct err *e)
{
	return weightfile_locate(dir, model_weights_name(kind), e);
}

static const struct renames *names_of(const struct safetensors *s)
{
	static const struct renames *const known[] = {&dit_diffusers, &pixart_diffusers};

	return renames_find(known, sizeof known / sizeof *known, s);
}

int model_match_weights(const struct safetensors *s, const char *where, const struct params *p, struct err *e)
{
	return renames_match(names_of(s), s, where, p, e);
}

/* One after the other through memory of the host. compact: as struct model's. */
static int put_weights(const struct safetensors *s, const struct params *p, struct device *d, float *values, struct compact *compact,
                       struct err *e)
{
	int64_t most = 1;
	float *host;

	for (int i = 0; i < p->n; i++)
		most = p->v[i].count > most ? p->v[i].count : most;
	host = mem_try((size_t)most, sizeof *host, "a weight", e);
	for (int i = 0; host && i < p->n; i++) {
		renames_read(names_of(s), s, &p->v[i], host);
		if (compact && compact[i].type)
			compact_pack(&compact[i], host);
		else
			device_put(d, values + p->v[i].offset, host, (size_t)p->v[i].count * sizeof *host);
	}
	mem_free(host);
	return host ? 0 : -1;
}

int model_read_weights(const char *path, const struct params *p, struct device *d, float *values, struct err *e)
{
	struct safetensors *s = weightfile_load(path, NULL, e);
	int rc = s ? model_match_weights(s, path, p, e) : -1;

	if (!rc)
		rc = put_weights(s, p, d, values, NULL, e);
	st_free(s);
	return rc;
}

int model_write_weights(const char *path, const struct params *p, struct device *d, const float *values, const struct st_text *texts,
                        int ntexts, struct err *e)
{
	float *host = mem_try((size_t)p->total, sizeof *host, "a copy of the weights", e);
	struct st_tensor *t;
	int rc;

	if (!host)
		return -1;
	t = mem_zalloc((size_t)p->n, sizeof *t);
	for (int i = 0; i < p->n; i++) {
		const struct param *v = &p->v[i];

		t[i] = (struct st_tensor){.name = v->name, .type = ST_F32, .rank = v->rank, .data = host + v->offset};
		memcpy(t[i].shape, v->shape, (size_t)v->rank * sizeof *t[i].shape);
		device_get(d, host + v->offset, values + v->offset, (size_t)v->count * sizeof *host);
	}
	rc = d->error(d, e) || st_write(path, t, p->n, texts, ntexts, e) ? -1 : 0;
	mem_free(t);
	mem_free(host);
	return rc;
}

/* Memory for the matrices, in the place of the plain ones. */
static int layout_compact(struct model *m, struct err *e)
{
	params_layout_but(&m->params, PARAM_BULK);
	m->compact = mem_zalloc((size_t)m->params.n, sizeof *m->compact);
	for (int i = 0; i < m->params.n; i++) {
		const struct param *p = &m->params.v[i];

		if ((p->flags & PARAM_BULK) && compact_init(&m->compact[i], m->bulk, p->shape[0], p->shape[1], e))
			return -1;
	}
	tape_bind_compact(m->tape, m->compact);
	return 0;
}

static void record(struct model *m)
{
	const struct net_config *c = &m->config.net;

	m->tape = tape_new(DT_F32, m->capacity);
	net_inputs(m->tape, c, &m->in);
	m->out = net_record(m->tape, &m->params, c, &m->in);
	tape_keep(m->tape, m->out);
	params_layout(&m->params);
	m->out_elements = c->kind == NET_ROUTER ? c->clusters : c->out_channels * c->size * c->size;
	m->flops = tape_flops(m->tape, 1, 0, tape_mark(m->tape));
}

static size_t sample_bytes(const struct tensor *x)
{
	size_t n = dtype_size(x->dtype);

	for (int d = 1; d < x->rank; d++)
		n *= (size_t)x->shape[d];
	return n;
}

static int allocate(struct model *m, const struct model *lender, struct err *e)
{
	struct device *d = m->device;
	struct tensor *const in[INPUTS] = {m->in.x, m->in.time, m->in.label, m->in.text, m->in.mask, m->in.micro};

	if (lender)
		tape_lend(m->tape, lender->tape);
	m->lender = lender;
	if (!(m->values = d->alloc(d, (size_t)m->params.total * sizeof *m->values, "weights", e)) || tape_allocate(m->tape, e))
		return -1;
	tape_bind_params(m->tape, m->values, NULL);
	for (int i = 0; i < INPUTS; i++) {
		if (!in[i])
			continue;
		m->place[i] = lender ? lender->place[i] : d->alloc(d, (size_t)m->capacity * sample_bytes(in[i]), "network input", e);
		if (!m->place[i])
			return -1;
		tape_bind(m->tape, in[i], m->place[i]);
	}
	return 0;
}

static int round_weights(struct model *m, struct err *e)
{
	struct device *d = m->device;
	int64_t n = m->params.total;
	struct op_call c = {.nin = 1, .nout = 1, .in = {array_vector(DT_F32, m->values, n)}};

	if (!(m->rounded = d->alloc(d, (size_t)n * sizeof *m->rounded, "weights in bfloat16", e)))
		return -1;
	c.out[0] = array_vector(DT_BF16, m->rounded, n);
	device_run(d, OP_COPY, &c, NULL);
	tape_bind_bf16(m->tape, m->rounded);
	return 0;
}

static int find_weights(struct model *m, const char *dir, char *hash, struct err *e)
{
	const struct safetensors *s;
	char *slash;

	if (!(m->path = model_weights_path(dir, m->config.net.kind, e)) || !(m->weights = weightfile_open(m->path, NULL, e)) ||
	    !(s = weightfile_tensors(m->weights, e)) || model_match_weights(s, m->path, &m->params, e))
		return -1;
	slash = strrchr(m->path, '/');
	m->file = mem_strdup(slash ? slash + 1 : m->path);
	return hash ? weightfile_hash(m->weights, hash, e) : 0;
}

/* Nothing is planned or allocated for a network that the file does not hold: a config.json may ask for any size. */
int model_load(struct model *m, const struct model *lender, struct err *e)
{
	const struct safetensors *s;

	if (!m->weights)
		return 0;
	s = weightfile_tensors(m->weights, e);
	if (!s || (m->bulk && layout_compact(m, e)))
		return -1;
	tape_layout(m->tape, m->device, &(struct plan_options){.bf16 = m->bf16, .bf16_weights = m->bf16});
	if (allocate(m, lender, e) || put_weights(s, &m->params, m->device, m->values, m->compact, e) || (m->bf16 && round_weights(m, e)))
		return -1;
	weightfile_free(m->weights);
	m->weights = NULL;
	return 0;
}

int model_lends(const struct model *lender, const struct model *m)
{
	return !lender->weights && !lender->lender && lender->device == m->device && lender->capacity == m->capacity &&
	       lender->bulk == m->bulk && lender->bf16 == m->bf16 && !net_differs(&lender->config.net, &m->config.net);
}

struct model *model_open(const char *dir, int64_t capacity, enum compact_type bulk, struct device *d, char *hash, struct err *e)
{
	struct model *m = model_find(dir, capacity, bulk, d, hash, e);

	if (!m || !model_load(m, NULL, e))
		return m;
	model_free(m);
	return NULL;
}

struct model *model_find(const char *dir, int64_t capacity, enum compact_type bulk, struct device *d, char *hash, struct err *e)
{
	struct model *m = mem_zalloc(1, sizeof *m);

	m->capacity = capacity;
	m->bf16 = bulk == COMPACT_BF16 && !d->compact && d->storage >> DT_BF16 & 1;
	m->bulk = m->bf16 ? COMPACT_NONE : !bulk && d->compact ? COMPACT_F32 : bulk;
	m->device = d;
	if (model_config_load(dir, &m->config, e))
		goto fail;
	if (m->config.exact) {
		err_set(e, ERR_DATA, "%s: holds samples, not a network", dir);
		goto fail;
	}
	if (m->bulk && !d->compact) {
		err_set(e, ERR_USAGE, "weights in %s are for the CPU, not for %s", bulk == COMPACT_BF16 ? "bf16" : "int8", d->name);
		goto fail;
	}
	record(m);
	if (find_weights(m, dir, hash, e))
		goto fail;
	return m;
fail:
	model_free(m);
	return NULL;
}

void model_free(struct model *m)
{
	if (!m)
		return;
	tape_free(m->tape);
	m->device->release(m->device, m->values);
	for (int i = 0; i < INPUTS; i++)
		m->device->release(m->device, m->lender ? NULL : m->place[i]);
	m->device->release(m->device, m->rounded);
	for (int i = 0; m->compact && i < m->params.n; i++)
		compact_release(&m->compact[i]);
	mem_free(m->compact);
	params_release(&m->params);
	model_config_release(&m->config);
	weightfile_free(m->weights);
	mem_free(m->file);
	mem_free(m->path);
	mem_free(m);
}

const struct model_config *model_config(const struct model *m)
{
	return &m->config;
}

const char *model_weights_file(const struct model *m)
{
	return m->file;
}

double model_flops(const struct model *m)
{
	return m->flops;
}

int64_t model_elements(const struct model *m)
{
	return m->out_elements;
}

int64_t model_bytes(const struct model *m)
{
	int64_t bytes = m->weights ? 0 : m->params.total * (int64_t)(sizeof *m->values + (m->rounded ? sizeof *m->rounded : 0));

	for (int i = 0; !m->weights && m->compact && i < m->params.n; i++)
		if (m->compact[i].type)
			bytes += compact_bytes(&m->compact[i]);
	return bytes;
}

/* The next k rows from `at`; x, text and mask by `put`. */
static void put_rows(struct model *m, int64_t at, int64_t k, const struct model_input *in, copier put)
{
	struct device *d = m->device;
	const struct tensor *const to[INPUTS] = {m->in.x, m->in.time, m->in.label, m->in.text, m->in.mask, m->in.micro};
	const void *const from[INPUTS] = {in->x, in->t, in->label, in->text, in->mask, in->micro};

	for (int i = 0; i < INPUTS; i++) {
		size_t bytes = to[i] ? sample_bytes(to[i]) : 0;

		if (bytes && from[i])
			(i == 0 || i == 3 || i == 4 ? put : device_put)(d, m->place[i], (const char *)from[i] + (size_t)at * bytes, (size_t)k * bytes);
		else if (bytes && to[i] == m->in.mask)
			d->fill(d, 0, m->place[i], 0, (size_t)k * bytes);
		else
			assert(!bytes);
	}
}

static void cut(struct model *m, int64_t n, const struct model_input *in, float *out, copier put, copier back)
{
	for (int64_t at = 0; at < n; at += m->capacity) {
		int64_t k = n - at < m->capacity ? n - at : m->capacity;

		put_rows(m, at, k, in, put);
		tape_run(m->tape, k, 0, tape_mark(m->tape));
		back(m->device, out + at * m->out_elements, tape_data(m->tape, m->out), (size_t)(k * m->out_elements) * sizeof *out);
	}
}

void model_run(struct model *m, int64_t n, const struct model_input *in, float *out)
{
	cut(m, n, in, out, device_put, device_get);
}

void model_submit(struct model *m, int64_t n, const struct model_input *in, float *out)
{
	cut(m, n, in, out, device_copy, device_copy);
}
