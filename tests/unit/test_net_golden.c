/* net: DiT, router, Paris expert, PixArt, U-Nets and networks for clips, forward and backward, against PyTorch's numbers of tests/golden/net.py and
 * net_video.py and net_clips.py; SD3 and FLUX against those of diffusers by tests/golden/mmdit.py, also with the weights under diffusers' names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/str.h"
#include "file/safetensors.h"
#include "net/model.h"
#include "net/net.h"
#include "net/rename.h"

enum { BATCH = 3, CAPACITY = 4 };

/* Tolerances relative to the largest value of a tensor. The float kernels lose a few of 24 bits over two blocks. In double the remaining error of
 * gradients is their storage as float; projections have none. */
static const double FLOAT_TOL = 1e-5, DOUBLE_TOL = 1e-11, STORED_TOL = 1e-7;

struct golden {
	const char *name;
	struct safetensors *file;
	struct net_config config;
};

/* A network of one golden in one type. */
struct run {
	const struct golden *g;
	enum dtype real;
	struct device *device;
	struct tape *tape;
	struct params params;
	struct net_input input;
	struct tensor *x, *y, *dy;
	void *values, *grads, *in, *t, *text, *mask, *micro, *pooled, *first, *cotangent;
};

static double at(const void *data, enum dtype real, int64_t i)
{
	return real == DT_F64 ? ((const double *)data)[i] : (double)((const float *)data)[i];
}

static const struct st_tensor *need(const struct golden *g, const char *group, const char *name)
{
	char full[160];
	const struct st_tensor *t;

	snprintf(full, sizeof full, "%s%s", group, name);
	t = st_find(g->file, full);
	if (!t)
		fail_msg("%s has no %s", g->name, full);
	return t;
}

static double *doubles(const struct st_tensor *t)
{
	int64_t n = st_count(t);
	double *out = mem_zalloc((size_t)n, sizeof *out);
	float *f;

	if (t->type == ST_F64) {
		st_copy(out, t);
		return out;
	}
	f = mem_zalloc((size_t)n, sizeof *f);
	st_to_f32(f, t);
	for (int64_t i = 0; i < n; i++)
		out[i] = (double)f[i];
	mem_free(f);
	return out;
}

static void put(void *out, enum dtype real, const double *v, int64_t n)
{
	for (int64_t i = 0; i < n; i++) {
		if (real == DT_F64)
			((double *)out)[i] = v[i];
		else
			((float *)out)[i] = (float)v[i];
	}
}

static void fill(void *out, enum dtype real, const struct st_tensor *t)
{
	double *v = doubles(t);

	put(out, real, v, st_count(t));
	mem_free(v);
}

/* The values of a parameter in our layout; PyTorch has [O, C, kh, kw] for a convolution. */
static double *arranged(const struct param *p, const struct st_tensor *t)
{
	double *v = doubles(t), *out;
	int64_t c = p->shape[3], taps = p->shape[1] * p->shape[2];

	if (!(p->flags & PARAM_CONV))
		return v;
	out = mem_zalloc((size_t)p->count, sizeof *out);
	for (int64_t i = 0; i < p->count; i++)
		out[i] = v[i / (taps * c) * taps * c + i % c * taps + i / c % taps];
	mem_free(v);
	return out;
}

static void *filled(const struct golden *g, enum dtype real, const char *name)
{
	const struct st_tensor *t = need(g, "", name);
	void *out = mem_zalloc((size_t)st_count(t) * CAPACITY, dtype_size(real));

	fill(out, real, t);
	return out;
}

static void open_golden(struct golden *g, const char *name)
{
	char *path = str_new("tests/golden/net-%s.safetensors", name);
	struct err e = {0};
	json_t *o;

	g->name = name;
	g->file = st_open(path, &e);
	if (!g->file)
		fail_msg("%s", e.msg);
	o = json_loads(st_meta(g->file, "config"), 0, NULL);
	if (net_from_json(o, path, &g->config, &e))
		fail_msg("%s", e.msg);
	json_decref(o);
	mem_free(path);
}

