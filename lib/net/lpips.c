/* Records LPIPS over AlexNet and VGG, and reads their published weights. */
#include "net/lpips.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/hash.h"
#include "core/mem.h"
#include "core/str.h"
#include "file/fileio.h"
#include "file/weightfile.h"

enum { RELU = UNARY_RELU + 1, TAPS = 7, SIDE = 64 };

const char *const lpips_trunk_names[] = {"alex", "vgg", "squeeze", NULL};

struct lpips {
	struct runner *net;
	enum lpips_trunk kind;
};

/* ---- the trunks: each stores the features that are compared in taps[], and returns their number ---- */

static struct tensor *conv(const struct layers *l, struct tensor *x, int number, int64_t out, int64_t k, int64_t stride, int64_t pad)
{
	char name[24];

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
	struct layers f = layers_in(l, "features.%d.", number);
	struct tensor *y[2];

	x = layer_conv1(&f, x, "squeeze", squeeze, RELU);
	y[0] = layer_conv1(&f, x, "expand1x1", expand, RELU);
	y[1] = layer_conv3(&f, x, "expand3x3", expand, RELU, NULL);
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

/* ---- pictures as vectors ---- */

/* The features of a tap (B, h, w, C) as vectors (B, h w C) whose squared distance is the tap's part of LPIPS. The features of a position are divided
 * by their length, sqrt(C) times their root mean square. `gain` holds 1 / sqrt(C) and the square root of the head's weight. */
static struct tensor *vector_of(const struct layers *l, struct tensor *x, int tap)
{
	struct tape *t = l->t;
	int64_t c = x->shape[3], pixels = x->shape[1] * x->shape[2], row[2] = {1, c}, flat[2] = {x->shape[0], pixels * c};
	struct tensor *gain;
	char name[32];

	snprintf(name, sizeof name, "lin%d.model.1.weight", tap);
	gain = op_reshape(t, layer_param(l, name, 2, row), 1, &c);
	x = op_norm(t, x, gain, NULL, NORM_RMS, 1e-20 / (double)c, 0);
	return op_reshape(t, op_scale(t, x, 1 / sqrt((double)pixels)), 2, flat);
}

/* Pictures in [-1, 1] become what the classifiers were trained on: (x - mean) / deviation. */
static const double mean[3] = {-.030, -.088, -.188}, deviation[3] = {.458, .448, .450};

static void fill_scale(float *out, const int64_t *shape, double a)
{
	(void)shape;
	(void)a;
	for (int c = 0; c < 3; c++)
		out[c] = (float)(1 / deviation[c]);
}

static void fill_shift(float *out, const int64_t *shape, double a)
{
	(void)shape;
	(void)a;
	for (int c = 0; c < 3; c++)
		out[c] = (float)(-mean[c] / deviation[c]);
}

static void record(struct recording *r, const void *config, const int64_t *size)
{
	static int (*const trunks[])(const struct layers *, struct tensor *, struct tensor **) = {alex, vgg, squeeze};
	const struct lpips *n = config;
	const struct layers *l = &r->l;
	int64_t three = 3;
	struct tensor *x = channels_last(l->t, recording_input(r, DT_F32, 3, size, 1)), *taps[TAPS];
	int count;

	x = op_mul(l->t, x, layer_param_init(l, "scale", 1, &three, PARAM_FROZEN, (struct init){.kind = INIT_FILL, .fill = fill_scale}));
	x = op_add(l->t, x, layer_param_init(l, "shift", 1, &three, PARAM_FROZEN, (struct init){.kind = INIT_FILL, .fill = fill_shift}));
	count = trunks[n->kind](l, x, taps);
	for (int i = 0; i < count; i++)
		taps[i] = vector_of(l, taps[i], i);
	recording_output(r, op_concat(l->t, 1, count, taps));
}

/* ---- weights ---- */

/* clang-format off */
#define REST {"scale", {NULL}, 0}, {"shift", {NULL}, 0}, {"lin#.model.1.weight", {"lin#.model.1.weight"}, RENAME_ROOT}
#define SLICE(slice, layer) {"features." layer ".*", {"net.slice" slice "." layer ".*"}, 0}
/* clang-format on */
static const struct rename torchvision_rules[] = {REST};
/* The lpips package cuts the networks into slices. */
static const struct rename alex_slices[] = {REST, SLICE("1", "0"), SLICE("2", "3"), SLICE("3", "6"), SLICE("4", "8"), SLICE("5", "10")};
static const struct rename vgg_slices[] = {
    REST,
    SLICE("1", "0"),
    SLICE("1", "2"),
    SLICE("2", "5"),
    SLICE("2", "7"),
    SLICE("3", "10"),
    SLICE("3", "12"),
    SLICE("3", "14"),
    SLICE("4", "17"),
    SLICE("4", "19"),
    SLICE("4", "21"),
    SLICE("5", "24"),
    SLICE("5", "26"),
    SLICE("5", "28"),
};
static const struct rename squeeze_slices[] = {REST,
                                               SLICE("1", "0"),
                                               SLICE("2", "3"),
                                               SLICE("2", "4"),
                                               SLICE("3", "6"),
                                               SLICE("3", "7"),
                                               SLICE("4", "9"),
                                               SLICE("5", "10"),
                                               SLICE("6", "11"),
                                               SLICE("7", "12")};
static const char *const own[] = {"features.*", "lin*", NULL};
/* clang-format off */
#define SLICES(rules) {.sign = "net.slice1.0.weight", .v = rules, .n = sizeof rules / sizeof *rules, .own = own}
/* clang-format on */
static const struct renames sliced[] = {
    [LPIPS_ALEX] = SLICES(alex_slices), [LPIPS_VGG] = SLICES(vgg_slices), [LPIPS_SQUEEZE] = SLICES(squeeze_slices)};
static const struct renames torchvision = {.v = torchvision_rules, .n = sizeof torchvision_rules / sizeof *torchvision_rules, .own = own};

/* The trunk's tensors of one file together with the heads' of another. Both files, which may be the same, are borrowed. */
static struct safetensors *join(const struct safetensors *trunk, const struct safetensors *heads, const char *where)
{
	struct st_tensor *t = mem_zalloc((size_t)(st_tensors(trunk) + st_tensors(heads)) + 1, sizeof *t);
	struct safetensors *both;
	int n = 0;

