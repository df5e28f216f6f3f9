/* GATE and GATE_GRAD on the GPU. If many rows share one row of the gate, a thread keeps eight of its columns in registers. x, y and dy belong to the
 * residual stream, which may be float beside a bfloat16 h and dh. */
#include "kernels/group.h"

enum { ROWS = 4 /* processed at a time, so that their loads overlap; with few rows, GATE takes one */ };

enum { Y, X, G, H, GATE_ARRAYS };

/* X_BF16: whether x and y are bfloat16; H_BF16: whether h is. N: rows processed at a time. */
template <int X_BF16, int H_BF16, int N>
static __global__ void __launch_bounds__(TEAM) gate_packs(struct groups g, struct reals y, struct reals x, struct reals gate, struct reals h)
{
	const struct reals out = {y.p, X_BF16}, in = {x.p, X_BF16}, by = {h.p, H_BF16};
	int64_t col = threadIdx.x * PACK;

	for (int64_t item = blockIdx.x; col < g.cols && item < g.kept * g.groups; item += gridDim.x) {
		struct group<GATE_ARRAYS> u = group_at<GATE_ARRAYS>(&g, item);
		float f[PACK];

		reals_get8(gate, u.base[G] + col, f);
		for (int64_t r = u.first; r < u.last; r += N) {
			int64_t at[N][GATE_ARRAYS];
			float a[N][PACK], b[N][PACK];

			UNROLL
			for (int i = 0; i < N; i++) {
				group_row<GATE_ARRAYS>(&g, &u, r + i < u.last ? r + i : r, at[i]);
				reals_get8(in, at[i][X] + col, a[i]);
				reals_get8(by, at[i][H] + col, b[i]);
			}
			UNROLL
			for (int i = 0; i < N; i++) {
				for (int j = 0; j < PACK; j++)
					a[i][j] = fmaf(f[j], b[i][j], a[i][j]);
				if (r + i < u.last)
					reals_set8(out, at[i][Y] + col, a[i]);
			}
		}
	}
}

static __global__ void gate_any(struct strided s, struct reals y, struct reals x, struct reals gate, struct reals h)
{
	for (int64_t i = thread_index(); i < s.count; i += thread_count()) {
		int64_t at[4];

		strided_at(&s, i, at);
		reals_set(y, at[Y], fmaf(reals_get(gate, at[G]), reals_get(h, at[H]), reals_get(x, at[X])));
	}
}

/* Whether the packed kernels can process arrays of these places and strides. */
static int gate_packed(const struct groups *g, const struct array *const *arrays, int n, int gate)
{
	for (int a = 0; a < n; a++)
		if (!groups_packs(g, arrays[a]))
			return 0;
	return groups_common(g, gate);
}

template <int N>
static void gate_launch(const struct op_call *c, const struct groups *g, struct reals y, struct reals x, struct reals gate, struct reals h)
{
	if (x.bf16)
		LAUNCH(c, (gate_packs<1, 1, N>), blocks_of(g->kept * g->groups), team_of(g->cols), *g, y, x, gate, h);
	else if (h.bf16)
		LAUNCH(c, (gate_packs<0, 1, N>), blocks_of(g->kept * g->groups), team_of(g->cols), *g, y, x, gate, h);
	else
		LAUNCH(c, (gate_packs<0, 0, N>), blocks_of(g->kept * g->groups), team_of(g->cols), *g, y, x, gate, h);
}

static void gate_run(const struct op_call *c)
{
	const struct array *const arrays[GATE_ARRAYS] = {&c->out[0], &c->in[0], &c->in[1], &c->in[2]};
	struct groups g = groups_of(&c->out[0], arrays, GATE_ARRAYS, group_varies(&c->out[0], &c->in[1]));
	struct reals y = reals_of(arrays[Y]), x = reals_of(arrays[X]), gate = reals_of(arrays[G]), h = reals_of(arrays[H]);
	struct strided s;
	int packs = y.bf16 == x.bf16 && (h.bf16 || !x.bf16) && gate_packed(&g, arrays, GATE_ARRAYS, G);

	if (!array_count(&c->out[0]))
		return;
	if (packs && groups_single(&g, c, ROWS))
		gate_launch<1>(c, &g, y, x, gate, h);
	else if (packs)
		gate_launch<ROWS>(c, &g, y, x, gate, h);
	else {
		s = strided_of(&c->out[0], arrays, GATE_ARRAYS);
		LAUNCH(c, gate_any, blocks_for(s.count), BLOCK, s, y, x, gate, h);
	}
}

enum { B_DH, B_DY, B_G, B_H, BACK_ARRAYS, B_DG = BACK_ARRAYS, BACK_ALL };

