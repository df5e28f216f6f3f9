/* Cuts of a video: the score of each frame, the rule that makes jumps of scores, and the rule of the shortest scene. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "data/scenes.h"

/* The adaptive detector compares a frame with WINDOW frames on either side, and asks for a score of at least ADAPTIVE_SCORE. */
enum { WINDOW = 2, KEPT = 2 * WINDOW + 1 };
#define ADAPTIVE_SCORE 15.0
#define RATIO_MOST 255.0

struct scenes {
	struct scene_rule rule;
	int width, height;     /* of the frame before; 0: there is none */
	uint8_t *before, *now; /* (3, height, width) */
	int64_t n;             /* frames so far */
	double scores[KEPT];   /* of the last frames; frame i at i % KEPT */
	int64_t decided;       /* frames whose jump is decided */
	int64_t last;          /* content: the last frame at or above the threshold; adaptive: the last cut */
	int64_t merge_start;   /* content: the frame where merging began, or -1 */
	int merge_enabled;     /* content: a cut was found */
};

double scene_threshold(enum scene_detector detector)
{
	return detector == SCENES_ADAPTIVE ? 3 : detector == SCENES_TRANSNET ? .5 : 27;
}

struct scenes *scenes_new(const struct scene_rule *rule)
{
	struct scenes *s = mem_zalloc(1, sizeof *s);

	s->rule = *rule;
	s->merge_start = -1;
	return s;
}

void scenes_free(struct scenes *s)
{
	if (!s)
		return;
	mem_free(s->before);
	mem_free(s->now);
	mem_free(s);
}

void scene_size(int width, int height, int *w, int *h)
{
	double longer = width > height ? width : height, factor = longer < SCENE_SIDE ? 1 : longer / SCENE_SIDE;

	*w = (int)nearbyint(width / factor);
	*h = (int)nearbyint(height / factor);
	*w += *w < 1;
	*h += *h < 1;
}

/* OpenCV divides by tables in fixed point (imgproc/src/color_hsv.simd.hpp, RGB2HSV_b): 2^12 * 255 / v, and 2^12 * 180 / (6 * diff), rounded.
 * A rounded division in float gives the same integers for every v and diff, and the compiler can vectorise it, which it cannot do with a table. It
 * works on RUN pixels at a time, whose channels are separated first. */
#define SHIFT 12
#define HALF (1 << (SHIFT - 1))

enum { RUN = 64 };

static void run_hsv(uint8_t *hue, uint8_t *sat, uint8_t *val, const int32_t *r, const int32_t *g, const int32_t *b, int n)
{
	for (int i = 0; i < n; i++) {
		int32_t v = r[i] > g[i] ? r[i] : g[i], low = r[i] < g[i] ? r[i] : g[i], diff, h, turn, of_value, of_diff;

		v = v > b[i] ? v : b[i];
		low = low < b[i] ? low : b[i];
		diff = v - low;
		/* adding 2^23 rounds to an integer, half to even */
		of_value = (int32_t)(255.f * (1 << SHIFT) / (float)(v > 0 ? v : 1) + 0x1p23f - 0x1p23f);
		of_diff = (int32_t)(30.f * (1 << SHIFT) / (float)(diff > 0 ? diff : 1) + 0x1p23f - 0x1p23f);
		turn = v == g[i] ? b[i] - r[i] + 2 * diff : r[i] - g[i] + 4 * diff;
		h = v == r[i] ? g[i] - b[i] : turn;
		h = (h * of_diff + HALF) >> SHIFT;
		hue[i] = (uint8_t)(h + (h < 0 ? 180 : 0));
		sat[i] = (uint8_t)((diff * of_value + HALF) >> SHIFT);
		val[i] = (uint8_t)v;
	}
}

void scene_hsv(uint8_t *hsv, const uint8_t *rgb, size_t pixels)
{
	uint8_t *hue = hsv, *sat = hsv + pixels, *val = hsv + 2 * pixels;
	int32_t r[RUN], g[RUN], b[RUN];

	for (size_t at = 0; at < pixels; at += RUN) {
		int n = pixels - at < RUN ? (int)(pixels - at) : RUN;

		for (int i = 0; i < n; i++) {
			r[i] = rgb[3 * (at + (size_t)i)];
			g[i] = rgb[3 * (at + (size_t)i) + 1];
			b[i] = rgb[3 * (at + (size_t)i) + 2];
		}
		run_hsv(hue + at, sat + at, val + at, r, g, b, n);
	}
}

double scene_distance(const uint8_t *a, const uint8_t *b, size_t pixels)
{
	double sum = 0;

	for (int c = 0; c < 3; c++) {
		uint64_t all = 0;

		for (size_t at = 0; at < pixels;) {
			size_t end = pixels - at < 65536 ? pixels : at + 65536;
			uint32_t part = 0; /* at most 65536 * 255 < 2^32 */

			for (; at < end; at++)
				part += (uint32_t)abs(a[c * pixels + at] - b[c * pixels + at]);
			all += part;
		}
		sum += (double)all / (double)pixels;
	}
	return sum / 3;
}

