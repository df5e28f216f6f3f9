/* Runs training steps for tests/cuda, and finds the first op whose outputs differ between two devices. */
#include "tests/cuda/wholestep.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"
#include "core/shortfloat.h"
#include "core/str.h"
#include "tape/record.h"

enum { DRAWN = 1 << 24 }; /* large networks repeat what has been drawn */

static float *host_normals(int64_t n, float scale, uint64_t which)
{
	float *x = mem_zalloc((size_t)n, sizeof *x);

	rng_normal(x, (size_t)(n < DRAWN ? n : DRAWN), 21, RNG_TEST, which, 0);
	for (int64_t i = DRAWN; i < n; i++)
		x[i] = x[i - DRAWN];
	for (int64_t i = 0; i < n; i++)
		x[i] *= scale;
	return x;
}

static float *fetch(struct device *d, const void *there, int64_t n)
{
	float *x = mem_zalloc((size_t)n, sizeof *x);

	device_get(d, x, there, (size_t)n * sizeof *x);
	return x;
}

void step_run(struct step *s, const struct net_config *c, struct device *d, const struct step_options *o)
{
	const struct plan_options plan = {.no_reuse = o->no_reuse, .bf16 = o->bf16, .bf16_weights = o->bf16};
	const struct run_keys keys = {4, 2, 100, RNG_NOISE, 0};
	enum loss_kind kind = net_is_classifier(c) ? LOSS_CLASS : LOSS_SQUARED;
	int64_t size = net_sample_elements(c);
	struct noised *z = &s->noised;
	struct err e = {0};
	float *values, *grads, *seed, *host;
	uint16_t *rounded = NULL;

	memset(s, 0, sizeof *s);
	loss_record(&s->loss, c, kind, &s->params, DT_F32, o->rows, 1, o->recompute);
	tape_layout(s->loss.tape, d, &plan);
	if (tape_allocate(s->loss.tape, &e) || noised_init(z, d, o->rows, c, kind, &e))
		fail_msg("%s", e.msg);
	values = d->alloc(d, (size_t)s->params.total * sizeof *values, "weights", &e);
	grads = d->alloc(d, (size_t)s->params.trainable * sizeof *grads, "gradients", &e);
	seed = d->alloc(d, (size_t)o->rows * sizeof *seed, "seeds", &e);
	assert_true(values && grads && seed);
	host = host_normals(s->params.total, .06f, 1);
	device_put(d, values, host, (size_t)s->params.total * sizeof *host);
	if (o->bf16) {
		uint16_t *half = mem_zalloc((size_t)s->params.total, sizeof *half);

		for (int64_t i = 0; i < s->params.total; i++)
			half[i] = f32_to_bf16(host[i]);
		rounded = d->alloc(d, (size_t)s->params.total * sizeof *rounded, "weights", &e);
		device_put(d, rounded, half, (size_t)s->params.total * sizeof *half);
		tape_bind_bf16(s->loss.tape, rounded);
		mem_free(half);
	}
	mem_free(host);
	host = host_normals(o->rows * size, 1, 2);
	device_put(d, noised_part(z, NOISED_X0), host, (size_t)(o->rows * size) * sizeof *host);
	mem_free(host);
	host = host_normals(o->rows, 1, 3);
	device_put(d, seed, host, (size_t)o->rows * sizeof *host);
	mem_free(host);
	for (int i = 0; i < o->rows; i++) {
		z->t[i] = (float)(.1 + .13 * i);
		z->weight[i] = 1 + .1f * (float)i;
		z->alpha[i] = 1 - z->t[i];
		z->sigma[i] = z->t[i];
		z->from_x0[i] = -1;
		z->from_eps[i] = 1;
		z->label[i] = i % 5;
	}
	noised_put(z);
	loss_bind(&s->loss, z);
	tape_bind(s->loss.tape, s->loss.dloss, seed);
	tape_bind_params(s->loss.tape, values, grads);
	tape_seed(s->loss.tape, &keys);
	for (int i = 0; i < o->times; i++) {
		d->fill(d, 0, grads, 0xff, (size_t)s->params.trainable * sizeof *grads);
		tape_run(s->loss.tape, o->used, 0, s->loss.end);
	}
	if (d->sync(d, &e))
		fail_msg("%s", e.msg);
	s->outs = o->used * (net_is_classifier(c) ? c->clusters : size);
	s->out = fetch(d, tape_data(s->loss.tape, s->loss.out), s->outs);
	s->each = fetch(d, tape_data(s->loss.tape, s->loss.loss), o->used);
	s->grads = fetch(d, grads, s->params.trainable);
	s->device = d;
	s->there[0] = values;
	s->there[1] = grads;
	s->there[2] = seed;
	s->there[3] = rounded;
}

void step_free(struct step *s)
{
	for (int i = 0; i < 4; i++)
		s->device->release(s->device, s->there[i]);
	noised_release(&s->noised);
	tape_free(s->loss.tape);
	params_release(&s->params);
	mem_free(s->out);
	mem_free(s->each);
	mem_free(s->grads);
}

double step_distance(const float *a, const float *b, int64_t n)
{
	double diff = 0, all = 0;

	for (int64_t i = 0; i < n; i++) {
		diff += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
		all += (double)b[i] * (double)b[i];
	}
	return all > 0 ? sqrt(diff / all) : diff > 0 || isnan(diff) ? INFINITY : 0;
}

