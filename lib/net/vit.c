/* Records vision transformers and resamples their position embeddings. */
#include "net/vit.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/jsonio.h"
#include "core/mem.h"
#include "core/str.h"
#include "file/fileio.h"
#include "file/weightfile.h"
#include "net/runner.h"

struct vit {
	struct vit_config c;
	enum vit_tokens tokens;
	struct runner *net;
};

static const struct {
	const char *name;
	int64_t hidden, depth, heads;
	int swiglu;
} presets[] = {
    {"dinov2_vits14", 384, 12, 6, 0},
    {"dinov2_vitb14", 768, 12, 12, 0},
    {"dinov2_vitl14", 1024, 24, 16, 0},
    {"dinov2_vitg14", 1536, 40, 24, 1},
};

/* The hidden width of SwiGLU that replaces an MLP of hidden width `wide`: two thirds, rounded up to a multiple of 8. */
static int64_t swiglu_width(int64_t wide)
{
	return (wide * 2 / 3 + 7) / 8 * 8;
}

int vit_preset(const char *name, struct vit_config *c, struct err *e)
{
	struct str all = {0};

	for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
		size_t len = strlen(presets[i].name);
		int registers = !strcmp(name + (strncmp(name, presets[i].name, len) ? 0 : len), "_reg");

		if (strncmp(name, presets[i].name, len) || (name[len] && !registers))
			continue;
		*c = (struct vit_config){.size = 224,
		                         .grid = 37,
		                         .channels = 3,
		                         .patch = 14,
		                         .hidden = presets[i].hidden,
		                         .depth = presets[i].depth,
		                         .heads = presets[i].heads,
		                         .wide = 4 * presets[i].hidden,
		                         .registers = registers ? 4 : 0,
		                         .swiglu = presets[i].swiglu,
		                         .layer_scale = 1,
		                         .mask_token = 1,
		                         .eps = 1e-6,
		                         .offset = registers ? 0 : .1,
		                         .antialias = registers};
		if (c->swiglu)
			c->wide = swiglu_width(c->wide);
		return 0;
	}
	for (size_t i = 0; i < sizeof presets / sizeof *presets; i++)
		str_printf(&all, " %s", presets[i].name);
	err_set(e, ERR_USAGE, "unknown vision transformer %s; expected%s, each with or without _reg", name, str_text(&all));
	str_release(&all);
	return -1;
}

int vit_from_json(const json_t *o, const char *where, struct vit_config *c, struct err *e)
{
	const char *type = NULL, *act = "gelu";
	int64_t image = 224;
	double ratio = 4;
	int bias = 1, mask = 1;

	*c = (struct vit_config){.size = 224, .channels = 3, .patch = 14, .hidden = 768, .depth = 12, .heads = 12, .layer_scale = 1, .eps = 1e-6};
	if (jsonio_str(o, "model_type", 1, &type, where, e))
		return -1;
	if (!strcmp(type, "dinov2_with_registers")) {
		c->registers = 4;
		c->antialias = 1;
		c->patch = 16;
	} else if (strcmp(type, "dinov2")) {
		return err_set(e, ERR_DATA, "%s: model_type \"%s\" is not supported; expected dinov2 or dinov2_with_registers", where, type);
	}
	if (jsonio_i64(o, "image_size", 0, 1, 1 << 16, &image, where, e) || jsonio_i64(o, "num_channels", 0, 1, 4096, &c->channels, where, e) ||
	    jsonio_i64(o, "patch_size", 0, 1, 1 << 12, &c->patch, where, e) || jsonio_i64(o, "hidden_size", 0, 1, 1 << 16, &c->hidden, where, e) ||
	    jsonio_i64(o, "num_hidden_layers", 0, 1, 1000, &c->depth, where, e) ||
	    jsonio_i64(o, "num_attention_heads", 0, 1, 1 << 16, &c->heads, where, e) ||
	    jsonio_i64(o, "num_register_tokens", 0, 0, 1 << 16, &c->registers, where, e) ||
	    jsonio_f64(o, "mlp_ratio", 0, .001, 64, &ratio, where, e) || jsonio_f64(o, "layer_norm_eps", 0, 0, 1, &c->eps, where, e) ||
	    jsonio_bool(o, "use_swiglu_ffn", 0, &c->swiglu, where, e) || jsonio_bool(o, "qkv_bias", 0, &bias, where, e) ||
	    jsonio_bool(o, "use_mask_token", 0, &mask, where, e) || jsonio_str(o, "hidden_act", 0, &act, where, e))
		return -1;
	if (!bias || strcmp(act, "gelu"))
		return err_set(e, ERR_DATA, "%s: a vision transformer without biases, or with the activation %s, is not supported", where, act);
	c->mask_token = mask;
	c->grid = image / c->patch;
	c->wide = (int64_t)((double)c->hidden * ratio);
	if (c->swiglu)
		c->wide = swiglu_width(c->wide);
	return 0;
}

