/* Records TransNet V2 and reads its published weights. */
#include "net/transnet.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/str.h"
#include "file/weightfile.h"

enum { RELU = UNARY_RELU + 1, CELLS = 3, WIDTH = 16 /* of the first cell */, DILATIONS = 4, TAPS_IN_TIME = 3 };
enum { BINS = 512, WINDOW = 101, SIMILAR = 128, HIDDEN = 1024, T = TRANSNET_FRAMES };

static const double norm_eps = 1e-3;

struct transnet {
	struct runner *net;
	struct device *device;
	float *in, *bins; /* (T, 27, 48, 3), (T, BINS): the inputs */
};

/* ---- recording ---- */

static struct tensor *zeros_like(const struct layers *l, struct tensor *x, int64_t frames)
{
	return op_scale(l->t, op_slice(l->t, x, 1, 0, frames), 0);
}

/* A convolution along time with dilation d: a linear layer on the frames t - d, t and t + d of x (B, T, places, C), which are zeros outside. */
static struct tensor *along_time(const struct layers *l, struct tensor *x, const char *name, int64_t out, int64_t d)
{
	struct tensor *none = zeros_like(l, x, d), *at[TAPS_IN_TIME];
	struct tensor *wide = op_concat(l->t, 1, 3, (struct tensor *const[]){none, x, none});

	for (int i = 0; i < TAPS_IN_TIME; i++)
		at[i] = op_slice(l->t, wide, 1, i * d, T);
	return layer_linear(l, op_concat(l->t, 3, TAPS_IN_TIME, at), name, &(struct linear){.out = out, .act = RELU, .edge = 1});
}

/* Four separable convolutions of x (B, T, H, W, C) side by side, each in space, then in time: (B, T, H, W, 4 width). */
static struct tensor *dilated(const struct layers *l, struct tensor *x, int64_t width)
{
	int64_t b = x->shape[0], h = x->shape[2], w = x->shape[3], wide = 2 * width * DILATIONS;
	int64_t pictures[4] = {b * T, h, w, x->shape[4]}, clip[4] = {b, T, h * w, wide}, shape[5] = {b, T, h, w, DILATIONS * width};
	static const char *const names[DILATIONS] = {"time1", "time2", "time4", "time8"};
	struct tensor *y[DILATIONS];

	x = layer_conv(l, op_reshape(l->t, x, 4, pictures), "space",
	               &(struct conv){.out = wide, .kh = 3, .pad = {1, 1, 1, 1}, .no_bias = 1, .many = 1});
	x = op_reshape(l->t, x, 4, clip);
	for (int i = 0; i < DILATIONS; i++)
		y[i] = along_time(l, op_slice(l->t, x, 3, i * 2 * width, 2 * width), names[i], width, 1 << i);
	return op_reshape(l->t, op_concat(l->t, 3, DILATIONS, y), 5, shape);
}

static struct tensor *cell(const struct layers *outer, struct tensor *x, int i)
{
	struct layers first = layers_in(outer, "SDDCNN.%d.DDCNN.0.", i), second = layers_in(outer, "SDDCNN.%d.DDCNN.1.", i);
	int64_t width = WIDTH << i, b = x->shape[0], pictures[4], clip[5];

	x = dilated(&first, x, width);
	x = op_add(outer->t, dilated(&second, x, width), x);
	memcpy(pictures, (const int64_t[]){b * T, x->shape[2], x->shape[3], x->shape[4]}, sizeof pictures);
	x = op_pool(outer->t, op_reshape(outer->t, x, 4, pictures), POOL_AVERAGE, 2, 2, 0, 0);
	memcpy(clip, (const int64_t[]){b, T, x->shape[1], x->shape[2], x->shape[3]}, sizeof clip);
	return op_reshape(outer->t, x, 5, clip);
}

/* Products of the vectors x (B, T, C) with those 50 frames before to 50 frames after, zeros outside, through a layer: (B, T, 128).
 *
 * Row t of the window is row t of the matrix of all products, shifted by t. With rows of 200 (zeros, products, zeros), element (t, t + j) lies at
 * 200 t + t + j = 201 t + j: the same numbers as rows of 201 are the window and more columns. */
static struct tensor *window(const struct layers *l, struct tensor *x, const char *name)
{
	int64_t b = x->shape[0], flat[2] = {b, (int64_t)T * 2 * T}, shifted[3] = {b, T, 2 * T + 1};
	struct tensor *s = op_matmul(l->t, x, 0, x, 1, 1), *none = op_scale(l->t, op_slice(l->t, s, 2, 0, T / 2), 0), *rows, *end;

