/* flow: optical flow of translated, rotated, scaled and unchanged textures; features of movement that tell orders in time apart. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"
#include "data/flow.h"
#include "data/motionfeat.h"
#include "metric/warperror.h"

enum { WAVES = 60 };

/* A texture of waves whose amplitudes fall with frequency as those of photographs do. Periods lie between 5 and 125 pixels. */
static double texture(double x, double y, uint64_t seed)
{
	double s = 0, power = 0;

	for (uint64_t k = 0; k < WAVES; k++) {
		double f = .05 * pow(24, rng_uniform(seed, RNG_TEST, 1, k, 0)), turn = 2 * M_PI * rng_uniform(seed, RNG_TEST, 2, k, 0);
		double a = pow(f, -.7);

		s += a * sin(f * cos(turn) * x + f * sin(turn) * y + 2 * M_PI * rng_uniform(seed, RNG_TEST, 3, k, 0));
		power += a * a / 2;
	}
	return .5 + .18 * s / sqrt(power);
}

/* Position (x, y) moves to (m[0] x + m[1] y + m[2], m[3] x + m[4] y + m[5]) about the centre of the frame. */
struct motion {
	double m[6];
};

static struct motion shift(double x, double y)
{
	return (struct motion){{1, 0, x, 0, 1, y}};
}

static struct motion turn(double angle, double scale)
{
	return (struct motion){{scale * cos(angle), -scale * sin(angle), 0, scale * sin(angle), scale * cos(angle), 0}};
}

/* The texture after the motion, in 8 bits. */
static float *frame(int w, int h, const struct motion *o, uint64_t seed)
{
	float *p = mem_alloc((size_t)w * (size_t)h * sizeof *p);
	const double *m = o->m;
	double det = m[0] * m[4] - m[1] * m[3];

	for (int y = 0; y < h; y++)
		for (int x = 0; x < w; x++) {
			double px = x - (w - 1) / 2. - m[2], py = y - (h - 1) / 2. - m[5];
			double v = texture((m[4] * px - m[1] * py) / det, (m[0] * py - m[3] * px) / det, seed);

			p[y * w + x] = (float)(floor(255 * fmin(fmax(v, 0), 1) + .5) / 255);
		}
	return p;
}

/* The root mean square error of the flow where neither end is within 5 pixels of the border. */
static double flow_error(int w, int h, const struct motion *o)
{
	const struct motion still = shift(0, 0);
	float *a = frame(w, h, &still, 1), *b = frame(w, h, o, 1), *v = mem_alloc(2 * (size_t)w * (size_t)h * sizeof *v);
	struct flow *f = flow_new(w, h, NULL);
	double sum = 0;
	int count = 0;

	assert_non_null(f);
	flow_between(f, v, a, b);
	for (int y = 5; y < h - 5; y++)
		for (int x = 5; x < w - 5; x++) {
			double px = x - (w - 1) / 2., py = y - (h - 1) / 2.;
			double dx = o->m[0] * px + o->m[1] * py + o->m[2] - px, dy = o->m[3] * px + o->m[4] * py + o->m[5] - py;

			if (x + dx < 5 || x + dx >= w - 5 || y + dy < 5 || y + dy >= h - 5)
				continue;
			sum += pow(v[y * w + x] - dx, 2) + pow(v[w * h + y * w + x] - dy, 2);
			count++;
		}
	flow_free(f);
	mem_free(a);
	mem_free(b);
	mem_free(v);
	assert_true(count > 20);
	return sqrt(sum / count);
}

/* A tenth of a pixel: the texture has waves of 5 pixels, which cubic interpolation shifts by about that much at half a pixel. */
static void translations(void **state)
{
	static const struct {
		int w, h;
		double x, y;
	} cases[] = {{32, 32, 1, 0}, {32, 32, .3, -.7}, {32, 32, -3, 2}, {32, 32, 6, -5}, {64, 64, 8, 4}, {64, 48, 11, 0}, {33, 65, -.5, 9}};

	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const struct motion o = shift(cases[i].x, cases[i].y);
		double error = flow_error(cases[i].w, cases[i].h, &o);

		if (!(error < .1))
			fail_msg("%d x %d by (%g, %g): an error of %g pixels", cases[i].w, cases[i].h, cases[i].x, cases[i].y, error);
	}
}

static void rotations_and_zooms(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		const struct motion o = turn((const double[]){.1, -.2, 0, 0}[i], (const double[]){1, 1, 1.1, .92}[i]);

		assert_true(flow_error(48, 48, &o) < .15);
	}
}

