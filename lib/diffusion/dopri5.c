/* The adaptive method of Dormand and Prince (1980), as in Hairer, Norsett, Wanner, "Solving Ordinary Differential Equations I", II.4 and II.5. */
#include "diffusion/dopri5.h"

#include <assert.h>
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

enum phase { TRIES, FINISHES, GONE };

/* A sample that is not done, and where it is. Its next step goes from t to `end`, or is the last one, from t to 0. */
struct slot {
	int64_t sample;
	enum phase phase;
	double t, end, h; /* h: length of the next step to be tried */
	int rejected;
};

/* A state of dopri5_run. x is in the order of the samples, and all else in that of the slots, those that try a step before those that finish:
 * v[j] the velocities of the stages, y the x of a stage, error the difference; host arrays for the norm. */
struct run {
	const struct solver *s;
	struct device *d;
	float *x, *v[STAGES], *y, *error, *host_x, *host_y, *host_error;
	int64_t n, count;
	struct slot *slot, *next; /* (n) each */
	double *time;             /* (n) */
	int64_t *sample;          /* (n) */
	dopri5_field *field;
	void *arg;
};

int64_t dopri5_work(int64_t count)
{
	return (STAGES + 2) * count;
}

/* y = x + h sum_k f[k] v_k of slot i; x may be NULL. In two sums, because COMBINE takes few terms. */
static void add(const struct run *r, int64_t i, float *y, const float *x, double h, const double *f, int n)
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
		t[terms++] = (struct term){h * f[k], r->v[k] + i * r->count, r->count};
	}
	ondevice_combine(r->d, y, r->count, t, terms, 0, 1, r->count);
}

/* The root mean square over slot i of the error over atol + rtol max(|x|, |y|). */
static double norm(const struct run *r, int64_t i)
{
	const float *x = r->host_x + r->slot[i].sample * r->count, *y = r->host_y + i * r->count, *error = r->host_error + i * r->count;
	double sum = 0;

	for (int64_t k = 0; k < r->count; k++) {
		double allowed = r->s->adapt.atol + r->s->adapt.rtol * fmax(fabs((double)x[k]), fabs((double)y[k]));

		sum += pow((double)error[k] / allowed, 2);
	}
	return sqrt(sum / (double)r->count);
}

static void copy(const struct run *r, float *to, const float *from)
{
	ondevice_combine(r->d, to, r->count, &(struct term){1, from, r->count}, 1, 0, 1, r->count);
}

static float *x_of(const struct run *r, int64_t i)
{
	return r->x + r->slot[i].sample * r->count;
}

/* Velocities j of the first n slots. v[0] is known. Leaves y at the new x after the last stage, and its velocity in v[6]. Slots that finish take
 * Heun's method of order 3, which has two more stages and does not evaluate at 0. */
static int stage(const struct run *r, int j, int64_t n, int64_t tried, struct err *e)
{
	static const double second[] = {1. / 3}, third[] = {0, 2. / 3};

	for (int64_t i = 0; i < n; i++) {
		const struct slot *s = &r->slot[i];
		double h = s->end - s->t;

		if (s->phase == FINISHES) {
			add(r, i, r->y + i * r->count, x_of(r, i), -s->t, j == 1 ? second : third, j);
			r->time[i] = j == 1 ? s->t * 2 / 3 : s->t / 3;
		} else {
			add(r, i, r->y + i * r->count, x_of(r, i), h, a[j], j);
			r->time[i] = c[j] == 1 ? s->end : s->t + c[j] * h;
		}
		r->sample[i] = s->sample;
	}
	return r->field(r->arg, r->v[j], r->y, r->time, r->sample, n, tried, j - 1, e);
}

/* Step sizes by the usual rule: .9 error^(-1/5), between a factor of 1/5 and 10, and not longer after a rejection. */
static void judge(const struct run *r, int64_t i, double last)
{
	struct slot *s = &r->slot[i];
	double error = norm(r, i), factor = error > 0 ? fmin(fmax(.9 * pow(error, -.2), .2), 10) : 10;

	if (!isfinite(error)) { /* the sample is not finite, which its reader reports */
		copy(r, x_of(r, i), r->y + i * r->count);
		s->phase = GONE;
		return;
	}
	s->h = (s->t - s->end) * (s->rejected ? fmin(factor, 1) : factor);
	s->rejected = error > 1;
	if (s->rejected)
		return;
	s->t = s->end;
	copy(r, x_of(r, i), r->y + i * r->count);
	if (s->t <= last)
		s->phase = r->s->to > 0 ? GONE : FINISHES;
}

