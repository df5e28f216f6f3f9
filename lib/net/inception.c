/* Records Inception-v3 and reads its published weights. */
#include "net/inception.h"

#include <string.h>

#include "core/mem.h"
#include "file/weightfile.h"

enum { RELU = UNARY_RELU + 1, SPATIAL = 7 };

struct inception {
	struct runner *net;
};

/* ---- recording: BLOCK.BRANCH is a convolution with batch norm, which is folded into it when the weights are read, and ReLU ---- */

static struct tensor *unit(const struct layers *l, struct tensor *x, const char *branch, struct conv c)
{
	c.act = RELU;
	c.many = 1;
	return layer_conv(l, x, branch, &c);
}

static struct tensor *one(const struct layers *l, struct tensor *x, const char *branch, int64_t out)
{
	return unit(l, x, branch, (struct conv){.out = out, .kh = 1});
}

/* A convolution of kh x kw that keeps the size. */
static struct tensor *same(const struct layers *l, struct tensor *x, const char *branch, int64_t out, int64_t kh, int64_t kw)
{
	return unit(l, x, branch, (struct conv){.out = out, .kh = kh, .kw = kw, .pad = {kh / 2, kw / 2, kh / 2, kw / 2}});
}

static struct tensor *halved(const struct layers *l, struct tensor *x, const char *branch, int64_t out)
{
	return unit(l, x, branch, (struct conv){.out = out, .kh = 3, .stride = 2});
}

static struct tensor *join(const struct layers *l, int n, struct tensor *const *xs)
{
	return op_concat(l->t, 3, n, xs);
}

static struct tensor *mean3(const struct layers *l, struct tensor *x)
{
	return op_pool(l->t, x, POOL_AVERAGE, 3, 1, 1, 0);
}

static struct tensor *most3(const struct layers *l, struct tensor *x)
{
	return op_pool(l->t, x, POOL_MAX, 3, 2, 0, 0);
}

static struct tensor *block_a(const struct layers *l, struct tensor *x, const char *name, int64_t pooled)
{
	struct layers b = layers_in(l, "%s.", name);
	struct tensor *y[4];

	y[0] = one(&b, x, "branch1x1", 64);
	y[1] = same(&b, one(&b, x, "branch5x5_1", 48), "branch5x5_2", 64, 5, 5);
	y[2] = same(&b, one(&b, x, "branch3x3dbl_1", 64), "branch3x3dbl_2", 96, 3, 3);
	y[2] = same(&b, y[2], "branch3x3dbl_3", 96, 3, 3);
	y[3] = one(&b, mean3(&b, x), "branch_pool", pooled);
	return join(&b, 4, y);
}

static struct tensor *block_b(const struct layers *l, struct tensor *x, const char *name)
{
	struct layers b = layers_in(l, "%s.", name);
	struct tensor *y[3];

	y[0] = halved(&b, x, "branch3x3", 384);
	y[1] = same(&b, one(&b, x, "branch3x3dbl_1", 64), "branch3x3dbl_2", 96, 3, 3);
	y[1] = halved(&b, y[1], "branch3x3dbl_3", 96);
	y[2] = most3(&b, x);
	return join(&b, 3, y);
}

static struct tensor *block_c(const struct layers *l, struct tensor *x, const char *name, int64_t n, struct tensor **first)
{
	struct layers b = layers_in(l, "%s.", name);
	struct tensor *y[4];

	*first = y[0] = one(&b, x, "branch1x1", 192);
	y[1] = same(&b, one(&b, x, "branch7x7_1", n), "branch7x7_2", n, 1, 7);
	y[1] = same(&b, y[1], "branch7x7_3", 192, 7, 1);
	y[2] = same(&b, one(&b, x, "branch7x7dbl_1", n), "branch7x7dbl_2", n, 7, 1);
	y[2] = same(&b, y[2], "branch7x7dbl_3", n, 1, 7);
	y[2] = same(&b, y[2], "branch7x7dbl_4", n, 7, 1);
	y[2] = same(&b, y[2], "branch7x7dbl_5", 192, 1, 7);
	y[3] = one(&b, mean3(&b, x), "branch_pool", 192);
	return join(&b, 4, y);
}

static struct tensor *block_d(const struct layers *l, struct tensor *x, const char *name)
{
	struct layers b = layers_in(l, "%s.", name);
	struct tensor *y[3];

	y[0] = halved(&b, one(&b, x, "branch3x3_1", 192), "branch3x3_2", 320);
	y[1] = same(&b, one(&b, x, "branch7x7x3_1", 192), "branch7x7x3_2", 192, 1, 7);
	y[1] = halved(&b, same(&b, y[1], "branch7x7x3_3", 192, 7, 1), "branch7x7x3_4", 192);
	y[2] = most3(&b, x);
	return join(&b, 3, y);
}

