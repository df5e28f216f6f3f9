/* Records CLIP's two towers and reads their configurations. */
#include "net/clip.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/jsonio.h"
#include "core/mem.h"
#include "file/fileio.h"
#include "file/weightfile.h"
#include "net/runner.h"

/* A tower. Its tensors have OpenAI's names; those of the vision tower begin with "visual.". */
struct tower {
	struct clip_config c;
	enum vit_tokens tokens;
	struct runner *net;
};
struct clip_text {
	struct tower t;
};
struct clip_vision {
	struct tower t;
};

static const struct {
	const char *name;
	int64_t size, patch, hidden, depth, text, projection;
} presets[] = {
    {"ViT-B/32", 224, 32, 768, 12, 512, 512},
    {"ViT-B/16", 224, 16, 768, 12, 512, 512},
    {"ViT-L/14", 224, 14, 1024, 24, 768, 768},
    {"ViT-L/14@336px", 336, 14, 1024, 24, 768, 768},
};

static void finish(struct clip_config *c, int64_t projection)
{
	if (!c)
		return;
	c->heads = c->hidden / 64;
	c->wide = 4 * c->hidden;
	c->projection = projection;
	c->quick = 1;
	c->eps = 1e-5;
}

int clip_preset(const char *name, struct clip_config *text, struct clip_config *vision, struct err *e)
{
	for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
		if (strcmp(presets[i].name, name))
			continue;
		if (text)
			*text = (struct clip_config){.hidden = presets[i].text, .depth = 12, .vocabulary = 49408, .tokens = 77, .eos = 49407};
		if (vision)
			*vision = (struct clip_config){.hidden = presets[i].hidden,
			                               .depth = presets[i].depth,
			                               .size = presets[i].size,
			                               .patch = presets[i].patch,
			                               .channels = 3};
		finish(text, presets[i].projection);
		finish(vision, presets[i].projection);
		return 0;
	}
	return err_set(e, ERR_USAGE, "unknown CLIP model %s; expected ViT-B/32, ViT-B/16, ViT-L/14 or ViT-L/14@336px", name);
}

static int check(const struct clip_config *c, const char *where, struct err *e)
{
	if (c->hidden % c->heads)
		return err_set(e, ERR_DATA, "%s: %lld heads do not divide the width %lld", where, (long long)c->heads, (long long)c->hidden);
	if (c->size && c->size % c->patch)
		return err_set(e, ERR_DATA, "%s: patches of %lld do not divide the size %lld", where, (long long)c->patch, (long long)c->size);
	return 0;
}

/* Read the fields of both towers. `o` is the tower's own object, `top` the whole file's. */
static int common_from_json(const json_t *o, const json_t *top, const char *where, struct clip_config *c, struct err *e)
{
	const char *act = "quick_gelu";

	if (jsonio_i64(o, "hidden_size", 0, 1, 1 << 16, &c->hidden, where, e) ||
	    jsonio_i64(o, "intermediate_size", 0, 1, 1 << 20, &c->wide, where, e) ||
	    jsonio_i64(o, "num_hidden_layers", 0, 1, 1000, &c->depth, where, e) ||
	    jsonio_i64(o, "num_attention_heads", 0, 1, 1 << 16, &c->heads, where, e) ||
	    jsonio_i64(top, "projection_dim", 0, 1, 1 << 16, &c->projection, where, e) ||
	    jsonio_f64(o, "layer_norm_eps", 0, 0, 1, &c->eps, where, e) || jsonio_str(o, "hidden_act", 0, &act, where, e))
		return -1;
	c->quick = !strcmp(act, "quick_gelu");
	if (!c->quick && strcmp(act, "gelu"))
		return err_set(e, ERR_DATA, "%s: hidden_act \"%s\" is not supported; expected quick_gelu or gelu", where, act);
	return check(c, where, e);
}

