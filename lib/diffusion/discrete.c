/* Runs the steps of a discrete-time solver: DDPM, DDIM, DPM-Solver++, UniPC or Euler. */
#include "diffusion/discrete.h"

#include <math.h>

#include "diffusion/ondevice.h"

enum { HISTORY = 4, BUFFERS = HISTORY + 4 };

int64_t discrete_work(int64_t n, int64_t cols, int64_t out_cols)
{
	return n * (BUFFERS * cols + out_cols);
}

/* The parts of the work space. */
struct room {
	float *in, *saved, *z, *std, *x0[HISTORY], *out;
};

static struct room divide(const struct discrete_run *r, float *work)
{
	int64_t count = r->n * r->cols;
	struct room m = {work, work + count, work + 2 * count, work + 3 * count, {NULL}, work + BUFFERS * count};

	for (int k = 0; k < HISTORY; k++)
		m.x0[k] = work + (4 + k) * count;
	return m;
}

static void scaled(const struct discrete_run *r, float *y, double f, const float *x)
{
	ondevice_combine(r->device, y, r->cols, &(struct term){f, x, r->cols}, 1, 0, r->n, r->cols);
}

/* x += std z. std is s->noise, or exp(.5 ((1 + v) / 2 log_hi + (1 - v) / 2 log_lo)) for the network's variance output v. */
static int add_noise(const struct discrete_run *r, const struct room *m, const struct discrete_step *s, float *x, int64_t i, struct err *e)
{
	int64_t count = r->n * r->cols;
	double f = s->noise;

	if (r->noise(r->arg, m->z, i, e))
		return -1;
	if (s->log_hi > s->log_lo) {
		ondevice_combine(r->device, m->std, r->cols, &(struct term){.25 * (s->log_hi - s->log_lo), m->out + r->cols, r->out_cols}, 1, 0, r->n,
		                 r->cols);
		ondevice_exp(r->device, m->std, count);
		ondevice_multiply(r->device, m->z, m->z, m->std, count);
		f = exp(.25 * (s->log_hi + s->log_lo));
	}
	ondevice_advance(r->device, x, x, f, m->z, NULL, count);
	return 0;
}

static void correct(const struct discrete_run *r, const struct room *m, const struct discrete_step *s, float *x)
{
	struct term sum[HISTORY + 1] = {{s->corrected_saved, m->saved, r->cols}};

	for (int k = 0; k < HISTORY; k++)
		sum[k + 1] = (struct term){s->corrected[k], m->x0[k], r->cols};
	ondevice_combine(r->device, x, r->cols, sum, HISTORY + 1, 0, r->n, r->cols);
}

static int advance(const struct discrete_plan *p, const struct discrete_run *r, struct room *m, float *x, int64_t i, struct err *e)
{
	const struct discrete_step *s = &p->step[i];
	const struct term x0[] = {{s->x0_x, x, r->cols}, {s->x0_out, m->out, r->out_cols}};
	float *now = m->x0[HISTORY - 1];
	const float *in = x;

	if (s->scale != 1) {
		scaled(r, m->in, s->scale, x);
		in = m->in;
	}
	if (r->field(r->arg, m->out, in, s->time, i, e))
		return -1;
	for (int k = HISTORY - 1; k > 0; k--)
		m->x0[k] = m->x0[k - 1];
	m->x0[0] = now;
	ondevice_combine(r->device, now, r->cols, x0, 2, p->clip, r->n, r->cols);
	if (s->correct)
		correct(r, m, s, x);
	if (s->save)
		scaled(r, m->saved, 1, x);

	const struct term next[] = {{s->x, x, r->cols},       {s->saved, m->saved, r->cols}, {s->out, m->out, r->out_cols},
	                            {s->x0[0], now, r->cols}, {s->x0[1], m->x0[1], r->cols}, {s->x0[2], m->x0[2], r->cols}};

	ondevice_combine(r->device, x, r->cols, next, 6, 0, r->n, r->cols);
	return s->noise > 0 || s->log_hi > s->log_lo ? add_noise(r, m, s, x, i, e) : 0;
}

int discrete_solve(const struct discrete_plan *p, const struct discrete_run *r, float *x, float *work, struct err *e)
{
	struct room m = divide(r, work);

	if (p->start != 1)
		scaled(r, x, p->start, x);
	for (int64_t i = 0; i < p->steps; i++)
		if (advance(p, r, &m, x, i, e))
			return -1;
	return 0;
}