static struct tensor *block_e(const struct layers *l, struct tensor *x, const char *name, enum pool_kind pool)
{
	struct layers b = layers_in(l, "%s.", name);
	struct tensor *y[6], *h;

	y[0] = one(&b, x, "branch1x1", 320);
	h = one(&b, x, "branch3x3_1", 384);
	y[1] = same(&b, h, "branch3x3_2a", 384, 1, 3);
	y[2] = same(&b, h, "branch3x3_2b", 384, 3, 1);
	h = same(&b, one(&b, x, "branch3x3dbl_1", 448), "branch3x3dbl_2", 384, 3, 3);
	y[3] = same(&b, h, "branch3x3dbl_3a", 384, 1, 3);
	y[4] = same(&b, h, "branch3x3dbl_3b", 384, 3, 1);
	y[5] = one(&b, op_pool(l->t, x, pool, 3, 1, 1, 0), "branch_pool", 192);
	return join(&b, 6, y);
}

static struct tensor *stem(const struct layers *l, struct tensor *x)
{
	x = halved(l, x, "Conv2d_1a_3x3", 32);
	x = unit(l, x, "Conv2d_2a_3x3", (struct conv){.out = 32, .kh = 3});
	x = most3(l, same(l, x, "Conv2d_2b_3x3", 64, 3, 3));
	x = one(l, x, "Conv2d_3b_1x1", 80);
	return most3(l, unit(l, x, "Conv2d_4a_3x3", (struct conv){.out = 192, .kh = 3}));
}

void inception_record(struct recording *r, const void *config, const int64_t *size)
{
	const struct layers *l = &r->l;
	struct tape *t = l->t;
	struct tensor *x = channels_last(t, recording_input(r, DT_F32, 3, size, 1)), *first, *unused;
	int64_t mean[4], flat[2];

	(void)config;
	x = block_a(l, stem(l, x), "Mixed_5b", 32);
	x = block_a(l, block_a(l, x, "Mixed_5c", 64), "Mixed_5d", 64);
	x = block_c(l, block_b(l, x, "Mixed_6a"), "Mixed_6b", 128, &unused);
	x = block_c(l, x, "Mixed_6c", 160, &unused);
	x = block_c(l, x, "Mixed_6d", 160, &first);
	x = block_c(l, x, "Mixed_6e", 192, &unused);
	x = block_e(l, block_d(l, x, "Mixed_7a"), "Mixed_7b", POOL_AVERAGE);
	x = block_e(l, x, "Mixed_7c", POOL_MAX);
	memcpy(mean, (int64_t[]){x->shape[0], 1, 1, x->shape[3]}, sizeof mean);
	flat[0] = x->shape[0];
	flat[1] = x->shape[3];
	x = op_reshape(t, op_sum(t, x, mean, 1 / (double)(x->shape[1] * x->shape[2])), 2, flat);
	recording_output(r, x);
	recording_output(r, layer_linear(l, x, "fc", &(struct linear){.out = INCEPTION_CLASSES, .no_bias = 1, .edge = 1}));
	recording_output(r, op_copy(t, op_slice(t, first, 3, 0, SPATIAL)));
}

/* ---- names ---- */

#define NORM "*.bn.weight", "*.bn.bias", "*.bn.running_mean", "*.bn.running_var"
static const struct rename rules[] = {
    {"fc.weight", {"fc.weight"}, 0},
    {"*.weight", {NORM, "*.conv.weight"}, RENAME_FOLDED},
    {"*.bias", {NORM}, RENAME_FOLDED},
};
static const char *const own[] = {"Mixed_*", "Conv2d_*", NULL};
static const struct renames names = {.v = rules, .n = sizeof rules / sizeof *rules, .own = own, .eps = 1e-3};

/* ---- use ---- */

static const int64_t side[3] = {3, INCEPTION_SIDE, INCEPTION_SIDE};

struct inception *inception_open(const char *path, int64_t capacity, enum compact_type bulk, struct device *d, struct err *e)
{
	static const struct renames *const known[] = {&names};
	struct safetensors *s = weightfile_load(path, NULL, e);
	struct inception *n;

	if (!s)
		return NULL;
	n = mem_zalloc(1, sizeof *n);
	if (!(n->net = runner_new(inception_record, NULL, side, capacity, bulk, d, e)))
		st_free(s);
	if (n->net && !runner_weights(n->net, s, path, known, 1, e) && !runner_load(n->net, NULL, NULL, e))
		return n;
	inception_free(n);
	return NULL;
}

void inception_free(struct inception *n)
{
	if (n)
		runner_free(n->net);
	mem_free(n);
}

double inception_flops(const struct inception *n)
{
	return runner_flops(n->net);
}

int inception_run(struct inception *n, int64_t count, const float *x, const struct inception_result *r, struct err *e)
{
	if (runner_plan(n->net, side, e))
		return -1;
	runner_run(n->net, count, (const void *const[]){x}, (float *const[]){r->features, r->logits, r->spatial});
	return 0;
}
