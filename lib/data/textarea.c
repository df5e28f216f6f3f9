/* Runs a detector of text on a picture, and measures the boxes around what it marks. */
#include "data/textarea.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "file/resize.h"
#include "net/onnxnet.h"

enum { LONGER = 640, MULTIPLE = 32, BOX_LEAST = 3 };

static const float marked = .3f;           /* probability above which a pixel belongs to a region */
static const double sure = .6, grow = 1.5; /* mean of a region; enlargement of its box */

struct textarea {
	struct onnxnet *net;
	char *path;
};

/* ---- boxes ---- */

/* A region that is being filled: its box, and the pixels whose neighbours are to be looked at. */
struct region {
	const float *map;
	unsigned char *seen;
	int *stack;
	int h, w, waiting;
	int left, right, top, bottom;
	int64_t pixels;
	double sum; /* of their probabilities */
};

static void pixel_take(struct region *r, int y, int x)
{
	size_t at = (size_t)y * (size_t)r->w + (size_t)x;

	if (r->seen[at] || !(r->map[at] > marked))
		return;
	r->seen[at] = 1;
	r->stack[r->waiting++] = (int)at;
	r->pixels++;
	r->sum += (double)r->map[at];
	r->left = x < r->left ? x : r->left;
	r->right = x > r->right ? x : r->right;
	r->top = y < r->top ? y : r->top;
	r->bottom = y > r->bottom ? y : r->bottom;
}

/* Find the box of the region of a pixel; neighbours touch by a side or a corner. */
static void region_fill(struct region *r, int y, int x)
{
	r->left = r->right = x;
	r->top = r->bottom = y;
	r->pixels = 0;
	r->sum = 0;
	pixel_take(r, y, x);
	while (r->waiting) {
		int at = r->stack[--r->waiting], py = at / r->w, px = at % r->w;

		for (int ny = py > 0 ? py - 1 : 0; ny <= py + 1 && ny < r->h; ny++)
			for (int nx = px > 0 ? px - 1 : 0; nx <= px + 1 && nx < r->w; nx++)
				pixel_take(r, ny, nx);
	}
}

/* Mark the enlarged box in `covered`. */
static void box_cover(const struct region *r, unsigned char *covered)
{
	int width = r->right - r->left + 1, height = r->bottom - r->top + 1;
	int by = (int)lround(grow * (double)r->pixels / (2. * (width + height)));
	int left = r->left > by ? r->left - by : 0, right = r->right + by < r->w ? r->right + by : r->w - 1;

	for (int y = r->top > by ? r->top - by : 0; y <= r->bottom + by && y < r->h; y++)
		memset(covered + (size_t)y * (size_t)r->w + left, 1, (size_t)(right - left + 1));
}

double textarea_of_map(const float *map, int h, int w)
{
	size_t n = (size_t)h * (size_t)w, area = 0;
	struct region r = {.map = map, .h = h, .w = w};
	unsigned char *covered = mem_zalloc(n, 1);

	r.seen = mem_zalloc(n, 1);
	r.stack = mem_alloc(n * sizeof *r.stack);
	for (int y = 0; y < h; y++)
		for (int x = 0; x < w; x++) {
			if (r.seen[(size_t)y * (size_t)w + (size_t)x] || !(map[(size_t)y * (size_t)w + (size_t)x] > marked))
				continue;
			region_fill(&r, y, x);
			if (r.right - r.left + 1 >= BOX_LEAST && r.bottom - r.top + 1 >= BOX_LEAST && r.sum >= sure * (double)r.pixels)
				box_cover(&r, covered);
		}
	for (size_t i = 0; i < n; i++)
		area += covered[i];
	mem_free(r.seen);
	mem_free(r.stack);
	mem_free(covered);
	return (double)area / (double)n;
}

/* ---- the detector ---- */

/* Prepare the network for a picture of w x h pixels, of which it is to make a map of the same size. */
static int map_plan(struct textarea *t, int w, int h, struct err *e)
{
	int64_t out[3];

	if (onnxnet_plan(t->net, h, w, out, e))
		return -1;
	if (out[0] == h && out[1] == w && out[2] == 1)
		return 0;
	return err_set(e, ERR_DATA, "%s: no detector of text: it makes %lld x %lld numbers of %lld channels of a picture of %d x %d", t->path,
	               (long long)out[1], (long long)out[0], (long long)out[2], w, h);
}

struct textarea *textarea_open(const char *path, struct device *d, struct err *e)
{
	struct textarea *t = mem_zalloc(1, sizeof *t);

	t->path = mem_strdup(path);
	if ((t->net = onnxnet_open(path, 3, d, e)) && !map_plan(t, 2 * MULTIPLE, 2 * MULTIPLE, e))
		return t;
	textarea_free(t);
	return NULL;
}

void textarea_free(struct textarea *t)
{
	if (!t)
		return;
	onnxnet_free(t->net);
	mem_free(t->path);
	mem_free(t);
}

/* A side of the resized picture. */
static int side_of(int side, int longer)
{
	int n = (int)lround((double)side * LONGER / longer / MULTIPLE) * MULTIPLE;

	return n > MULTIPLE ? n : MULTIPLE;
}

/* x (h, w, 3): blue, green, red from -1 to 1, as the detectors are trained. */
static void input_fill(float *x, const struct picture *p)
{
	size_t n = (size_t)p->width * (size_t)p->height;

	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < 3; k++)
			x[3 * i + k] = (float)p->pixels[(size_t)p->channels * i + (p->channels == 3 ? 2 - k : 0)] / 127.5f - 1;
}

static int map_make(struct textarea *t, float *map, const struct picture *p, struct err *e)
{
	size_t n = (size_t)p->width * (size_t)p->height;
	float *x;
	int rc;

	if (map_plan(t, p->width, p->height, e))
		return -1;
	x = mem_alloc(3 * n * sizeof *x);
	input_fill(x, p);
	rc = onnxnet_run(t->net, x, map, e);
	mem_free(x);
	for (size_t i = 0; i < n && !rc; i++)
		if (!isfinite(map[i]))
			rc = err_set(e, ERR_DATA, "%s: makes numbers that are not finite", t->path);
	return rc;
}

int textarea_score(struct textarea *t, double *share, const struct picture *p, struct err *e)
{
	int longer = p->width > p->height ? p->width : p->height, rc;
	struct picture small;
	float *map;

	if (picture_resize(&small, p, side_of(p->width, longer), side_of(p->height, longer), RESIZE_BILINEAR, e))
		return -1;
	map = mem_alloc((size_t)small.width * (size_t)small.height * sizeof *map);
	rc = map_make(t, map, &small, e);
	if (!rc)
		*share = textarea_of_map(map, small.height, small.width);
	mem_free(map);
	picture_release(&small);
	return rc;
}