	rows = op_reshape(l->t, op_concat(l->t, 2, 3, (struct tensor *const[]){none, s, none}), 2, flat);
	end = op_scale(l->t, op_slice(l->t, rows, 1, 0, T), 0);
	rows = op_reshape(l->t, op_concat(l->t, 1, 2, (struct tensor *const[]){rows, end}), 3, shifted);
	rows = op_copy(l->t, op_slice(l->t, rows, 2, 0, WINDOW));
	return layer_linear(l, rows, name, &(struct linear){.out = SIMILAR, .act = RELU, .edge = 1});
}

/* The mean of every frame of x (B, T, H, W, C): (B, T, C). */
static struct tensor *frame_means(const struct layers *l, struct tensor *x)
{
	int64_t shape[5] = {x->shape[0], T, 1, 1, x->shape[4]}, flat[3] = {x->shape[0], T, x->shape[4]};

	return op_reshape(l->t, op_sum(l->t, x, shape, 1 / (double)(x->shape[2] * x->shape[3])), 3, flat);
}

static struct tensor *similarity(const struct layers *l, struct tensor *const *means)
{
	struct tensor *x =
	    layer_linear(l, op_concat(l->t, 2, CELLS, means), "frame_sim_layer.projection", &(struct linear){.out = SIMILAR, .edge = 1});

	/* x / |x|: the root mean square is |x| / sqrt(128) */
	x = op_scale(l->t, op_norm(l->t, x, NULL, NULL, NORM_RMS, 1e-26, 0), 1 / sqrt(SIMILAR));
	return window(l, x, "frame_sim_layer.fc");
}

static void record(struct recording *r, const void *config, const int64_t *size)
{
	static const int64_t shape[4] = {T, TRANSNET_HEIGHT, TRANSNET_WIDTH, 3}, histograms[2] = {T, BINS};
	const struct layers *l = &r->l;
	struct tensor *x = recording_input(r, DT_F32, 4, shape, 1), *bins = recording_input(r, DT_F32, 2, histograms, 1), *means[CELLS];
	int64_t flat[3], out[2] = {x->shape[0], T};

	(void)config;
	(void)size;
	for (int i = 0; i < CELLS; i++) {
		x = cell(l, x, i);
		means[i] = frame_means(l, x);
	}
	memcpy(flat, (const int64_t[]){x->shape[0], T, x->shape[2] * x->shape[3] * x->shape[4]}, sizeof flat);
	x = op_reshape(l->t, x, 3, flat);
	x = op_concat(l->t, 2, 3, (struct tensor *const[]){window(l, bins, "color_hist_layer.fc"), similarity(l, means), x});
	x = layer_linear(l, x, "fc1", &(struct linear){.out = HIDDEN, .act = RELU, .edge = 1});
	for (int i = 1; i <= 2; i++) {
		struct tensor *y = layer_linear(l, x, i == 1 ? "cls_layer1" : "cls_layer2", &(struct linear){.out = 1, .edge = 1});

		recording_output(r, op_reshape(l->t, op_unary(l->t, y, UNARY_SIGMOID), 2, out));
	}
}

/* ---- weights ---- */

struct source {
	const struct safetensors *s;
	const char *where;
};

/* A tensor of the file in new memory. */
static float *tensor_read(const struct source *f, char *name, int rank, const int64_t *shape, struct err *e)
{
	const struct st_tensor *t = st_need(f->s, name, rank, shape, e);
	float *v = t ? mem_try((size_t)st_count(t), sizeof *v, name, e) : NULL;

	if (v)
		st_to_f32(v, t);
	mem_free(name);
	return v;
}

/* out [8 F, 3, 3, in]: the convolutions in space of all dilations, [2 F, in, 1, 3, 3] each. */
static int space_fill(const struct source *f, const char *scope, const struct param *q, float *out, struct err *e)
{
	int64_t o = q->shape[0] / DILATIONS, in = q->shape[3], shape[5] = {o, in, 1, 3, 3};

	for (int d = 0; d < DILATIONS; d++) {
		float *w = tensor_read(f, str_new("%sConv3D_%d.layers.0.weight", scope, 1 << d), 5, shape, e);

		if (!w)
			return -1;
		for (int64_t i = 0; i < o; i++)
			for (int64_t at = 0; at < 9; at++)
				for (int64_t c = 0; c < in; c++)
					*out++ = w[(i * in + c) * 9 + at];
		mem_free(w);
	}
	return 0;
}

/* The batch norm of the block as scale and shift of the outputs of one dilation, `o` from number `from` on. */
static int norm_read(double *scale, double *shift, const struct source *f, const char *scope, int64_t from, int64_t o, struct err *e)
{
	static const char *const part[4] = {"weight", "bias", "running_mean", "running_var"};
	int64_t all = o * DILATIONS;
	float *v[4] = {NULL};
	int rc = 0;

	for (int k = 0; k < 4 && !rc; k++)
		rc = (v[k] = tensor_read(f, str_new("%sbn.%s", scope, part[k]), 1, &all, e)) ? 0 : -1;
	for (int64_t i = 0; i < o && !rc; i++) {
		scale[i] = v[0][from + i] / sqrt(v[3][from + i] + norm_eps);
		shift[i] = v[1][from + i] - v[2][from + i] * scale[i];
	}
	for (int k = 0; k < 4; k++)
		mem_free(v[k]);
	return rc;
}

