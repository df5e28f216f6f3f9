/* Creates and frees tapes, marks their blocks, and binds them to memory. */
#include "tape/tape.h"

#include <assert.h>
#include <string.h>

#include "tape/record.h"

struct tape *tape_new(enum dtype real, int64_t capacity)
{
	struct tape *t = mem_zalloc(1, sizeof *t);

	assert(capacity > 0 && real != DT_I32);
	t->real = real;
	t->capacity = capacity;
	return t;
}

void tape_free(struct tape *t)
{
	if (!t)
		return;
	if (t->device) {
		replay_drop(t);
		timers_drop(t);
		t->device->release(t->device, t->arena);
		t->device->release(t->device, t->scratch);
		t->device->release(t->device, t->device_keys);
		for (struct storage *c = t->storages; c; c = c->next)
			if (c->constant)
				t->device->release(t->device, c->bound);
		if (t->hop)
			t->device->event_free(t->device, t->hop);
	}
	mem_free(t->node);
	mem_free(t->tensor);
	mem_free(t->grad);
	arena_release(&t->mem);
	mem_free(t);
}

int64_t tape_capacity(const struct tape *t)
{
	return t->capacity;
}

enum dtype tape_real(const struct tape *t)
{
	return t->real;
}

void tape_keep(struct tape *t, struct tensor *x)
{
	(void)t;
	x->st->keep = 1;
}

struct tensor *tape_float(struct tape *t, struct tensor *x)
{
	assert(!t->grads);
	x->st->exact = 1;
	return tape_float_grad(t, x);
}

struct tensor *tape_float_grad(struct tape *t, struct tensor *x)
{
	assert(!t->grads && x->root == x);
	(void)t;
	x->float_grad = 1;
	return x;
}

void tape_block_begin(struct tape *t)
{
	assert(!t->block);
	t->block = ++t->blocks;
}

void tape_block_end(struct tape *t)
{
	assert(t->block);
	t->block = 0;
}

void tape_freeze(struct tape *t)
{
	assert(!t->params);
	t->frozen = 1;
}

void tape_recompute(struct tape *t, enum recompute what)
{
	t->recompute = what;
}

int tape_mark(const struct tape *t)
{
	return t->nnodes;
}

void tape_bind(struct tape *t, struct tensor *x, void *data)
{
	assert(x->st->kind == STORE_INPUT && !x->st->constant);
	if (x->st->bound != data)
		replay_drop(t);
	x->st->bound = data;
}

void tape_bind_params(struct tape *t, void *values, void *grads)
{
	t->values = values;
	t->grad_values = grads;
}

void tape_bind_bf16(struct tape *t, const uint16_t *values)
{
	t->rounded = values;
}

void tape_bind_compact(struct tape *t, const struct compact *w)
{
	assert((!t->device || t->compact) && !t->grads);
	t->compact = w;
}

void tape_seed(struct tape *t, const struct run_keys *keys)
{
	t->keys = *keys;
	t->keys_changed = 1;
}

void tape_stream(struct tape *t, int stream)
{
	t->stream = stream;
}

void tape_then(struct tape *t, int node, void (*then)(void *arg, struct device *d, int stream), void *arg)
{
	assert(node >= 0 && node < t->nnodes);
	replay_drop(t);
	t->node[node].then = then;
	t->node[node].then_arg = arg;
}

struct tensor *tape_grad(struct tape *t, const struct tensor *x)
{
	return x->id < t->grads ? t->grad[x->id] : NULL;
}
