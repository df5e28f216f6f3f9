/* Runs an op in many layouts and compares it with a reference. */
#include "tests/op/optest.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"
#include "core/shortfloat.h"

enum { DENSE, PADDED, REVERSED, LAYOUTS };
enum { GUARD = 256 };

static const unsigned char guard_byte = 0xa5;

int index_next(const struct array *a, int64_t idx[ARRAY_RANK])
{
	for (int d = a->rank - 1; d >= 0; d--) {
		if (++idx[d] < a->shape[d])
			return 1;
		idx[d] = 0;
	}
	return 0;
}

static int64_t offset(const struct array *a, const int64_t idx[ARRAY_RANK])
{
	int64_t o = 0;

	for (int d = 0; d < a->rank; d++)
		o += idx[d] * a->stride[d];
	return o;
}

double *element(const struct array *a, const int64_t idx[ARRAY_RANK])
{
	return (double *)a->data + offset(a, idx);
}

int64_t index_value(const struct array *a, int64_t i)
{
	return ((const int32_t *)a->data)[i * a->stride[0]];
}

static double load(const struct array *a, int64_t at)
{
	switch (a->dtype) {
	case DT_F32:
		return (double)((const float *)a->data)[at];
	case DT_F64:
		return ((const double *)a->data)[at];
	case DT_BF16:
		return (double)bf16_to_f32(((const uint16_t *)a->data)[at]);
	default:
		return ((const int32_t *)a->data)[at];
	}
}

static void save(const struct array *a, int64_t at, double v)
{
	if (a->dtype == DT_F32)
		((float *)a->data)[at] = (float)v;
	else if (a->dtype == DT_F64)
		((double *)a->data)[at] = v;
	else if (a->dtype == DT_BF16)
		((uint16_t *)a->data)[at] = f32_to_bf16((float)v);
	else
		((int32_t *)a->data)[at] = isnan(v) ? -1 : (int32_t)v;
}

/* An operand's memory: the array that the op sees, an array over the stored elements, and the size. */
struct storage {
	struct array seen, stored;
	int64_t elements;
};

static void place(struct storage *s, const struct operand *o, enum dtype real, int layout)
{
	int64_t step = 1;

	memset(s, 0, sizeof *s);
	if (!o->rank)
		return;
	s->seen.dtype = o->limit ? DT_I32 : o->exact && real == DT_BF16 ? DT_F32 : real;
	s->seen.rank = o->rank;
	if (o->dense || (layout == REVERSED && !o->free))
		layout = DENSE;
	for (int i = 0; i < o->rank; i++) {
		int d = layout == REVERSED ? i : o->rank - 1 - i;
		int64_t n = o->bcast >> d & 1 ? 1 : o->shape[d];

		s->seen.shape[d] = o->shape[d];
		s->seen.stride[d] = n == 1 && o->shape[d] != 1 ? 0 : step;
		step = step * n + (layout == PADDED ? 3 + 2 * i : 0);
	}
	s->stored = s->seen;
	for (int d = 0; d < o->rank; d++)
		if (o->bcast >> d & 1)
			s->stored.shape[d] = 1;
	s->elements = step;
	s->seen.data = mem_try((size_t)step + 8, 8, "test array", NULL);
	s->stored.data = s->seen.data;
	for (int64_t i = 0; i < step + 8; i++)
		save(&s->seen, i, NAN);
}

static int64_t stored_count(const struct operand *o)
{
	int64_t n = o->rank > 0;

	for (int d = 0; d < o->rank; d++)
		n *= o->bcast >> d & 1 ? 1 : o->shape[d];
	return n;
}

/* Values that float represents exactly, so that both builds see the same inputs. */
static double *make_values(const struct optest *t, int j)
{
	const struct operand *o = &t->in[j];
	int64_t n = stored_count(o);
	double *v = mem_zalloc((size_t)n + 1, sizeof *v);
	float *f = mem_zalloc((size_t)n + 1, sizeof *f);

	if (o->like)
		j = o->like - 1;
	rng_normal(f, (size_t)n, 11, RNG_TEST, t->op, (uint64_t)j);
	for (int64_t i = 0; i < n; i++)
		v[i] = o->values  ? o->values[i]
		       : o->limit ? (double)rng_below((uint64_t)o->limit, 11, RNG_TEST, t->op, (uint64_t)j, (uint32_t)i)
		                  : (float)(f[i] * (o->scale != 0 ? o->scale : 1) + o->shift);
	mem_free(f);
	return v;
}

