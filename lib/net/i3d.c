/* Records I3D from convolutions of pictures and reads its published weights. */
#include "net/i3d.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/str.h"
#include "file/weightfile.h"

enum { RELU = UNARY_RELU + 1, TAPS_MAX = 7, CAPACITY = 1 };

struct i3d {
	struct runner *net;
	struct device *device;
};

/* A clip inside the network: its frames (B, H, W, C). */
struct frames {
	int n;
	struct tensor *at[I3D_FRAMES];
};

/* ---- recording: every window is cubic, with TensorFlow's padding SAME ---- */

/* Padding of one axis: windows of k at a stride over n; the rest of an odd padding comes last. */
static void same(int64_t *first, int64_t *last, int64_t n, int64_t k, int64_t stride)
{
	int64_t out = (n + stride - 1) / stride, total = (out - 1) * stride + k - n;

	total = total > 0 ? total : 0;
	*first = total / 2;
	*last = total - *first;
}

/* NAME.tap0.weight and so on, for the steps in time, and NAME.bias. */
static struct frames conv(const struct layers *l, const struct frames *x, const char *name, int64_t out, int64_t k, int64_t stride)
{
	struct layers b = layers_in(l, "%s.", name);
	struct tensor *in = x->at[0], *w[TAPS_MAX], *bias = layer_param(&b, "bias", 1, &out);
	int64_t shape[4] = {out, k, k, in->shape[3]}, first, last;
	struct frames y = {.n = (int)((x->n + stride - 1) / stride)};
	struct padding pad;

	for (int64_t i = 0; i < k; i++) {
		char tap[24];

		snprintf(tap, sizeof tap, "tap%d.weight", (int)i);
		w[i] = layer_param_init(&b, tap, 4, shape, PARAM_CONV, init_zero);
	}
	same(&pad.top, &pad.bottom, in->shape[1], k, stride);
	same(&pad.left, &pad.right, in->shape[2], k, stride);
	same(&first, &last, x->n, k, stride);
	for (int t = 0; t < y.n; t++) {
		int64_t from = t * stride - first, lo = from < 0 ? -from : 0, hi = from + k > x->n ? x->n - from : k;
		struct tensor *sum = NULL;

		for (int64_t i = lo; i < hi; i++) /* frames of the padding are zero, and add nothing */
			sum = op_conv_many(l->t, x->at[from + i], w[i], i + 1 == hi ? bias : NULL, sum, stride, pad, i + 1 == hi ? RELU : 0);
		y.at[t] = sum;
	}
	return y;
}

/* max(a, b) = b + relu(a - b) */
static struct tensor *larger(const struct layers *l, struct tensor *a, struct tensor *b)
{
	return op_add(l->t, op_unary(l->t, op_axpby(l->t, 1, a, -1, b), UNARY_RELU), b);
}

/* Maxima over windows of kt x k x k. All inputs come from a ReLU, so the zeros of the padding never exceed a window's maximum. */
static struct frames most(const struct layers *l, const struct frames *x, int64_t kt, int64_t k, int64_t stride_t, int64_t stride)
{
	struct frames space = {.n = x->n}, y = {.n = (int)((x->n + stride_t - 1) / stride_t)};
	int64_t first, last;

	for (int t = 0; t < x->n; t++)
		space.at[t] = op_pool(l->t, x->at[t], POOL_MAX, k, stride, stride == 1 ? k / 2 : 0, stride > 1);
	same(&first, &last, x->n, kt, stride_t);
	for (int t = 0; t < y.n; t++)
		for (int64_t i = 0, from = t * stride_t - first; i < kt; i++)
			if (from + i >= 0 && from + i < x->n)
				y.at[t] = y.at[t] ? larger(l, y.at[t], space.at[from + i]) : space.at[from + i];
	return y;
}

/* widths: of b0, b1a, b1b, b2a, b2b, b3b. */
static struct frames mixed(const struct layers *l, const struct frames *x, const char *name, const int64_t widths[6])
{
	struct layers b = layers_in(l, "%s.", name);
	struct frames y[4], h;