	for (int k = 0; k < 2; k++) {
		const struct safetensors *s = k ? heads : trunk;

		for (int i = 0; i < st_tensors(s); i++)
			if ((strncmp(st_get(s, i)->name, "lin", 3) == 0) == k)
				t[n++] = *st_get(s, i);
	}
	both = st_of(t, n, where, NULL, NULL);
	mem_free(t);
	return both;
}

/* The weights of the heads must not be negative, because they multiply squares. */
static int check_heads(const struct safetensors *s, const char *where, struct err *e)
{
	for (int i = 0; i < st_tensors(s); i++) {
		const struct st_tensor *t = st_get(s, i);
		float *v;
		int rc = 0;

		if (strncmp(t->name, "lin", 3) || !st_type_is_float(t->type))
			continue;
		if (!(v = mem_try((size_t)st_count(t) + 1, sizeof *v, "a weight", e)))
			return -1;
		st_to_f32(v, t);
		for (int64_t k = 0; k < st_count(t) && !rc; k++)
			if (!(v[k] >= 0))
				rc = err_set(e, ERR_DATA, "%s: weight %g in %s is negative or not finite, so LPIPS would not be a distance", where,
				             (double)v[k], t->name);
		mem_free(v);
		if (rc)
			return -1;
	}
	return 0;
}

struct lpips *lpips_open(enum lpips_trunk kind, const char *trunk, const char *heads, int64_t capacity, struct device *d, struct err *e)
{
	const struct renames *known[] = {&sliced[kind], &torchvision};
	struct lpips *n = mem_zalloc(1, sizeof *n);
	struct safetensors *t = weightfile_load(trunk, NULL, e), *h = t ? weightfile_load(heads, NULL, e) : NULL;
	char *where = strcmp(trunk, heads) ? str_new("%s and %s", trunk, heads) : str_new("%s", trunk);
	int rc = -1;