int vit_check(const struct vit_config *c, struct err *e)
{
	if (c->channels < 1 || c->channels > 4096 || c->patch < 1 || c->patch > 4096 || c->size < c->patch || c->size > 1 << 16 || c->size % c->patch)
		return err_set(e, ERR_USAGE, "pictures of %lld x %lld are not whole patches of %lld", (long long)c->size, (long long)c->size,
		               (long long)c->patch);
	if (c->hidden < 1 || c->hidden > 1 << 16 || c->heads < 1 || c->hidden % c->heads || c->depth < 1 || c->depth > 1000)
		return err_set(e, ERR_USAGE, "a transformer of %lld layers of width %lld with %lld heads is out of range", (long long)c->depth,
		               (long long)c->hidden, (long long)c->heads);
	if (c->grid < 1 || c->grid > 4096 || c->wide < 1 || c->wide > 1 << 20 || c->registers < 0 || c->registers > 1 << 16)
		return err_set(e, ERR_USAGE, "a position table of %lld x %lld, or a perceptron of width %lld, is out of range", (long long)c->grid,
		               (long long)c->grid, (long long)c->wide);
	return 0;
}

/* The cubic convolution kernel of Keys 1981 with parameter a. */
static double cubic(double x, double a)
{
	x = fabs(x);
	if (x < 1)
		return ((a + 2) * x - (a + 3)) * x * x + 1;
	return x < 2 ? (((x - 5) * x + 8) * x - 4) * a : 0;
}

/* w (n, grid): what sample i of n takes from the grid, in one dimension: F.interpolate of torch, bicubic, align_corners false. */
static void resample(float *w, int64_t n, int64_t grid, double offset, int antialias)
{
	double scale = (double)grid / ((double)n + offset), wide = scale > 1 && antialias ? scale : 1;

	memset(w, 0, (size_t)(n * grid) * sizeof *w);
	for (int64_t i = 0; i < n; i++) {
		double at = ((double)i + .5) * scale, sum = 0, v[4096];
		int64_t from, to;

		if (antialias) {
			from = (int64_t)(at - 2 * wide + .5);
			to = (int64_t)(at + 2 * wide + .5);
			from = from < 0 ? 0 : from;
			to = to > grid ? grid : to;
			for (int64_t j = from; j < to; j++)
				sum += v[j - from] = cubic(((double)j - at + .5) / wide, -.5);
			for (int64_t j = from; j < to; j++)
				w[i * grid + j] = (float)(v[j - from] / sum);
			continue;
		}
		for (int64_t j = (int64_t)floor(at - .5) - 1, k = 0; k < 4; j++, k++) {
			int64_t inside = j < 0 ? 0 : j >= grid ? grid - 1 : j;

			w[i * grid + inside] += (float)cubic(at - .5 - (double)j, -.75);
		}
	}
}

static int resampled(const struct vit_config *c)
{
	return c->size / c->patch != c->grid;
}

/* Class token, registers and patch tokens: (B, 1 + registers + T, H). Registers get no position embedding. weights: NULL, or the matrix (T, grid^2)
 * that resamples the position table. */
static struct tensor *record_tokens(const struct layers *l, const struct vit_config *c, struct tensor *x, struct tensor *weights)
{
	struct tape *t = l->t;
	int first = !(c->timm && c->registers); /* 1: the table begins with a row for the class token */
	int64_t h = c->hidden, cells = c->grid * c->grid, table[3] = {1, first + cells, h}, one[3] = {1, 1, h}, flat[2] = {cells, h};
	int64_t registers[3] = {1, c->registers, h}, mask[2] = {1, h};
	struct tensor *patches = layer_patches(l, x, "patch_embed.proj", c->patch, &(struct linear){.out = h}), *pos, *rest, *class, *part[3];
	int n = 0;