/* The tower's object: the whole file if it is of this tower alone, else its member. */
static const json_t *tower_object(const json_t *o, const char *alone, const char *member, const char *where, struct err *e)
{
	const char *type = NULL;
	const json_t *part = json_object_get(o, member);

	if (jsonio_str(o, "model_type", 1, &type, where, e))
		return NULL;
	if (!strcmp(type, alone))
		return o;
	if (!strcmp(type, "clip") && json_is_object(part))
		return part;
	err_set(e, ERR_DATA, "%s: model_type \"%s\" has no %s", where, type, member);
	return NULL;
}

int clip_text_from_json(const json_t *o, const char *where, struct clip_config *c, struct err *e)
{
	const json_t *own = tower_object(o, "clip_text_model", "text_config", where, e);

	*c = (struct clip_config){
	    .hidden = 512, .depth = 12, .heads = 8, .wide = 2048, .projection = 512, .eps = 1e-5, .vocabulary = 49408, .tokens = 77, .eos = 49407};
	return !own || jsonio_i64(own, "vocab_size", 0, 1, 1 << 24, &c->vocabulary, where, e) ||
	               jsonio_i64(own, "max_position_embeddings", 0, 1, 1 << 16, &c->tokens, where, e) ||
	               jsonio_i64(own, "eos_token_id", 0, 0, 1 << 24, &c->eos, where, e) || common_from_json(own, o, where, c, e)
	           ? -1
	           : 0;
}

int clip_vision_from_json(const json_t *o, const char *where, struct clip_config *c, struct err *e)
{
	const json_t *own = tower_object(o, "clip_vision_model", "vision_config", where, e);

	*c = (struct clip_config){
	    .hidden = 768, .depth = 12, .heads = 12, .wide = 3072, .projection = 512, .eps = 1e-5, .size = 224, .patch = 32, .channels = 3};
	return !own || jsonio_i64(own, "image_size", 0, 1, 1 << 16, &c->size, where, e) ||
	               jsonio_i64(own, "patch_size", 0, 1, 1 << 12, &c->patch, where, e) ||
	               jsonio_i64(own, "num_channels", 0, 1, 4096, &c->channels, where, e) || common_from_json(own, o, where, c, e)
	           ? -1
	           : 0;
}

/* x sigmoid(1.702 x). */
static struct tensor *quick_gelu(struct tape *t, struct tensor *x)
{
	return op_scale(t, op_unary(t, op_scale(t, x, 1.702), UNARY_SILU), 1 / 1.702);
}

/* A transformer block. Only the outputs of the first `queries` tokens are used later. */
static struct tensor *block(const struct layers *l, const struct clip_config *c, struct tensor *x, int64_t queries, int causal)
{
	struct tape *t = l->t;
	struct tensor *h = layer_norm(l, x, "ln_1", c->eps);

	h = layer_attention(l, h,
	                    &(struct attention){.weight = "attn.in_proj_weight",
	                                        .bias = "attn.in_proj_bias",
	                                        .out = "attn.out_proj",
	                                        .heads = c->heads,
	                                        .queries = queries,
	                                        .causal = causal});
	x = tape_float(t, op_add(t, queries < x->shape[1] ? op_slice(t, x, 1, 0, queries) : x, h));
	h = layer_norm(l, x, "ln_2", c->eps);
	h = layer_linear(l, h, "mlp.c_fc", &(struct linear){.out = c->wide, .act = c->quick ? 0 : UNARY_GELU_ERF + 1});
	if (c->quick)
		h = quick_gelu(t, h);
	return tape_float(t, op_add(t, x, layer_linear(l, h, "mlp.c_proj", &(struct linear){.out = c->hidden})));
}

/* (B, hidden) by the matrix [hidden, projection]. */
static struct tensor *project(const struct layers *l, const struct clip_config *c, struct tensor *x, const char *name)
{
	int64_t shape[2] = {c->hidden, c->projection};

	return c->projection ? op_matmul(l->t, x, 0, layer_param(l, name, 2, shape), 0, 1) : x;
}