	n->kind = kind;
	if (h && !check_heads(h, heads, e) && (n->net = runner_new(record, n, (int64_t[]){3, SIDE, SIDE}, capacity, COMPACT_NONE, d, e)))
		rc = runner_weights(n->net, join(t, h, where), where, known, 2, e) || runner_load(n->net, NULL, NULL, e) ? -1 : 0;
	if (rc) {
		lpips_free(n);
		n = NULL;
	}
	mem_free(where);
	st_free(t);
	st_free(h);
	return n;
}

void lpips_free(struct lpips *n)
{
	if (n)
		runner_free(n->net);
	mem_free(n);
}

/* The path of the file "trunk" or "heads" in a folder, in any supported format. Caller frees with mem_free. */
static char *part_of(const char *dir, const char *part, struct err *e)
{
	static const char *const ends[] = {"safetensors", "pth", "pt"};

	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
		char *path = str_new("%s/%s.%s", dir, part, ends[i]);

		if (path_exists(path))
			return path;
		mem_free(path);
	}
	err_set(e, ERR_NOINPUT, "%s holds no %s.safetensors, %s.pth or %s.pt", dir, part, part, part);
	err_lacking(e, "lpips-alex");
	return NULL;
}

/* Tell the trunk from the number of heads and the number of channels of the second one. */
static int kind_of(enum lpips_trunk *kind, const char *heads, struct err *e)
{
	struct safetensors *s = weightfile_load(heads, NULL, e);
	const struct st_tensor *second = s ? st_need(s, "lin1.model.1.weight", -1, NULL, e) : NULL;
	int rc = second ? 0 : -1;

	if (!rc && st_find(s, "lin6.model.1.weight"))
		*kind = LPIPS_SQUEEZE;
	else if (!rc && second->rank > 1 && (second->shape[1] == 192 || second->shape[1] == 128))
		*kind = second->shape[1] == 192 ? LPIPS_ALEX : LPIPS_VGG;
	else if (!rc)
		rc = err_set(e, ERR_DATA, "%s: not the linear layers of LPIPS for alex, vgg or squeeze", heads);
	st_free(s);
	return rc;
}

struct lpips *lpips_folder(const char *dir, int64_t capacity, char hash[65], struct device *d, struct err *e)
{
	char *trunk = part_of(dir, "trunk", e), *heads = trunk ? part_of(dir, "heads", e) : NULL, each[2][65], *text;
	struct lpips *n = NULL;
	enum lpips_trunk kind = LPIPS_ALEX;

	if (heads && !weightfile_hash_at(trunk, each[0], e) && !weightfile_hash_at(heads, each[1], e) && !kind_of(&kind, heads, e) &&
	    (n = lpips_open(kind, trunk, heads, capacity, d, e))) {
		text = str_new("LPIPS 0.1, trunk %s, heads %s", each[0], each[1]);
		sha256_text(text, hash);
		mem_free(text);
	}
	mem_free(trunk);
	mem_free(heads);
	return n;
}

int64_t lpips_width(struct lpips *n, int64_t h, int64_t w, struct err *e)
{
	return runner_plan(n->net, (int64_t[]){3, h, w}, e) ? -1 : runner_elements(n->net, 0);
}

int lpips_vectors(struct lpips *n, int64_t count, const float *x, int64_t h, int64_t w, float *vectors, struct err *e)
{
	if (runner_plan(n->net, (int64_t[]){3, h, w}, e))
		return -1;
	runner_run(n->net, count, (const void *const[]){x}, (float *const[]){vectors});
	return 0;
}

int lpips_run(struct lpips *n, int64_t count, const float *a, const float *b, int64_t h, int64_t w, float *distance, struct err *e)
{
	int64_t width = lpips_width(n, h, w, e), batch = runner_capacity(n->net), each = 3 * h * w;
	float *va = width < 0 ? NULL : mem_try((size_t)(2 * batch), (size_t)width * sizeof *va, "features of pictures", e), *vb;
	int rc = va ? 0 : -1;

	for (int64_t at = 0; at < count && !rc; at += batch) {
		int64_t k = count - at < batch ? count - at : batch;

		vb = va + batch * width;
		rc = lpips_vectors(n, k, a + at * each, h, w, va, e) || lpips_vectors(n, k, b + at * each, h, w, vb, e) ? -1 : 0;
		for (int64_t i = 0; i < k && !rc; i++) {
			double sum = 0;

			for (int64_t j = i * width; j < (i + 1) * width; j++)
				sum += ((double)va[j] - (double)vb[j]) * ((double)va[j] - (double)vb[j]);
			distance[at + i] = (float)sum;
		}
	}
	mem_free(va);
	return rc;
}

enum lpips_trunk lpips_kind(const struct lpips *n)
{
	return n->kind;
}