/* Every tensor of the file is in the table with its name and shape, and every parameter is in the file. */
static void load_params(struct run *r)
{
	int stored = 0;

	for (int i = 0; i < st_tensors(r->g->file); i++)
		stored += !strncmp(st_get(r->g->file, i)->name, "w/", 2);
	assert_int_equal(stored, r->params.n);
	r->values = mem_zalloc((size_t)r->params.total, dtype_size(r->real));
	r->grads = mem_zalloc((size_t)r->params.trainable, dtype_size(r->real));
	for (int i = 0; i < r->params.n; i++) {
		const struct param *p = &r->params.v[i];
		const struct st_tensor *t = need(r->g, "w/", p->name);
		int64_t shape[ARRAY_RANK];
		double *v;

		renames_shape(p, shape);
		assert_int_equal(t->rank, p->rank);
		assert_memory_equal(t->shape, shape, (size_t)p->rank * sizeof *shape);
		v = arranged(p, t);
		put((char *)r->values + (size_t)p->offset * dtype_size(r->real), r->real, v, p->count);
		mem_free(v);
	}
}

static void *bind_some(struct run *r, struct tensor *x, const char *name)
{
	void *v = x ? filled(r->g, r->real, name) : NULL;

	if (x)
		tape_bind(r->tape, x, v);
	return v;
}

static void run_golden(struct run *r, const struct golden *g, enum dtype real, int recompute)
{
	const struct net_config *c = &g->config;
	int64_t shape[5] = {CAPACITY};
	int rank = 1 + net_sample_shape(c, shape + 1);
	struct err e = {0};

	*r = (struct run){.g = g, .real = real, .device = device_cpu(NULL, real), .tape = tape_new(real, CAPACITY)};
	r->x = tape_input(r->tape, real, rank, shape, TAPE_BATCHED | TAPE_GRAD);
	net_inputs(r->tape, c, &r->input);
	r->input.x = r->x;
	r->y = net_record(r->tape, &r->params, c, &r->input);
	r->dy = tape_input(r->tape, real, r->y->rank, r->y->shape, TAPE_BATCHED);
	tape_keep(r->tape, r->y);
	tape_recompute(r->tape, recompute);
	tape_backward(r->tape, r->y, r->dy);
	params_layout(&r->params);
	load_params(r);
	r->in = filled(g, real, "x");
	r->t = filled(g, real, "t");
	r->cotangent = filled(g, real, "dy");
	tape_layout(r->tape, r->device, &(struct plan_options){.poison = 1});
	assert_int_equal(tape_allocate(r->tape, &e), 0);
	tape_bind(r->tape, r->x, r->in);
	tape_bind(r->tape, r->input.time, r->t);
	r->text = bind_some(r, r->input.text, "text");
	r->mask = bind_some(r, r->input.mask, "mask");
	r->micro = bind_some(r, r->input.micro, "micro");
	r->pooled = bind_some(r, r->input.pooled, "pooled");
	r->first = bind_some(r, r->input.first, "first");
	tape_bind(r->tape, r->dy, r->cotangent);
	if (r->input.label)
		tape_bind(r->tape, r->input.label, (void *)need(g, "", "label")->data);
	tape_bind_params(r->tape, r->values, r->grads);
	tape_run(r->tape, BATCH, 0, tape_mark(r->tape));
}

static void run_release(struct run *r)
{
	tape_free(r->tape);
	device_free(r->device);
	params_release(&r->params);
	mem_free(r->values);
	mem_free(r->grads);
	mem_free(r->in);
	mem_free(r->t);
	mem_free(r->text);
	mem_free(r->mask);
	mem_free(r->micro);
	mem_free(r->pooled);
	mem_free(r->first);
	mem_free(r->cotangent);
}

static void compare_values(const struct run *r, const char *what, const void *got, const double *v, int64_t n, double tol)
{
	double worst = 0, largest = 0;

	for (int64_t i = 0; i < n; i++) {
		double d = fabs(at(got, r->real, i) - v[i]);

		worst = d > worst || isnan(d) ? d : worst;
		largest = fabs(v[i]) > largest ? fabs(v[i]) : largest;
	}
	if (!(worst <= tol * largest))
		fail_msg("%s: %s is off by %.3g of at most %.3g (%.2g, tolerance %.2g)", r->g->name, what, worst, largest, worst / largest, tol);
}

static void compare(const struct run *r, const char *what, const void *got, const struct st_tensor *want, double tol)
{
	double *v = doubles(want);

	compare_values(r, what, got, v, st_count(want), tol);
	mem_free(v);
}