static void record_text(struct recording *r, const void *config, const int64_t *size)
{
	const struct clip_config *c = &((const struct tower *)config)->c;
	const struct layers *l = &r->l;
	int64_t n = c->tokens, flat[1] = {r->capacity * n}, table[2] = {c->vocabulary, c->hidden}, pos[2] = {n, c->hidden};
	int64_t tokens[3] = {r->capacity, n, c->hidden}, rows[2] = {r->capacity * n, c->hidden};
	struct tensor *ids = recording_input(r, DT_I32, 1, &n, 1), *end = recording_input(r, DT_I32, 0, NULL, 1), *h;

	(void)size;
	h = op_embed(l->t, layer_param(l, "token_embedding.weight", 2, table), op_reshape(l->t, ids, 1, flat));
	h = tape_float(l->t, op_add(l->t, op_reshape(l->t, h, 3, tokens), layer_param(l, "positional_embedding", 2, pos)));
	for (int64_t i = 0; i < c->depth; i++) {
		struct layers b = layers_in(l, "transformer.resblocks.%d.", (int)i);

		h = block(&b, c, h, n, 1);
	}
	h = layer_norm(l, h, "ln_final", c->eps);
	recording_output(r, op_copy(l->t, h));
	h = op_embed(l->t, op_reshape(l->t, h, 2, rows), end);
	recording_output(r, op_copy(l->t, project(l, c, h, "text_projection")));
}

static void record_vision(struct recording *r, const void *config, const int64_t *size)
{
	const struct tower *m = config;
	const struct clip_config *c = &m->c;
	struct layers visual = layers_in(&r->l, "visual."), *l = &visual;
	int64_t n = c->size / c->patch, x[3] = {c->channels, c->size, c->size}, pos[2] = {1 + n * n, c->hidden};
	int64_t one[3] = {1, 1, c->hidden}, flat[2] = {r->capacity, c->hidden};
	struct tensor *part[2], *h;

	(void)size;
	part[1] = layer_patches(l, recording_input(r, DT_F32, 3, x, 1), "conv1", c->patch, &(struct linear){.out = c->hidden, .no_bias = 1});
	part[0] = op_repeat(l->t, op_reshape(l->t, layer_param(l, "class_embedding", 1, &c->hidden), 3, one));
	h = op_add(l->t, op_concat(l->t, 1, 2, part), layer_param(l, "positional_embedding", 2, pos));
	h = tape_float(l->t, layer_norm(l, h, "ln_pre", c->eps));
	for (int64_t i = 0; i < c->depth; i++) {
		struct layers b = layers_in(l, "transformer.resblocks.%d.", (int)i);

		h = block(&b, c, h, m->tokens == VIT_CLASS && i == c->depth - 1 ? 1 : pos[0], 0);
	}
	if (m->tokens == VIT_ALL)
		recording_output(r, op_copy(l->t, h));
	h = layer_norm(l, op_reshape(l->t, op_slice(l->t, h, 1, 0, 1), 2, flat), "ln_post", c->eps);
	recording_output(r, op_copy(l->t, project(l, c, h, "proj")));
}

/* clang-format off */
#define LAYERS(tower, own, theirs) {tower "transformer.resblocks.#." own ".*", {theirs ".*"}, 0}
#define PACKED(tower, what, theirs) \
	{tower "transformer.resblocks.#.attn.in_proj_" what, \
	 {theirs "self_attn.q_proj." what, theirs "self_attn.k_proj." what, theirs "self_attn.v_proj." what}, 0}
/* clang-format on */
#define TOWER(tower, theirs) \
	PACKED(tower, "weight", theirs), PACKED(tower, "bias", theirs), LAYERS(tower, "attn.out_proj", theirs "self_attn.out_proj"), \
	    LAYERS(tower, "ln_1", theirs "layer_norm1"), LAYERS(tower, "ln_2", theirs "layer_norm2"), LAYERS(tower, "mlp.c_fc", theirs "mlp.fc1"), \
	    LAYERS(tower, "mlp.c_proj", theirs "mlp.fc2")

/* clang-format off */
#define TEXT(theirs) \
	TOWER("", theirs "encoder.layers.#."), {"token_embedding.weight", {theirs "embeddings.token_embedding.weight"}, 0}, \
	{"positional_embedding", {theirs "embeddings.position_embedding.weight"}, 0}, {"ln_final.*", {theirs "final_layer_norm.*"}, 0}, \
	{"text_projection", {"text_projection.weight"}, RENAME_TRANSPOSED}
