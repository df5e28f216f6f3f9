/* Runs networks for inference: records them, loads their weights, allocates inputs and work space, and runs any number of samples in batches. */
#include "net/runner.h"

#include <assert.h>
#include <string.h>

#include "core/mem.h"

/* A network without its weights. Runners of the same network may share it, because they run one after the other. */
struct network {
	int users;
	runner_record *record;
	struct device *device;
	struct weightstore store;
	struct params params;
	struct recording c;
	void *place[RUNNER_INPUTS]; /* device memory of the inputs */
	int any_size;               /* 1: accepts pictures of any size */
	int64_t size[3];            /* with any_size: (channels, height, width) of the current recording */
	int laid_out, allocated;
	double flops;
};

struct runner {
	const void *config; /* borrowed */
	struct network *net;
	struct safetensors *file;     /* kept until the weights are loaded, or as long as matrices are views of it */
	const struct renames *family; /* of its names; NULL: the names are ours */
	char *in_place;               /* by parameter: 1 if products can read it directly from the file; NULL before runner_weights */
	int loaded;
	float *values;            /* device memory of weightstore_bytes; NULL with a pager */
	struct compact *matrices; /* by part of the parameter table; NULL: none */
	struct pager *pager;      /* holds the values as a page; NULL: they are in `values` */
	int page;                 /* number with the pager; -1: none */
};

/* ---- recording ---- */

void recording_take(struct recording *c, struct tensor *x)
{
	assert(c->inputs < RUNNER_INPUTS);
	c->input[c->inputs++] = x;
}

struct tensor *recording_input(struct recording *c, enum dtype dtype, int rank, const int64_t *shape, int batched)
{
	int64_t full[ARRAY_RANK] = {c->capacity};
	struct tensor *x;

	assert(rank + batched <= ARRAY_RANK);
	for (int i = 0; i < rank; i++)
		full[batched + i] = shape[i];
	x = tape_input(c->l.t, dtype, rank + batched, full, batched ? TAPE_BATCHED : 0);
	recording_take(c, x);
	return x;
}

void recording_output(struct recording *c, struct tensor *x)
{
	assert(c->outputs < RUNNER_OUTPUTS && x->batched);
	c->stage_of[c->outputs] = c->stages;
	c->output[c->outputs++] = x;
	tape_keep(c->l.t, x);
}

void recording_gradient(struct recording *c, struct tensor *x)
{
	struct tensor *y = c->output[0], *dy;

	assert(c->outputs == 1 && y->batched);
	dy = recording_input(c, y->dtype, y->rank - 1, y->shape + 1, 1);
	c->forward = tape_mark(c->l.t);
	tape_backward(c->l.t, y, dy);
	recording_output(c, op_copy(c->l.t, tape_grad(c->l.t, x)));
}

struct tensor *recording_state(struct recording *c, int rank, const int64_t *shape)
{
	assert(c->capacity == 1);
	c->is_state[c->inputs] = 1;
	return recording_input(c, DT_F32, rank, shape, 1);
}

/* x is copied even if it is contiguous, because keeping a slice would keep the whole tensor that it is a part of. */
void recording_carry(struct recording *c, const struct tensor *state, struct tensor *x)
{
	int i = 0;

	while (i < c->inputs && c->input[i] != state)
		i++;
	assert(i < c->inputs && c->is_state[i] && c->stages < RUNNER_STAGES && x->rank == state->rank);
	assert(!memcmp(x->shape, state->shape, (size_t)x->rank * sizeof *x->shape));
	c->carry[c->stages][i] = op_copy(c->l.t, x);
	tape_keep(c->l.t, c->carry[c->stages][i]);
}

void recording_stage(struct recording *c)
{
	assert(c->stages < RUNNER_STAGES);
	c->end[c->stages++] = tape_mark(c->l.t);
}