static void no_gradient(const struct run *r, const struct param *p, const void *grad)
{
	for (int64_t i = 0; i < p->count; i++)
		if (!(fabs(at(grad, r->real, i)) < (r->real == DT_F64 ? 1e-14 : 1e-6)))
			fail_msg("%s: %s has the gradient %.3g", r->g->name, p->name, at(grad, r->real, i));
}

/* The gradient of x, which may be a view. */
static void *dense_gradient(const struct run *r)
{
	const struct tensor *g = tape_grad(r->tape, r->x);
	const char *data = tape_data(r->tape, g);
	size_t size = dtype_size(r->real);
	int64_t n = BATCH;
	char *out;

	for (int d = 1; d < g->rank; d++)
		n *= g->shape[d];
	out = mem_zalloc((size_t)n, size);
	for (int64_t i = 0; i < n; i++) {
		int64_t rest = i, from = 0;

		for (int d = g->rank - 1; d >= 0; rest /= g->shape[d--])
			from += rest % g->shape[d] * g->stride[d];
		memcpy(out + (size_t)i * size, data + (size_t)from * size, size);
	}
	return out;
}

/* A bias of the keys adds the same number to all scores of a query, so its gradient is only rounding, unless keys are normalised or turned by their
 * positions, as the self-attention of networks for clips does. */
static int is_idle(const struct run *r, const struct param *p)
{
	const char *at = strstr(p->name, "to_k.bias");
	char norm[128];

	if (!at)
		return 0;
	snprintf(norm, sizeof norm, "%.*snorm_k.weight", (int)(at - p->name), p->name);
	return !(r->g->config.frames && strstr(p->name, "attn1.")) && params_find(&r->params, norm) < 0;
}

static void compare_gradients(const struct run *r, double tol, double projected_tol)
{
	void *dx;

	for (int i = 0; i < r->params.n; i++) {
		const struct param *p = &r->params.v[i];
		size_t offset = (size_t)p->offset * dtype_size(r->real);
		const char *grad = (const char *)r->grads + offset, *value = (const char *)r->values + offset;
		double sum = 0, size = 0, *want;

		if (p->flags & PARAM_FROZEN)
			continue;
		want = arranged(p, need(r->g, "g/", p->name));
		if (is_idle(r, p))
			no_gradient(r, p, grad);
		else
			compare_values(r, p->name, grad, want, p->count, tol);
		mem_free(want);
		if (is_idle(r, p))
			continue;
		for (int64_t k = 0; k < p->count; k++) {
			sum += at(grad, r->real, k) * at(value, r->real, k);
			size += fabs(at(grad, r->real, k) * at(value, r->real, k));
		}
		want = doubles(need(r->g, "d/", p->name));
		if (!(fabs(sum - *want) <= projected_tol * size))
			fail_msg("%s: %s: gradient times weight is %.17g, not %.17g", r->g->name, p->name, sum, *want);
		mem_free(want);
	}
	dx = dense_gradient(r);
	compare(r, "the gradient of x", dx, need(r->g, "", "gx"), tol);
	mem_free(dx);
}

static void check(void **state)
{
	struct golden g;

	open_golden(&g, *state);
	for (int recompute = 0; recompute < 2; recompute++) {
		struct run r;

		run_golden(&r, &g, DT_F64, recompute);
		compare(&r, "the output", tape_data(r.tape, r.y), need(&g, "", "y"), DOUBLE_TOL);
		compare_gradients(&r, STORED_TOL, DOUBLE_TOL);
		run_release(&r);
		run_golden(&r, &g, DT_F32, recompute);
		compare(&r, "the output", tape_data(r.tape, r.y), need(&g, "", "y"), FLOAT_TOL);
		compare_gradients(&r, FLOAT_TOL, FLOAT_TOL);
		run_release(&r);
	}
	st_free(g.file);
}

/* The golden's weights under diffusers' names, which follow "v/". Release with st_free; borrows g->file. */
static struct safetensors *under_diffusers_names(const struct golden *g)
{
	struct st_tensor *v = mem_zalloc((size_t)st_tensors(g->file), sizeof *v);
	struct safetensors *s;
	int n = 0;

