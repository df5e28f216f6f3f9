/* Reads and writes model folders, and runs the network in one. */
#include "net/model.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/str.h"
#include "file/fileio.h"
#include "file/safetensors.h"
#include "file/weightfile.h"
#include "net/netdef.h"
#include "net/pager.h"
#include "net/weightstore.h"

typedef void (*copier)(struct device *, void *, const void *, size_t);

/* A network without its weights, which models of the same shape share: they run one after the other. */
struct network {
	int users;
	struct net_config config;
	struct device *device;
	int64_t capacity, out_elements;
	struct weightstore store;
	struct params params;
	struct tape *tape;
	struct net_input in;
	struct tensor *out;
	void *place[NET_INPUTS]; /* of the inputs, on the device; NULL where there is none */
	int laid_out, there; /* there: allocated */
	double flops;
};

struct model {
	struct model_config config;
	struct network *net;
	char *file, *path;          /* of the weights: base name, and all of it */
	struct weightfile *weights; /* until they are loaded, or as long as matrices are views of them */
	int loaded;
	float *values;              /* weightstore_bytes, on the device */
	struct compact *compact;    /* by part, with a type where it is of a PARAM_BULK; NULL where the device takes none */
	struct pager *pager;        /* NULL: always there */
	int page;                   /* -1: none yet */
};

const char *model_weights_name(enum net_role role)
{
	return role == NET_CLASSIFIER ? "model.safetensors" : "diffusion_pytorch_model.safetensors";
}

char *model_weights_path(const char *dir, enum net_role role, struct err *e)
{
	if (path_holds(dir, "MANIFEST.json") && path_holds(dir, CHECKPOINT_AVERAGE))
		return path_join(dir, CHECKPOINT_AVERAGE);
	return weightfile_locate(dir, model_weights_name(role), e);
}

int model_match_weights(const struct safetensors *s, const char *where, const struct params *p, struct err *e)
{
	return renames_match(net_names(s), s, where, p, e);
}

void model_read_weight(const struct safetensors *s, const struct param *q, float *out)
{
	renames_read(net_names(s), s, q, out);
}

static int put_weights(const struct safetensors *s, const struct params *p, struct device *d, float *values, struct err *e)
{
	const struct weightstore all = {.plain = p->total};
	float *host = weightstore_room(p, e);

	for (int i = 0; host && i < p->n; i++) {
		renames_read(net_names(s), s, &p->v[i], host);
		weightstore_put(&all, &p->v[i], NULL, d, values, host);
	}
	mem_free(host);
	return host ? 0 : -1;
}

int model_read_weights(const char *path, const struct params *p, struct device *d, float *values, struct err *e)
{
	struct safetensors *s = weightfile_load(path, NULL, e);
	int rc = s ? model_match_weights(s, path, p, e) : -1;

	if (!rc)
		rc = put_weights(s, p, d, values, e);
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
		if (d)
			device_get(d, host + v->offset, values + v->offset, (size_t)v->count * sizeof *host);
		else
			memcpy(host + v->offset, values + v->offset, (size_t)v->count * sizeof *host);
	}
	rc = (d && d->error(d, e)) || st_write(path, t, p->n, texts, ntexts, e) ? -1 : 0;
	mem_free(t);
	mem_free(host);
	return rc;
}

/* The floats of a parameter where they lie in the file as the network reads them, or NULL. */
static const float *in_place(const struct safetensors *s, const struct param *p)
{
	const struct st_tensor *t = net_names(s) ? NULL : st_find(s, p->name);

	return t && t->type == ST_F32 && (uintptr_t)t->data % sizeof(float) == 0 ? t->data : NULL;
}

static int bulk_in_place(const struct safetensors *s, const struct params *p)
{
	for (int i = 0; i < p->n; i++)
		if ((p->v[i].flags & PARAM_BULK) && !in_place(s, &p->v[i]))
			return 0;
	return 1;
}

static const float *view(void *file, const struct param *p)
{
	return in_place(file, p);
}

static struct network *network_new(const struct net_config *c, int64_t capacity, const struct weightstore *store, struct device *d)
{
	struct network *w = mem_zalloc(1, sizeof *w);

	w->users = 1;
	w->config = *c;
	w->device = d;
	w->capacity = capacity;
	w->store = *store;
	w->tape = tape_new(DT_F32, capacity);
	net_inputs(w->tape, c, &w->in);
	w->out = net_record(w->tape, &w->params, c, &w->in);
	tape_keep(w->tape, w->out);
	params_layout(&w->params);
	w->out_elements = net_elements(c);
	w->flops = tape_flops(w->tape, 1, 0, tape_mark(w->tape));
	return w;
}

