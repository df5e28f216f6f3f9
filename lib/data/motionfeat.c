/* Computes the features of the movement in a clip. */
#include "data/motionfeat.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/hash.h"
#include "core/mem.h"
#include "core/str.h"

enum { CELLS = MOTION_CELLS * MOTION_CELLS, QUARTERS = 4, PARTS = 3, LAGS = 3, DIRECTIONS = 8 };

_Static_assert(MOTION_DIMS == 4 * CELLS + 4 * PARTS + 4 * QUARTERS + 3 + LAGS + 1 + DIRECTIONS, "the features add up");

/* Change this text with any change of the computation: its hash prevents comparing numbers of different versions. */
static const char definition[] =
    "motion 1. Grey (.299 R + .587 G + .114 B) / 255, averaged over boxes of k x k pixels or slightly more, k the smallest integer for which the "
    "longer "
    "side is at most 64, but the shorter one at least 16. Flow from every frame to the next. u = flow times 32 / shorter side.\n"
    "s(x) = asinh(2 x), g(x) = log(1 + 2 x), a(x) = log(1 + 50 x) - 1. Means over all steps in time, unless said otherwise:\n"
    "1. for 4 x 4 cells, row by row: s of the mean ux, s of the mean uy; then for the cells g of the mean |u|; then for the cells asinh(2 |change of "
    "the mean u from step to step|).\n"
    "2. for three parts of the steps in order: s of the mean ux, s of the mean uy, g of the mean |u|, a of the root mean square difference to the "
    "next "
    "frame.\n"
    "3. for quarters: asinh(8 x) of the mean divergence and of the mean rotation of the flow; a of the root mean square difference of a frame to the "
    "next, warped; a of that without warping.\n"
    "4. mean of log(1 + 8 |divergence|), the same of the rotation; twice the sum of squared differences after warping over that without warping plus "
    "1e-6 a pixel and step.\n"
    "5. for lags 1, 2, 3: twice the correlation of u with itself, without subtracting means, squares plus 1e-3 a pixel and step; twice the sum of "
    "u(t) x u(t + 1) over the sum of |u(t)| |u(t + 1)| plus 1e-3 a pixel and step.\n"
    "6. for eight directions from +x to +y: twice the root of the share of |u|, shared linearly between the two nearest, of its sum plus .03 a pixel "
    "and step. All divided by 2. In double, stored as float.\n";

void motion_hash(char hex[65])
{
	char *text = str_new("%s%s", definition, flow_definition);

	sha256_text(text, hex);
	mem_free(text);
}

void motion_size(int *w, int *h, int width, int height)
{
	int longer = width > height ? width : height, shorter = width > height ? height : width;
	int k = (longer + MOTION_SIDE_MAX - 1) / MOTION_SIDE_MAX, most = shorter / MOTION_SIDE_MIN;

	k = k > most ? most : k;
	*w = width / k;
	*h = height / k;
}

void motion_grey(float *out, int w, int h, const struct picture *p)
{
	int green = p->channels < 3 ? 0 : 1, blue = p->channels < 3 ? 0 : 2;

	for (int v = 0; v < h; v++)
		for (int u = 0; u < w; u++) {
			int64_t y0 = (int64_t)v * p->height / h, y1 = (int64_t)(v + 1) * p->height / h;
			int64_t x0 = (int64_t)u * p->width / w, x1 = (int64_t)(u + 1) * p->width / w, sum[3] = {0};

			for (int64_t y = y0; y < y1; y++)
				for (int64_t x = x0; x < x1; x++) {
					const uint8_t *at = p->pixels + (y * p->width + x) * p->channels;

					sum[0] += at[0];
					sum[1] += at[green];
					sum[2] += at[blue];
				}
			*out++ = (float)((.299 * (double)sum[0] + .587 * (double)sum[1] + .114 * (double)sum[2]) /
			                 (255 * (double)((y1 - y0) * (x1 - x0))));
		}
}

/* Statistics of one step in time. */
struct step {
	double x[CELLS], y[CELLS], speed[CELLS]; /* means over cells */
	double all_x, all_y, all_speed;          /* means over the frame */
	double divergence[QUARTERS], rotation[QUARTERS], abs_divergence, abs_rotation;
	double residual[QUARTERS], difference[QUARTERS]; /* mean squares after warping, and without */
	double direction[DIRECTIONS];                    /* sums of |u| */
};

struct movement {
	int w, h, steps;
	double scale;    /* of a flow to u */
	float *flow;     /* (steps, 2, h, w) */
	float *warped;   /* (h, w) */
	struct step *at; /* [steps] */
};

static int cell(int i, int n, int cells)
{
	return i * cells / n;
}

static void directions(double *out, double x, double y, double speed)
{
	double turn = atan2(y, x) * DIRECTIONS / (2 * M_PI), low = floor(turn);
	int k = ((int)low + DIRECTIONS) % DIRECTIONS;

	out[k] += speed * (1 - (turn - low));
	out[(k + 1) % DIRECTIONS] += speed * (turn - low);
}

