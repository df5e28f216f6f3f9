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
		y1[i * y] = REAL_FMA(a, s, b * c);
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

static void rotary_run(const struct op_call *c)
{
	enum rotary_pairs pairs = c->attr.rotary.pairs;
	struct array part[ROTARY_ARRAYS];
	struct each e;

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