#define VISION(theirs) \
	TOWER("visual.", theirs "encoder.layers.#."), {"visual.class_embedding", {theirs "embeddings.class_embedding"}, 0}, \
	{"visual.positional_embedding", {theirs "embeddings.position_embedding.weight"}, 0}, \
	{"visual.conv1.weight", {theirs "embeddings.patch_embedding.weight"}, 0}, {"visual.ln_pre.*", {theirs "pre_layrnorm.*"}, 0}, \
	{"visual.ln_post.*", {theirs "post_layernorm.*"}, 0}, {"visual.proj", {"visual_projection.weight"}, RENAME_TRANSPOSED}
/* clang-format on */

/* In files of transformers 5, a tower alone has no prefix. */
static const struct rename text_rules[] = {TEXT("text_model.")}, bare_text_rules[] = {TEXT("")};
static const struct rename vision_rules[] = {VISION("vision_model.")}, bare_vision_rules[] = {VISION("")};
enum { TEXT_RULES = sizeof text_rules / sizeof *text_rules, VISION_RULES = sizeof vision_rules / sizeof *vision_rules };

static const char *const text_spare[] = {"text_model.embeddings.position_ids", "vision_model.*", "visual_projection.weight", "logit_scale", NULL};
static const char *const vision_spare[] = {"vision_model.embeddings.position_ids", "text_model.*", "text_projection.weight", "logit_scale", NULL};
static const char *const openai_text_spare[] = {"visual.*",         "logit_scale",    "logit_bias", "attn_mask",
                                                "input_resolution", "context_length", "vocab_size", NULL};
static const char *const openai_vision_spare[] = {
    "transformer.*",    "token_embedding.weight", "positional_embedding", "ln_final.*", "text_projection", "logit_scale", "logit_bias", "attn_mask",
    "input_resolution", "context_length",         "vocab_size",           NULL};

static const struct renames text_families[] = {
    {.sign = "text_model.final_layer_norm.weight", .v = text_rules, .n = TEXT_RULES, .spare = text_spare},
    {.sign = "token_embedding.weight", .spare = openai_text_spare},
    {.sign = "final_layer_norm.weight", .v = bare_text_rules, .n = TEXT_RULES},
};
static const struct renames vision_families[] = {
    {.sign = "vision_model.post_layernorm.weight", .v = vision_rules, .n = VISION_RULES, .spare = vision_spare},
    {.sign = "visual.conv1.weight", .spare = openai_vision_spare},
    {.sign = "post_layernorm.weight", .v = bare_vision_rules, .n = VISION_RULES},
};
enum { FAMILIES = 3 };

/* Open and load a tower. Without a projection of either name in the file, the tower has none. */
static int tower_load(struct tower *m, const struct clip_config *c, const char *weights, int64_t capacity, enum compact_type bulk, struct device *d,
                      runner_record *record, const struct renames *families, const char *const *projection, struct err *e)
{
	const struct renames *names[FAMILIES] = {&families[0], &families[1], &families[2]};
	struct safetensors *s;

	m->c = *c;
	if (check(c, weights, e) || !(s = weightfile_load(weights, NULL, e)))
		return -1;
	if (!st_find(s, projection[0]) && !st_find(s, projection[1]))
		m->c.projection = 0;
	if (!(m->net = runner_new(record, m, NULL, capacity, bulk, d, e))) {
		st_free(s);
		return -1;
	}
	return runner_weights(m->net, s, weights, names, FAMILIES, e) || runner_load(m->net, NULL, NULL, e) ? -1 : 0;
}

static struct clip_text *clip_text_new(const struct clip_config *c, const char *weights, int64_t capacity, enum compact_type bulk, struct device *d,
                                       struct err *e)
{
	static const char *const projection[] = {"text_projection", "text_projection.weight"};
	struct clip_text *m = mem_zalloc(1, sizeof *m);

