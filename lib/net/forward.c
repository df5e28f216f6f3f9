/* Owns the tape, weights, inputs and outputs of a pretrained network. */
#include "net/forward.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "tape/ops.h"

void forward_begin(struct forward *f, int64_t capacity, enum compact_type bulk, struct device *d)
{
	assert(bulk != COMPACT_VIEW);
	*f = (struct forward){.device = d, .capacity = capacity, .bulk = bulk, .tape = tape_new(d->real, capacity)};
}

struct tensor *forward_input(struct forward *f, enum dtype dtype, int rank, const int64_t *shape, int batched)
{
	int64_t full[ARRAY_RANK] = {f->capacity};

	assert(f->nin < FORWARD_IN && rank + batched <= ARRAY_RANK);
	for (int i = 0; i < rank; i++)
		full[batched + i] = shape[i];
	return f->in[f->nin++] = tape_input(f->tape, dtype, rank + batched, full, batched ? TAPE_BATCHED : 0);
}

void forward_output(struct forward *f, struct tensor *x)
{
	assert(f->nout < FORWARD_OUT && x->batched);
	f->out[f->nout++] = x = op_copy(f->tape, x);
	tape_keep(f->tape, x);
}

/* Of one sample, or of the whole where it is not batched. */
static size_t bytes_of(const struct tensor *x)
{
	size_t n = dtype_size(x->dtype);

	for (int d = x->batched; d < x->rank; d++)
		n *= (size_t)x->shape[d];
	return n;
}

static int allocate(struct forward *f, struct err *e)
{
	struct device *d = f->device;

	if (!(f->values = d->alloc(d, weightstore_bytes(&f->store, &f->params), "weights", e)) || tape_allocate(f->tape, e))
		return -1;
	weightstore_bind(&f->store, f->tape, f->values, f->matrices);
	for (int i = 0; i < f->nin; i++) {
		size_t n = f->in[i]->batched ? (size_t)f->capacity : 1;

		if (!(f->place[i] = d->alloc(d, n * bytes_of(f->in[i]), "network input", e)))
			return -1;
		tape_bind(f->tape, f->in[i], f->place[i]);
	}
	return 0;
}

static int read_values(struct forward *f, const struct safetensors *s, const struct renames *names, struct err *e)
{
	float *host = weightstore_room(&f->params, e);

	for (int i = 0; host && i < f->params.n; i++) {
		renames_read(names, s, &f->params.v[i], host);
		weightstore_put(&f->store, &f->params.v[i], f->matrices, f->device, f->values, host);
	}
	mem_free(host);
	return host ? 0 : -1;
}

int forward_load(struct forward *f, const struct safetensors *s, const struct renames *const *names, int n, const char *where,
                 struct err *e)
{
	const struct renames *r = renames_find(names, n, s);

	assert(f->device->real == DT_F32);
	params_layout(&f->params);
	if (renames_match(r, s, where, &f->params, e) || weightstore_choose(&f->store, f->bulk, f->device, e) ||
	    weightstore_matrices(&f->store, &f->params, NULL, NULL, &f->matrices, e))
		return -1;
	if (f->matrices)
		tape_bind_compact(f->tape, f->matrices);
	weightstore_layout(&f->store, &f->params, f->tape, f->device);
	return allocate(f, e) || read_values(f, s, r, e) ? -1 : 0;
}

void forward_set(struct forward *f, int i, const void *data)
{
	assert(i < f->nin && !f->in[i]->batched);
	device_put(f->device, f->place[i], data, bytes_of(f->in[i]));
}

void forward_run(struct forward *f, int64_t n, const void *const *in, float *const *out)
{
	struct device *d = f->device;

	for (int64_t at = 0; at < n; at += f->capacity) {
		int64_t k = n - at < f->capacity ? n - at : f->capacity;

		for (int i = 0; i < f->nin; i++)
			if (f->in[i]->batched) {
				size_t bytes = bytes_of(f->in[i]);

				device_put(d, f->place[i], (const char *)in[i] + (size_t)at * bytes, (size_t)k * bytes);
			}
		tape_run(f->tape, k, 0, tape_mark(f->tape));
		for (int i = 0; i < f->nout; i++)
			if (out[i])
				device_get(d, out[i] + at * forward_elements(f, i), tape_data(f->tape, f->out[i]),
				           (size_t)k * bytes_of(f->out[i]));
	}
}

int64_t forward_elements(const struct forward *f, int output)
{
	return (int64_t)(bytes_of(f->out[output]) / dtype_size(f->out[output]->dtype));
}

int64_t forward_bytes(const struct forward *f)
{
	return (int64_t)weightstore_bytes(&f->store, &f->params) + weightstore_matrix_bytes(f->matrices, &f->params);
}

