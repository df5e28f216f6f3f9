#include "net/lpips.h"

#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/str.h"
#include "file/weightfile.h"

enum { RELU = UNARY_RELU + 1, TAPS = 7, SIDE = 64 };

const char *const lpips_trunk_names[] = {"alex", "vgg", "squeeze", NULL};

struct lpips {
	struct convnet net;
	enum lpips_trunk kind;
	struct weights *heads; /* while weights are read */
};

/* ---- the trunks: features that are compared, in taps[]; returns how many ---- */

static struct tensor *conv(const struct layers *l, struct tensor *x, int number, int64_t out, int64_t k, int64_t stride, int64_t pad)
{
	char name[96];

	snprintf(name, sizeof name, "features.%d", number);
	return layer_conv(l, x, name, &(struct conv){.out = out, .kh = k, .stride = stride, .pad = {pad, pad, pad, pad}, .act = RELU});
}

static struct tensor *pool(const struct layers *l, struct tensor *x, int64_t k, int ceil)
{
	return op_pool(l->t, x, POOL_MAX, k, 2, 0, ceil);
}

static int alex(const struct layers *l, struct tensor *x, struct tensor **taps)
{
	taps[0] = conv(l, x, 0, 64, 11, 4, 2);
	taps[1] = conv(l, pool(l, taps[0], 3, 0), 3, 192, 5, 1, 2);
	taps[2] = conv(l, pool(l, taps[1], 3, 0), 6, 384, 3, 1, 1);
	taps[3] = conv(l, taps[2], 8, 256, 3, 1, 1);
	taps[4] = conv(l, taps[3], 10, 256, 3, 1, 1);
	return 5;
}

static int vgg(const struct layers *l, struct tensor *x, struct tensor **taps)
{
	static const struct {
		int n, width;
	} stages[] = {{2, 64}, {2, 128}, {3, 256}, {3, 512}, {3, 512}};
	int number = 0;

	for (int i = 0; i < 5; i++) {
		if (i)
			x = pool(l, x, 2, 0);
		for (int j = 0; j < stages[i].n; j++, number += 2)
			x = conv(l, x, number, stages[i].width, 3, 1, 1);
		number++;
		taps[i] = x;
	}
	return 5;
}

static struct tensor *fire(const struct layers *l, struct tensor *x, int number, int64_t squeeze, int64_t expand)
{
	char name[96];
	struct tensor *y[2];

	snprintf(name, sizeof name, "features.%d.squeeze", number);
	x = layer_conv1(l, x, name, squeeze, RELU);
	snprintf(name, sizeof name, "features.%d.expand1x1", number);
	y[0] = layer_conv1(l, x, name, expand, RELU);
	snprintf(name, sizeof name, "features.%d.expand3x3", number);
	y[1] = layer_conv3(l, x, name, expand, RELU, NULL);
	return op_concat(l->t, 3, 2, y);
}

static int squeeze(const struct layers *l, struct tensor *x, struct tensor **taps)
{
	taps[0] = conv(l, x, 0, 64, 3, 2, 0);
	taps[1] = fire(l, fire(l, pool(l, taps[0], 3, 1), 3, 16, 64), 4, 16, 64);
	taps[2] = fire(l, fire(l, pool(l, taps[1], 3, 1), 6, 32, 128), 7, 32, 128);
	taps[3] = fire(l, pool(l, taps[2], 3, 1), 9, 48, 192);
	taps[4] = fire(l, taps[3], 10, 48, 192);
	taps[5] = fire(l, taps[4], 11, 64, 256);
	taps[6] = fire(l, taps[5], 12, 64, 256);
	return 7;
}

/* ---- the distance ---- */

/* Of taps (2B, h, w, C), pictures a and b by turns: (B, 1). A position's features are divided by their length, which is
 * sqrt(C) times their root mean square, and C is in the head's weights. */
static struct tensor *compare(const struct layers *l, struct tensor *x, int tap)
{
	struct tape *t = l->t;
	int64_t c = x->shape[3], pairs[5] = {x->shape[0] / 2, 2, x->shape[1], x->shape[2], c}, one[4] = {x->shape[0] / 2, 1, 1, 1};
	int64_t flat[2] = {x->shape[0] / 2, 1};
	struct tensor *both[2], *d;
	char name[96];

	x = op_norm(t, x, NULL, NULL, NORM_RMS, 1e-20 / (double)c, 0);
	op_unstack(t, op_reshape(t, x, 5, pairs), 1, both);
	d = op_unary(t, op_axpby(t, 1, both[0], -1, both[1]), UNARY_SQUARE);
	snprintf(name, sizeof name, "lin%d.model.1", tap);
	d = layer_linear(l, d, name, 1, 1);
	return op_reshape(t, op_sum(t, d, one, 1 / (double)(pairs[2] * pairs[3])), 2, flat);
}