	if (!tower_load(&m->t, c, weights, capacity, bulk, d, record_text, text_families, projection, e))
		return m;
	clip_text_free(m);
	return NULL;
}

static struct clip_vision *clip_vision_new(const struct clip_config *c, const char *weights, enum vit_tokens tokens, int64_t capacity,
                                           enum compact_type bulk, struct device *d, struct err *e)
{
	static const char *const projection[] = {"visual.proj", "visual_projection.weight"};
	struct clip_vision *m = mem_zalloc(1, sizeof *m);

	m->t.tokens = tokens;
	if (!tower_load(&m->t, c, weights, capacity, bulk, d, record_vision, vision_families, projection, e))
		return m;
	clip_vision_free(m);
	return NULL;
}

static int read_config(const char *dir, struct clip_config *c, int (*parse)(const json_t *, const char *, struct clip_config *, struct err *),
                       struct err *e)
{
	char *path = path_join(dir, "config.json");
	json_t *o = jsonio_load(path, e);
	int rc = o ? parse(o, path, c, e) : -1;

	json_decref(o);
	mem_free(path);
	return rc;
}

struct clip_text *clip_text_open(const char *dir, int64_t capacity, enum compact_type bulk, struct device *d, struct err *e)
{
	struct clip_config c;

	return read_config(dir, &c, clip_text_from_json, e) ? NULL : clip_text_new(&c, dir, capacity, bulk, d, e);
}

struct clip_vision *clip_vision_open(const char *dir, enum vit_tokens tokens, int64_t capacity, enum compact_type bulk, struct device *d,
                                     struct err *e)
{
	struct clip_config c;

	return read_config(dir, &c, clip_vision_from_json, e) ? NULL : clip_vision_new(&c, dir, tokens, capacity, bulk, d, e);
}

void clip_text_free(struct clip_text *m)
{
	if (m)
		runner_free(m->t.net);
	mem_free(m);
}

void clip_vision_free(struct clip_vision *m)
{
	if (m)
		runner_free(m->t.net);
	mem_free(m);
}

const struct clip_config *clip_text_config(const struct clip_text *m)
{
	return &m->t.c;
}

const struct clip_config *clip_vision_config(const struct clip_vision *m)
{
	return &m->t.c;
}

/* Index of the token whose features are pooled: the first end-of-text token; for older configurations (eos 2) the token with the largest id. */
static int64_t text_end(const struct clip_config *c, const int32_t *ids)
{
	int64_t best = 0;

	for (int64_t i = 0; i < c->tokens; i++)
		if (c->eos == 2 ? ids[i] > ids[best] : ids[i] == c->eos) {
			best = i;
			if (c->eos != 2)
				break;
		}
	return best;
}

void clip_text_run(struct clip_text *m, int64_t n, const int32_t *ids, float *hidden, float *embedding)
{
	const struct clip_config *c = &m->t.c;
	int32_t *end = mem_zalloc((size_t)n, sizeof *end);

	for (int64_t i = 0; i < n; i++)
		end[i] = (int32_t)(i % runner_capacity(m->t.net) * c->tokens + text_end(c, ids + i * c->tokens));
	runner_run(m->t.net, n, (const void *const[]){ids, end}, (float *const[]){hidden, embedding});
	mem_free(end);
}

double clip_vision_flops(const struct clip_vision *m)
{
	return runner_flops(m->t.net);
}

void clip_vision_run(struct clip_vision *m, int64_t n, const float *pixels, float *hidden, float *embedding)
{
	int whole = m->t.tokens == VIT_ALL;

	assert(!hidden || whole);
	runner_run(m->t.net, n, (const void *const[]){pixels}, (float *const[]){whole ? hidden : embedding, embedding});
}

void clip_text_params(const struct clip_config *c, struct params *p)
{
	runner_params(record_text, &(struct tower){.c = *c}, NULL, p);
}

void clip_vision_params(const struct clip_config *c, struct params *p)
{
	runner_params(record_vision, &(struct tower){.c = *c}, NULL, p);
}
