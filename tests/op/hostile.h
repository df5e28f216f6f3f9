/* Tests GROUPNORM and its gradient on data for which a one-pass variance loses some or all digits. The reference are sums in double; the error bounds
 * are those of kernels/groupnorm.c for tiles of `tile` values. */
#ifndef DDM_TESTS_HOSTILE_H
#define DDM_TESTS_HOSTILE_H

#include <math.h>

#include "core/mem.h"
#include "tests/op/optest.h"

enum hostile { FIRST_POSITION, FIRST_CHUNK, LAST_POSITION, FAR_FROM_ZERO, ALTERNATING, TILE_OF_8, TILE_OF_32, HOSTILE_KINDS };

/* Value at position i of n. */
static inline float hostile_value(enum hostile kind, int64_t i, int64_t n)
{
	float noise = (float)(i * 7919 % 2001) * .001f - 1;

	switch (kind) {
	case FIRST_POSITION:
		return i ? 1.00871277f * 1024 : 0;
	case FIRST_CHUNK:
		return i < 64 ? 1000 + noise : noise;
	case LAST_POSITION:
		return i == n - 1 ? -1e6f : noise;
	case FAR_FROM_ZERO:
		return 1e4f + noise;
	case ALTERNATING:
		return i % 2 ? 10001 : 9999;
	case TILE_OF_8:
		return i % 8 ? noise * 1e-3f : 1000; /* a tile may be eight neighbours */
	case TILE_OF_32:
		return i % 32 < 8 ? 1000 : noise * 1e-3f; /* or four values that are eight apart */
	default:
		return 0;
	}
}

struct hostile_norm {
	int64_t positions, channels, groups;
	float *x, *y, *dy, *dx, *stats, *dscale, *dshift;
	double unit; /* relative rounding error of a tile's sums */
};

static inline void hostile_run(const struct kernel *k, struct op_call *c)
{
	c->scratch = mem_zalloc(k->scratch(c, 1) + 1, 1);
	optest_call(k, c);
	mem_free(c->scratch);
}

static inline void hostile_near(double got, double want, double tol, const char *what, enum hostile kind, int64_t channels)
{
	if (!(fabs(got - want) <= tol))
		fail_msg("%s of data %d, %lld channels: %.9g, not %.9g within %.2g", what, (int)kind, (long long)channels, got, want, tol);
}

/* Check the forward pass. The mean is rounded to float, and this error carries over to y. */
static inline void hostile_forward(const struct hostile_norm *h, int64_t group, enum hostile kind, double bound)
{
	const int64_t per = h->channels / h->groups;
	const double n = (double)(h->positions * per);
	double mean = 0, square = 0, rstd, half;

	for (int64_t i = 0; i < h->positions; i++)
		for (int64_t c = group * per; c < (group + 1) * per; c++)
			mean += (double)h->x[i * h->channels + c] / n;
	for (int64_t i = 0; i < h->positions; i++)
		for (int64_t c = group * per; c < (group + 1) * per; c++)
			square += pow((double)h->x[i * h->channels + c] - mean, 2) / n;
	rstd = 1 / sqrt(square + 1e-5);
	half = fabs(mean) * 0x1p-24;
	hostile_near((double)h->stats[2 * group], mean, half * 1.01 + bound / rstd, "the mean", kind, h->channels);
	hostile_near((double)h->stats[2 * group + 1], rstd, rstd * (bound / 2 + 0x1p-23), "1 / deviation", kind, h->channels);
	for (int64_t i = 0; i < h->positions; i++)
		for (int64_t c = group * per; c < (group + 1) * per; c++) {
			double want = ((double)h->x[i * h->channels + c] - mean) * rstd;

			hostile_near((double)h->y[i * h->channels + c], want, 1.01 * half * rstd + bound + fabs(want) * (bound / 2 + 0x1p-22), "y",
			             kind, h->channels);
		}
}