double step_gradient_error(const struct step *got, const struct step *want, const char **which)
{
	double worst = 0, mean = 0;

	if (which)
		*which = "none";
	for (int64_t i = 0; i < want->params.trainable; i++)
		mean += (double)want->grads[i] * (double)want->grads[i] / (double)want->params.trainable;
	for (int k = 0; k < want->params.n; k++) {
		const struct param *p = &want->params.v[k];
		double diff = 0, all = 0;

		if (p->offset >= want->params.trainable)
			continue;
		for (int64_t i = p->offset; i < p->offset + p->count; i++) {
			diff += ((double)got->grads[i] - (double)want->grads[i]) * ((double)got->grads[i] - (double)want->grads[i]);
			all += (double)want->grads[i] * (double)want->grads[i];
		}
		diff = sqrt(diff / fmax(all, 1e-4 * mean * (double)p->count));
		if (!(diff <= worst)) {
			worst = diff;
			if (which)
				*which = p->name;
		}
	}
	return worst;
}

static double value_at(const void *p, enum dtype t, int64_t i)
{
	switch (t) {
	case DT_F64:
		return ((const double *)p)[i];
	case DT_BF16:
		return (double)bf16_to_f32(((const uint16_t *)p)[i]);
	case DT_I32:
		return ((const int32_t *)p)[i];
	default:
		return (double)((const float *)p)[i];
	}
}

/* The array's elements in order, copied to the host. Caller frees with mem_free. */
static double *array_values(struct device *d, const struct array *a, int64_t n)
{
	int64_t low = 0, high = 0, size = (int64_t)dtype_size(a->dtype);
	double *v = mem_alloc((size_t)n * sizeof *v);
	char *host;

	for (int k = 0; k < a->rank; k++) {
		int64_t last = (a->shape[k] - 1) * a->stride[k];

		low += last < 0 ? last : 0;
		high += last > 0 ? last : 0;
	}
	host = mem_alloc((size_t)((high - low + 1) * size));
	device_get(d, host, (const char *)a->data + low * size, (size_t)((high - low + 1) * size));
	for (int64_t i = 0; i < n; i++) {
		int64_t at = -low, rest = i;

		for (int k = a->rank - 1; k >= 0; rest /= a->shape[k--])
			at += rest % a->shape[k] * a->stride[k];
		v[i] = value_at(host, a->dtype, at);
	}
	mem_free(host);
	return v;
}

/* As step_distance; 0 where both are 0. */
static double array_distance(const struct step *got, const struct array *a, const struct step *want, const struct array *b)
{
	int64_t n = array_count(b);
	double *x = array_values(got->device, a, n), *y = array_values(want->device, b, n), diff = 0, all = 0;

	for (int64_t i = 0; i < n; i++) {
		diff += (x[i] - y[i]) * (x[i] - y[i]);
		all += y[i] * y[i];
	}
	mem_free(x);
	mem_free(y);
	return all > 0 ? sqrt(diff / all) : diff > 0 || isnan(diff) ? INFINITY : 0;
}

static void put_array(struct str *s, const struct array *a)
{
	static const char *const names[] = {[DT_F32] = "f32", [DT_F64] = "f64", [DT_BF16] = "bf16", [DT_I32] = "i32", [DT_COMPACT] = "compact"};

	if (!a->data)
		return;
	for (int k = 0; k < a->rank; k++)
		str_printf(s, "%s%" PRId64, k ? "x" : " ", a->shape[k]);
	str_printf(s, ":%s", names[a->dtype]);
	for (int k = 0; k < a->rank; k++)
		str_printf(s, "%s%" PRId64, k ? "," : "/", a->stride[k]);
}

static void put_node(struct str *s, const struct tape *t, int i, const struct op_call *c, int output, double error)
{
	str_printf(s, "node %d of %d, block %d, %s%s, output %d: error %.3g; shape:type/strides", i, t->nnodes, t->node[i].block,
	           op_name(t->node[i].op),
	           t->node[i].again     ? " (recomputed)"
	           : i < t->forward_end ? ""
	                                : " (gradient)",
	           output, error);
	for (int j = 0; j < c->nin; j++)
		put_array(s, &c->in[j]);
	str_puts(s, " ->");
	for (int j = 0; j < c->nout; j++)
		put_array(s, &c->out[j]);
}

int step_differs(const struct step *got, const struct step *want, int64_t used, double tol, struct str *s)
{
	const struct tape *t = got->loss.tape, *u = want->loss.tape;
	int worst = -1, output = 0;
	double most = -1;
	struct op_call a, b;

	assert_int_equal(t->nnodes, u->nnodes);
	for (int i = 0; i < t->nnodes && !(most > tol) && !isnan(most); i++) {
		if (!t->node[i].live || !u->node[i].live)
			continue;
		node_call(t, &t->node[i], used, &a);
		node_call(u, &u->node[i], used, &b);
		for (int k = 0; k < a.nout && !(most > tol); k++) {
			double error = a.out[k].data && b.out[k].data ? array_distance(got, &a.out[k], want, &b.out[k]) : 0;

			if (!(error <= most)) {
				most = error;
				worst = i;
				output = k;
			}
		}
	}
	if (worst < 0)
		return 0;
	node_call(t, &t->node[worst], used, &a);
	put_node(s, t, worst, &a, output, most);
	return !(most <= tol);
}

void step_explain(const struct net_config *c, struct device *want, struct device *got, int64_t rows, int64_t used, int bf16, double tol)
{
	const struct step_options o = {rows, used, .times = 1, .no_reuse = 1}, rounded = {rows, used, bf16, .times = 1, .no_reuse = 1};
	struct step a, b;
	struct str s = {0};

	step_run(&a, c, want, want == got || want->storage >> DT_BF16 & 1 ? &rounded : &o);
	step_run(&b, c, got, &rounded);
	printf("# %s", step_differs(&b, &a, used, tol, &s) ? "the first that differs: " : "no node differs by as much; the largest: ");
	printf("%s\n", str_text(&s));
	str_release(&s);
	step_free(&a);
	step_free(&b);
}