static void make_recording(struct network *w, const void *config, int64_t capacity)
{
	w->c = (struct recording){.l = {.t = tape_new(DT_F32, capacity), .p = &w->params}, .capacity = capacity};
	w->record(&w->c, config, w->any_size ? w->size : NULL);
	w->flops = tape_flops(w->c.l.t, 1, 0, w->c.forward ? w->c.forward : w->c.stages ? w->c.end[0] : tape_mark(w->c.l.t));
}

static void drop_recording(struct network *w)
{
	tape_free(w->c.l.t);
	w->c.l.t = NULL;
	for (int i = 0; i < RUNNER_INPUTS; i++) {
		w->device->release(w->device, w->place[i]);
		w->place[i] = NULL;
	}
	w->laid_out = w->allocated = 0;
}

static void network_drop(struct network *w)
{
	if (!w || --w->users)
		return;
	drop_recording(w);
	params_release(&w->params);
	mem_free(w);
}

static struct network *network_new(runner_record *record, const void *config, const int64_t *size, int64_t capacity, struct device *d)
{
	struct network *w = mem_zalloc(1, sizeof *w);

	assert(capacity > 0 && d->real == DT_F32);
	w->users = 1;
	w->record = record;
	w->device = d;
	w->any_size = size != NULL;
	if (size)
		memcpy(w->size, size, sizeof w->size);
	make_recording(w, config, capacity);
	params_layout(&w->params);
	return w;
}

void runner_params(runner_record *record, const void *config, const int64_t *size, struct params *p)
{
	struct device *d = device_cpu(NULL, DT_F32);
	struct network *w = network_new(record, config, size, 1, d);

	*p = w->params;
	memset(&w->params, 0, sizeof w->params);
	network_drop(w);
	device_free(d);
}

/* ---- work space ---- */

/* Bytes of one sample, or of the whole tensor if it is not batched. */
static size_t bytes_of(const struct tensor *x)
{
	size_t n = dtype_size(x->dtype);

	for (int d = x->batched; d < x->rank; d++)
		n *= (size_t)x->shape[d];
	return n;
}

static size_t input_bytes(const struct network *w, int i)
{
	const struct tensor *x = w->c.input[i];

	return !x ? 0 : (x->batched ? (size_t)w->c.capacity : 1) * bytes_of(x);
}

/* Plan the memory of weights and intermediates. The plan depends on the types of the matrices, so they are bound first. */
static void network_layout(struct network *w, const struct compact *matrices)
{
	if (w->laid_out)
		return;
	if (matrices)
		tape_bind_compact(w->c.l.t, matrices);
	weightstore_layout(&w->store, &w->params, w->c.l.t, w->device);
	w->laid_out = 1;
}

static int network_allocate(struct network *w, struct err *e)
{
	struct device *d = w->device;

	if (w->allocated)
		return 0;
	if (tape_allocate(w->c.l.t, e))
		return -1;
	for (int i = 0; i < w->c.inputs; i++) {
		if (!w->c.input[i])
			continue;
		if (!w->place[i] && !(w->place[i] = d->alloc(d, input_bytes(w, i), "network input", e)))
			return -1;
		tape_bind(w->c.l.t, w->c.input[i], w->place[i]);
	}
	w->allocated = 1;
	return 0;
}

int runner_plan(struct runner *r, const int64_t *size, struct err *e)
{
	struct network *w = r->net;
	int known = w->params.n;

	assert(w->any_size && r->loaded);
	if (memcmp(w->size, size, sizeof w->size)) {
		drop_recording(w);
		memcpy(w->size, size, sizeof w->size);
		make_recording(w, r->config, w->c.capacity);
		assert(w->params.n == known);
		(void)known;
	}
	network_layout(w, r->matrices);
	if (!network_allocate(w, e))
		return 0;
	drop_recording(w);
	make_recording(w, r->config, w->c.capacity);
	return -1;
}

/* ---- weights ---- */