/* time1, time2, time4 or time8: the weight [F, 3 x 2 F] of [F, 2 F, 3, 1, 1] and the bias [F], with the batch norm. */
static int time_fill(const struct source *f, const char *scope, int dilation, const struct param *q, float *out, struct err *e)
{
	int64_t o = q->shape[0], in = 2 * o, shape[5] = {o, in, TAPS_IN_TIME, 1, 1}, from = 0;
	double *scale = mem_alloc(2 * (size_t)o * sizeof *scale), *shift = scale + o;
	float *w = NULL;
	int rc;

	for (int d = 1; d < dilation; d *= 2)
		from += o;
	rc = norm_read(scale, shift, f, scope, from, o, e);
	if (!rc && q->rank == 2)
		rc = (w = tensor_read(f, str_new("%sConv3D_%d.layers.1.weight", scope, dilation), 5, shape, e)) ? 0 : -1;
	for (int64_t i = 0; i < o && !rc; i++) {
		for (int64_t k = 0; k < TAPS_IN_TIME && w; k++)
			for (int64_t c = 0; c < in; c++)
				*out++ = (float)(scale[i] * w[(i * in + c) * TAPS_IN_TIME + k]);
		if (!w)
			*out++ = (float)shift[i];
	}
	mem_free(w);
	mem_free(scale);
	return rc;
}

static int fill(void *arg, const struct param *q, float *out, struct err *e)
{
	const struct source *f = arg;
	const char *space = strstr(q->name, "space."), *time = strstr(q->name, "time"), *end = space ? space : time;
	char *scope = end ? str_new("%.*s", (int)(end - q->name), q->name) : NULL;
	int rc;

	if (space) {
		rc = space_fill(f, scope, q, out, e);
	} else if (time) {
		rc = time_fill(f, scope, time[4] - '0', q, out, e);
	} else {
		float *v = tensor_read(f, mem_strdup(q->name), q->rank, q->shape, e);

		if (v)
			memcpy(out, v, (size_t)q->count * sizeof *v);
		mem_free(v);
		rc = v ? 0 : -1;
	}
	mem_free(scope);
	return rc ? err_prefix(e, "%s is no TransNet V2", f->where) : 0;
}

/* ---- use ---- */

void transnet_params(struct params *p)
{
	runner_params(record, NULL, NULL, p);
}

struct transnet *transnet_open(const char *path, struct device *d, struct err *e)
{
	struct safetensors *s = weightfile_load(path, NULL, e);
	struct source f = {s, path};
	struct transnet *n;

	if (!s)
		return NULL;
	n = mem_zalloc(1, sizeof *n);
	n->device = d;
	n->in = mem_zalloc((size_t)T * TRANSNET_BYTES, sizeof *n->in);
	n->bins = mem_zalloc((size_t)T * BINS, sizeof *n->bins);
	n->net = runner_new(record, NULL, NULL, 1, COMPACT_NONE, d, e);
	if (n->net && !runner_fill(n->net, fill, &f, e)) {
		st_free(s);
		return n;
	}
	st_free(s);
	transnet_free(n);
	return NULL;
}

void transnet_free(struct transnet *n)
{
	if (!n)
		return;
	runner_free(n->net);
	mem_free(n->in);
	mem_free(n->bins);
	mem_free(n);
}

/* x: the frame in [0, 1]. bins [BINS]: its histogram of 8 x 8 x 8 colours, scaled to unit length. */
static void frame_take(float *x, float *bins, const uint8_t *rgb)
{
	double squares = 0;

	memset(bins, 0, BINS * sizeof *bins);
	for (int i = 0; i < TRANSNET_BYTES; i++)
		x[i] = (float)rgb[i] / 255.f;
	for (int i = 0; i < TRANSNET_BYTES; i += 3)
		bins[(rgb[i] >> 5 << 6) + (rgb[i + 1] >> 5 << 3) + (rgb[i + 2] >> 5)]++;
	for (int i = 0; i < BINS; i++)
		squares += (double)bins[i] * bins[i];
	for (int i = 0; i < BINS; i++)
		bins[i] = (float)(bins[i] / sqrt(squares));
}

int transnet_run(struct transnet *n, float *cut, float *within, const uint8_t *const *frames, struct err *e)
{
	for (int t = 0; t < T; t++)
		frame_take(n->in + (int64_t)t * TRANSNET_BYTES, n->bins + (int64_t)t * BINS, frames[t]);
	runner_run(n->net, 1, (const void *const[]){n->in, n->bins}, (float *const[]){cut, within});
	return n->device->error(n->device, e);
}
