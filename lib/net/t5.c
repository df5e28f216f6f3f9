/* Records T5's encoder and reads its configuration. */
#include "net/t5.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/jsonio.h"
#include "core/mem.h"
#include "file/fileio.h"
#include "file/weightfile.h"
#include "net/runner.h"

struct t5 {
	struct t5_config c;
	struct runner *net;
};

/* Added to the attention scores of padding, so that its softmax weight is 0. */
static const float PADDING = -1e9f;

int t5_from_json(const json_t *o, const char *where, struct t5_config *c, struct err *e)
{
	const char *type = NULL, *act = "relu";

	*c = (struct t5_config){.hidden = 512,
	                        .depth = 6,
	                        .heads = 8,
	                        .width = 64,
	                        .wide = 2048,
	                        .vocabulary = 32128,
	                        .buckets = 32,
	                        .distance = 128,
	                        .tokens = c->tokens,
	                        .eps = 1e-6};
	if (jsonio_str(o, "model_type", 1, &type, where, e) || jsonio_i64(o, "d_model", 0, 1, 1 << 16, &c->hidden, where, e) ||
	    jsonio_i64(o, "num_layers", 0, 1, 1000, &c->depth, where, e) || jsonio_i64(o, "num_heads", 0, 1, 1 << 12, &c->heads, where, e) ||
	    jsonio_i64(o, "d_kv", 0, 1, 1 << 12, &c->width, where, e) || jsonio_i64(o, "d_ff", 0, 1, 1 << 20, &c->wide, where, e) ||
	    jsonio_i64(o, "vocab_size", 0, 1, 1 << 24, &c->vocabulary, where, e) ||
	    jsonio_i64(o, "relative_attention_num_buckets", 0, 4, 1 << 12, &c->buckets, where, e) ||
	    jsonio_i64(o, "relative_attention_max_distance", 0, 2, 1 << 20, &c->distance, where, e) ||
	    jsonio_f64(o, "layer_norm_epsilon", 0, 0, 1, &c->eps, where, e) || jsonio_str(o, "feed_forward_proj", 0, &act, where, e))
		return -1;
	if (strcmp(type, "t5"))
		return err_set(e, ERR_DATA, "%s: model_type \"%s\" is not t5", where, type);
	if (strcmp(act, "gated-gelu"))
		return err_set(e, ERR_DATA, "%s: feed_forward_proj \"%s\" is not T5 v1.1's gated-gelu", where, act);
	if (c->buckets % 4 || c->distance <= c->buckets / 4)
		return err_set(e, ERR_DATA, "%s: %lld buckets for distances up to %lld are out of range", where, (long long)c->buckets,
		               (long long)c->distance);
	return 0;
}

/* The upper half of the buckets is for keys after the query, the lower half for all others. In each half, the first half holds one small
 * distance per bucket; the width of the others grows in proportion to the distance. Computed in float, like the reference. */
int32_t t5_bucket(const struct t5_config *c, int64_t relative)
{
	int64_t half = c->buckets / 2, exact = half / 2, r = llabs(relative), b;

	if (r < exact)
		b = r;
	else
		b = exact + (int64_t)(logf((float)r / (float)exact) / (float)log((double)c->distance / (double)exact) * (float)(half - exact));
	return (int32_t)((relative > 0 ? half : 0) + (b < half ? b : half - 1));
}

/* (B, heads, T, T): the relative position bias, the same for all samples, plus the padding mask (B, T). */
static struct tensor *record_bias(const struct layers *l, const struct t5_config *c, struct tensor *bucket, struct tensor *mask)
{
	struct tape *t = l->t;
	int64_t n = c->tokens, table[2] = {c->buckets, c->heads}, square[4] = {1, n, n, c->heads}, keys[4] = {mask->shape[0], 1, 1, n};
	static const int order[4] = {0, 3, 1, 2};
	struct tensor *b = op_embed(t, layer_param(l, "block.0.layer.0.SelfAttention.relative_attention_bias.weight", 2, table), bucket);

	b = op_copy(t, op_permute(t, op_reshape(t, b, 4, square), order));
	return op_add(t, op_copy(t, op_repeat(t, b)), op_reshape(t, mask, 4, keys));
}

static struct tensor *attention(const struct layers *l, const struct t5_config *c, struct tensor *x, struct tensor *bias)
{
	static const char *const in[3] = {"SelfAttention.q", "SelfAttention.k", "SelfAttention.v"};
	struct tape *t = l->t;
	int64_t inner = c->heads * c->width, heads[4] = {x->shape[0], x->shape[1], c->heads, c->width};
	int64_t flat[3] = {x->shape[0], x->shape[1], inner};
	struct tensor *qkv[3], *h;

	for (int k = 0; k < 3; k++)
		qkv[k] = op_reshape(t, layer_linear(l, x, in[k], &(struct linear){.out = inner, .no_bias = 1}), 4, heads);
	h = op_reshape(t, op_attention_bias(t, qkv[0], qkv[1], qkv[2], bias, 1, 0), 3, flat);
	return layer_linear(l, h, "SelfAttention.o", &(struct linear){.out = c->hidden, .no_bias = 1});
}