/* DY_BF16: whether dy is bfloat16; H_BF16: whether h and dh are. part [kept][groups][cols]: receives the sums of dy h; NULL: not computed. */
template <int DY_BF16, int H_BF16>
static __global__ void __launch_bounds__(TEAM)
    gate_grad_packs(struct groups g, struct reals dh, struct reals dy, struct reals gate, struct reals h, float *part)
{
	const struct reals out = {dh.p, H_BF16}, from = {dy.p, DY_BF16}, by = {h.p, H_BF16}, sums = {part, 0};
	int64_t col = threadIdx.x * PACK;

	for (int64_t item = blockIdx.x; col < g.cols && item < g.kept * g.groups; item += gridDim.x) {
		struct group<BACK_ARRAYS> u = group_at<BACK_ARRAYS>(&g, item);
		float f[PACK], sum[PACK] = {0};

		reals_get8(gate, u.base[B_G] + col, f);
		for (int64_t r = u.first; r < u.last; r += ROWS) {
			int64_t at[ROWS][BACK_ARRAYS];
			float a[ROWS][PACK], b[ROWS][PACK];

			UNROLL
			for (int i = 0; i < ROWS; i++) {
				group_row<BACK_ARRAYS>(&g, &u, r + i < u.last ? r + i : r, at[i]);
				reals_get8(from, at[i][B_DY] + col, a[i]);
				reals_get8(by, at[i][B_H] + col, b[i]);
			}
			UNROLL
			for (int i = 0; i < ROWS; i++) {
				for (int j = 0; j < PACK; j++) {
					sum[j] = r + i < u.last ? fmaf(a[i][j], b[i][j], sum[j]) : sum[j];
					a[i][j] *= f[j];
				}
				if (r + i < u.last)
					reals_set8(out, at[i][B_DH] + col, a[i]);
			}
		}
		if (part)
			reals_set8(sums, item * g.cols + col, sum);
	}
}

static __global__ void gate_grad_any(struct strided s, struct reals dh, struct reals dy, struct reals gate)
{
	for (int64_t i = thread_index(); i < s.count; i += thread_count()) {
		int64_t at[4];

		strided_at(&s, i, at);
		reals_set(dh, at[B_DH], reals_get(gate, at[B_G]) * reals_get(dy, at[B_DY]));
	}
}

struct dg_term {
	struct reals dy, h;
	__device__ float operator()(const int64_t *at, int64_t c) const
	{
		return reals_get(dy, at[B_DY] + c) * reals_get(h, at[B_H] + c);
	}
};

static void gate_grad_fused(const struct op_call *c, const struct groups *g, const struct array *const *arrays)
{
	const struct array *dg = arrays[B_DG];
	struct reals dh = reals_of(arrays[B_DH]), dy = reals_of(arrays[B_DY]), gate = reals_of(arrays[B_G]), h = reals_of(arrays[B_H]);
	float *part = dg->data ? (float *)c->scratch : NULL;

	if (dy.bf16)
		LAUNCH(c, (gate_grad_packs<1, 1>), blocks_of(g->kept * g->groups), team_of(g->cols), *g, dh, dy, gate, h, part);
	else if (h.bf16)
		LAUNCH(c, (gate_grad_packs<0, 1>), blocks_of(g->kept * g->groups), team_of(g->cols), *g, dh, dy, gate, h, part);
	else
		LAUNCH(c, (gate_grad_packs<0, 0>), blocks_of(g->kept * g->groups), team_of(g->cols), *g, dh, dy, gate, h, part);
	if (part)
		LAUNCH(c, groups_add, blocks_of(g->kept * ((g->cols + WARP - 1) / WARP)), BLOCK, *g, B_DG, reals_of(dg), g->cols, part, g->cols);
}

static void gate_grad_run(const struct op_call *c)
{
	const struct array *dg = &c->out[1], *const arrays[BACK_ALL] = {&c->out[0], &c->in[0], &c->in[1], &c->in[2], dg};
	const struct array *x = &c->in[0];
	struct groups g = groups_of(x, arrays, BACK_ALL, group_varies(x, dg->data ? dg : &c->in[1]));
	int dy16 = arrays[B_DY]->dtype == DT_BF16, h16 = arrays[B_H]->dtype == DT_BF16, dh16 = arrays[B_DH]->dtype == DT_BF16;

	if (array_count(x) && dh16 == h16 && (h16 || !dy16) && gate_packed(&g, arrays, BACK_ARRAYS, B_G) &&
	    (!dg->data || dg->shape[dg->rank - 1] == g.cols)) {
		gate_grad_fused(c, &g, arrays);
		return;
	}
	if (array_count(x)) {
		struct strided s = strided_of(x, arrays, BACK_ARRAYS);

		LAUNCH(c, gate_grad_any, blocks_for(s.count), BLOCK, s, reals_of(arrays[B_DH]), reals_of(arrays[B_DY]), reals_of(arrays[B_G]));
	}
	if (dg->data) {
		struct dg_term f = {reals_of(arrays[B_DY]), reals_of(arrays[B_H])};

		groups_sum<BACK_ARRAYS>(c, f, x, arrays, dg);
	}
}

static size_t gate_grad_scratch(const struct op_call *c, int workers)
{
	(void)workers;
	return (size_t)groups_scratch(&c->in[0], &c->out[1]) * sizeof(float);
}

extern "C" {
extern const struct kernel kernel_gate_cuda = {gate_run, NULL};
extern const struct kernel kernel_gate_grad_cuda = {gate_grad_run, gate_grad_scratch};
}