static void step_velocities(struct step *s, const struct movement *c, const float *v)
{
	int64_t n = (int64_t)c->w * c->h;
	double count[CELLS] = {0};

	for (int y = 0; y < c->h; y++)
		for (int x = 0; x < c->w; x++) {
			int64_t i = (int64_t)y * c->w + x;
			int k = cell(y, c->h, MOTION_CELLS) * MOTION_CELLS + cell(x, c->w, MOTION_CELLS);
			double ux = c->scale * v[i], uy = c->scale * v[n + i], speed = sqrt(ux * ux + uy * uy);

			s->x[k] += ux;
			s->y[k] += uy;
			s->speed[k] += speed;
			count[k]++;
			if (speed > 0)
				directions(s->direction, ux, uy, speed);
		}
	for (int k = 0; k < CELLS; k++) {
		s->all_x += s->x[k] / (double)n;
		s->all_y += s->y[k] / (double)n;
		s->all_speed += s->speed[k] / (double)n;
		s->x[k] /= count[k];
		s->y[k] /= count[k];
		s->speed[k] /= count[k];
	}
}

/* Divergence and rotation by central differences, without the border. */
static void step_gradients(struct step *s, const struct movement *c, const float *v)
{
	const float *vy = v + (int64_t)c->w * c->h;
	double count[QUARTERS] = {0}, all = (double)(c->w - 2) * (c->h - 2);

	for (int y = 1; y + 1 < c->h; y++)
		for (int x = 1; x + 1 < c->w; x++) {
			int64_t i = (int64_t)y * c->w + x;
			int k = 2 * cell(y, c->h, 2) + cell(x, c->w, 2);
			double divergence = .5 * ((double)v[i + 1] - v[i - 1] + vy[i + c->w] - vy[i - c->w]);
			double rotation = .5 * ((double)vy[i + 1] - vy[i - 1] - v[i + c->w] + v[i - c->w]);

			s->divergence[k] += divergence;
			s->rotation[k] += rotation;
			s->abs_divergence += log1p(8 * fabs(divergence)) / all;
			s->abs_rotation += log1p(8 * fabs(rotation)) / all;
			count[k]++;
		}
	for (int k = 0; k < QUARTERS; k++) {
		s->divergence[k] /= count[k];
		s->rotation[k] /= count[k];
	}
}

static void step_residuals(struct step *s, const struct movement *c, const float *a, const float *b, const float *v)
{
	double count[QUARTERS] = {0};

	flow_warp(c->warped, NULL, b, v, c->w, c->h);
	for (int y = 0; y < c->h; y++)
		for (int x = 0; x < c->w; x++) {
			int64_t i = (int64_t)y * c->w + x;
			int k = 2 * cell(y, c->h, 2) + cell(x, c->w, 2);
			double r = (double)c->warped[i] - a[i], d = (double)b[i] - a[i];

			s->residual[k] += r * r;
			s->difference[k] += d * d;
			count[k]++;
		}
	for (int k = 0; k < QUARTERS; k++) {
		s->residual[k] /= count[k];
		s->difference[k] /= count[k];
	}
}

static double velocity(double x)
{
	return asinh(2 * x);
}

static double amplitude(double square)
{
	return log1p(50 * sqrt(square)) - 1;
}

static double mean4(const double *v)
{
	return (v[0] + v[1] + v[2] + v[3]) / QUARTERS;
}

static float *put_cells(float *out, const struct movement *c)
{
	double mean[4][CELLS] = {{0}};

	for (int t = 0; t < c->steps; t++) {
		const struct step *s = &c->at[t], *next = t + 1 < c->steps ? s + 1 : NULL;

		for (int k = 0; k < CELLS; k++) {
			mean[0][k] += velocity(s->x[k]) / c->steps;
			mean[1][k] += velocity(s->y[k]) / c->steps;
			mean[2][k] += log1p(2 * s->speed[k]) / c->steps;
			if (next)
				mean[3][k] += velocity(hypot(next->x[k] - s->x[k], next->y[k] - s->y[k])) / (c->steps - 1);
		}
	}
	for (int k = 0; k < CELLS; k++) {
		*out++ = (float)mean[0][k];
		*out++ = (float)mean[1][k];
	}
	for (int m = 2; m < 4; m++)
		for (int k = 0; k < CELLS; k++)
			*out++ = (float)mean[m][k];
	return out;
}