struct runner *runner_new(runner_record *record, const void *config, const int64_t *size, int64_t capacity, enum compact_type bulk, struct device *d,
                          struct err *e)
{
	struct weightstore store;
	struct runner *r;

	if (weightstore_choose(&store, bulk, d, e))
		return NULL;
	r = mem_zalloc(1, sizeof *r);
	r->config = config;
	r->page = -1;
	r->net = network_new(record, config, size, capacity, d);
	r->net->store = store;
	if (r->net->c.forward) {
		assert(!bulk);
		r->net->store.bulk = COMPACT_NONE;
	}
	return r;
}

void runner_free(struct runner *r)
{
	if (!r)
		return;
	r->net->device->release(r->net->device, r->values);
	weightstore_drop(r->matrices, &r->net->params);
	network_drop(r->net);
	st_free(r->file);
	mem_free(r->in_place);
	mem_free(r);
}

/* Fill in_place. Returns the number of matrices that products can read directly from the file. */
static int find_in_place(struct runner *r)
{
	const struct params *p = &r->net->params;
	int found = 0;

	r->in_place = mem_zalloc((size_t)p->n, 1);
	for (int i = 0; i < p->n; i++)
		if ((p->v[i].flags & PARAM_BULK) && renames_view(r->family, r->file, &p->v[i]))
			found += r->in_place[i] = 1;
	return found;
}

static const float *view(void *runner, const struct param *q)
{
	const struct runner *r = runner;

	return renames_view(r->family, r->file, q);
}

int runner_weights(struct runner *r, struct safetensors *s, const char *where, const struct renames *const *families, int n, struct err *e)
{
	assert(!r->file && !r->loaded);
	r->file = s;
	r->family = renames_find(families, n, s);
	if (renames_match(r->family, s, where, &r->net->params, e))
		return -1;
	if (!find_in_place(r) && r->net->store.bulk == COMPACT_VIEW)
		r->net->store.bulk = COMPACT_F32;
	return 0;
}

/* Matrices that stay in the mapped file need extra scratch, so runners share work space only if they map the same ones. */
static int maps_alike(const struct runner *a, const struct runner *b)
{
	return a->net->store.bulk != COMPACT_VIEW || !memcmp(a->in_place, b->in_place, (size_t)a->net->params.n);
}

int runner_alike(const struct runner *a, const struct runner *b)
{
	const struct network *x = a->net, *y = b->net;

	return x->record == y->record && x->device == y->device && x->c.capacity == y->c.capacity && x->store.bulk == y->store.bulk &&
	       x->store.bf16 == y->store.bf16 && !x->any_size && !y->any_size && x->params.n == y->params.n && maps_alike(a, b);
}

int runner_lends(const struct runner *lender, const struct runner *r)
{
	return lender->net->allocated && runner_alike(lender, r);
}

static void borrow(struct runner *r, const struct runner *lender)
{
	assert(runner_lends(lender, r));
	network_drop(r->net);
	r->net = lender->net;
	r->net->users++;
}

/* Allocate memory for the values: on the device, or with a pager as a page in host memory. */
static float *make_room(struct runner *r, struct err *e)
{
	struct network *w = r->net;
	size_t bytes = weightstore_bytes(&w->store, &w->params);
	void *page = NULL;

	if (!r->pager)
		return r->values = w->device->alloc(w->device, bytes, "weights", e);
	return (r->page = pager_add(r->pager, bytes, &page, e)) < 0 ? NULL : page;
}

/* Read the parameters one by one through a host buffer. Memory for all values is allocated only after the first one was read. */
static int read_values(struct runner *r, int (*fill)(void *arg, const struct param *q, float *out, struct err *e), void *arg, struct err *e)
{
	const struct network *w = r->net;
	struct device *d = r->pager ? NULL : w->device;
	float *host = weightstore_room(&w->params, e), *values = NULL;
	int rc = host ? 0 : -1;

	for (int i = 0; i < w->params.n && !rc; i++) {
		const struct param *q = &w->params.v[i];
		int viewed = r->matrices && r->matrices[q->part].type == COMPACT_VIEW;

		rc = viewed ? 0 : fill(arg, q, host, e);
		if (!rc && !values && !(values = make_room(r, e)))
			rc = -1;
		if (!rc && !viewed)
			weightstore_put(&w->store, q, r->matrices, d, values, host);
	}
	mem_free(host);
	return rc;
}