	pos = layer_param(l, "pos_embed", 3, table);
	rest = op_slice(t, pos, 1, first, cells);
	if (weights)
		rest = op_matmul(t, weights, 0, op_reshape(t, rest, 2, flat), 0, 1);
	class = layer_param(l, "cls_token", 3, one);
	part[n++] = op_repeat(t, first ? op_add(t, class, op_slice(t, pos, 1, 0, 1)) : class);
	if (c->mask_token)
		layer_param(l, "mask_token", 2, mask);
	if (c->registers)
		part[n++] = op_repeat(t, layer_param(l, "register_tokens", 3, registers));
	part[n++] = op_add(t, patches, rest);
	return tape_float(t, op_concat(t, 1, n, part));
}

static struct tensor *perceptron(const struct layers *l, const struct vit_config *c, struct tensor *x)
{
	struct tape *t = l->t;

	if (!c->swiglu) {
		x = layer_linear(l, x, "mlp.fc1", &(struct linear){.out = c->wide, .act = UNARY_GELU_ERF + 1});
		return layer_linear(l, x, "mlp.fc2", &(struct linear){.out = c->hidden});
	}
	x = layer_linear(l, x, "mlp.w12", &(struct linear){.out = 2 * c->wide});
	x = op_mul(t, op_unary(t, op_slice(t, x, 2, 0, c->wide), UNARY_SILU), op_slice(t, x, 2, c->wide, c->wide));
	return layer_linear(l, x, "mlp.w3", &(struct linear){.out = c->hidden});
}

/* x + scale h, or x + h without layer_scale. */
static struct tensor *residual(const struct layers *l, const struct vit_config *c, struct tensor *x, struct tensor *h, const char *scale)
{
	return tape_float(l->t, c->layer_scale ? op_gate(l->t, x, layer_param(l, scale, 1, &c->hidden), h) : op_add(l->t, x, h));
}

/* One transformer block: (B, read, H). Only the first `read` tokens are computed, as queries and in the MLP. */
static struct tensor *block(const struct layers *l, const struct vit_config *c, struct tensor *x, int64_t read)
{
	struct tensor *h = layer_norm(l, x, "norm1", c->eps);

	h = layer_attention(
	    l, h, &(struct attention){.weight = "attn.qkv.weight", .bias = "attn.qkv.bias", .out = "attn.proj", .heads = c->heads, .queries = read});
	x = residual(l, c, read < x->shape[1] ? op_slice(l->t, x, 1, 0, read) : x, h, "ls1.gamma");
	h = perceptron(l, c, layer_norm(l, x, "norm2", c->eps));
	return residual(l, c, x, h, "ls2.gamma");
}

static void record(struct recording *r, const void *config, const int64_t *size)
{
	const struct vit *v = config;
	const struct vit_config *c = &v->c;
	struct tape *t = r->l.t;
	int64_t n = c->size / c->patch, x[3] = {c->channels, c->size, c->size}, w[2] = {n * n, c->grid * c->grid};
	int64_t flat[2] = {r->capacity, c->hidden};
	struct tensor *pixels = recording_input(r, DT_F32, 3, x, 1), *weights = NULL, *h;

	(void)size;
	if (resampled(c))
		weights = recording_input(r, DT_F32, 2, w, 0);
	h = record_tokens(&r->l, c, pixels, weights);
	for (int64_t i = 0; i < c->depth; i++) {
		struct layers l = layers_in(&r->l, "blocks.%d.", (int)i);

		h = block(&l, c, h, v->tokens == VIT_CLASS && i == c->depth - 1 ? 1 : h->shape[1]);
	}
	h = layer_norm(&r->l, h, "norm", c->eps);
	recording_output(r, op_copy(t, op_reshape(t, op_slice(t, h, 1, 0, 1), 2, flat)));
	if (v->tokens == VIT_ALL)
		recording_output(r, op_copy(t, op_slice(t, h, 1, 1 + c->registers, n * n)));
}

void vit_params(const struct vit_config *c, struct params *p)
{
	runner_params(record, &(struct vit){.c = *c}, NULL, p);
}

