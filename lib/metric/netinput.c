/* Resizes and scales pictures as published metrics do. */
#include "metric/netinput.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "file/resize.h"

const char *const netinput_names[NETINPUTS + 1] = {"tf1", "torch", "clean", "dinov2", "clip", "dinov2-256", "cmmd", NULL};

static const float imagenet_mean[3] = {.485f, .456f, .406f}, imagenet_sd[3] = {.229f, .224f, .225f};
static const float clip_mean[3] = {.48145466f, .4578275f, .40821073f}, clip_sd[3] = {.26862954f, .26130258f, .27577711f};

int netinput_side(enum netinput in)
{
	return in == NETINPUT_CMMD ? 336 : in == NETINPUT_DINOV2 || in == NETINPUT_DINOV2_256 || in == NETINPUT_CLIP ? 224 : 299;
}

/* The taps of one output pixel along one axis; indices are clamped to the picture. */
enum { TAPS = 4 };

struct tap {
	int at[TAPS];
	float w[TAPS];
};

static int clamp(int i, int n)
{
	return i < 0 ? 0 : i >= n ? n - 1 : i;
}

static struct tap *taps_new(int side, struct err *e)
{
	return mem_try((size_t)side, sizeof(struct tap), "resampling", e);
}

/* TensorFlow 1's bilinear; w[1] is the weight of the second pixel. */
static void taps_tf1(struct tap *t, int side, int n)
{
	float scale = (float)((double)n / side);

	for (int i = 0; i < side; i++) {
		float x = (float)i * scale;
		int lo = (int)x;

		t[i].at[0] = lo;
		t[i].at[1] = clamp(lo + 1, n);
		t[i].w[1] = x - (float)lo;
	}
}

/* torch.nn.functional.interpolate, align_corners=False. */
static void taps_bilinear(struct tap *t, int side, int n)
{
	float scale = (float)n / (float)side;

	for (int i = 0; i < side; i++) {
		float x = fmaxf(scale * ((float)i + .5f) - .5f, 0);
		int lo = (int)x;

		t[i].at[0] = lo;
		t[i].at[1] = clamp(lo + 1, n);
		t[i].w[1] = x - (float)lo;
		t[i].w[0] = 1 - t[i].w[1];
	}
}

static float cubic_near(float x, float a)
{
	return ((a + 2) * x - (a + 3)) * x * x + 1;
}

static float cubic_far(float x, float a)
{
	return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
}

static void taps_bicubic(struct tap *t, int side, int n)
{
	const float a = -.75f, scale = (float)n / (float)side;

	for (int i = 0; i < side; i++) {
		float x = scale * ((float)i + .5f) - .5f, lo = floorf(x), f = x - lo;

		for (int k = 0; k < 4; k++)
			t[i].at[k] = clamp((int)lo - 1 + k, n);
		t[i].w[0] = cubic_far(f + 1, a);
		t[i].w[1] = cubic_near(f, a);
		t[i].w[2] = cubic_near(1 - f, a);
		t[i].w[3] = cubic_far(2 - f, a);
	}
}

typedef float (*sampler)(const float *plane, int width, const struct tap *x, const struct tap *y);

static float sample_tf1(const float *plane, int width, const struct tap *x, const struct tap *y)
{
	const float *a = plane + (size_t)y->at[0] * (size_t)width, *b = plane + (size_t)y->at[1] * (size_t)width;
	float top = a[x->at[0]] + (a[x->at[1]] - a[x->at[0]]) * x->w[1];
	float low = b[x->at[0]] + (b[x->at[1]] - b[x->at[0]]) * x->w[1];

	return top + (low - top) * y->w[1];
}

/* Rounds like torch's kernel on x86, where the compiler fused the first product. */
static float blend(float a, float wa, float b, float wb)
{
	return fmaf(a, wa, b * wb);
}

static float sample_bilinear(const float *plane, int width, const struct tap *x, const struct tap *y)
{
	const float *a = plane + (size_t)y->at[0] * (size_t)width, *b = plane + (size_t)y->at[1] * (size_t)width;

	return blend(blend(a[x->at[0]], x->w[0], a[x->at[1]], x->w[1]), y->w[0], blend(b[x->at[0]], x->w[0], b[x->at[1]], x->w[1]), y->w[1]);
}

static float sample_bicubic(const float *plane, int width, const struct tap *x, const struct tap *y)
{
	float sum = 0;

	for (int j = 0; j < 4; j++) {
		const float *a = plane + (size_t)y->at[j] * (size_t)width;
		float row = 0;

		for (int i = 0; i < 4; i++)
			row += a[x->at[i]] * x->w[i];
		sum += row * y->w[j];
	}
	return sum;
}

