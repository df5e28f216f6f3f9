/* Reads and writes model folders, and runs the network in one. */
#include "net/model.h"

#include <string.h>

#include "core/mem.h"
#include "core/str.h"
#include "file/fileio.h"
#include "file/safetensors.h"
#include "file/weightfile.h"
#include "net/netdef.h"
#include "net/runner.h"

struct model {
	struct model_config config;
	struct runner *runner;
	char *file; /* base name of the weights file */
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

void model_file_order(const struct param *q, float *out, const float *v)
{
	if (q->flags & PARAM_CONV) /* from [O, kh, kw, C] to [O, C, kh, kw] */
		renames_taps_last(out, v, q->shape[0], q->shape[1] * q->shape[2], q->shape[3]);
	else
		memcpy(out, v, (size_t)q->count * sizeof *out);
}

/* The same in place. */
static void as_in_files(const struct param *q, float *v)
{
	float *copy = mem_alloc((size_t)q->count * sizeof *copy);

	memcpy(copy, v, (size_t)q->count * sizeof *copy);
	model_file_order(q, v, copy);
	mem_free(copy);
}

int model_write_weights(const char *path, const struct params *p, struct device *d, const float *values, const struct st_text *texts, int ntexts,
                        struct err *e)
{
	return model_write_summed(path, p, d, values, texts, ntexts, NULL, e);
}

int model_write_summed(const char *path, const struct params *p, struct device *d, const float *values, const struct st_text *texts, int ntexts,
                       struct sha256 *sum, struct err *e)
{
	int lent = !d || d->host; /* `values` is in host memory, so all but convolutions are written from it */
	size_t copied = 0;
	float *host, *next;
	struct st_tensor *t;
	int rc;

	for (int i = 0; i < p->n; i++)
		copied += lent && !(p->v[i].flags & PARAM_CONV) ? 0 : (size_t)p->v[i].count;
	next = host = mem_try(copied, sizeof *host, "a copy of the weights", e);
	if (!host)
		return -1;
	t = mem_zalloc((size_t)p->n, sizeof *t);
	for (int i = 0; i < p->n; i++) {
		const struct param *v = &p->v[i];

		t[i] = (struct st_tensor){.name = v->name, .type = ST_F32, .rank = v->rank, .data = values + v->offset};
		renames_shape(v, t[i].shape);
		if (lent && !(v->flags & PARAM_CONV))
			continue;
		t[i].data = next;
		if (lent)
			memcpy(next, values + v->offset, (size_t)v->count * sizeof *host);
		else
			device_get(d, next, values + v->offset, (size_t)v->count * sizeof *host);
		if (v->flags & PARAM_CONV)
			as_in_files(v, next);
		next += v->count;
	}
	rc = (d && d->error(d, e)) || st_write_summed(path, t, p->n, texts, ntexts, sum, e) ? -1 : 0;
	mem_free(t);
	mem_free(host);
	return rc;
}

/* The cotangent is the input after those of the network; the output and the gradient are the outputs. */
enum { COTANGENT = NET_INPUTS, MODEL_INPUTS, MODEL_OUTPUTS = 2 };

static void record_inputs(struct recording *r, const struct net_config *c, struct net_input *in)
{
	net_inputs(r->l.t, c, in);
	for (int i = 0; i < NET_INPUTS; i++)
		recording_take(r, in->v[i]);
	recording_output(r, net_record(r->l.t, r->l.p, c, in));
}

static void record(struct recording *r, const void *config, const int64_t *size)
{
	struct net_input in = {0};

	(void)size;
	record_inputs(r, config, &in);
}

static void record_gradient(struct recording *r, const void *config, const int64_t *size)
{
	const struct net_config *c = config;
	int64_t shape[5] = {r->capacity};
	int rank = 1 + net_sample_shape(c, shape + 1);
	struct net_input in = {.x = tape_input(r->l.t, DT_F32, rank, shape, TAPE_BATCHED | TAPE_GRAD)};

	(void)size;
	tape_freeze(r->l.t);
	record_inputs(r, c, &in);
	recording_gradient(r, in.x);
}

/* Find the weights in a folder and match their names. model_load reads them. */
static int find_weights(struct model *m, const char *dir, char *hash, struct err *e)
{
	char *path = model_weights_path(dir, net_role(&m->config.net), e), *slash;
	struct weightfile *w = path ? weightfile_open(path, NULL, e) : NULL;
	struct safetensors *s = w ? weightfile_take(w, e) : NULL;
	const struct renames *names = s ? net_names(s) : NULL;
	int rc = -1;

	if (s && !runner_weights(m->runner, s, path, &names, names != NULL, e)) {
		slash = strrchr(path, '/');
		m->file = mem_strdup(slash ? slash + 1 : path);
		rc = hash ? weightfile_hash(w, hash, e) : 0;
	}
	mem_free(path);
	return rc;
}

int model_alike(const struct model *a, const struct model *b)
{
	return runner_alike(a->runner, b->runner) && !net_differs(&a->config.net, &b->config.net);
}

int model_lends(const struct model *lender, const struct model *m)
{
	return model_alike(lender, m) && runner_lends(lender->runner, m->runner);
}

int model_load(struct model *m, const struct model *lender, struct pager *pager, struct err *e)
{
	return runner_load(m->runner, lender ? lender->runner : NULL, pager, e);
}

struct model *model_open(const char *dir, int64_t capacity, enum compact_type bulk, struct device *d, char *hash, struct err *e)
{
	struct model *m = model_find(dir, capacity, 0, bulk, d, hash, e);