static int holds_any(const struct array *a)
{
	return a->rank && array_count(a) > 0;
}

static void set_values(struct storage *s, const double *v)
{
	int64_t idx[ARRAY_RANK] = {0}, i = 0;

	if (holds_any(&s->stored))
		do
			save(&s->stored, offset(&s->stored, idx), v[i++]);
		while (index_next(&s->stored, idx));
}

static double *get_values(const struct storage *s)
{
	int64_t idx[ARRAY_RANK] = {0}, i = 0;
	double *v = mem_zalloc((size_t)array_count(&s->stored) + 1, sizeof *v);

	if (holds_any(&s->stored))
		do
			v[i++] = load(&s->stored, offset(&s->stored, idx));
		while (index_next(&s->stored, idx));
	return v;
}

static void check_gaps(const struct optest *t, const struct storage *s, int o)
{
	unsigned char *used = mem_zalloc((size_t)s->elements + 8, 1);
	int64_t idx[ARRAY_RANK] = {0};

	if (holds_any(&s->stored))
		do
			used[offset(&s->stored, idx)] = 1;
		while (index_next(&s->stored, idx));
	for (int64_t i = 0; i < s->elements + 8; i++)
		if (!used[i] && !isnan(load(&s->stored, i)))
			fail_msg("%s: output %d is written in a gap, at %lld", t->name, o, (long long)i);
	mem_free(used);
}

/* The conditions of a run. */
struct way {
	enum dtype real;
	int layout, in_place;
	struct pool *pool;
	int64_t first, count;      /* of the samples; count 0: all */
	const struct kernel *twin; /* instead of the device's */
};

/* Keep only some samples; they stay where they are among all of them. */
static void cut_samples(struct storage *s, const struct operand *o, const struct way *w)
{
	if (!o->rank || !o->batch || !w->count)
		return;
	s->seen.shape[0] = w->count;
	if (!(o->bcast & 1))
		s->stored.shape[0] = w->count;
}

void (*optest_remote)(const struct kernel *k, const struct op_call *c);

static int of_cpu(const struct kernel *k)
{
	int found = 0;

	for (int i = 0; i < 2; i++) {
		struct device *d = device_cpu(NULL, i ? DT_F64 : DT_F32);

		for (int op = 0; op < OP_COUNT; op++)
			found |= d->kernel[op] == k;
		device_free(d);
	}
	return found;
}

void optest_call(const struct kernel *k, const struct op_call *c)
{
	if (optest_remote && !of_cpu(k))
		optest_remote(k, c);
	else
		k->run(c);
}

static void launch(const struct optest *t, struct op_call *c, const struct way *w)
{
	struct device *dev = device_cpu(w->pool, w->real == DT_F64 ? DT_F64 : DT_F32);
	const struct kernel *k = w->twin ? w->twin : dev->kernel[t->op];
	struct op_call shapes = *c;
	size_t need;
	unsigned char *scratch;

	for (int i = 0; i < OP_IN; i++)
		shapes.in[i].data = NULL;
	for (int i = 0; i < OP_OUT; i++)
		shapes.out[i].data = NULL;
	need = k->scratch ? k->scratch(&shapes, pool_threads(w->pool)) : 0;
	scratch = mem_try(need + GUARD, 1, "scratch", NULL);
	memset(scratch, 0xff, need);
	memset(scratch + need, guard_byte, GUARD);
	c->scratch = scratch;
	optest_call(k, c);
	for (int i = 0; i < GUARD; i++)
		if (scratch[need + (size_t)i] != guard_byte)
			fail_msg("%s: writes beyond the %zu bytes of scratch it declares", t->name, need);
	mem_free(scratch);
	device_free(dev);
}