	y[0] = conv(&b, x, "b0", widths[0], 1, 1);
	h = conv(&b, x, "b1a", widths[1], 1, 1);
	y[1] = conv(&b, &h, "b1b", widths[2], 3, 1);
	h = conv(&b, x, "b2a", widths[3], 1, 1);
	y[2] = conv(&b, &h, "b2b", widths[4], 3, 1);
	h = most(&b, x, 3, 3, 1, 1);
	y[3] = conv(&b, &h, "b3b", widths[5], 1, 1);
	for (int t = 0; t < x->n; t++)
		y[0].at[t] = op_concat(l->t, 3, 4, (struct tensor *const[]){y[0].at[t], y[1].at[t], y[2].at[t], y[3].at[t]});
	return y[0];
}

/* The mean of every frame, averaged over pairs of frames, and over the pairs. Logits are linear in it, so this equals averaging them. */
static struct tensor *average(const struct layers *l, const struct frames *x)
{
	struct tensor *in = x->at[0], *sum = NULL;
	int64_t shape[4] = {in->shape[0], 1, 1, in->shape[3]}, flat[2] = {in->shape[0], in->shape[3]};

	for (int t = 0; t < x->n; t++) {
		double weight = (t == 0 || t + 1 == x->n ? .5 : 1) / (x->n - 1);
		struct tensor *m = op_sum(l->t, x->at[t], shape, weight / (double)(in->shape[1] * in->shape[2]));

		sum = sum ? op_add(l->t, sum, m) : m;
	}
	return op_reshape(l->t, sum, 2, flat);
}

static const struct {
	const char *name;
	int64_t widths[6];
} blocks[] = {{"Mixed_3b", {64, 96, 128, 16, 32, 32}},     {"Mixed_3c", {128, 128, 192, 32, 96, 64}},   {"Mixed_4b", {192, 96, 208, 16, 48, 64}},
              {"Mixed_4c", {160, 112, 224, 24, 64, 64}},   {"Mixed_4d", {128, 128, 256, 24, 64, 64}},   {"Mixed_4e", {112, 144, 288, 32, 64, 64}},
              {"Mixed_4f", {256, 160, 320, 32, 128, 128}}, {"Mixed_5b", {256, 160, 320, 32, 128, 128}}, {"Mixed_5c", {384, 192, 384, 48, 128, 128}}};

static void record(struct recording *r, const void *config, const int64_t *size)
{
	static const int64_t shape[4] = {I3D_FRAMES, I3D_SIDE, I3D_SIDE, 3};
	const struct layers *l = &r->l;
	struct tensor *in = recording_input(r, DT_F32, 4, shape, 1);
	int64_t frame[4] = {in->shape[0], I3D_SIDE, I3D_SIDE, 3};
	struct frames x = {.n = I3D_FRAMES};

	(void)config;
	(void)size;
	for (int t = 0; t < x.n; t++)
		x.at[t] = op_reshape(l->t, op_copy(l->t, op_slice(l->t, in, 1, t, 1)), 4, frame);
	x = conv(l, &x, "Conv3d_1a_7x7", 64, 7, 2);
	x = most(l, &x, 1, 3, 1, 2);
	x = conv(l, &x, "Conv3d_2b_1x1", 64, 1, 1);
	x = conv(l, &x, "Conv3d_2c_3x3", 192, 3, 1);
	x = most(l, &x, 1, 3, 1, 2);
	for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
		if (!strcmp(blocks[i].name, "Mixed_4b"))
			x = most(l, &x, 3, 3, 2, 2);
		if (!strcmp(blocks[i].name, "Mixed_5b"))
			x = most(l, &x, 2, 2, 2, 2);
		x = mixed(l, &x, blocks[i].name, blocks[i].widths);
	}
	recording_output(r, layer_linear(l, average(l, &x), "logits", &(struct linear){.out = I3D_CLASSES, .edge = 1}));
}

/* ---- weights ---- */

struct source {
	const struct safetensors *s;
	const char *where;
	double eps;
};