void forward_release(struct forward *f)
{
	if (!f->device)
		return;
	tape_free(f->tape);
	f->device->release(f->device, f->values);
	for (int i = 0; i < f->nin; i++)
		f->device->release(f->device, f->place[i]);
	weightstore_drop(f->matrices, &f->params);
	params_release(&f->params);
	memset(f, 0, sizeof *f);
}

static struct tensor *param(struct forward *f, const char *prefix, const char *suffix, int rank, const int64_t *shape, int flags)
{
	char name[96];

	snprintf(name, sizeof name, "%.80s%s", prefix, suffix);
	return tape_param(f->tape, &f->params, name, rank, shape, flags, (struct init){.kind = INIT_ZERO});
}

struct tensor *forward_linear(struct forward *f, struct tensor *x, const char *prefix, int64_t out, int bias, int act)
{
	int64_t shape[2] = {out, x->shape[x->rank - 1]};
	struct tensor *w = param(f, prefix, ".weight", 2, shape, PARAM_DECAY | PARAM_BULK), *b = NULL;

	if (bias)
		b = param(f, prefix, ".bias", 1, shape, 0);
	return act < 0 ? op_linear(f->tape, x, w, b) : op_linear_act(f->tape, x, w, b, (enum unary)act);
}

struct tensor *forward_norm(struct forward *f, struct tensor *x, const char *prefix, double eps)
{
	int64_t n = x->shape[x->rank - 1];
	struct tensor *w = param(f, prefix, ".weight", 1, &n, 0), *b = param(f, prefix, ".bias", 1, &n, 0);

	return op_norm(f->tape, x, w, b, NORM_LAYER, eps, 0);
}

struct tensor *forward_patches(struct forward *f, struct tensor *x, const char *prefix, int64_t hidden, int64_t patch, int bias)
{
	int64_t b = x->shape[0], c = x->shape[1], n = x->shape[2] / patch, width = c * patch * patch;
	int64_t split[6] = {b, c, n, patch, n, patch}, tokens[3] = {b, n * n, width}, conv[4] = {hidden, c, patch, patch};
	int64_t flat[2] = {hidden, width};
	static const int order[6] = {0, 2, 4, 1, 3, 5};
	struct tensor *w = param(f, prefix, ".weight", 4, conv, PARAM_DECAY), *v = NULL;

	if (bias)
		v = param(f, prefix, ".bias", 1, conv, 0);
	x = op_reshape(f->tape, op_permute(f->tape, op_reshape(f->tape, x, 6, split), order), 3, tokens);
	return op_linear(f->tape, x, op_reshape(f->tape, w, 2, flat), v);
}

/* Queries of the first tokens alone, keys and values of all: each by its third of the packed matrix. */
static void project_apart(struct tape *t, struct tensor *x, struct tensor *w, struct tensor *b, int64_t heads, int64_t queries,
                          struct tensor **qkv)
{
	int64_t h = x->shape[2], split[3] = {3, h, h}, bias[2] = {3, h};
	struct tensor *ws[3], *bs[3];

	op_unstack(t, op_reshape(t, w, 3, split), 0, ws);
	op_unstack(t, op_reshape(t, b, 2, bias), 0, bs);
	for (int i = 0; i < 3; i++) {
		struct tensor *rows = i ? x : op_slice(t, x, 1, 0, queries);
		int64_t of_heads[4] = {x->shape[0], rows->shape[1], heads, h / heads};

		qkv[i] = op_reshape(t, op_linear(t, rows, ws[i], bs[i]), 4, of_heads);
	}
}

struct tensor *forward_attention(struct forward *f, struct tensor *x, const char *weight, const char *bias, const char *prefix,
                                 int64_t heads, int64_t queries, int causal)
{
	struct tape *t = f->tape;
	int64_t h = x->shape[2], width = h / heads, shape[2] = {3 * h, h}, packed[5] = {x->shape[0], x->shape[1], 3, heads, width};
	int64_t out[3] = {x->shape[0], queries, h};
	int apart = queries < x->shape[1];
	struct tensor *w = param(f, weight, "", 2, shape, PARAM_DECAY | PARAM_BULK | (apart ? PARAM_THIRDS : 0));
	struct tensor *b = param(f, bias, "", 1, shape, 0), *qkv[3], *y;

	assert(!apart || !causal);
	if (apart)
		project_apart(t, x, w, b, heads, queries, qkv);
	else
		op_unstack(t, op_reshape(t, op_linear(t, x, w, b), 5, packed), 2, qkv);
	y = op_attention(t, qkv[0], qkv[1], qkv[2], 1 / sqrt((double)width), causal);
	return forward_linear(f, op_reshape(t, y, 3, out), prefix, h, 1, -1);
}

const char *forward_name(char *buf, size_t size, const char *format, int64_t block)
{
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	snprintf(buf, size, format, (int)block);
#pragma GCC diagnostic pop
	return buf;
}