/* No difference, no flow, to the bit; also none where there is no texture. A moving square leaves the flat surroundings still. */
static void still(void **state)
{
	const struct motion none = shift(0, 0);
	float *a = frame(32, 32, &none, 2), *b = mem_zalloc(32 * 32, sizeof *b), *c = mem_zalloc(32 * 32, sizeof *c), v[2 * 32 * 32];
	struct flow *f = flow_new(32, 32, NULL);

	(void)state;
	flow_between(f, v, a, a);
	for (int i = 0; i < 2 * 32 * 32; i++)
		assert_true(v[i] == 0);
	for (int y = 4; y < 12; y++)
		for (int x = 4; x < 12; x++)
			b[y * 32 + x] = c[y * 32 + x + 1] = .5f + .05f * (float)((x * 3 + y * 5) % 7);
	flow_between(f, v, b, c);
	assert_true(fabs(v[8 * 32 + 8] - 1) < .2 && fabs(v[32 * 32 + 8 * 32 + 8]) < .2);
	assert_true(fabs(v[28 * 32 + 28]) < .05 && fabs(v[32 * 32 + 28 * 32 + 28]) < .05);
	flow_free(f);
	mem_free(a);
	mem_free(b);
	mem_free(c);
}

static void warping(void **state)
{
	const struct motion none = shift(0, 0), o = shift(2, -1);
	float *a = frame(32, 24, &none, 3), *b = frame(32, 24, &o, 3), v[2 * 32 * 24], out[32 * 24], inside[32 * 24];

	(void)state;
	for (int i = 0; i < 32 * 24; i++)
		v[i] = 2, v[32 * 24 + i] = -1;
	flow_warp(out, inside, b, v, 32, 24);
	for (int y = 0; y < 24; y++)
		for (int x = 0; x < 32; x++) {
			assert_true(inside[y * 32 + x] == (x + 2 < 32 && y >= 1));
			if (x + 2 < 32 && y >= 1)
				assert_true(fabsf(out[y * 32 + x] - a[y * 32 + x]) < 1e-6f); /* whole pixels: no interpolation */
		}
	mem_free(a);
	mem_free(b);
}

enum { FRAMES = 7, SIDE = 32 };

/* The features of a clip whose frame t has the motion path(t); order: the order of its frames. */
static void features(float *out, struct motion (*path)(int t), const int *order)
{
	float *grey = mem_alloc(FRAMES * SIDE * SIDE * sizeof *grey);
	struct flow *f = flow_new(SIDE, SIDE, NULL);

	for (int t = 0; t < FRAMES; t++) {
		const struct motion o = path(t);
		float *p = frame(SIDE, SIDE, &o, 4);

		memcpy(grey + t * SIDE * SIDE, p, SIDE * SIDE * sizeof *p);
		mem_free(p);
	}
	assert_int_equal(motion_compute(out, f, grey, order, FRAMES, SIDE, SIDE, NULL), 0);
	for (int i = 0; i < MOTION_DIMS; i++)
		out[i] *= 2; /* the definition divides all by 2 */
	flow_free(f);
	mem_free(grey);
}

static struct motion rightwards(int t)
{
	return shift(1.5 * t - 5, 0);
}

static struct motion turning(int t)
{
	return turn(.08 * t, 1);
}

static struct motion growing(int t)
{
	return turn(0, pow(1.06, t));
}

static struct motion circling(int t)
{
	return shift(4 * cos(t), 4 * sin(t));
}

static const int forwards[FRAMES] = {0, 1, 2, 3, 4, 5, 6}, backwards[FRAMES] = {6, 5, 4, 3, 2, 1, 0}, frozen[FRAMES] = {3, 3, 3, 3, 3, 3, 3},
		 shuffled[FRAMES] = {2, 5, 0, 6, 1, 4, 3};

static double mean(const float *x, int from, int count, int step)
{
	double s = 0;

	for (int i = 0; i < count; i++)
		s += x[from + i * step] / count;
	return s;
}

/* Closed forms at the places that the definition gives them. */
static void features_of_known_motion(void **state)
{
	float x[MOTION_DIMS];

	(void)state;
	features(x, rightwards, forwards);
	assert_true(fabs(mean(x, 0, 16, 2) - asinh(2 * 1.5)) < .1); /* ux */
	assert_true(fabs(mean(x, 1, 16, 2)) < .1);                  /* uy */
	assert_true(fabs(mean(x, 32, 16, 1) - log(4)) < .1);        /* |u| */
	assert_true(mean(x, 48, 16, 1) < .3);                       /* no acceleration */
	assert_true(x[95] > 1.8);                                   /* goes on in one direction */
	assert_true(x[99] > 1.7);                                   /* the direction is +x */
	features(x, turning, forwards);
	assert_true(fabs(mean(x, 80, 4, 1) - asinh(8 * 2 * .08)) < .15); /* rotation is twice the angle */
	assert_true(fabs(mean(x, 76, 4, 1)) < .1);                       /* divergence */
	features(x, growing, forwards);
	assert_true(fabs(mean(x, 76, 4, 1) - asinh(8 * 2 * .06)) < .2);
	assert_true(fabs(mean(x, 80, 4, 1)) < .1);
	features(x, circling, forwards);
	assert_true(x[98] > 1); /* turns from +x to +y */
	features(x, circling, backwards);
	assert_true(x[98] < -1);
	features(x, circling, frozen);
	for (int i = 0; i < MOTION_DIMS; i++)
		assert_true(x[i] == 0 || x[i] == -1); /* -1: the logarithm of no difference */
}

