/* ROTARY on the GPU. A thread turns a unit of PACK pairs, or of one pair where rows, strides or addresses do not allow accesses of 16 bytes. */
#include "kernels/launch.h"

enum { Y, X, COS, SIN, ROTARY_ARRAYS };

/* N consecutive elements: PACK of them, or one. */
template <int N> static __device__ inline void unit_get(struct reals a, int64_t i, float *v)
{
	if (N == PACK)
		reals_get8(a, i, v);
	else
		v[0] = reals_get(a, i);
}

template <int N> static __device__ inline void unit_set(struct reals a, int64_t i, const float *v)
{
	if (N == PACK)
		reals_set8(a, i, v);
	else
		reals_set(a, i, v[0]);
}

/* The elements of s are units. A unit has N elements at its place, and N more `apart` elements further on. Pairs are those of v[k] and v[N + k] if
 * HALVES, else neighbours. v has room for a pack at either place, so that the code for packs is valid for units of one pair too. */
template <int HALVES, int N>
static __global__ void rotary_units(struct strided s, int64_t apart, float sign, struct reals y, struct reals x, struct reals cosine,
                                    struct reals sine)
{
	for (int64_t i = thread_index(); i < s.count; i += thread_count()) {
		int64_t at[ROTARY_ARRAYS];
		float v[N + PACK], c[PACK], w[PACK];

		strided_at(&s, i, at);
		unit_get<N>(x, at[X], v);
		unit_get<N>(x, at[X] + apart, v + N);
		unit_get<N>(cosine, at[COS], c);
		unit_get<N>(sine, at[SIN], w);
		UNROLL
		for (int k = 0; k < N; k++) {
			float &first = v[HALVES ? k : 2 * k], &second = v[HALVES ? N + k : 2 * k + 1], a = first, b = second, turn = sign * w[k];

			first = fmaf(a, c[k], -(b * turn));
			second = fmaf(b, c[k], a * turn);
		}
		unit_set<N>(y, at[Y], v);
		unit_set<N>(y, at[Y] + apart, v + N);
	}
}

/* The arrays as units of n pairs. */
static struct strided units_of(const struct op_call *c, int64_t n)
{
	const struct array *const arrays[ROTARY_ARRAYS] = {&c->out[0], &c->in[0], &c->in[1], &c->in[2]};
	int last = c->out[0].rank - 1;
	int64_t step = c->attr.rotary.pairs == ROTARY_HALVES ? n : 2 * n;
	struct array unit[ROTARY_ARRAYS];
	const struct array *units[ROTARY_ARRAYS];

	for (int a = 0; a < ROTARY_ARRAYS; a++) {
		unit[a] = *arrays[a];
		unit[a].shape[last] = c->out[0].shape[last] / 2 / n;
		unit[a].stride[last] = a == Y || a == X ? step : n;
		units[a] = &unit[a];
	}
	return strided_of(&unit[Y], units, ROTARY_ARRAYS);
}

/* Whether PACK pairs can be accessed at a time: rows are whole packs, and begin at multiples of 16 bytes. */
static int rotary_packs(const struct op_call *c)
{
	const struct array *const arrays[ROTARY_ARRAYS] = {&c->out[0], &c->in[0], &c->in[1], &c->in[2]};
	int last = c->out[0].rank - 1;

	if (c->out[0].shape[last] % (2 * PACK))
		return 0;
	for (int a = 0; a < ROTARY_ARRAYS; a++) {
		if ((uintptr_t)arrays[a]->data % 16)
			return 0;
		for (int d = 0; d < last; d++)
			if (arrays[a]->shape[d] != 1 && arrays[a]->stride[d] % PACK)
				return 0;
	}
	return 1;
}

template <int HALVES, int N> static void rotary_launch(const struct op_call *c)
{
	struct strided s = units_of(c, N);
	int64_t apart = HALVES ? c->out[0].shape[c->out[0].rank - 1] / 2 : N;
	float sign = c->attr.rotary.back ? -1.f : 1.f;

	if (s.count)
		LAUNCH(c, (rotary_units<HALVES, N>), blocks_for(s.count), BLOCK, s, apart, sign, reals_of(&c->out[0]), reals_of(&c->in[0]),
		       reals_of(&c->in[1]), reals_of(&c->in[2]));
}

static void rotary_run(const struct op_call *c)
{
	int packs = rotary_packs(c);

	if (c->attr.rotary.pairs == ROTARY_HALVES)
		packs ? rotary_launch<1, PACK>(c) : rotary_launch<1, 1>(c);
	else
		packs ? rotary_launch<0, PACK>(c) : rotary_launch<0, 1>(c);
}

extern "C" {
extern const struct kernel kernel_rotary_cuda = {rotary_run, NULL};
}