/* The score of a frame, which becomes the frame before. */
static int frame_score(struct scenes *s, const struct picture *p, double *score, struct err *e)
{
	size_t pixels = (size_t)p->width * p->height;
	uint8_t *swap;

	*score = 0;
	if (p->width != s->width || p->height != s->height) {
		*score = s->width ? 255 : 0;
		mem_free(s->before);
		mem_free(s->now);
		s->now = NULL;
		s->width = s->height = 0;
		s->before = mem_try(3 * pixels, 1, "a frame for the detector of scenes", e);
		if (s->before)
			s->now = mem_try(3 * pixels, 1, "a frame for the detector of scenes", e);
		if (!s->now)
			return -1;
		s->width = p->width;
		s->height = p->height;
		scene_hsv(s->before, p->pixels, pixels);
		return 0;
	}
	scene_hsv(s->now, p->pixels, pixels);
	*score = scene_distance(s->now, s->before, pixels);
	swap = s->now;
	s->now = s->before;
	s->before = swap;
	return 0;
}

/* PySceneDetect's FlashFilter in the mode MERGE: a cut is at once a cut if the last frame above the threshold is `length` frames away. Otherwise the
 * frames above the threshold are merged until `length` frames stay below, and the last of them is a cut if merging took `length` frames. */
static int64_t content_cut(struct scenes *s, int64_t i, int above)
{
	int64_t length = s->rule.length, was = s->last;

	if (length <= 0)
		return above ? i : -1;
	if (above)
		s->last = i;
	if (s->merge_start >= 0) {
		if (above || i - was < length || s->last - s->merge_start < length)
			return -1;
		s->merge_start = -1;
		return s->last;
	}
	if (!above)
		return -1;
	if (i - was >= length) {
		s->merge_enabled = 1;
		return i;
	}
	if (s->merge_enabled)
		s->merge_start = i;
	return -1;
}

/* Ratio of the score of frame i to the mean score of the frames lo .. hi without i. */
static double ratio(const struct scenes *s, int64_t i, int64_t lo, int64_t hi)
{
	double sum = 0, score = s->scores[i % KEPT], mean;
	int n = 0;

	for (int64_t k = lo; k <= hi; k++)
		if (k != i) {
			sum += s->scores[k % KEPT];
			n++;
		}
	mean = n ? sum / n : 0;
	if (fabs(mean) < 1e-5)
		return score >= ADAPTIVE_SCORE ? RATIO_MOST : 0;
	return fmin(score / mean, RATIO_MOST);
}

static int adaptive_above(const struct scenes *s, int64_t i, int64_t lo, int64_t hi)
{
	return s->scores[i % KEPT] >= ADAPTIVE_SCORE && ratio(s, i, lo, hi) >= s->rule.threshold;
}

/* Decide about frame i. PySceneDetect judges only frames with WINDOW frames on both sides, which include frame 0 with its score of 0. For a jump the
 * neighbours that there are suffice, and frame 0 is none, so that no jump at the beginning or the end is overlooked. */
static void adaptive_decide(struct scenes *s, int64_t i, struct scene_found *found)
{
	int64_t last = s->n - 1, lo = i - WINDOW < 1 ? 1 : i - WINDOW, hi = i + WINDOW > last ? last : i + WINDOW;

	if (i >= 1 && adaptive_above(s, i, lo, hi))
		found->jump = i;
	if (i >= WINDOW && i + WINDOW <= last && i - s->last >= s->rule.length && adaptive_above(s, i, i - WINDOW, i + WINDOW))
		s->last = found->cut = i;
}

int scenes_add(struct scenes *s, const struct picture *frame, struct scene_found *found, struct err *e)
{
	int64_t i = s->n;
	double score;

	if (frame_score(s, frame, &score, e))
		return -1;
	s->scores[i % KEPT] = score;
	s->n++;
	*found = (struct scene_found){.score = score, .jump = -1, .cut = -1};
	if (s->rule.detector == SCENES_CONTENT) {
		int above = score >= s->rule.threshold;

		found->jump = above ? i : -1;
		found->cut = content_cut(s, i, above);
		s->decided = s->n;
	} else if (i >= WINDOW) {
		adaptive_decide(s, s->decided, found);
		s->decided++;
	}
	found->settled = s->decided;
	return 0;
}

int scenes_end(struct scenes *s, struct scene_found *found)
{
	if (s->decided >= s->n)
		return 0;
	*found = (struct scene_found){.jump = -1, .cut = -1};
	adaptive_decide(s, s->decided, found);
	found->settled = ++s->decided;
	return 1;
}