/* Plan, allocate and read. runner_load gets here only if the file matches the network, so nothing is allocated for sizes that it does not hold. */
static int load(struct runner *r, int (*fill)(void *arg, const struct param *q, float *out, struct err *e), void *arg, struct err *e)
{
	struct network *w = r->net;

	if (weightstore_matrices(&w->store, &w->params, view, r, &r->matrices, e))
		return -1;
	network_layout(w, r->matrices);
	if ((!w->any_size && network_allocate(w, e)) || read_values(r, fill, arg, e))
		return -1;
	r->loaded = 1;
	return 0;
}

static int from_file(void *runner, const struct param *q, float *out, struct err *e)
{
	struct runner *r = runner;

	(void)e;
	renames_read(r->family, r->file, q, out);
	return 0;
}

int runner_load(struct runner *r, const struct runner *lender, struct pager *pager, struct err *e)
{
	if (r->loaded)
		return 0;
	assert(r->file);
	if (lender && !r->net->allocated)
		borrow(r, lender);
	r->pager = pager;
	if (load(r, from_file, r, e))
		return -1;
	if (r->net->store.bulk != COMPACT_VIEW) {
		st_free(r->file);
		r->file = NULL;
	}
	return 0;
}

int runner_fill(struct runner *r, int (*fill)(void *arg, const struct param *q, float *out, struct err *e), void *arg, struct err *e)
{
	if (r->net->store.bulk == COMPACT_VIEW)
		r->net->store.bulk = COMPACT_F32;
	return load(r, fill, arg, e);
}

/* ---- use ---- */

void runner_set(struct runner *r, int i, const void *data)
{
	const struct tensor *x = r->net->c.input[i];

	assert(!x->batched && r->net->place[i]);
	device_put(r->net->device, r->net->place[i], data, bytes_of(x));
}

/* Copy samples [at, at + k) of in[] to the device; zeros for a NULL in[i]. Bit i of `there`: in[i] is in device memory. */
static void put_inputs(const struct network *w, int64_t at, int64_t k, const void *const *in, unsigned there)
{
	struct device *d = w->device;

	for (int i = 0; i < w->c.inputs; i++) {
		const struct tensor *x = w->c.input[i];
		size_t bytes = x ? bytes_of(x) : 0;

		if (!x || !x->batched || w->c.is_state[i])
			continue;
		if (in[i])
			(i < 32 && there >> i & 1 ? device_copy : device_put)(d, w->place[i], (const char *)in[i] + (size_t)at * bytes,
			                                                      (size_t)k * bytes);
		else
			d->fill(d, 0, w->place[i], 0, (size_t)k * bytes);
	}
}

static void run(struct runner *r, int64_t n, const void *const *in, unsigned there, float *const *out,
                void (*back)(struct device *, void *, const void *, size_t))
{
	struct network *w = r->net;
	struct tape *t = w->c.l.t;
	int end = w->c.forward && !out[w->c.outputs - 1] ? w->c.forward : tape_mark(t);

	assert(r->loaded && w->allocated);
	weightstore_bind(&w->store, t, r->pager ? pager_take(r->pager, r->page) : r->values, r->matrices);
	for (int64_t at = 0; at < n; at += w->c.capacity) {
		int64_t k = n - at < w->c.capacity ? n - at : w->c.capacity;

		put_inputs(w, at, k, in, there);
		tape_run(t, k, 0, end);
		for (int i = 0; i < w->c.outputs; i++)
			if (out[i])
				back(w->device, out[i] + at * runner_elements(r, i), tape_data(t, w->c.output[i]),
				     (size_t)k * bytes_of(w->c.output[i]));
	}
	if (r->pager)
		pager_give(r->pager, r->page);
}

