/* ROTARY on the CPU. */
#include "kernels/device.h"

#include "kernels/walk.h"

enum { Y0, Y1, X0, X1, COS, SIN, ROTARY_ARRAYS };

/* n pairs. y, x, t: the steps from one pair to the next in y, x and the tables. sign: that of the angles. */
static inline __attribute__((always_inline)) void rotary_turn(real *const p[], int64_t y, int64_t x, int64_t t, real sign, int64_t n)
{
	real *y0 = p[Y0], *y1 = p[Y1];
	const real *x0 = p[X0], *x1 = p[X1], *cosine = p[COS], *sine = p[SIN];

	INDEPENDENT for (int64_t i = 0; i < n; i++)
	{
		real a = x0[i * x], b = x1[i * x], c = cosine[i * t], s = sign * sine[i * t];

		y0[i * y] = REAL_FMA(a, c, -(b * s));
		y1[i * y] = REAL_FMA(b, c, a * s);
	}
}

/* With constant steps the loop is vectorised. Other steps occur where a row has only one pair. */
static void rotary_span(const struct each *e, real *const p[], int64_t n)
{
	int64_t y = each_step(e, Y0), x = each_step(e, X0), c = each_step(e, COS), s = each_step(e, SIN);
	real sign = e->c->attr.rotary.back ? -1 : 1;

	if (y == 1 && x == 1 && c == 1 && s == 1)
		rotary_turn(p, 1, 1, 1, sign, n);
	else if (y == 2 && x == 2 && c == 1 && s == 1)
		rotary_turn(p, 2, 2, 1, sign, n);
	else
		for (int64_t i = 0; i < n; i++) {
			real *const q[ROTARY_ARRAYS] = {p[Y0] + i * y, p[Y1] + i * y, p[X0] + i * x, p[X1] + i * x, p[COS] + i * c, p[SIN] + i * s};

			rotary_turn(q, 0, 0, 0, sign, 1);
		}
}

/* The first (which 0) or the second (1) elements of the pairs, as an array of the tables' shape. */
static struct array rotary_part(const struct array *x, enum rotary_pairs pairs, int which)
{
	struct array part = *x;
	int last = x->rank - 1;
	int64_t half = x->shape[last] / 2;

	part.shape[last] = half;
	part.stride[last] = pairs == ROTARY_HALVES ? 1 : 2;
	part.data = (real *)x->data + which * (pairs == ROTARY_HALVES ? half : 1);
	return part;
}

/* ---- all heads of a token have the same angles ---- */

enum { WIDEST = 512 /* channels of a head */ };

/* y = x times `scale` plus the partner of each element times `cross`, n elements. */
static inline void rotary_adjacent(real *y, const real *x, const real *scale, const real *cross, int64_t n)
{
	INDEPENDENT for (int64_t i = 0; i < n; i += 2)
	{
		real a = x[i], b = x[i + 1];

		y[i] = REAL_FMA(a, scale[i], b * cross[i]);
		y[i + 1] = REAL_FMA(b, scale[i + 1], a * cross[i + 1]);
	}
}

/* The same for partners `half` elements apart. */
static inline void rotary_apart(real *y, const real *x, const real *scale, const real *cross, int64_t half)
{
	INDEPENDENT for (int64_t i = 0; i < half; i++)
	{
		real a = x[i], b = x[half + i];

		y[i] = REAL_FMA(a, scale[i], b * cross[i]);
		y[half + i] = REAL_FMA(b, scale[half + i], a * cross[half + i]);
	}
}

struct rotary_job {
	const struct op_call *c;
	int64_t tokens, task; /* of all samples; of a task */
};

/* The factors of a token's elements are computed once for all heads. */
static void rotary_token(const struct op_call *c, int64_t b, int64_t t)
{
	const struct array *x = &c->in[0], *y = &c->out[0];
	const real *cosine = (const real *)c->in[1].data + b * c->in[1].stride[0] + t * c->in[1].stride[1];
	const real *sine = (const real *)c->in[2].data + b * c->in[2].stride[0] + t * c->in[2].stride[1];
	const real *from = (const real *)x->data + b * x->stride[0] + t * x->stride[1];
	real *to = (real *)y->data + b * y->stride[0] + t * y->stride[1], sign = c->attr.rotary.back ? -1 : 1, scale[WIDEST], cross[WIDEST];
	int halves = c->attr.rotary.pairs == ROTARY_HALVES;
	int64_t half = x->shape[3] / 2;

	for (int64_t i = 0; i < half; i++) {
		int64_t first = halves ? i : 2 * i, second = halves ? half + i : 2 * i + 1;

		scale[first] = scale[second] = cosine[i];
		cross[second] = sign * sine[i];
		cross[first] = -cross[second];
	}
	for (int64_t h = 0; h < x->shape[2]; h++) {
		real *out = to + h * y->stride[2];
		const real *in = from + h * x->stride[2];

		if (halves)
			rotary_apart(out, in, scale, cross, half);
		else
			rotary_adjacent(out, in, scale, cross, 2 * half);
	}
}

static void rotary_task(void *arg, int64_t task, int worker)
{
	const struct rotary_job *j = arg;
	int64_t per = j->c->in[0].shape[1], last = (task + 1) * j->task < j->tokens ? (task + 1) * j->task : j->tokens;

	(void)worker;
	for (int64_t i = task * j->task; i < last; i++)
		rotary_token(j->c, i / per, i % per);
}

/* Whether the tables do not depend on the head, and a head fits. The strides of broadcast dimensions are 0. */
static int rotary_shared(const struct op_call *c)
{
	const struct array *x = &c->in[0];

	return x->rank == 4 && x->shape[3] <= WIDEST && x->shape[3] > 2 && (x->shape[2] == 1 || (!c->in[1].stride[2] && !c->in[2].stride[2]));
}

static void rotary_all(const struct op_call *c)
{
	int64_t row = c->in[0].shape[2] * c->in[0].shape[3];
	struct rotary_job j = {c, c->in[0].shape[0] * c->in[0].shape[1], row < WALK_GRAIN ? WALK_GRAIN / row : 1};

	if (row)
		walk_run(c, j.tokens * row, (j.tokens + j.task - 1) / j.task, rotary_task, &j);
}

static void rotary_run(const struct op_call *c)
{
	enum rotary_pairs pairs = c->attr.rotary.pairs;
	struct array part[ROTARY_ARRAYS];
	struct each e;

	if (rotary_shared(c)) {
		rotary_all(c);
		return;
	}
	for (int which = 0; which < 2; which++) {
		part[Y0 + which] = rotary_part(&c->out[0], pairs, which);
		part[X0 + which] = rotary_part(&c->in[0], pairs, which);
		part[COS + which] = c->in[1 + which];
	}
	each_init(&e, c, &part[Y0]);
	for (int a = 0; a < ROTARY_ARRAYS; a++)
		each_add(&e, &part[a]);
	each_run(&e, rotary_span);
}

const struct kernel REAL_NAME(kernel_rotary) = {rotary_run, NULL};