#define LAYER "encoder.layer.#."
#define QKV LAYER "attention.attention."
static const struct rename rules[] = {
    {"cls_token", {"embeddings.cls_token"}, 0},
    {"mask_token", {"embeddings.mask_token"}, 0},
    {"register_tokens", {"embeddings.register_tokens"}, 0},
    {"pos_embed", {"embeddings.position_embeddings"}, 0},
    {"patch_embed.proj.*", {"embeddings.patch_embeddings.projection.*"}, 0},
    {"blocks.#.norm1.*", {LAYER "norm1.*"}, 0},
    {"blocks.#.norm2.*", {LAYER "norm2.*"}, 0},
    {"blocks.#.attn.qkv.*", {QKV "query.*", QKV "key.*", QKV "value.*"}, 0},
    {"blocks.#.attn.proj.*", {LAYER "attention.output.dense.*"}, 0},
    {"blocks.#.ls1.gamma", {LAYER "layer_scale1.lambda1"}, 0},
    {"blocks.#.ls2.gamma", {LAYER "layer_scale2.lambda1"}, 0},
    {"blocks.#.mlp.fc1.*", {LAYER "mlp.fc1.*"}, 0},
    {"blocks.#.mlp.fc2.*", {LAYER "mlp.fc2.*"}, 0},
    {"blocks.#.mlp.w12.*", {LAYER "mlp.weights_in.*"}, 0},
    {"blocks.#.mlp.w3.*", {LAYER "mlp.weights_out.*"}, 0},
    {"norm.*", {"layernorm.*"}, 0},
};
static const struct rename timm_rules[] = {
    {"register_tokens", {"reg_token"}, 0},
    {"blocks.#.mlp.w12.*", {"blocks.#.mlp.fc1.*"}, 0},
    {"blocks.#.mlp.w3.*", {"blocks.#.mlp.fc2.*"}, 0},
};
static const struct renames timm_names = {.v = timm_rules, .n = sizeof timm_rules / sizeof *timm_rules};
static const struct renames transformers_names = {.sign = "embeddings.cls_token", .v = rules, .n = sizeof rules / sizeof *rules};

/* Set the matrix that resamples the position table in both dimensions: row (y, x), column (v, u) holds w[y][v] w[x][u]. */
static int set_positions(struct vit *v, struct err *e)
{
	int64_t n = v->c.size / v->c.patch, g = v->c.grid, k = 0;
	float *w = mem_zalloc((size_t)(n * g), sizeof *w), *both = mem_try((size_t)(n * n * g * g), sizeof *both, "positions", e);

	if (both) {
		resample(w, n, g, v->c.offset, v->c.antialias);
		for (int64_t y = 0; y < n; y++)
			for (int64_t x = 0; x < n; x++)
				for (int64_t a = 0; a < g; a++)
					for (int64_t b = 0; b < g; b++)
						both[k++] = w[y * g + a] * w[x * g + b];
		runner_set(v->net, 1, both);
	}
	mem_free(w);
	mem_free(both);
	return both ? 0 : -1;
}

/* Takes over s, also on failure. */
static struct vit *make(const struct vit_config *c, struct safetensors *s, const char *where, enum vit_tokens tokens, int64_t capacity,
                        enum compact_type bulk, struct device *d, struct err *e)
{
	static const struct renames *const known[] = {&transformers_names, &timm_names};
	struct vit *v = mem_zalloc(1, sizeof *v);
	int rc = -1;

	v->c = *c;
	v->tokens = tokens;
	if (!vit_check(c, e) && (v->net = runner_new(record, v, NULL, capacity, bulk, d, e))) {
		rc = runner_weights(v->net, s, where, known, c->timm ? 2 : 1, e) || runner_load(v->net, NULL, NULL, e) ? -1 : 0;
		if (!rc && resampled(c))
			rc = set_positions(v, e);
		s = NULL;
	}
	st_free(s);
	if (!rc)
		return v;
	vit_free(v);
	return NULL;
}

struct vit *vit_new(const struct vit_config *c, const char *weights, enum vit_tokens tokens, int64_t capacity, enum compact_type bulk,
                    struct device *d, struct err *e)
{
	struct safetensors *s = weightfile_load(weights, NULL, e);

	return s ? make(c, s, weights, tokens, capacity, bulk, d, e) : NULL;
}