/* The batch norm of NAME (o channels) as scale and shift. */
static int norm_read(double *scale, double *shift, const struct source *f, const char *name, int64_t o, struct err *e)
{
	static const char *const part[4] = {"weight", "bias", "running_mean", "running_var"};
	float *v = mem_alloc(4 * (size_t)o * sizeof *v);
	int rc = 0;

	for (int k = 0; k < 4 && !rc; k++) {
		char *key = str_new("%s.bn.%s", name, part[k]);
		const struct st_tensor *t = st_need(f->s, key, 1, &o, e);

		if (t)
			st_to_f32(v + k * o, t);
		else
			rc = -1;
		mem_free(key);
	}
	for (int64_t i = 0; i < o && !rc; i++) {
		scale[i] = v[i] / sqrt(v[3 * o + i] + f->eps);
		shift[i] = v[o + i] - v[2 * o + i] * scale[i];
	}
	mem_free(v);
	return rc;
}

/* out [o, k, k, c]: step `tap` in time of w [o, c, k, k, k], scaled. */
static void tap_fill(float *out, const float *w, const int64_t *shape, int64_t tap, const double *scale)
{
	int64_t o = shape[0], k = shape[1], c = shape[3], plane = k * k;

	for (int64_t i = 0; i < o; i++)
		for (int64_t at = 0; at < plane; at++)
			for (int64_t j = 0; j < c; j++)
				*out++ = (float)(w[((i * c + j) * k + tap) * plane + at] * scale[i]);
}

static int conv_fill(const struct source *f, const char *name, int64_t tap, const struct param *q, float *out, struct err *e)
{
	int64_t o = q->shape[0], shape[5] = {o, q->shape[3], q->shape[1], q->shape[1], q->shape[2]};
	double *scale = mem_alloc(2 * (size_t)o * sizeof *scale);
	char *key = str_new("%s.conv3d.weight", name);
	const struct st_tensor *t = tap < 0 ? NULL : st_need(f->s, key, 5, shape, e);
	int rc = norm_read(scale, scale + o, f, name, o, e);
	float *w = t && !rc ? mem_try((size_t)st_count(t), sizeof *w, "a convolution", e) : NULL;

	if (w) {
		st_to_f32(w, t);
		tap_fill(out, w, q->shape, tap, scale);
	} else if (tap >= 0) {
		rc = -1;
	}
	for (int64_t i = 0; i < o && tap < 0 && !rc; i++)
		out[i] = (float)scale[o + i];
	mem_free(w);
	mem_free(key);
	mem_free(scale);
	return rc;
}

static int logits_fill(const struct source *f, const struct param *q, float *out, struct err *e)
{
	int64_t shape[5] = {q->shape[0], q->rank == 2 ? q->shape[1] : 1, 1, 1, 1};
	const struct st_tensor *t = st_need(f->s, q->rank == 2 ? "logits.conv3d.weight" : "logits.conv3d.bias", q->rank == 2 ? 5 : 1, shape, e);

	if (t)
		st_to_f32(out, t);
	return t ? 0 : -1;
}

static int fill(void *arg, const struct param *q, float *out, struct err *e)
{
	const struct source *f = arg;
	const char *tap = strstr(q->name, ".tap"), *end = tap ? tap : strstr(q->name, ".bias");
	char *name;
	int rc;

	if (!strncmp(q->name, "logits.", 7)) {
		rc = logits_fill(f, q, out, e);
	} else {
		name = str_new("%.*s", (int)(end - q->name), q->name);
		rc = conv_fill(f, name, tap ? tap[4] - '0' : -1, q, out, e);
		mem_free(name);
	}
	return rc ? err_prefix(e, "%s is no I3D", f->where) : 0;
}

/* ---- use ---- */

struct i3d *i3d_open(const char *path, double eps, struct device *d, struct err *e)
{
	struct safetensors *s = weightfile_load(path, NULL, e);
	struct source f = {s, path, eps};
	struct i3d *n;

	if (!s)
		return NULL;
	n = mem_zalloc(1, sizeof *n);
	n->device = d;
	n->net = runner_new(record, NULL, NULL, CAPACITY, COMPACT_NONE, d, e);
	if (n->net && !runner_fill(n->net, fill, &f, e)) {
		st_free(s);
		return n;
	}
	st_free(s);
	i3d_free(n);
	return NULL;
}

void i3d_free(struct i3d *n)
{
	if (n)
		runner_free(n->net);
	mem_free(n);
}

int i3d_run(struct i3d *n, int64_t count, float *out, const float *x, struct err *e)
{
	runner_run(n->net, count, (const void *const[]){x}, (float *const[]){out});
	return n->device->error(n->device, e);
}