static void network_drop(struct network *w)
{
	if (!w || --w->users)
		return;
	tape_free(w->tape);
	for (int i = 0; i < NET_INPUTS; i++)
		w->device->release(w->device, w->place[i]);
	params_release(&w->params);
	mem_free(w);
}

static size_t sample_bytes(const struct tensor *x)
{
	size_t n = dtype_size(x->dtype);

	for (int d = 1; d < x->rank; d++)
		n *= (size_t)x->shape[d];
	return n;
}

/* After the weights are known to fit. */
static void network_layout(struct network *w)
{
	if (w->laid_out)
		return;
	w->laid_out = 1;
	weightstore_layout(&w->store, &w->params, w->tape, w->device);
}

static uint64_t network_bytes(const struct network *w)
{
	struct tensor *const *in = w->in.v;
	uint64_t bytes = (uint64_t)tape_arena_bytes(w->tape) + (uint64_t)tape_scratch_bytes(w->tape);

	for (int i = 0; i < NET_INPUTS; i++)
		bytes += in[i] ? (uint64_t)w->capacity * sample_bytes(in[i]) : 0;
	return bytes;
}

static int network_allocate(struct network *w, struct err *e)
{
	struct device *d = w->device;
	struct tensor *const *in = w->in.v;

	if (w->there)
		return 0;
	if (tape_allocate(w->tape, e))
		return -1;
	for (int i = 0; i < NET_INPUTS; i++) {
		if (!in[i])
			continue;
		if (!(w->place[i] = d->alloc(d, (size_t)w->capacity * sample_bytes(in[i]), "network input", e)))
			return -1;
		tape_bind(w->tape, in[i], w->place[i]);
	}
	w->there = 1;
	return 0;
}

static size_t page_bytes(const struct network *w)
{
	assert(w->laid_out);
	return weightstore_bytes(&w->store, &w->params);
}

/* One after the other through memory of the host. */
static int read_page(struct model *m, const struct safetensors *s, float *page, struct err *e)
{
	const struct network *w = m->net;
	struct device *d = m->pager ? NULL : w->device;
	float *host = weightstore_room(&w->params, e);

	for (int i = 0; host && i < w->params.n; i++) {
		const struct param *q = &w->params.v[i];

		if (m->compact && m->compact[q->part].type == COMPACT_VIEW)
			continue;
		renames_read(net_names(s), s, q, host);
		weightstore_put(&w->store, q, m->compact, d, page, host);
	}
	mem_free(host);
	return host ? 0 : -1;
}

static int find_weights(struct model *m, const char *dir, char *hash, struct err *e)
{
	const struct safetensors *s;
	char *slash;

	if (!(m->path = model_weights_path(dir, net_role(&m->config.net), e)) || !(m->weights = weightfile_open(m->path, NULL, e)) ||
	    !(s = weightfile_tensors(m->weights, e)) || model_match_weights(s, m->path, &m->net->params, e))
		return -1;
	slash = strrchr(m->path, '/');
	m->file = mem_strdup(slash ? slash + 1 : m->path);
	if (m->net->store.bulk == COMPACT_VIEW && !bulk_in_place(s, &m->net->params))
		m->net->store.bulk = COMPACT_F32;
	return hash ? weightfile_hash(m->weights, hash, e) : 0;
}

int model_alike(const struct model *a, const struct model *b)
{
	const struct network *x = a->net, *y = b->net;

	return x->device == y->device && x->capacity == y->capacity && x->store.bulk == y->store.bulk &&
	       x->store.bf16 == y->store.bf16 &&
	       !net_differs(&x->config, &y->config);
}

static void borrow(struct model *m, const struct model *lender)
{
	assert(lender->net->there && model_alike(lender, m));
	network_drop(m->net);
	m->net = lender->net;
	m->net->users++;
}

/* Nothing is planned or allocated for a network that the file does not hold: a config.json may ask for any size. */
int model_load(struct model *m, const struct model *lender, struct pager *pager, struct err *e)
{
	const struct safetensors *s;
	void *page = NULL;
	size_t bytes;

	if (m->loaded)
		return 0;
	if (!(s = weightfile_tensors(m->weights, e)))
		return -1;
	if (lender && !m->net->there)
		borrow(m, lender);
	if (weightstore_matrices(&m->net->store, &m->net->params, view, (void *)(uintptr_t)s, &m->compact, e))
		return -1;
	if (m->compact && !m->net->laid_out)
		tape_bind_compact(m->net->tape, m->compact);
	network_layout(m->net);
	bytes = page_bytes(m->net);
	if (network_allocate(m->net, e))
		return -1;
	m->pager = pager;
	if (pager ? (m->page = pager_add(pager, bytes, &page, e)) < 0
	          : !(page = m->values = m->net->device->alloc(m->net->device, bytes, "weights", e)))
		return -1;
	if (read_page(m, s, page, e))
		return -1;
	m->loaded = 1;
	if (m->net->store.bulk != COMPACT_VIEW) {
		weightfile_free(m->weights);
		m->weights = NULL;
	}
	return 0;
}