/* Extent `dim` of a tensor; 0 and an error if the tensor is missing or has another rank. */
static int64_t extent(const struct safetensors *s, const char *name, int rank, int dim, const char *where, struct err *e)
{
	const struct st_tensor *t = st_find(s, name);

	if (t && t->rank == rank && t->shape[dim] > 0)
		return t->shape[dim];
	err_set(e, ERR_DATA, "%s: not the weights of a DINOv2 under the names of torch.hub or timm: no %s of rank %d", where, name, rank);
	return 0;
}

int vit_from_weights(const struct safetensors *s, const char *where, struct vit_config *c, struct err *e)
{
	static const char *const registers[] = {"register_tokens", "reg_token"};
	static const char *const wide[] = {"blocks.0.mlp.w12.weight", "blocks.0.mlp.fc1.weight"};
	static const char *const narrow[] = {"blocks.0.mlp.w3.weight", "blocks.0.mlp.fc2.weight"};
	int timm = !st_find(s, "mask_token"), fc = !st_find(s, wide[0]);
	char name[64];
	int64_t rows, inner;

	*c = (struct vit_config){.size = 224, .timm = timm, .layer_scale = 1, .mask_token = !timm, .eps = 1e-6};
	if (!(c->hidden = extent(s, "cls_token", 3, 2, where, e)) || !(rows = extent(s, "pos_embed", 3, 1, where, e)) ||
	    !(c->channels = extent(s, "patch_embed.proj.weight", 4, 1, where, e)) ||
	    !(c->patch = extent(s, "patch_embed.proj.weight", 4, 3, where, e)) || !extent(s, "blocks.0.ls1.gamma", 1, 0, where, e) ||
	    !(inner = extent(s, wide[fc], 2, 0, where, e)) || !(c->wide = extent(s, narrow[fc], 2, 1, where, e)))
		return -1;
	if (st_find(s, registers[timm]) && !(c->registers = extent(s, registers[timm], 3, 1, where, e)))
		return -1;
	c->swiglu = inner == 2 * c->wide;
	c->heads = c->hidden / 64;
	rows -= !(timm && c->registers);
	c->grid = (int64_t)(sqrt((double)rows) + .5);
	if (c->hidden % 64 || c->grid * c->grid != rows)
		return err_set(e, ERR_DATA,
		               "%s: not a DINOv2 model: width %lld is not a multiple of 64, or %lld position embeddings do not form "
		               "a square grid",
		               where, (long long)c->hidden, (long long)rows);
	for (;; c->depth++) {
		snprintf(name, sizeof name, "blocks.%d.norm1.weight", (int)c->depth);
		if (c->depth == 1000 || !st_find(s, name))
			break;
	}
	c->offset = timm || c->registers ? 0 : .1;
	c->antialias = timm || c->registers;
	return 0;
}

/* Configure from transformers' config.json. Without one, or with timm's, which only names the architecture, use the shapes of the weights. */
static int configure(const char *path, const struct safetensors *s, struct vit_config *c, struct err *e)
{
	char *config = path_join(path, "config.json");
	json_t *o = path_exists(config) ? jsonio_load(config, e) : json_object();
	int rc = -1;

	if (o && (json_object_get(o, "architecture") || !path_exists(config)))
		rc = vit_from_weights(s, path, c, e);
	else if (o)
		rc = vit_from_json(o, config, c, e);
	json_decref(o);
	mem_free(config);
	return rc;
}

struct vit *vit_open(const char *path, int64_t size, enum vit_tokens tokens, int64_t capacity, enum compact_type bulk, struct device *d,
                     struct err *e)
{
	struct safetensors *s = weightfile_load(path, NULL, e);
	struct vit_config c;

	if (!s || configure(path, s, &c, e)) {
		st_free(s);
		return NULL;
	}
	c.size = size ? size : 224;
	return make(&c, s, path, tokens, capacity, bulk, d, e);
}

void vit_free(struct vit *v)
{
	if (v)
		runner_free(v->net);
	mem_free(v);
}

const struct vit_config *vit_config(const struct vit *v)
{
	return &v->c;
}

double vit_flops(const struct vit *v)
{
	return runner_flops(v->net);
}

void vit_run(struct vit *v, int64_t n, const float *pixels, float *class_token, float *patches)
{
	assert(!patches || v->tokens == VIT_ALL);
	runner_run(v->net, n, (const void *const[]){pixels, NULL}, (float *const[]){class_token, patches});
}