	if (!m || !model_load(m, NULL, NULL, e))
		return m;
	model_free(m);
	return NULL;
}

/* Let the network make clips of another length than those it was trained on. */
static int set_frames(struct model *m, const char *dir, int64_t frames, struct err *e)
{
	struct net_config *c = &m->config.net;

	if (!frames || frames == c->frames)
		return 0;
	if (!c->frames)
		return err_set(e, ERR_USAGE, "--frames: %s is a network for pictures", dir);
	if (net_is_classifier(c))
		return err_set(e, ERR_USAGE, "--frames: the router %s reads clips of %lld frames alone; --route expert:I needs no router", dir,
		               (long long)c->frames);
	if (c->def->frames_fixed)
		return err_set(e, ERR_USAGE, "--frames: the weights of %s are for %lld frames alone; networks of another length need vdit", dir,
		               (long long)c->frames);
	c->frames = frames;
	return net_check(c, e) ? err_prefix(e, "--frames: %s", dir) : 0;
}

static struct model *find_model(const char *dir, runner_record *how, int64_t capacity, int64_t frames, enum compact_type bulk, struct device *d,
                                char *hash, struct err *e)
{
	struct model *m = mem_zalloc(1, sizeof *m);

	if (model_config_load(dir, &m->config, e) || set_frames(m, dir, frames, e))
		goto fail;
	if (net_is_exact(&m->config.net)) {
		err_set(e, ERR_DATA, "%s: is an exact model, not a network", dir);
		goto fail;
	}
	if (!(m->runner = runner_new(how, &m->config.net, NULL, capacity, bulk, d, e)) || find_weights(m, dir, hash, e))
		goto fail;
	return m;
fail:
	model_free(m);
	return NULL;
}

struct model *model_find(const char *dir, int64_t capacity, int64_t frames, enum compact_type bulk, struct device *d, char *hash, struct err *e)
{
	return find_model(dir, record, capacity, frames, bulk, d, hash, e);
}

struct model *model_find_gradient(const char *dir, int64_t capacity, int64_t frames, struct device *d, char *hash, struct err *e)
{
	return find_model(dir, record_gradient, capacity, frames, COMPACT_NONE, d, hash, e);
}

void model_free(struct model *m)
{
	if (!m)
		return;
	runner_free(m->runner);
	model_config_release(&m->config);
	mem_free(m->file);
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
	return runner_flops(m->runner);
}

int64_t model_elements(const struct model *m)
{
	return runner_elements(m->runner, 0);
}

int64_t model_bytes(const struct model *m)
{
	return runner_bytes(m->runner);
}

void model_needs(struct model *m, uint64_t *weights, uint64_t *work)
{
	runner_needs(m->runner, weights, work);
}

uint64_t model_takes(const struct model *m, enum compact_type bulk)
{
	return runner_takes(m->runner, bulk);
}

int model_loaded(const struct model *m)
{
	return runner_loaded(m->runner);
}

int model_page(const struct model *m)
{
	return runner_page(m->runner);
}

/* Fill v (MODEL_INPUTS), which is indexed by enum net_input_kind. */
static void inputs_of(const struct model_input *in, const void **v)
{
	v[NET_IN_X] = in->x;
	v[NET_IN_TIME] = in->t;
	v[NET_IN_LABEL] = in->label;
	v[NET_IN_TEXT] = in->text;
	v[NET_IN_MASK] = in->mask;
	v[NET_IN_MICRO] = in->micro;
	v[NET_IN_POOLED] = in->pooled;
	v[NET_IN_FIRST] = in->first;
	v[COTANGENT] = NULL;
}

void model_run(struct model *m, int64_t n, const struct model_input *in, float *out)
{
	const void *v[MODEL_INPUTS];
	float *const outs[MODEL_OUTPUTS] = {out};

	inputs_of(in, v);
	runner_run(m->runner, n, v, outs);
}

void model_submit(struct model *m, int64_t n, const struct model_input *in, float *out)
{
	model_pull(m, n, in, NULL, out, NULL);
}

void model_pull(struct model *m, int64_t n, const struct model_input *in, const float *dy, float *out, float *dx)
{
	const void *v[MODEL_INPUTS];
	float *const outs[MODEL_OUTPUTS] = {out, dx};

	inputs_of(in, v);
	v[COTANGENT] = dy;
	runner_submit(m->runner, n, v, 1 << NET_IN_X | 1 << NET_IN_TEXT | 1 << NET_IN_MASK | 1 << NET_IN_POOLED | 1 << NET_IN_FIRST | 1 << COTANGENT,
	              outs);
}