void runner_run(struct runner *r, int64_t n, const void *const *in, float *const *out)
{
	run(r, n, in, 0, out, device_get);
}

void runner_submit(struct runner *r, int64_t n, const void *const *in, unsigned there, float *const *out)
{
	run(r, n, in, there, out, device_copy);
}

void runner_restart(struct runner *r)
{
	struct network *w = r->net;

	for (int i = 0; i < w->c.inputs; i++)
		if (w->c.is_state[i])
			w->device->fill(w->device, 0, w->place[i], 0, input_bytes(w, i));
}

void runner_stage(struct runner *r, int stage, const void *const *in, float *const *out)
{
	struct network *w = r->net;
	struct device *d = w->device;

	assert(r->loaded && w->allocated && stage < w->c.stages && !r->pager);
	weightstore_bind(&w->store, w->c.l.t, r->values, r->matrices);
	put_inputs(w, 0, 1, in, 0);
	tape_run(w->c.l.t, 1, stage ? w->c.end[stage - 1] : 0, w->c.end[stage]);
	for (int i = 0; i < w->c.outputs; i++)
		if (w->c.stage_of[i] == stage && out[i])
			device_get(d, out[i], tape_data(w->c.l.t, w->c.output[i]), bytes_of(w->c.output[i]) * (size_t)w->c.output[i]->shape[0]);
	for (int i = 0; i < w->c.inputs; i++)
		if (w->c.carry[stage][i])
			device_copy(d, w->place[i], tape_data(w->c.l.t, w->c.carry[stage][i]), input_bytes(w, i));
}

/* ---- facts ---- */

int runner_loaded(const struct runner *r)
{
	return r->loaded;
}

int runner_page(const struct runner *r)
{
	return r->page;
}

const struct params *runner_table(const struct runner *r)
{
	return &r->net->params;
}

int64_t runner_capacity(const struct runner *r)
{
	return r->net->c.capacity;
}

/* The batched dimension may be a multiple of the capacity, so the result is all elements divided by the capacity. */
int64_t runner_elements(const struct runner *r, int output)
{
	const struct tensor *x = r->net->c.output[output];
	int64_t n = 1;

	for (int d = 0; d < x->rank; d++)
		n *= x->shape[d];
	return n / r->net->c.capacity;
}

double runner_flops(const struct runner *r)
{
	return r->net->flops;
}

int64_t runner_bytes(const struct runner *r)
{
	const struct network *w = r->net;

	return !r->loaded ? 0 : (int64_t)weightstore_bytes(&w->store, &w->params) + weightstore_matrix_bytes(r->matrices, &w->params);
}

void runner_needs(struct runner *r, uint64_t *weights, uint64_t *work)
{
	struct network *w = r->net;
	struct compact *shapes = w->laid_out ? NULL : weightstore_shapes(&w->store, &w->params, r->in_place);

	network_layout(w, shapes);
	*weights = w->store.bulk ? runner_takes(r, COMPACT_NONE) : weightstore_bytes(&w->store, &w->params);
	*work = (uint64_t)tape_arena_bytes(w->c.l.t) + (uint64_t)tape_scratch_bytes(w->c.l.t);
	for (int i = 0; i < w->c.inputs; i++)
		*work += input_bytes(w, i);
	if (!shapes)
		return;
	drop_recording(w); /* its plan refers to `shapes` */
	make_recording(w, r->config, w->c.capacity);
	mem_free(shapes);
}

uint64_t runner_takes(const struct runner *r, enum compact_type bulk)
{
	if (!bulk)
		bulk = r->net->store.bulk;
	return weightstore_needs(bulk, &r->net->params, r->in_place);
}
