/* Keeps the losses of single samples and the gradient's norm by block for the log. */
#include "train/stepdetail.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/jsonio.h"
#include "core/median.h"
#include "core/mem.h"
#include "kernels/op.h"

/* The length of the block's name in a parameter's name. */
static size_t block_length(const char *name)
{
	size_t first = strcspn(name, "."), digits = name[first] ? strspn(name + first + 1, "0123456789") : 0;
	char after = name[first] ? name[first + 1 + digits] : 0;

	return digits && (after == '.' || !after) ? first + 1 + digits : first;
}

static int find_block(struct block_norms *b, const char *name)
{
	size_t n = block_length(name);

	for (int i = 0; i < b->blocks; i++)
		if (!strncmp(b->name[i], name, n) && !b->name[i][n])
			return i;
	memcpy(b->name[b->blocks], name, n);
	return b->blocks++;
}

int block_norms_init(struct block_norms *b, struct device *d, const struct params *p, struct err *e)
{
	size_t n = (size_t)p->n;

	*b = (struct block_norms){.range = mem_zalloc(n, sizeof *b->range), .name = mem_zalloc(n, sizeof *b->name)};
	for (int i = 0; i < p->n; i++) {
		const struct param *q = &p->v[i];
		int block;

		if (q->flags & PARAM_FROZEN)
			continue;
		block = find_block(b, q->name);
		if (!b->ranges || b->range[b->ranges - 1].block != block || b->range[b->ranges - 1].to > q->offset)
			b->range[b->ranges++] = (struct block_range){q->offset, q->offset, block};
		b->range[b->ranges - 1].to = q->offset + q->count; /* the gaps between hold zeros */
	}
	b->sums = d->alloc(d, ((size_t)b->ranges + 1) * sizeof *b->sums, "norms of the gradient", e);
	b->seen = d->alloc_host(d, ((size_t)b->ranges + 1) * DETAIL_STEPS * sizeof *b->seen, "norms of the gradient", e);
	return b->sums && b->seen ? 0 : -1;
}

void block_norms_release(struct block_norms *b, struct device *d)
{
	d->release(d, b->sums);
	d->release_host(d, b->seen);
	mem_free(b->range);
	mem_free(b->name);
	*b = (struct block_norms){0};
}

void block_norms_submit(struct block_norms *b, struct device *d, float *grads, void *scratch, int64_t number)
{
	int slot = (int)(number % DETAIL_STEPS);

	for (int i = 0; i < b->ranges; i++) {
		const struct block_range *r = &b->range[i];
		struct op_call c = {.nin = 1,
		                    .nout = 1,
		                    .in = {array_vector(DT_F32, grads + r->from, r->to - r->from)},
		                    .out = {array_vector(DT_F64, b->sums + i, 1)}};

		device_run(d, OP_SUMSQ, &c, scratch);
	}
	d->fetch(d, 0, b->seen + slot * b->ranges, b->sums, (size_t)b->ranges * sizeof *b->seen);
	b->of[slot] = number + 1;
}

json_t *block_norms_json(const struct block_norms *b, int64_t number)
{
	int slot = (int)(number % DETAIL_STEPS);
	json_t *o;

	if (b->of[slot] != number + 1)
		return NULL;
	o = json_object();
	for (int block = 0; block < b->blocks; block++) {
		double sum = 0;

		for (int i = 0; i < b->ranges; i++)
			if (b->range[i].block == block)
				sum += b->seen[slot * b->ranges + i];
		json_object_set_new(o, b->name[block], jsonio_real(sqrt(sum)));
	}
	return o;
}

int step_detail_init(struct step_detail *s, struct device *d, int64_t n, struct err *e)
{
	size_t all = (size_t)n * DETAIL_STEPS;

	*s = (struct step_detail){.n = n, .t = mem_zalloc(all, sizeof *s->t), .index = mem_zalloc(all, sizeof *s->index)};
	s->loss = d->alloc_host(d, all * sizeof *s->loss, "losses", e);
	return s->loss ? 0 : -1;
}

void step_detail_release(struct step_detail *s, struct device *d)
{
	d->release_host(d, s->loss);
	mem_free(s->t);
	mem_free(s->index);
	*s = (struct step_detail){0};
}

void step_detail_put(struct step_detail *s, struct device *d, int64_t number, int64_t at, int64_t n, const float *t, const int64_t *index,
                     const float *each)
{
	int64_t to = number % DETAIL_STEPS * s->n + at;

	assert(at + n <= s->n);
	memcpy(s->t + to, t, (size_t)n * sizeof *t);
	memcpy(s->index + to, index, (size_t)n * sizeof *index);
	d->fetch(d, 0, s->loss + to, each, (size_t)n * sizeof *each);
}

/* The median of the norms in a full window; else NAN. */
static double usual_norm(const struct step_detail *s)
{
	double v[SPIKE_WINDOW];

	if (s->norms < SPIKE_WINDOW)
		return NAN;
	memcpy(v, s->norm, sizeof v);
	return median(v, SPIKE_WINDOW);
}

json_t *step_detail_take(struct step_detail *s, int64_t number, int finite, double loss, double norm)
{
	int64_t from = number % DETAIL_STEPS * s->n;
	double usual = usual_norm(s);
	int spike = !finite || norm > SPIKE_FACTOR * usual;
	json_t *o;

	if (finite) {
		for (int64_t i = 0; i < s->n; i++)
			time_losses_add(&s->by, s->t[from + i], s->loss[from + i]);
		s->norm[s->norms++ % SPIKE_WINDOW] = norm;
	}
	if (!spike || s->told)
		return NULL;
	s->told = 1;
	o = json_object();
	json_object_set_new(o, "loss", jsonio_real(loss));
	json_object_set_new(o, "grad_norm", jsonio_real(norm));
	json_object_set_new(o, "usual_norm", jsonio_real(usual));
	return o;
}

/* Whether loss a belongs before b. */
static int is_worse(float a, float b)
{
	return isfinite(b) && (!isfinite(a) || a > b);
}

int step_detail_worst(const struct step_detail *s, int64_t number, int64_t *at)
{
	const float *loss = s->loss + number % DETAIL_STEPS * s->n;
	int n = 0;

	for (int64_t i = 0; i < s->n; i++) {
		int to = n;

		while (to > 0 && is_worse(loss[i], loss[at[to - 1]]))
			to--;
		if (to == SPIKE_SAMPLES)
			continue;
		n += n < SPIKE_SAMPLES;
		memmove(at + to + 1, at + to, (size_t)(n - to - 1) * sizeof *at);
		at[to] = i;
	}
	return n;
}

json_t *step_detail_by_time(struct step_detail *s)
{
	json_t *a = time_losses_json(&s->by);

	s->by = (struct time_losses){0};
	s->told = 0;
	if (json_array_size(a))
		return a;
	json_decref(a);
	return NULL;
}