static struct tensor *perceptron(const struct layers *l, const struct t5_config *c, struct tensor *x)
{
	struct linear wide = {.out = c->wide, .no_bias = 1, .act = UNARY_GELU_TANH + 1};
	struct tensor *gate = layer_linear(l, x, "DenseReluDense.wi_0", &wide), *h;

	wide.act = 0;
	h = layer_linear(l, x, "DenseReluDense.wi_1", &wide);
	return layer_linear(l, op_mul(l->t, gate, h), "DenseReluDense.wo", &(struct linear){.out = c->hidden, .no_bias = 1});
}

static void record(struct recording *r, const void *config, const int64_t *size)
{
	const struct t5_config *c = config;
	struct layers encoder = layers_in(&r->l, "encoder.");
	struct tape *t = r->l.t;
	int64_t n = c->tokens, pairs[1] = {n * n}, flat[1] = {r->capacity * n}, table[2] = {c->vocabulary, c->hidden};
	int64_t tokens[3] = {r->capacity, n, c->hidden};
	struct tensor *ids = recording_input(r, DT_I32, 1, &n, 1), *mask = recording_input(r, DT_F32, 1, &n, 1);
	struct tensor *bucket = recording_input(r, DT_I32, 1, pairs, 0), *bias, *h;

	(void)size;
	h = op_embed(t, layer_param(&r->l, "shared.weight", 2, table), op_reshape(t, ids, 1, flat));
	h = tape_float(t, op_reshape(t, h, 3, tokens));
	bias = record_bias(&encoder, c, bucket, mask);
	for (int64_t i = 0; i < c->depth; i++) {
		struct layers look = layers_in(&encoder, "block.%d.layer.0.", (int)i), think = layers_in(&encoder, "block.%d.layer.1.", (int)i);

		h = tape_float(t, op_add(t, h, attention(&look, c, layer_rms(&look, h, "layer_norm", c->eps), bias)));
		h = tape_float(t, op_add(t, h, perceptron(&think, c, layer_rms(&think, h, "layer_norm", c->eps))));
	}
	recording_output(r, op_copy(t, layer_rms(&encoder, h, "final_layer_norm", c->eps)));
}

void t5_params(const struct t5_config *c, struct params *p)
{
	runner_params(record, c, NULL, p);
}

/* The token embedding is stored as `shared`, as `encoder.embed_tokens`, or twice under both names. The decoder may be in the file too. */
static const char *const spare[] = {"decoder.*", "lm_head.weight", NULL};
static const struct rename_copy copies[] = {{"encoder.embed_tokens.weight", "shared.weight"}, {NULL, NULL}};
static const struct rename own_rules[] = {{"shared.weight", {"encoder.embed_tokens.weight"}, 0}};
static const struct renames shared_names = {.sign = "shared.weight", .spare = spare, .copies = copies};
static const struct renames own_names = {.sign = "encoder.embed_tokens.weight", .v = own_rules, .n = 1, .spare = spare};

static void set_buckets(struct t5 *m)
{
	int64_t n = m->c.tokens;
	int32_t *b = mem_zalloc((size_t)(n * n), sizeof *b);

	for (int64_t q = 0; q < n; q++)
		for (int64_t k = 0; k < n; k++)
			b[q * n + k] = t5_bucket(&m->c, k - q);
	runner_set(m->net, 2, b);
	mem_free(b);
}

struct t5 *t5_open(const char *dir, int64_t tokens, int64_t capacity, enum compact_type bulk, struct device *d, struct err *e)
{
	static const struct renames *const names[] = {&shared_names, &own_names};
	char *path = path_join(dir, "config.json");
	json_t *o = jsonio_load(path, e);
	struct t5 *m = mem_zalloc(1, sizeof *m);
	struct safetensors *s = NULL;
	int rc = -1;

	m->c.tokens = tokens;
	if (tokens < 1 || tokens > 1 << 14) {
		err_set(e, ERR_USAGE, "a text of %lld tokens is out of range", (long long)tokens);
		goto out;
	}
	if (!o || t5_from_json(o, path, &m->c, e) || !(s = weightfile_load(dir, NULL, e)))
		goto out;
	if (!(m->net = runner_new(record, &m->c, NULL, capacity, bulk, d, e))) {
		st_free(s);
		goto out;
	}
	if (runner_weights(m->net, s, dir, names, 2, e) || runner_load(m->net, NULL, NULL, e))
		goto out;
	set_buckets(m);
	rc = 0;
out:
	json_decref(o);
	mem_free(path);
	if (!rc)
		return m;
	t5_free(m);
	return NULL;
}

void t5_free(struct t5 *m)
{
	if (m)
		runner_free(m->net);
	mem_free(m);
}

const struct t5_config *t5_config(const struct t5 *m)
{
	return &m->c;
}

void t5_run(struct t5 *m, int64_t n, const int32_t *ids, const int32_t *length, float *hidden)
{
	int64_t tokens = m->c.tokens;
	float *mask = mem_zalloc((size_t)(n * tokens), sizeof *mask);

	for (int64_t i = 0; length && i < n; i++)
		for (int64_t k = length[i]; k < tokens; k++)
			mask[i * tokens + k] = PADDING;
	runner_run(m->net, n, (const void *const[]){ids, mask, NULL}, (float *const[]){hidden, NULL});
	mem_free(mask);
}