int model_lends(const struct model *lender, const struct model *m)
{
	return lender->net->there && model_alike(lender, m);
}

struct model *model_open(const char *dir, int64_t capacity, enum compact_type bulk, struct device *d, char *hash, struct err *e)
{
	struct model *m = model_find(dir, capacity, bulk, d, hash, e);

	if (!m || !model_load(m, NULL, NULL, e))
		return m;
	model_free(m);
	return NULL;
}

struct model *model_find(const char *dir, int64_t capacity, enum compact_type bulk, struct device *d, char *hash, struct err *e)
{
	struct model *m = mem_zalloc(1, sizeof *m);
	struct weightstore store;

	m->page = -1;
	if (model_config_load(dir, &m->config, e))
		goto fail;
	if (net_is_exact(&m->config.net)) {
		err_set(e, ERR_DATA, "%s: holds samples, not a network", dir);
		goto fail;
	}
	if (weightstore_choose(&store, bulk, d, e))
		goto fail;
	m->net = network_new(&m->config.net, capacity, &store, d);
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
	if (m->net)
		m->net->device->release(m->net->device, m->values);
	if (m->net)
		weightstore_drop(m->compact, &m->net->params);
	network_drop(m->net);
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
	return m->net->flops;
}

int64_t model_elements(const struct model *m)
{
	return m->net->out_elements;
}

int64_t model_bytes(const struct model *m)
{
	return !m->loaded ? 0 : (int64_t)page_bytes(m->net) + weightstore_matrix_bytes(m->compact, &m->net->params);
}

void model_needs(struct model *m, uint64_t *weights, uint64_t *work)
{
	assert(!m->net->store.bulk);
	network_layout(m->net);
	*weights = page_bytes(m->net);
	*work = network_bytes(m->net);
}

uint64_t model_takes(const struct model *m, enum compact_type bulk)
{
	const struct safetensors *s = m->weights ? weightfile_tensors(m->weights, NULL) : NULL;

	if (!bulk)
		bulk = m->net->store.bulk;
	if (bulk == COMPACT_VIEW && !(s && bulk_in_place(s, &m->net->params)))
		bulk = COMPACT_F32;
	return weightstore_needs(bulk, &m->net->params);
}

int model_loaded(const struct model *m)
{
	return m->loaded;
}

int model_page(const struct model *m)
{
	return m->page;
}

/* The next k rows from `at`; x, text and mask by `put`. */
static void put_rows(struct network *w, int64_t at, int64_t k, const struct model_input *in, copier put)
{
	struct device *d = w->device;
	struct tensor *const *to = w->in.v;
	const void *const from[NET_INPUTS] = {in->x, in->t, in->label, in->text, in->mask, in->micro};

	for (int i = 0; i < NET_INPUTS; i++) {
		size_t bytes = to[i] ? sample_bytes(to[i]) : 0;

		if (bytes && from[i])
			(i == 0 || i == 3 || i == 4 ? put : device_put)(d, w->place[i], (const char *)from[i] + (size_t)at * bytes, (size_t)k * bytes);
		else if (bytes && to[i] == w->in.mask)
			d->fill(d, 0, w->place[i], 0, (size_t)k * bytes);
		else
			assert(!bytes);
	}
}

/* The network computes with this model's weights from now on. */
static void bind(struct model *m)
{
	struct network *w = m->net;
	float *values = m->pager ? pager_take(m->pager, m->page) : m->values;

	weightstore_bind(&w->store, w->tape, values, m->compact);
}

static void cut(struct model *m, int64_t n, const struct model_input *in, float *out, copier put, copier back)
{
	struct network *w = m->net;

	bind(m);
	for (int64_t at = 0; at < n; at += w->capacity) {
		int64_t k = n - at < w->capacity ? n - at : w->capacity;

		put_rows(w, at, k, in, put);
		tape_run(w->tape, k, 0, tape_mark(w->tape));
		back(w->device, out + at * w->out_elements, tape_data(w->tape, w->out), (size_t)(k * w->out_elements) * sizeof *out);
	}
	if (m->pager)
		pager_give(m->pager, m->page);
}

void model_run(struct model *m, int64_t n, const struct model_input *in, float *out)
{
	cut(m, n, in, out, device_put, device_get);
}

void model_submit(struct model *m, int64_t n, const struct model_input *in, float *out)
{
	cut(m, n, in, out, device_copy, device_copy);
}
