/* The parameter table: adding, finding, laying out and initialising parameters. */
#include "tape/params.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/hash.h"
#include "core/mem.h"
#include "core/rng.h"
#include "kernels/optimizer.h"

void params_release(struct params *p)
{
	mem_free(p->v);
	*p = (struct params){0};
}

int params_freezes(const struct params *p, const char *name)
{
	return p->trained && strncmp(name, p->trained, strlen(p->trained)) != 0;
}

int params_find(const struct params *p, const char *name)
{
	for (int i = 0; i < p->n; i++)
		if (!strcmp(p->v[i].name, name))
			return i;
	return -1;
}

int params_add(struct params *p, const char *name, int rank, const int64_t *shape, int flags, struct init init)
{
	int i = params_find(p, name);
	struct param *q;

	if (i >= 0) {
		q = &p->v[i];
		assert(q->rank == rank && !memcmp(q->shape, shape, (size_t)rank * sizeof *shape));
		return i;
	}
	if (p->n == p->cap) {
		p->cap = p->cap ? 2 * p->cap : 64;
		p->v = mem_resize(p->v, (size_t)p->cap, sizeof *p->v);
	}
	q = &p->v[p->n];
	memset(q, 0, sizeof *q);
	assert(strlen(name) < sizeof q->name);
	snprintf(q->name, sizeof q->name, "%s", name);
	q->rank = rank;
	q->flags = flags | (params_freezes(p, name) ? PARAM_FROZEN : 0);
	q->init = init;
	q->parts = flags & PARAM_THIRDS ? 3 : 1;
	q->part = p->parts;
	q->count = 1;
	for (int d = 0; d < rank; d++) {
		q->shape[d] = shape[d];
		q->count *= shape[d];
	}
	q->offset = -1;
	assert(q->parts == 1 || (rank == 2 && shape[0] % q->parts == 0));
	p->parts += q->parts;
	return p->n++;
}

static int64_t place_of(const struct param *q)
{
	return (q->count + DECAY_RUN - 1) / DECAY_RUN * DECAY_RUN;
}

void params_layout(struct params *p)
{
	params_layout_but(p, 0);
}

void params_layout_but(struct params *p, int flags)
{
	int64_t at = 0;

	for (int frozen = 0; frozen < 2; frozen++) {
		for (int i = 0; i < p->n; i++) {
			p->v[i].offset = p->v[i].flags & flags ? -1 : p->v[i].offset;
			if (frozen != !!(p->v[i].flags & PARAM_FROZEN) || p->v[i].flags & flags)
				continue;
			p->v[i].offset = at;
			at += place_of(&p->v[i]);
		}
		if (!frozen)
			p->trainable = at;
	}
	p->total = at;
}

int64_t params_layout_apart(struct params *p, int flags)
{
	int64_t at = 0, first = 0;

	for (int last = 0; last < 2; last++) {
		first = last ? at : 0;
		for (int i = 0; i < p->n; i++)
			if (last == !!(p->v[i].flags & flags)) {
				p->v[i].offset = at;
				at += place_of(&p->v[i]);
			}
	}
	p->trainable = p->total = at;
	return first;
}

int64_t params_count(const struct params *p, int trainable_only)
{
	int64_t n = 0;

	for (int i = 0; i < p->n; i++)
		if (!trainable_only || !(p->v[i].flags & PARAM_FROZEN))
			n += p->v[i].count;
	return n;
}

static void fill_uniform(float *out, int64_t n, double bound, uint64_t seed, uint64_t stream)
{
	for (int64_t i = 0; i < n; i++) {
		uint32_t w[4];

		rng_block(seed, RNG_INIT, 0, stream, (uint32_t)(i / 4), w);
		for (int k = 0; k < 4 && i + k < n; k++)
			out[i + k] = (float)(bound * (2 * ((double)w[k] + .5) * 0x1p-32 - 1));
		i += 3;
	}
}

void param_init(const struct param *q, uint64_t seed, float *out)
{
	uint64_t stream = hash64(q->name, strlen(q->name)) >> 20;

	memset(out, 0, (size_t)q->count * sizeof *out);
	switch (q->init.kind) {
	case INIT_ZERO:
		break;
	case INIT_ONE:
		for (int64_t k = 0; k < q->count; k++)
			out[k] = 1;
		break;
	case INIT_NORMAL:
		rng_normal(out, (size_t)q->count, seed, RNG_INIT, 0, stream);
		for (int64_t k = 0; k < q->count; k++)
			out[k] *= (float)q->init.a;
		break;
	case INIT_XAVIER:
		fill_uniform(out, q->count, sqrt(6 / (q->init.a + q->init.b)), seed, stream);
		break;
	case INIT_FILL:
		q->init.fill(out, q->shape, q->init.a);
		break;
	}
}

void params_init(const struct params *p, uint64_t seed, float *values)
{
	memset(values, 0, (size_t)p->total * sizeof *values);
	for (int i = 0; i < p->n; i++)
		param_init(&p->v[i], seed, values + p->v[i].offset);
}

int64_t params_decay_runs(const struct params *p)
{
	return (p->trainable + DECAY_RUN - 1) / DECAY_RUN;
}

/* Parameters begin at multiples of DECAY_RUN, so no run covers two of them. */
void params_decay_mask(const struct params *p, float *decay)
{
	memset(decay, 0, (size_t)params_decay_runs(p) * sizeof *decay);
	for (int i = 0; i < p->n; i++)
		if ((p->v[i].flags & PARAM_DECAY) && !(p->v[i].flags & PARAM_FROZEN))
			for (int64_t k = 0; k < p->v[i].count; k += DECAY_RUN)
				decay[(p->v[i].offset + k) / DECAY_RUN] = 1;
}