/* Run under these conditions on the stored inputs; out[o] receives the values of the outputs. */
static void run_way(const struct optest *t, const struct way *w, double *const in[], double *out[])
{
	struct storage si[OP_IN] = {0}, so[OP_OUT] = {0};
	const struct run_keys keys = {5, 9, (uint64_t)w->first, RNG_TEST, (uint64_t)t->no_dropout};
	struct op_call c = {.nin = t->nin, .nout = t->nout, .attr = t->attr, .keys = &keys, .pool = w->pool};

	for (int i = 0; i < t->nin; i++) {
		const struct operand *o = &t->in[i];
		int64_t per = o->batch && o->rank && !(o->bcast & 1) ? stored_count(o) / o->shape[0] : 0;

		place(&si[i], o, w->real, w->layout);
		cut_samples(&si[i], o, w);
		set_values(&si[i], in[i] + w->first * per);
		c.in[i] = si[i].seen;
	}
	for (int i = 0; i < t->nout; i++) {
		if (i == 0 && w->in_place)
			so[i] = si[t->in_place - 1];
		else
			place(&so[i], &t->out[i], w->real, w->layout);
		cut_samples(&so[i], &t->out[i], w);
		c.out[i] = so[i].seen;
	}
	launch(t, &c, w);
	for (int i = 0; i < t->nout; i++) {
		out[i] = get_values(&so[i]);
		if (t->out[i].rank)
			check_gaps(t, &so[i], i);
		if (!(i == 0 && w->in_place))
			mem_free(so[i].seen.data);
	}
	for (int i = 0; i < t->nin; i++)
		mem_free(si[i].seen.data);
}

static void run_ref(const struct optest *t, double *const in[], double *out[])
{
	struct storage si[OP_IN] = {0}, so[OP_OUT] = {0};
	const struct run_keys keys = {5, 9, 0, RNG_TEST, (uint64_t)t->no_dropout};
	struct op_call c = {.nin = t->nin, .nout = t->nout, .attr = t->attr, .keys = &keys};

	for (int i = 0; i < t->nin; i++) {
		place(&si[i], &t->in[i], DT_F64, DENSE);
		set_values(&si[i], in[i]);
		c.in[i] = si[i].seen;
	}
	for (int i = 0; i < t->nout; i++) {
		place(&so[i], &t->out[i], DT_F64, DENSE);
		c.out[i] = so[i].seen;
		for (int d = 0; d < c.out[i].rank; d++)
			if (c.out[i].shape[d] == 1)
				c.out[i].stride[d] = 0;
	}
	t->ref(&c);
	for (int i = 0; i < t->nout; i++) {
		out[i] = get_values(&so[i]);
		mem_free(so[i].seen.data);
	}
	for (int i = 0; i < t->nin; i++)
		mem_free(si[i].seen.data);
}

static void near(const struct optest *t, const char *what, int o, const double *got, const double *want, int64_t n, double tol)
{
	double top = fmax(1e-30, t->terms[o]), worst = 0;

	for (int64_t i = 0; i < n; i++) {
		top = fmax(top, fabs(want[i]));
		if (isnan(got[i]))
			fail_msg("%s: %s, output %d: element %lld is NaN", t->name, what, o, (long long)i);
		worst = fmax(worst, fabs(got[i] - want[i]));
	}
	if (!(worst <= tol * top))
		fail_msg("%s: %s, output %d: error %.3g of the largest value or term, %.3g allowed", t->name, what, o, worst / top, tol);
}

static void same(const struct optest *t, const char *what, int o, const double *got, const double *want, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		if (memcmp(&got[i], &want[i], sizeof *got))
			fail_msg("%s: %s, output %d: element %lld is %.17g, was %.17g", t->name, what, o, (long long)i, got[i], want[i]);
}

static void free_all(double *v[], int n)
{
	for (int i = 0; i < n; i++)
		mem_free(v[i]);
}