/* x (B, 6, H, W): the channels of a, then those of b. */
static int record(const void *config, const struct layers *l, struct tensor *x, struct tensor **out)
{
	static int (*const trunks[])(const struct layers *, struct tensor *, struct tensor **) = {alex, vgg, squeeze};
	const struct lpips *n = config;
	int64_t split[4] = {2 * x->shape[0], 3, x->shape[2], x->shape[3]}, three = 3;
	struct tensor *taps[TAPS], *sum;
	int count;

	x = channels_last(l->t, op_reshape(l->t, x, 4, split));
	x = op_mul(l->t, x, layer_param(l, "scale", "", 1, &three));
	x = op_add(l->t, x, layer_param(l, "shift", "", 1, &three));
	count = trunks[n->kind](l, x, taps);
	sum = compare(l, taps[0], 0);
	for (int i = 1; i < count; i++)
		sum = op_add(l->t, sum, compare(l, taps[i], i));
	out[0] = sum;
	return 1;
}

/* ---- weights ---- */

static void fill_input(const struct param *p, float *out)
{
	static const double shift[3] = {-.030, -.088, -.188}, scale[3] = {.458, .448, .450};

	for (int c = 0; c < 3; c++)
		out[c] = (float)(strcmp(p->name, "scale") ? -shift[c] / scale[c] : 1 / scale[c]);
}

/* "features.3.squeeze.weight" is net.slice2.3.squeeze.weight where lpips wrote it. */
static int fill_trunk(struct weights *file, const struct param *p, float *out, struct err *e)
{
	int found = weights_has(file, p->name), rc;
	char *name = str_new("%s", p->name);

	for (int slice = 1; slice <= TAPS && !found; slice++) {
		mem_free(name);
		name = str_new("net.slice%d%s", slice, strchr(p->name, '.'));
		found = weights_has(file, name);
	}
	rc = weights_take(file, found ? name : p->name, p, out, e);
	mem_free(name);
	return rc;
}

static int fill(const void *config, struct weights *file, const struct param *p, float *out, struct err *e)
{
	const struct lpips *n = config;

	if (!strcmp(p->name, "scale") || !strcmp(p->name, "shift")) {
		fill_input(p, out);
		return 0;
	}
	if (strncmp(p->name, "lin", 3))
		return fill_trunk(file, p, out, e);
	if (weights_take(n->heads, p->name, p, out, e))
		return -1;
	for (int64_t i = 0; i < p->count; i++)
		out[i] = (float)((double)out[i] / (double)p->shape[1]);
	return 0;
}

struct lpips *lpips_open(enum lpips_trunk kind, const char *trunk, const char *heads, int64_t capacity, struct device *d, struct err *e)
{
	struct lpips *n = mem_zalloc(1, sizeof *n);
	struct safetensors *t = weightfile_load(trunk, NULL, e), *h = t ? weightfile_load(heads, NULL, e) : NULL;
	struct weights wt, wh;
	int rc = -1;

	n->kind = kind;
	if (h) {
		weights_init(&wt, t, trunk);
		weights_init(&wh, h, heads);
		n->heads = &wh;
		convnet_init(&n->net, record, n, capacity, d);
		rc = convnet_load(&n->net, 6, SIDE, SIDE, fill, &wt, e) || weights_end(&wt, "features.", e) || weights_end(&wh, "lin", e) ? -1 : 0;
		n->heads = NULL;
		weights_release(&wt);
		weights_release(&wh);
	}
	st_free(t);
	st_free(h);
	if (!rc)
		return n;
	lpips_free(n);
	return NULL;
}

void lpips_free(struct lpips *n)
{
	if (n)
		convnet_release(&n->net);
	mem_free(n);
}

/* Pairs are put side by side, a batch at a time. */
int lpips_run(struct lpips *n, int64_t count, const float *a, const float *b, int64_t h, int64_t w, float *distance, struct err *e)
{
	int64_t each = 3 * h * w, batch = n->net.capacity;
	float *x = mem_try((size_t)(2 * batch * each), sizeof *x, "pictures", e);
	int rc = x ? 0 : -1;

	for (int64_t at = 0; at < count && !rc; at += batch) {
		int64_t k = count - at < batch ? count - at : batch;
		float *out[CONVNET_OUT] = {distance + at};

		for (int64_t i = 0; i < k; i++) {
			memcpy(x + 2 * i * each, a + (at + i) * each, (size_t)each * sizeof *x);
			memcpy(x + (2 * i + 1) * each, b + (at + i) * each, (size_t)each * sizeof *x);
		}
		rc = convnet_run(&n->net, k, x, 6, h, w, out, e);
	}
	mem_free(x);
	return rc;
}

int64_t lpips_parameters(const struct lpips *n)
{
	return params_count(&n->net.params, 0) - 6;
}