	for (int i = 0; i < st_tensors(g->file); i++) {
		v[n] = *st_get(g->file, i);
		if (strncmp(v[n].name, "v/", 2))
			continue;
		v[n++].name += 2;
	}
	s = st_of(v, n, "diffusers' names", NULL, NULL);
	mem_free(v);
	return s;
}

/* Weights under diffusers' names are those under the original names. */
static void diffusers_names(void **state)
{
	struct golden g;
	struct params p = {0};
	struct safetensors *s;
	struct err e = {0};
	float *got, *want;

	open_golden(&g, *state);
	net_params(&g.config, &p);
	s = under_diffusers_names(&g);
	if (model_match_weights(s, "here", &p, &e))
		fail_msg("%s", e.msg);
	for (int i = 0; i < p.n; i++) {
		const struct st_tensor *t = need(&g, "w/", p.v[i].name);

		got = mem_zalloc((size_t)p.v[i].count, sizeof *got);
		want = mem_zalloc((size_t)p.v[i].count, sizeof *want);
		model_read_weight(s, &p.v[i], got);
		st_to_f32(want, t);
		if (memcmp(got, want, (size_t)p.v[i].count * sizeof *got))
			fail_msg("%s: %s differs under diffusers' names", g.name, p.v[i].name);
		mem_free(got);
		mem_free(want);
	}
	st_free(s);
	params_release(&p);
	st_free(g.file);
}

/* The initial position table equals numpy's within the last two bits. */
static void positions(void **state)
{
	struct golden g;
	struct params p = {0};
	const struct st_tensor *want;
	float *values, *pos;
	int k;

	open_golden(&g, *state);
	net_params(&g.config, &p);
	values = mem_zalloc((size_t)p.total, sizeof *values);
	params_init(&p, 1, values);
	k = params_find(&p, "pos_embed");
	assert_true(k >= 0);
	assert_true(p.v[k].flags & PARAM_FROZEN);
	want = need(&g, "w/", "pos_embed");
	pos = mem_zalloc((size_t)p.v[k].count, sizeof *pos);
	st_to_f32(pos, want);
	for (int64_t i = 0; i < p.v[k].count; i++) {
		float got = values[p.v[k].offset + i];

		if (!(fabsf(got - pos[i]) <= 6e-8f))
			fail_msg("%s: position %d is %.9g, not %.9g", g.name, (int)i, (double)got, (double)pos[i]);
	}
	mem_free(pos);
	mem_free(values);
	params_release(&p);
	st_free(g.file);
}

/* clang-format off */
#define GOLDEN_TRAINED(n) {n, check, NULL, NULL, n} /* with trained positions, or without positions */
#define GOLDEN(n) {n, check, NULL, NULL, n}, {"positions of " n, positions, NULL, NULL, n}
#define DIFFUSERS_NAMES(n) {"diffusers' names of " n, diffusers_names, NULL, NULL, n}
/* clang-format on */

int main(void)
{
	const struct CMUnitTest tests[] = {GOLDEN("plain"),
	                                   GOLDEN("class"),
	                                   GOLDEN("odd"),
	                                   GOLDEN("router"),
	                                   GOLDEN("router1"),
	                                   GOLDEN("paris"),
	                                   GOLDEN_TRAINED("paris1"),
	                                   GOLDEN("pixart"),
	                                   GOLDEN("pixart1"),
	                                   GOLDEN("sit"),
	                                   GOLDEN_TRAINED("unet"),
	                                   GOLDEN_TRAINED("unet1"),
	                                   GOLDEN_TRAINED("unet-text"),
	                                   GOLDEN_TRAINED("unet-text1"),
	                                   GOLDEN("sd3"),
	                                   DIFFUSERS_NAMES("sd3"),
	                                   GOLDEN("sd35"),
	                                   DIFFUSERS_NAMES("sd35"),
	                                   GOLDEN_TRAINED("flux"),
	                                   DIFFUSERS_NAMES("flux"),
	                                   GOLDEN_TRAINED("video"),
	                                   GOLDEN_TRAINED("video1"),
	                                   GOLDEN_TRAINED("video-wan"),
	                                   GOLDEN_TRAINED("video-first"),
	                                   GOLDEN("clip"),
	                                   GOLDEN("clip-text")};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