/* Run under other conditions and compare with the plain run: bit for bit, or within a tolerance. */
static void compare(const struct optest *t, const char *what, const struct way *w, double *const in[], double *const plain[], double tol)
{
	double *out[OP_OUT] = {0};

	run_way(t, w, in, out);
	for (int o = 0; o < t->nout; o++) {
		int64_t n = stored_count(&t->out[o]), per = n && t->out[o].batch ? n / t->out[o].shape[0] : 0;
		const double *want = plain[o] + w->first * per;

		if (w->count)
			n = per * w->count;
		if (tol > 0)
			near(t, what, o, out[o], want, n, w->real == DT_BF16 && !t->out[o].exact ? tol + 0x1p-8 : tol);
		else
			same(t, what, o, out[o], want, n);
	}
	free_all(out, t->nout);
}

static int64_t samples_of(const struct optest *t)
{
	int64_t n = 0;

	for (int i = 0; t->samples && i < t->nin + t->nout; i++) {
		const struct operand *o = i < t->nin ? &t->in[i] : &t->out[i - t->nin];

		n = o->rank && o->batch ? o->shape[0] : n;
	}
	return n;
}

/* Samples without the others, in one layout of the arrays, give the same bits as all samples together. */
static void run_alone(const struct optest *t, struct way w, double *const in[])
{
	double *all[OP_OUT] = {0};
	int64_t n = samples_of(t);

	if (n < 2)
		return;
	run_way(t, &w, in, all);
	for (w.count = 1; w.first < n; w.first++)
		if (!w.twin || w.first == 0 || w.first == n - 1)
			compare(t, w.twin ? "one sample of the twin" : "one sample", &w, in, all, 0);
	w.first = 1;
	w.count = n - 1;
	if (n > 2 && !w.twin)
		compare(t, "all but the first sample", &w, in, all, 0);
	free_all(all, t->nout);
}

static void run_real(const struct optest *t, enum dtype real, double *const in[], double *const ref[], struct pool *pool[2])
{
	double *plain[OP_OUT] = {0}, tol = real == DT_F32 ? t->tol32 : t->tol64;
	struct way w = {.real = real};

	run_way(t, &w, in, plain);
	for (int o = 0; ref && o < t->nout; o++)
		near(t, real == DT_F32 ? "float" : "double", o, plain[o], ref[o], stored_count(&t->out[o]), tol);
	for (int layout = DENSE; layout < LAYOUTS; layout++)
		for (int p = 0; p < 2; p++)
			compare(t,
			        layout == DENSE    ? "pool"
			        : layout == PADDED ? "padded"
			                           : "reversed",
			        &(struct way){.real = real, .layout = layout, .pool = pool[p]}, in, plain, layout == DENSE || !t->layouts ? 0 : tol);
	if (t->in_place)
		compare(t, "in place", &(struct way){.real = real, .in_place = 1, .pool = pool[1]}, in, plain, 0);
	for (int layout = DENSE; t->samples && layout < LAYOUTS; layout++)
		run_alone(t, (struct way){.real = real, .layout = layout, .pool = pool[layout % 2]}, in);
	free_all(plain, t->nout);
}

static void make_inputs(const struct optest *t, double *in[])
{
	for (int i = 0; i < t->nin; i++)
		in[i] = make_values(t, i);
}

void optest_run(const struct optest *t)
{
	struct pool *pool[2] = {pool_new(1, NULL), pool_new(3, NULL)};
	double *in[OP_IN] = {0}, *ref[OP_OUT] = {0};

	make_inputs(t, in);
	if (t->ref)
		run_ref(t, in, ref);
	else
		run_way(t, &(struct way){.real = DT_F64}, in, ref);
	run_real(t, DT_F64, in, ref, pool);
	run_real(t, DT_F32, in, ref, pool);
	free_all(in, t->nin);
	free_all(ref, t->nout);
	pool_free(pool[0]);
	pool_free(pool[1]);
}

static void round_inputs(const struct optest *t, double *const in[])
{
	for (int i = 0; i < t->nin; i++)
		for (int64_t k = 0; !t->in[i].limit && !t->in[i].finer && k < stored_count(&t->in[i]); k++)
			in[i][k] = (double)bf16_to_f32(f32_to_bf16((float)in[i][k]));
}