/* The planes of p as float (3, height, width), divided by `unit`. Caller frees with mem_free. */
static float *planes_new(const struct picture *p, float unit, struct err *e)
{
	size_t n = (size_t)p->width * (size_t)p->height;
	float *out = mem_try(3 * n, sizeof *out, "a picture in float", e);

	for (size_t c = 0; c < 3 && out; c++)
		for (size_t i = 0; i < n; i++)
			out[c * n + i] = (float)p->pixels[3 * i + c] / unit;
	return out;
}

static int resample(float *out, const struct picture *p, int side, float unit, void (*taps)(struct tap *, int, int), sampler sample, struct err *e)
{
	float *planes = planes_new(p, unit, e);
	struct tap *x = planes ? taps_new(side, e) : NULL, *y = x ? taps_new(side, e) : NULL;

	if (y) {
		taps(x, side, p->width);
		taps(y, side, p->height);
		for (int c = 0; c < 3; c++) {
			const float *plane = planes + (size_t)c * (size_t)p->width * (size_t)p->height;

			for (int v = 0; v < side; v++)
				for (int u = 0; u < side; u++)
					*out++ = sample(plane, p->width, x + u, y + v);
		}
	}
	mem_free(planes);
	mem_free(x);
	mem_free(y);
	return y ? 0 : -1;
}

static int clean(float *out, const struct picture *p, int side, struct err *e)
{
	float *planes = planes_new(p, 1, e);
	size_t n = (size_t)side * (size_t)side;
	int rc = planes ? 0 : -1;

	for (size_t c = 0; c < 3 && !rc; c++) {
		rc = plane_resize(out + c * n, side, side, planes + c * (size_t)p->width * (size_t)p->height, p->width, p->height, RESIZE_BICUBIC, e);
		for (size_t i = 0; i < n && !rc; i++)
			out[c * n + i] = fminf(fmaxf(out[c * n + i], 0), 255);
	}
	mem_free(planes);
	return rc;
}

/* out (3, side, side): the centre of p, which is at least as large, divided by 255. */
static void take(float *out, const struct picture *p, int side)
{
	/* torchvision's CenterCrop rounds half to even */
	int x0 = (int)nearbyint((p->width - side) / 2.), y0 = (int)nearbyint((p->height - side) / 2.);

	for (int c = 0; c < 3; c++)
		for (int v = 0; v < side; v++)
			for (int u = 0; u < side; u++)
				*out++ = (float)p->pixels[((size_t)(y0 + v) * (size_t)p->width + (size_t)(x0 + u)) * 3 + (size_t)c] / 255;
}

static int pillow(float *out, const struct picture *p, int width, int height, int side, struct err *e)
{
	struct picture small = {0};

	if (picture_resize(&small, p, width, height, RESIZE_BICUBIC, e))
		return -1;
	take(out, &small, side);
	picture_release(&small);
	return 0;
}

static void normalise(float *x, int side, const float mean[3], const float sd[3])
{
	for (int c = 0; c < 3; c++)
		for (int i = 0; i < side * side; i++, x++)
			*x = (*x - mean[c]) / sd[c];
}

static void centre(float *x, int side)
{
	for (int i = 0; i < 3 * side * side; i++)
		x[i] = (x[i] - 128) / 128;
}

int netinput_make(float *out, const struct picture *p, enum netinput in, struct err *e)
{
	int side = netinput_side(in), s = in == NETINPUT_DINOV2_256 ? 256 : side, w = p->width, h = p->height, rc;
	int imagenet = in == NETINPUT_DINOV2 || in == NETINPUT_DINOV2_256;

	assert(p->channels == 3);
	switch (in) {
	case NETINPUT_TF1:
		rc = resample(out, p, side, 1, taps_tf1, sample_tf1, e);
		break;
	case NETINPUT_TORCH:
		rc = resample(out, p, side, 255, taps_bilinear, sample_bilinear, e);
		break;
	case NETINPUT_CLEAN:
		rc = clean(out, p, side, e);
		break;
	case NETINPUT_DINOV2:
		rc = pillow(out, p, side, side, side, e);
		break;
	case NETINPUT_CLIP:
	case NETINPUT_DINOV2_256:
		/* torchvision's Resize(s) truncates the longer side to an integer */
		rc = pillow(out, p, w <= h ? s : (int)((int64_t)s * w / h), w <= h ? (int)((int64_t)s * h / w) : s, side, e);
		break;
	default:
		rc = resample(out, p, side, 255, taps_bicubic, sample_bicubic, e);
	}
	if (rc)
		return -1;
	if (in == NETINPUT_TF1 || in == NETINPUT_CLEAN)
		centre(out, side);
	else if (in == NETINPUT_TORCH)
		for (int i = 0; i < 3 * side * side; i++)
			out[i] = 2 * out[i] - 1;
	else
		normalise(out, side, imagenet ? imagenet_mean : clip_mean, imagenet ? imagenet_sd : clip_sd);
	return 0;
}