static double distance(const float *a, const float *b)
{
	double s = 0;

	for (int i = 0; i < MOTION_DIMS; i++)
		s += pow(a[i] - b[i], 2);
	return sqrt(s);
}

/* The flow of a reversed clip is the opposite, that of a shuffled one is disordered, that of a frozen one is none. */
static void features_tell_orders_apart(void **state)
{
	struct motion (*const paths[])(int) = {rightwards, turning, growing, circling};

	(void)state;
	for (int k = 0; k < 4; k++) {
		float f[MOTION_DIMS], b[MOTION_DIMS], z[MOTION_DIMS], s[MOTION_DIMS];

		features(f, paths[k], forwards);
		features(b, paths[k], backwards);
		features(z, paths[k], frozen);
		features(s, paths[k], shuffled);
		assert_true(distance(f, b) > 1);
		assert_true(distance(f, z) > 3);
		assert_true(distance(f, s) > 3);
	}
}

/* A clip in which the texture glides, with noise that is new in every frame. */
static void glide(struct picture p[FRAMES], double speed, double noise)
{
	for (int t = 0; t < FRAMES; t++) {
		const struct motion o = shift(speed * t, .5 * speed * t);
		float *g = frame(SIDE, SIDE, &o, 5), z[SIDE * SIDE];

		rng_normal(z, SIDE * SIDE, 1, RNG_TEST, 9, (uint64_t)t);
		assert_int_equal(picture_alloc(&p[t], SIDE, SIDE, 3, NULL), 0);
		for (int i = 0; i < SIDE * SIDE * 3; i++)
			p[t].pixels[i] = (uint8_t)(255 * fmin(fmax(.2 + .6 * g[i / 3] + noise * z[i / 3], 0), 1) + .5);
		mem_free(g);
	}
}

/* Movement alone leaves the error of interpolation and of 8 bits, below a hundredth in the root; frozen clips have no error. Noise has twice its
 * variance, of which the flow follows a part; interpolation between pixels takes away up to half of one frame's. */
static void warping_error(void **state)
{
	static const struct {
		double speed, noise, low, high;
	} cases[] = {{0, 0, 0, 0}, {1.3, 0, 0, 1e-4}, {0, .03, .3 * .0018, .0018}, {1.3, .03, .3 * .0018, .0018}};
	struct flow *f = flow_new(SIDE, SIDE, NULL);

	(void)state;
	for (int i = 0; i < 4; i++) {
		struct picture p[FRAMES] = {{0}};
		double error;

		glide(p, cases[i].speed, cases[i].noise);
		assert_int_equal(warp_error(&error, f, p, FRAMES, NULL), 0);
		if (!(error >= cases[i].low && error <= cases[i].high))
			fail_msg("speed %g, noise %g: an error of %g", cases[i].speed, cases[i].noise, error);
		for (int t = 0; t < FRAMES; t++)
			picture_release(&p[t]);
	}
	flow_free(f);
}

static void reduction(void **state)
{
	uint8_t pixels[100 * 40 * 3];
	const struct picture p = {100, 40, 3, pixels};
	float grey[50 * 20];
	int w, h;

	(void)state;
	motion_size(&w, &h, 64, 64);
	assert_true(w == 64 && h == 64);
	motion_size(&w, &h, 65, 20);
	assert_true(w == 65 && h == 20); /* half of it would have 10 rows */
	motion_size(&w, &h, 1000, 32);
	assert_true(w == 500 && h == 16);
	motion_size(&w, &h, 100, 40);
	assert_true(w == 50 && h == 20);
	for (int i = 0; i < 100 * 40; i++)
		pixels[3 * i] = 255, pixels[3 * i + 1] = pixels[3 * i + 2] = (uint8_t)(i % 2 ? 0 : 100);
	motion_grey(grey, w, h, &p);
	for (int i = 0; i < 50 * 20; i++)
		assert_true(fabs(grey[i] - (.299 + .701 * 50 / 255)) < 1e-6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(translations),
	    cmocka_unit_test(rotations_and_zooms),
	    cmocka_unit_test(still),
	    cmocka_unit_test(warping),
	    cmocka_unit_test(features_of_known_motion),
	    cmocka_unit_test(features_tell_orders_apart),
	    cmocka_unit_test(warping_error),
	    cmocka_unit_test(reduction),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