void optest_twin(const struct optest *t, const struct kernel *twin, double tol)
{
	double *in[OP_IN] = {0}, *plain[OP_OUT] = {0};

	make_inputs(t, in);
	round_inputs(t, in);
	run_way(t, &(struct way){.real = DT_F32}, in, plain);
	for (int layout = DENSE; layout < LAYOUTS; layout++) {
		compare(t, "the twin", &(struct way){.real = DT_F32, .layout = layout, .twin = twin}, in, plain, tol);
		compare(t, "the twin in bfloat16", &(struct way){.real = DT_BF16, .layout = layout, .twin = twin}, in, plain,
		        fmax(tol + t->tol16, 1e-30));
	}
	for (int layout = DENSE; t->samples && layout < LAYOUTS; layout++)
		for (int i = 0; i < 2; i++)
			run_alone(t, (struct way){.real = i ? DT_BF16 : DT_F32, .layout = layout, .twin = twin}, in);
	if (t->in_place)
		compare(t, "the twin in place", &(struct way){.real = DT_F32, .in_place = 1, .twin = twin}, in, plain, tol);
	free_all(in, t->nin);
	free_all(plain, t->nout);
}

void optest_values(const struct optest *t, double *in[OP_IN], double *out[OP_OUT])
{
	make_inputs(t, in);
	run_way(t, &(struct way){.real = DT_F64}, in, out);
}

/* The sum of dy times output 0 of t. */
static double pairing(const struct optest *t, double *const in[], const double *dy)
{
	double *out[OP_OUT] = {0}, sum = 0;

	run_way(t, &(struct way){.real = DT_F64}, in, out);
	for (int64_t i = 0; i < stored_count(&t->out[0]); i++)
		sum += dy[i] * out[0][i];
	free_all(out, t->nout);
	return sum;
}

/* Differences of fourth order: the error is h^4 / 30 times the fifth derivative, plus the rounding of the sum divided by h. */
static void differences(const struct optest *t, double *const in[], const double *dy, int wrt, double *g)
{
	const double h = 3e-4, weight[2] = {8, -1};

	for (int64_t i = 0; i < stored_count(&t->in[wrt]); i++) {
		double x = in[wrt][i], sum = 0;

		for (int k = 1; k <= 2; k++) {
			in[wrt][i] = x + k * h;
			sum += weight[k - 1] * pairing(t, in, dy);
			in[wrt][i] = x - k * h;
			sum -= weight[k - 1] * pairing(t, in, dy);
		}
		g[i] = sum / (12 * h);
		in[wrt][i] = x;
	}
}

void optest_gradient(const struct optest *fwd, const struct optest *back, const int from[OP_IN], const int wrt[OP_OUT], int acc, double tol)
{
	struct optest b = *back;
	double *in[OP_IN] = {0}, *out[OP_OUT] = {0}, *bin[OP_IN] = {0}, *bout[OP_OUT] = {0}, *dy = NULL;

	optest_values(fwd, in, out);
	for (int j = 0; j < b.nin; j++) {
		if (from[j] >= FROM_OUT)
			b.in[j].values = out[from[j] - FROM_OUT];
		else if (from[j] >= FROM_IN)
			b.in[j].values = in[from[j] - FROM_IN];
		bin[j] = make_values(&b, j);
		if (from[j] == FROM_DY)
			dy = bin[j];
	}
	assert_non_null(dy);
	run_way(&b, &(struct way){.real = DT_F64}, bin, bout);
	for (int o = 0; o < b.nout; o++) {
		int64_t n = stored_count(&b.out[o]);
		double *g = mem_zalloc((size_t)n + 1, sizeof *g);

		if (n) {
			assert_int_equal(n, stored_count(&fwd->in[wrt[o]]));
			differences(fwd, in, dy, wrt[o], g);
			for (int64_t i = 0; acc && o == 0 && i < n; i++)
				g[i] += bin[acc - 1][i];
			near(&b, "against central differences", o, bout[o], g, n, tol);
		}
		mem_free(g);
	}
	optest_run(&b);
	free_all(in, fwd->nin);
	free_all(out, fwd->nout);
	free_all(bin, b.nin);
	free_all(bout, b.nout);
}