/* Check the gradient, computed from the stats of the forward pass. */
static inline void hostile_backward(const struct hostile_norm *h, int64_t group, enum hostile kind)
{
	const int64_t per = h->channels / h->groups;
	const double n = (double)(h->positions * per), mean = (double)h->stats[2 * group], rstd = (double)h->stats[2 * group + 1];
	double all[2] = {0}, size[2] = {0};

	for (int64_t c = group * per; c < (group + 1) * per; c++) {
		double sum[2] = {0}, abs[2] = {0};

		for (int64_t i = 0; i < h->positions; i++) {
			double dy = (double)h->dy[i * h->channels + c], xhat = ((double)h->x[i * h->channels + c] - mean) * rstd;

			sum[0] += dy;
			sum[1] += dy * xhat;
			abs[0] += fabs(dy);
			abs[1] += fabs(dy * xhat);
		}
		hostile_near((double)h->dshift[c], sum[0], h->unit * abs[0], "dshift", kind, h->channels);
		hostile_near((double)h->dscale[c], sum[1], h->unit * abs[1], "dscale", kind, h->channels);
		for (int k = 0; k < 2; k++) {
			all[k] += sum[k] / n;
			size[k] += abs[k] / n;
		}
	}
	for (int64_t i = 0; i < h->positions; i++)
		for (int64_t c = group * per; c < (group + 1) * per; c++) {
			double dy = (double)h->dy[i * h->channels + c], xhat = ((double)h->x[i * h->channels + c] - mean) * rstd;

			hostile_near((double)h->dx[i * h->channels + c], rstd * (dy - all[0] - xhat * all[1]),
			             rstd * h->unit * (fabs(dy) + size[0] + fabs(xhat) * size[1]), "dx", kind, h->channels);
		}
}

static inline void hostile_norm(const struct kernel *forward, const struct kernel *backward, int tile, int64_t positions, int64_t channels,
                                int64_t groups, enum hostile kind)
{
	const int64_t count = positions * channels;
	struct hostile_norm h = {positions, channels, groups, NULL, NULL, NULL, NULL, NULL, NULL, NULL, (tile + 4) * 0x1p-24};
	float *room = mem_zalloc((size_t)(4 * count + 2 * groups + 3 * channels), sizeof *room);
	struct array a = {room, DT_F32, 3, {1, positions, channels}, {count, channels, 1}}, y = a, dy = a, dx = a, none = {0};
	struct array stats = {NULL, DT_F32, 3, {1, groups, 2}, {groups * 2, 2, 1}}, v = {NULL, DT_F32, 1, {channels}, {1}}, scale = v, shift = v;
	struct op_call f, g;

	h.x = room;
	y.data = h.y = h.x + count;
	dy.data = h.dy = h.y + count;
	dx.data = h.dx = h.dy + count;
	v.data = h.dx + count;
	scale.data = h.dscale = h.dx + count + channels;
	shift.data = h.dshift = h.dscale + channels;
	stats.data = h.stats = h.dshift + channels;
	for (int64_t i = 0; i < count; i++) {
		h.x[i] = hostile_value(kind, i / channels, positions) + (float)(i % channels);
		h.dy[i] = .1f; /* each addition in float loses a little */
	}
	for (int64_t c = 0; c < channels; c++)
		((float *)v.data)[c] = 1;
	f = (struct op_call){.nin = 3, .nout = 2, .in = {a, none, none}, .out = {y, stats}, .attr.groupnorm = {groups, 0, 1e-5}};
	g = (struct op_call){.nin = 5, .nout = 3, .in = {dy, a, stats, v, none}, .out = {dx, scale, shift}, .attr = f.attr};
	hostile_run(forward, &f);
	hostile_run(backward, &g);
	for (int64_t k = 0; k < groups; k++) {
		hostile_forward(&h, k, kind, tile * tile * 0x1p-23);
		hostile_backward(&h, k, kind);
	}
	mem_free(room);
}

/* With an infinite value the deviation and all outputs are NaN. */
static inline void hostile_infinity(const struct kernel *forward)
{
	float x[8] = {0, 1, 2, INFINITY, 4, 5, 6, 7}, y[8], stats[2];
	struct array a = {x, DT_F32, 3, {1, 8, 1}, {8, 1, 1}}, s = {stats, DT_F32, 3, {1, 1, 2}, {2, 2, 1}}, out = a, none = {0};
	struct op_call f = {.nin = 3, .nout = 2, .in = {a, none, none}, .attr.groupnorm = {1, 0, 1e-5}};

	out.data = y;
	f.out[0] = out;
	f.out[1] = s;
	hostile_run(forward, &f);
	assert_true(isnan(stats[1]));
	for (int i = 0; i < 8; i++)
		assert_true(isnan(y[i]));
}

static inline void hostile_norms(const struct kernel *forward, const struct kernel *backward, int tile)
{
	hostile_infinity(forward);
	for (int kind = 0; kind < HOSTILE_KINDS; kind++) {
		hostile_norm(forward, backward, tile, 1 << 18, 1, 1, (enum hostile)kind);
		hostile_norm(forward, backward, tile, (1 << 14) + 5, 8, 2, (enum hostile)kind);
	}
}

#endif