/* The order in time: a clip of fewer than three steps has empty parts, which give 0. */
static float *put_parts(float *out, const struct movement *c)
{
	for (int p = 0; p < PARTS; p++) {
		int from = p * c->steps / PARTS, to = (p + 1) * c->steps / PARTS;
		double mean[4] = {0};

		for (int t = from; t < to; t++) {
			const struct step *s = &c->at[t];
			double v[4] = {velocity(s->all_x), velocity(s->all_y), log1p(2 * s->all_speed), amplitude(mean4(s->difference))};

			for (int k = 0; k < 4; k++)
				mean[k] += v[k] / (to - from);
		}
		for (int k = 0; k < 4; k++)
			*out++ = (float)mean[k];
	}
	return out;
}

static float *put_quarters(float *out, const struct movement *c)
{
	double mean[4][QUARTERS] = {{0}}, divergence = 0, rotation = 0, residual = 0, difference = 0;

	for (int t = 0; t < c->steps; t++) {
		const struct step *s = &c->at[t];

		for (int k = 0; k < QUARTERS; k++) {
			mean[0][k] += asinh(8 * s->divergence[k]) / c->steps;
			mean[1][k] += asinh(8 * s->rotation[k]) / c->steps;
			mean[2][k] += amplitude(s->residual[k]) / c->steps;
			mean[3][k] += amplitude(s->difference[k]) / c->steps;
		}
		divergence += s->abs_divergence / c->steps;
		rotation += s->abs_rotation / c->steps;
		residual += mean4(s->residual) / c->steps;
		difference += mean4(s->difference) / c->steps;
	}
	for (int m = 0; m < 4; m++)
		for (int k = 0; k < QUARTERS; k++)
			*out++ = (float)mean[m][k];
	*out++ = (float)divergence;
	*out++ = (float)rotation;
	*out++ = (float)(2 * residual / (difference + 1e-6));
	return out;
}

/* How long movement goes on in one direction at a place, and to which side it turns. */
static float *put_correlations(float *out, const struct movement *c)
{
	int64_t n = (int64_t)c->w * c->h;
	double square = c->scale * c->scale, turn = 0, turned = 0;

	for (int lag = 1; lag <= LAGS; lag++) {
		double ab = 0, aa = 0, bb = 0, least = c->steps > lag ? 1e-3 * (double)n * (c->steps - lag) : 1;

		for (int t = 0; t + lag < c->steps; t++) {
			const float *a = c->flow + 2 * n * t, *b = a + 2 * n * lag;

			for (int64_t i = 0; i < n; i++) {
				double ax = a[i], ay = a[n + i], bx = b[i], by = b[n + i];

				ab += square * (ax * bx + ay * by);
				aa += square * (ax * ax + ay * ay);
				bb += square * (bx * bx + by * by);
				if (lag == 1) {
					turn += square * (ax * by - ay * bx);
					turned += square * sqrt((ax * ax + ay * ay) * (bx * bx + by * by));
				}
			}
		}
		*out++ = (float)(2 * ab / sqrt((aa + least) * (bb + least)));
	}
	*out++ = (float)(2 * turn / (turned + (c->steps > 1 ? 1e-3 * (double)n * (c->steps - 1) : 1)));
	return out;
}

static float *put_directions(float *out, const struct movement *c)
{
	double sum[DIRECTIONS] = {0}, all = .03 * c->w * c->h * c->steps;

	for (int t = 0; t < c->steps; t++)
		for (int k = 0; k < DIRECTIONS; k++) {
			sum[k] += c->at[t].direction[k];
			all += c->at[t].direction[k];
		}
	for (int k = 0; k < DIRECTIONS; k++)
		*out++ = (float)(2 * sqrt(sum[k] / all));
	return out;
}

int motion_compute(float *out, struct flow *f, const float *grey, const int *at, int frames, int w, int h, struct err *e)
{
	struct movement c = {.w = w, .h = h, .steps = frames - 1, .scale = 32. / (w < h ? w : h)};
	int64_t n = (int64_t)w * h;
	float *end = out + MOTION_DIMS;

	assert(frames >= 2);
	c.flow = mem_try((size_t)(2 * c.steps + 1) * (size_t)n, sizeof *c.flow, "the optical flows of a clip", e);
	if (!c.flow)
		return -1;
	c.warped = c.flow + 2 * n * c.steps;
	c.at = mem_zalloc((size_t)c.steps, sizeof *c.at);
	for (int t = 0; t < c.steps; t++) {
		const float *a = grey + n * at[t], *b = grey + n * at[t + 1];
		float *v = c.flow + 2 * n * t;

		flow_between(f, v, a, b);
		step_velocities(&c.at[t], &c, v);
		step_gradients(&c.at[t], &c, v);
		step_residuals(&c.at[t], &c, a, b, v);
	}
	out = put_directions(put_correlations(put_quarters(put_parts(put_cells(out, &c), &c), &c), &c), &c);
	assert(out == end);
	for (int i = 1; i <= MOTION_DIMS; i++)
		end[-i] *= .5f; /* the cube in the kernel would let the few clips with the largest movement decide */
	mem_free(c.flow);
	mem_free(c.at);
	return 0;
}
