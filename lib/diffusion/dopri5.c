/* The adaptive method of Dormand and Prince (1980), as in Hairer, Norsett, Wanner, "Solving Ordinary Differential Equations I", II.4 and II.5. */
#include "diffusion/dopri5.h"

#include <math.h>

#include "core/mem.h"
#include "diffusion/ondevice.h"

enum { STAGES = 7 };

static const double LEAST = .001; /* the steps of controlled error end here; the least of a thousand training times */
static const double FIRST = .05;  /* length of the first step that is tried */

static const double c[STAGES] = {0, 1. / 5, 3. / 10, 4. / 5, 8. / 9, 1, 1};

/* Row j gives the x of stage j; that of stage 6 is the end of the step, so the velocity there is the first of the next step. */
static const double a[STAGES][STAGES] = {{0},
                                         {1. / 5},
                                         {3. / 40, 9. / 40},
                                         {44. / 45, -56. / 15, 32. / 9},
                                         {19372. / 6561, -25360. / 2187, 64448. / 6561, -212. / 729},
                                         {9017. / 3168, -355. / 33, 46732. / 5247, 49. / 176, -5103. / 18656},
                                         {35. / 384, 0, 500. / 1113, 125. / 192, -2187. / 6784, 11. / 84}};

/* The difference to the method of order 4. */
static const double difference[STAGES] = {71. / 57600, 0, -71. / 16695, 71. / 1920, -17253. / 339200, 22. / 525, -1. / 40};

/* A state of dopri5_run: v[j] the velocities of the stages, y the x of a stage, error the difference; host arrays for the norm. */
struct run {
	const struct solver *s;
	struct device *d;
	float *x, *v[STAGES], *y, *error, *host_x, *host_y, *host_error;
	int64_t count;
	solver_field *field;
	void *arg;
};

int64_t dopri5_work(int64_t count)
{
	return (STAGES + 2) * count;
}

/* y = x + h sum_k f[k] v_k; x may be NULL. In two sums, because COMBINE takes few terms. */
static void add(const struct run *r, float *y, const float *x, double h, const double *f, int n)
{
	struct term t[OP_COMBINED] = {{x ? 1 : 0, x ? x : y, r->count}};
	int terms = 1;

	for (int k = 0; k < n; k++) {
		if (f[k] == 0)
			continue;
		if (terms == OP_COMBINED) {
			ondevice_combine(r->d, y, r->count, t, terms, 0, 1, r->count);
			t[0] = (struct term){1, y, r->count};
			terms = 1;
		}
		t[terms++] = (struct term){h * f[k], r->v[k], r->count};
	}
	ondevice_combine(r->d, y, r->count, t, terms, 0, 1, r->count);
}

/* The root mean square of the error over atol + rtol max(|x|, |y|). */
static double norm(const struct run *r)
{
	size_t bytes = (size_t)r->count * sizeof(float);
	double sum = 0;

	device_get(r->d, r->host_x, r->x, bytes);
	device_get(r->d, r->host_y, r->y, bytes);
	device_get(r->d, r->host_error, r->error, bytes);
	for (int64_t i = 0; i < r->count; i++) {
		double allowed = r->s->adapt.atol + r->s->adapt.rtol * fmax(fabs((double)r->host_x[i]), fabs((double)r->host_y[i]));

		sum += pow((double)r->host_error[i] / allowed, 2);
	}
	return sqrt(sum / (double)r->count);
}

static void copy(const struct run *r, float *to, const float *from)
{
	ondevice_combine(r->d, to, r->count, &(struct term){1, from, r->count}, 1, 0, 1, r->count);
}

/* One step of length h from t; v[0] is known. Leaves the new x in y, its velocity in v[6], and the norm in *error. */
static int attempt(const struct run *r, double t, double end, int64_t tried, double *error, struct err *e)
{
	double h = end - t;

	for (int j = 1; j < STAGES; j++) {
		add(r, r->y, r->x, h, a[j], j);
		if (r->field(r->arg, r->v[j], r->y, c[j] == 1 ? end : t + c[j] * h, tried, j - 1, e))
			return -1;
	}
	add(r, r->error, NULL, h, difference, STAGES);
	*error = norm(r);
	return r->d->error(r->d, e);
}

/* From t to 0 by Heun's method of order 3, which does not evaluate at 0. */
static int finish(const struct run *r, double t, int64_t tried, struct err *e)
{
	static const double second[] = {1. / 3}, third[] = {0, 2. / 3}, sum[] = {.25, 0, .75};

	add(r, r->y, r->x, -t, second, 1);
	if (r->field(r->arg, r->v[1], r->y, t * 2 / 3, tried, 0, e))
		return -1;
	add(r, r->y, r->x, -t, third, 2);
	if (r->field(r->arg, r->v[2], r->y, t / 3, tried, 1, e))
		return -1;
	add(r, r->x, r->x, -t, sum, 3);
	return 0;
}

/* Step sizes by the usual rule: .9 error^(-1/5), between a factor of 1/5 and 10, and not longer after a rejection. */
static int integrate(const struct run *r, struct err *e)
{
	double t = r->s->from, last = r->s->to > 0 ? r->s->to : LEAST, h = FIRST, error;
	int64_t tried = 0;
	int rejected = 0;

	if (r->field(r->arg, r->v[0], r->x, t, 0, STAGES - 1, e))
		return -1;
	while (t > last) {
		double end = fmax(t - h, last), factor;

		if (tried == r->s->steps)
			return err_set(e, ERR_USAGE, "dopri5 reached t = %.6g in %lld steps: allow more with --steps, or a larger rtol or atol", t,
			               (long long)tried);
		if (attempt(r, t, end, tried++, &error, e))
			return -1;
		if (!isfinite(error)) { /* the sample is not finite, which its reader reports */
			copy(r, r->x, r->y);
			return 0;
		}
		factor = error > 0 ? fmin(fmax(.9 * pow(error, -.2), .2), 10) : 10;
		h = (t - end) * (rejected ? fmin(factor, 1) : factor);
		rejected = error > 1;
		if (rejected)
			continue;
		t = end;
		copy(r, r->x, r->y);
		copy(r, r->v[0], r->v[STAGES - 1]);
	}
	return r->s->to > 0 ? 0 : finish(r, t, tried, e);
}

int dopri5_run(const struct solver *s, struct device *d, float *x, int64_t count, float *work, solver_field *field, void *arg, struct err *e)
{
	struct run r = {.s = s, .d = d, .x = x, .y = work + STAGES * count, .count = count, .field = field, .arg = arg};
	int rc;

	for (int j = 0; j < STAGES; j++)
		r.v[j] = work + j * count;
	r.error = r.y + count;
	r.host_x = mem_alloc(3 * (size_t)count * sizeof *r.host_x);
	r.host_y = r.host_x + count;
	r.host_error = r.host_y + count;
	rc = integrate(&r, e);
	mem_free(r.host_x);
	return rc;
}