/* One step of the first `trying` slots, and the last step of the others of n. */
static int attempt(const struct run *r, int64_t trying, int64_t n, int64_t tried, double last, struct err *e)
{
	static const double sum[] = {.25, 0, .75};
	size_t bytes = (size_t)r->count * sizeof(float);

	for (int64_t i = 0; i < trying; i++)
		r->slot[i].end = fmax(r->slot[i].t - r->slot[i].h, last);
	for (int j = 1; j < (trying ? STAGES : 3); j++)
		if (stage(r, j, j < 3 ? n : trying, tried, e))
			return -1;
	for (int64_t i = trying; i < n; i++) {
		add(r, i, x_of(r, i), x_of(r, i), -r->slot[i].t, sum, 3);
		r->slot[i].phase = GONE;
	}
	if (!trying)
		return 0;
	for (int64_t i = 0; i < trying; i++)
		add(r, i, r->error + i * r->count, NULL, r->slot[i].end - r->slot[i].t, difference, STAGES);
	device_get(r->d, r->host_x, r->x, (size_t)r->n * bytes);
	device_get(r->d, r->host_y, r->y, (size_t)trying * bytes);
	device_get(r->d, r->host_error, r->error, (size_t)trying * bytes);
	if (r->d->error(r->d, e))
		return -1;
	for (int64_t i = 0; i < trying; i++)
		judge(r, i, last);
	return 0;
}

/* Gives the slots of samples that are gone to others, with the first velocity of their next step: the last of an accepted step, else the old one. A
 * velocity moves to an earlier slot, or from v[6], so none is overwritten before it has moved. Returns the slots in use. */
static int64_t close_up(struct run *r, int64_t n, int64_t *trying)
{
	struct slot *old = r->slot;
	int64_t used = 0;

	for (int phase = TRIES; phase <= FINISHES; phase++) {
		for (int64_t i = 0; i < n; i++) {
			if ((int)old[i].phase != phase)
				continue;
			if (!old[i].rejected)
				copy(r, r->v[0] + used * r->count, r->v[STAGES - 1] + i * r->count);
			else if (used != i)
				copy(r, r->v[0] + used * r->count, r->v[0] + i * r->count);
			r->next[used++] = old[i];
		}
		if (phase == TRIES)
			*trying = used;
	}
	r->slot = r->next;
	r->next = old;
	return used;
}

/* Every sample that is not done takes part in every round, so the rounds are also the number of its step. */
static int integrate(struct run *r, struct err *e)
{
	double last = r->s->to > 0 ? r->s->to : LEAST;
	int64_t trying = r->n, n = r->n;

	for (int64_t i = 0; i < n; i++) {
		r->slot[i] = (struct slot){.sample = i, .t = r->s->from, .h = FIRST};
		r->time[i] = r->s->from;
		r->sample[i] = i;
	}
	if (r->field(r->arg, r->v[0], r->x, r->time, r->sample, n, 0, STAGES - 1, e))
		return -1;
	for (int64_t tried = 0; n; tried++) {
		if (trying && tried == r->s->steps)
			return err_set(e, ERR_USAGE, "dopri5 reached t = %.6g in %lld steps: allow more with --steps, or a larger rtol or atol",
			               r->slot[0].t, (long long)tried);
		if (attempt(r, trying, n, tried, last, e))
			return -1;
		n = close_up(r, n, &trying);
	}
	return 0;
}

int dopri5_run(const struct solver *s, struct device *d, float *x, int64_t n, int64_t count, float *work, dopri5_field *field, void *arg,
               struct err *e)
{
	struct run r = {.s = s, .d = d, .x = x, .y = work + STAGES * n * count, .n = n, .count = count, .field = field, .arg = arg};
	struct slot *slots = mem_zalloc(2 * (size_t)n, sizeof *slots);
	int rc;

	assert(s->from > (s->to > 0 ? s->to : LEAST));
	for (int j = 0; j < STAGES; j++)
		r.v[j] = work + j * n * count;
	r.error = r.y + n * count;
	r.slot = slots;
	r.next = slots + n;
	r.time = mem_zalloc((size_t)n, sizeof *r.time);
	r.sample = mem_zalloc((size_t)n, sizeof *r.sample);
	rc = (r.host_x = mem_try(3 * (size_t)(n * count), sizeof *r.host_x, "samples", e)) ? 0 : -1;
	r.host_y = r.host_x + n * count;
	r.host_error = r.host_y + n * count;
	if (!rc)
		rc = integrate(&r, e);
	mem_free(r.host_x);
	mem_free(r.time);
	mem_free(r.sample);
	mem_free(slots);
	return rc;
}

struct single {
	solver_field *field;
	void *arg;
};

static int single_field(void *arg, float *v, const float *x, const double *t, const int64_t *sample, int64_t n, int64_t step, int stage,
                        struct err *e)
{
	const struct single *s = arg;

	(void)sample;
	(void)n;
	return s->field(s->arg, v, x, t[0], step, stage, e);
}

int dopri5_single(const struct solver *s, struct device *d, float *x, int64_t count, float *work, solver_field *field, void *arg, struct err *e)
{
	struct single one = {field, arg};

	return dopri5_run(s, d, x, 1, count, work, single_field, &one, e);
}
