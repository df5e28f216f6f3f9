/* Fits the weights of one network to another that differs in size, classes, text or prediction. */
#include "net/adopt.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/samemath.h"
#include "core/str.h"
#include "file/fileio.h"
#include "file/safetensors.h"
#include "file/weightfile.h"
#include "net/netdef.h"
#include "net/trunk.h"

/* A modulation per block that is converted to a shared one agrees with the original exactly at this time. */
static const double MEETING = .5;

/* Without common names, weights are taken by their own names; both networks must have the same architecture and size. */
static int adopt_own(struct net_config *to, const struct net_config *from, struct err *e)
{
	struct net_value a, b;

	if (to->def != from->def && from->def->trunk && to->frames)
		return err_set(
		    e, ERR_USAGE,
		    "is a network of type %s, and a %s network cannot start from it; a %s network for clips can, which attends across frames in "
		    "blocks of its own",
		    net_name(from), net_name(to), net_name(from));
	if (to->def != from->def)
		return err_set(e, ERR_USAGE, "is a network of type %s, and a %s network cannot start from it", net_name(from), net_name(to));
	for (int i = 0; net_shape(to, i, &a) && net_shape(from, i, &b); i++)
		if (a.i != b.i || a.f != b.f || strcmp(a.text, b.text))
			return err_set(e, ERR_USAGE, "is a network with another %s than requested", a.name);
	memcpy(to->own, from->own, sizeof to->own);
	return 0;
}

/* Whether an architecture's config.json has the field at `at` of struct net_config. */
static int has_field(const struct net_def *def, size_t at)
{
	for (int i = 0; i < def->nfields; i++)
		if (def->fields[i].at == at && def->fields[i].type != NET_FIXED)
			return 1;
	return 0;
}

int adopt_config(struct net_config *to, const struct model_config *from, struct err *e)
{
	const struct net_config *f = &from->net;
	const struct trunk_config *g = trunk_config(f);
	struct trunk_config *t = trunk_edit(to);
	int64_t steps = strcmp(from->path, "linear") ? from->betas.steps > 1 ? from->betas.steps : 1000 : 0;
	double time_scale = steps ? f->time_scale * (double)(steps - 1) / (double)steps : f->time_scale;

	if (net_is_exact(f) || net_is_classifier(f))
		return err_set(e, ERR_USAGE, "is not a network for pictures");
	if (f->channels != to->channels)
		return err_set(e, ERR_DATA, "is a network for %lld channels, and the samples have %lld", (long long)f->channels,
		               (long long)to->channels);
	if (!f->def->trunk || !to->def->trunk) {
		to->time_scale = time_scale;
		return adopt_own(to, f, e);
	}
	if (g->hidden != t->hidden || g->depth != t->depth || g->heads != t->heads || g->patch != t->patch || g->mlp_ratio != t->mlp_ratio)
		return err_set(e, ERR_USAGE,
		               "is a network of width %lld, depth %lld, %lld heads, patch %lld, mlp_ratio %g, not %lld, %lld, %lld, %lld, %g",
		               (long long)g->hidden, (long long)g->depth, (long long)g->heads, (long long)g->patch, g->mlp_ratio,
		               (long long)t->hidden, (long long)t->depth, (long long)t->heads, (long long)t->patch, t->mlp_ratio);
	if (f->frames && to->frames && to->def != f->def)
		return err_set(e, ERR_USAGE, "is a %s network for clips, and a %s network for clips cannot start from it", net_name(f), net_name(to));
	if (g->reversed && !has_field(to->def, TRUNK_AT(reversed)))
		return err_set(e, ERR_USAGE, "its time runs from noise to data, which a %s network cannot represent", net_name(to));
	to->time_scale = time_scale;
	t->time_shift = g->time_shift;
	t->norm_eps = trunk_eps(g);
	t->norm2_eps = g->norm2_eps;
	t->reversed = g->reversed;
	t->learned_positions = f->def == to->def ? g->learned_positions : 0;
	t->position_scale = g->position_scale;
	t->micro = has_field(to->def, TRUNK_AT(micro)) ? g->micro : 0;
	return 0;
}

/* The source network. */
struct source {
	struct safetensors *s;
	struct params params;
	const struct net_config *c;
	char *used; /* [params.n] */
};

struct adoption {
	struct source from;
	const struct net_config *to;
	const struct params *p;
	float *values;
	int same, classes_taken;
	void (*report)(void *arg, enum adopt_fate fate, const char *name);
	void *arg;
};

/* The common name of a weight among related architectures. */
static void to_common(const struct net_def *def, const char *name, struct str *out)
{
	for (const struct net_alias *a = def->aliases; a && a->own; a++)
		if (rename_apply(a->own, a->common, name, out))
			return;
	str_reset(out);
	str_puts(out, name);
}

/* The parameter of a common name, or -1. */
static int source_find(const struct source *f, const char *common)
{
	struct str name = {0};
	int i;

	for (const struct net_alias *a = f->c->def->aliases; a && a->own && !name.len; a++)
		rename_apply(a->common, a->own, common, &name);
	i = params_find(&f->params, name.len ? str_text(&name) : common);
	str_release(&name);
	return i;
}

/* The values of a weight; caller frees with mem_free. NULL if there is none. */
static float *source_read(struct source *f, int i)
{
	float *v;

	if (i < 0)
		return NULL;
	v = mem_alloc((size_t)f->params.v[i].count * sizeof *v);
	model_read_weight(f->s, &f->params.v[i], v);
	f->used[i] = 1;
	return v;
}

static float *source_need(struct source *f, const char *common)
{
	return source_read(f, source_find(f, common));
}

static int same_shape(const struct param *a, const struct param *b)
{
	return a->rank == b->rank && !memcmp(a->shape, b->shape, (size_t)a->rank * sizeof *a->shape);
}

static float *place(const struct adoption *a, const struct param *q)
{
	return a->values + q->offset;
}

/* The values of a weight whose layer reads one network's channels, with or without those of a first frame, for the other network's. Weights of
 * channels that the source lacks are 0, so they have no effect at the start. Channels are the second dimension, or, of convolutions, in the last,
 * frame by frame. */
static enum adopt_fate take_channels(struct adoption *a, const struct param *q, int i)
{
	const struct param *s = &a->from.params.v[i];
	int64_t had = net_read_channels(a->from.c), has = net_read_channels(a->to), both = had < has ? had : has;
	int64_t inner, rows;
	float *v;

	if (had == has || q->rank < 4 || q->rank != s->rank || q->count / has != s->count / had || q->count % has || s->count % had)
		return ADOPT_NEW;
	inner = q->flags & PARAM_CONV ? 1 : q->count / (q->shape[0] * q->shape[1]);
	rows = q->count / (has * inner);
	v = source_read(&a->from, i);
	memset(place(a, q), 0, (size_t)q->count * sizeof *v);
	for (int64_t r = 0; r < rows; r++)
		memcpy(place(a, q) + r * has * inner, v + r * had * inner, (size_t)(both * inner) * sizeof *v);
	mem_free(v);
	return ADOPT_DERIVED;
}

static enum adopt_fate take(struct adoption *a, const struct param *q, const char *common)
{
	int i = source_find(&a->from, common);
	float *v;

	if (i < 0)
		return ADOPT_NEW;
	if (!same_shape(q, &a->from.params.v[i]))
		return take_channels(a, q, i);
	v = source_read(&a->from, i);
	memcpy(place(a, q), v, (size_t)q->count * sizeof *v);
	mem_free(v);
	return ADOPT_TAKEN;
}

/* Resize a square of `from` x `from` position embeddings to `to` x `to`, bilinearly between the centres of the tokens. */
static void resize_positions(float *out, int64_t to, const float *in, int64_t from, int64_t width)
{
	double step = (double)from / (double)to;

	for (int64_t i = 0; i < to * to; i++) {
		double y = fmax((double)(i / to) * step + .5 * step - .5, 0), x = fmax((double)(i % to) * step + .5 * step - .5, 0);
		int64_t y0 = (int64_t)y, x0 = (int64_t)x, y1 = y0 + 1 < from ? y0 + 1 : y0, x1 = x0 + 1 < from ? x0 + 1 : x0;
		double v = y - (double)y0, u = x - (double)x0;

		for (int64_t k = 0; k < width; k++) {
			double top = (1 - u) * (double)in[(y0 * from + x0) * width + k] + u * (double)in[(y0 * from + x1) * width + k];
			double low = (1 - u) * (double)in[(y1 * from + x0) * width + k] + u * (double)in[(y1 * from + x1) * width + k];

			out[i * width + k] = (float)((1 - v) * top + v * low);
		}
	}
}

static enum adopt_fate take_positions(struct adoption *a, const struct param *q, const char *common)
{
	int64_t to = a->to->size / trunk_config(a->to)->patch, from = a->from.c->size / trunk_config(a->from.c)->patch;
	float *v = source_need(&a->from, common);

	resize_positions(place(a, q), to, v, from, trunk_config(a->to)->hidden);
	mem_free(v);
	return to == from ? ADOPT_TAKEN : ADOPT_DERIVED;
}

/* Take the output layer. Its rows are (row in patch, column in patch, channel). The networks may differ in the number of channels: with a learned
 * variance there are twice as many. */
static enum adopt_fate take_output(struct adoption *a, const struct param *q, const char *common)
{
	int i = source_find(&a->from, common);
	int64_t had = a->from.c->out_channels, has = a->to->out_channels, row = q->rank == 2 ? q->shape[1] : 1;
	float *v = source_read(&a->from, i);

	for (int64_t r = 0; r < q->shape[0]; r++)
		memcpy(place(a, q) + r * row, v + (r / has * had + r % has) * row, (size_t)row * sizeof *v);
	mem_free(v);
	return ADOPT_TAKEN;
}

static int last_is_taken(const struct adoption *a)
{
	return a->same && a->to->def->modulation == a->from.c->def->modulation;
}

static double silu(double x)
{
	return x / (1 + same_exp(-x));
}

/* out = W x + b, W (rows, n). */
static void apply(double *out, const float *w, const float *b, const double *x, int64_t rows, int64_t n)
{
	for (int64_t i = 0; i < rows; i++) {
		double sum = (double)b[i];

		for (int64_t k = 0; k < n; k++)
			sum += (double)w[i * n + k] * x[k];
		out[i] = sum;
	}
}

static float *ours(const struct adoption *a, const char *common)
{
	struct str name = {0};
	int i = -1;

	for (int k = 0; i < 0 && k < a->p->n; k++) {
		to_common(a->to->def, a->p->v[k].name, &name);
		i = strcmp(str_text(&name), common) ? -1 : k;
	}
	str_release(&name);
	return i < 0 ? NULL : place(a, &a->p->v[i]);
}

/* h[hidden] = SiLU of the time embedding at MEETING, computed with the weights already taken. */
static void meeting(const struct adoption *a, double *h)
{
	enum { WAVES = 256 };
	int64_t n = trunk_config(a->to)->hidden;
	double wave[WAVES], *mid = mem_alloc((size_t)n * sizeof *mid), t = a->to->time_scale * MEETING;

	for (int i = 0; i < WAVES / 2; i++) {
		double angle = t * same_pow(10000, -i / (WAVES / 2 - trunk_config(a->to)->time_shift));

		wave[i] = same_cos(angle);
		wave[WAVES / 2 + i] = same_sin(angle);
	}
	apply(mid, ours(a, "t_embedder.mlp.0.weight"), ours(a, "t_embedder.mlp.0.bias"), wave, n, WAVES);
	for (int64_t i = 0; i < n; i++)
		mid[i] = silu(mid[i]);
	apply(h, ours(a, "t_embedder.mlp.2.weight"), ours(a, "t_embedder.mlp.2.bias"), mid, n, n);
	for (int64_t i = 0; i < n; i++)
		h[i] = silu(h[i]);
	mem_free(mid);
}

/* Weight or bias of the modulation of one block of adaLN-zero. */
static float *modulation(struct adoption *a, int64_t block, const char *suffix)
{
	char name[96];

	snprintf(name, sizeof name, "blocks.%d.adaLN_modulation.1.%s", (int)block, suffix);
	return source_need(&a->from, name);
}

static void mean_modulation(struct adoption *a, const struct param *q, const char *suffix)
{
	double *sum = mem_zalloc((size_t)q->count, sizeof *sum);

	for (int64_t i = 0; i < trunk_config(a->to)->depth; i++) {
		float *v = modulation(a, i, suffix);

		for (int64_t k = 0; k < q->count; k++)
			sum[k] += (double)v[k];
		mem_free(v);
	}
	for (int64_t k = 0; k < q->count; k++)
		place(a, q)[k] = (float)(sum[k] / (double)trunk_config(a->to)->depth);
	mem_free(sum);
}

/* Derive the tables of adaLN-single from adaLN-zero, after the time embedding and t_block were taken. */
static void derive_tables(struct adoption *a)
{
	int64_t n = trunk_config(a->to)->hidden;
	double *h = mem_alloc((size_t)n * sizeof *h), *all = mem_alloc((size_t)(6 * n) * sizeof *all),
	       *own = mem_alloc((size_t)(6 * n) * sizeof *own);

	meeting(a, h);
	apply(all, ours(a, "t_block.1.weight"), ours(a, "t_block.1.bias"), h, 6 * n, n);
	for (int64_t i = 0; i < trunk_config(a->to)->depth; i++) {
		float *w = modulation(a, i, "weight"), *b = modulation(a, i, "bias"), *table;
		char name[96];

		snprintf(name, sizeof name, "blocks.%d.scale_shift_table", (int)i);
		table = ours(a, name);
		apply(own, w, b, h, 6 * n, n);
		for (int64_t k = 0; k < 6 * n; k++)
			table[k] = (float)(own[k] - all[k]);
		mem_free(w);
		mem_free(b);
	}
	mem_free(h);
	mem_free(all);
	mem_free(own);
}

/* Convert between a modulation layer per block and one for all blocks, in both directions. */
static int changes_modulation(const struct adoption *a, enum net_modulation from, enum net_modulation to)
{
	return a->from.c->def->modulation == from && a->to->def->modulation == to;
}

/* Take the modulation: copied if both networks have the same kind, else derived. */
static enum adopt_fate take_modulation(struct adoption *a, const struct param *q, const char *common)
{
	int merged = changes_modulation(a, NET_MODULATION_EACH, NET_MODULATION_SHARED);
	const char *suffix = strrchr(common, '.') + 1;
	struct str name = {0};
	float *v, *table;

	if (!merged && !changes_modulation(a, NET_MODULATION_SHARED, NET_MODULATION_EACH))
		return take(a, q, common);
	if (merged) {
		if (!strncmp(common, "t_block.", 8))
			mean_modulation(a, q, suffix);
		return ADOPT_DERIVED; /* derive_tables fills the tables */
	}
	v = source_need(&a->from, strcmp(suffix, "bias") ? "t_block.1.weight" : "t_block.1.bias");
	rename_apply("blocks.#.adaLN_modulation.*", "blocks.#.scale_shift_table", common, &name);
	table = strcmp(suffix, "bias") ? NULL : source_need(&a->from, str_text(&name));
	for (int64_t k = 0; k < q->count; k++)
		place(a, q)[k] = v[k] + (table ? table[k] : 0);
	mem_free(table);
	mem_free(v);
	str_release(&name);
	return ADOPT_DERIVED;
}

/* Take the projections of a cross attention. One network has queries, keys and values in one matrix, the other has the queries in a matrix of their
 * own; the rows are the same. */
static enum adopt_fate take_cross(struct adoption *a, const struct param *q, const char *common)
{
	int64_t row = q->rank == 2 ? q->shape[1] : 1, queries = trunk_config(a->to)->hidden * row;
	struct str one = {0}, two = {0};
	float *v = NULL, *w = NULL;

	if (rename_apply("blocks.#.cross_attn.qkv.*", "blocks.#.cross_attn.q_linear.*", common, &one)) {
		rename_apply("blocks.#.cross_attn.qkv.*", "blocks.#.cross_attn.kv_linear.*", common, &two);
		v = source_need(&a->from, str_text(&one));
		w = source_need(&a->from, str_text(&two));
		memcpy(place(a, q), v, (size_t)queries * sizeof *v);
		memcpy(place(a, q) + queries, w, (size_t)(2 * queries) * sizeof *w);
	} else {
		int keys = rename_apply("blocks.#.cross_attn.kv_linear.*", "blocks.#.cross_attn.qkv.*", common, &one);

		if (!keys)
			rename_apply("blocks.#.cross_attn.q_linear.*", "blocks.#.cross_attn.qkv.*", common, &one);
		v = source_need(&a->from, str_text(&one));
		memcpy(place(a, q), v + (keys ? queries : 0), (size_t)q->count * sizeof *v);
	}
	mem_free(v);
	mem_free(w);
	str_release(&one);
	str_release(&two);
	return ADOPT_TAKEN;
}

/* Whether this is a projection of a cross attention that the other network splits into other matrices. */
static int is_cross_input(const struct adoption *a, const char *common)
{
	return strstr(common, ".cross_attn.") && !strstr(common, ".cross_attn.proj.") && net_reads(a->from.c, NET_IN_TEXT) &&
	       source_find(&a->from, common) < 0;
}

static enum adopt_fate adopt_one(struct adoption *a, const struct param *q, const char *common)
{
	const char *last = a->to->def->last;
	int is_last = last && !strncmp(common, last, strlen(last));

	if (!strncmp(common, TRUNK_TIME_BLOCKS, strlen(TRUNK_TIME_BLOCKS)))
		return take(a, q, common);
	if (!a->to->def->trunk)
		return is_last && !a->same ? ADOPT_NEW : take(a, q, common);
	if (!strcmp(common, "pos_embed"))
		return take_positions(a, q, common);
	if (is_last && !last_is_taken(a))
		return ADOPT_NEW;
	if (is_last)
		return strstr(common, ".linear.") ? take_output(a, q, common) : take(a, q, common);
	if (!strncmp(common, "t_block.", 8) || strstr(common, ".scale_shift_table") || strstr(common, ".adaLN_modulation."))
		return take_modulation(a, q, common);
	if (is_cross_input(a, common))
		return take_cross(a, q, common);
	return take(a, q, common);
}

/* Add the embedding of the null class to the last bias of the time embedding, since the network adds the two embeddings. For a new network without
 * these classes. */
static int fold_null_class(struct adoption *a)
{
	const struct net_config *f = a->from.c;
	float *bias = ours(a, "t_embedder.mlp.2.bias"), *v;

	if (!bias || a->classes_taken || !f->classes || !(f->class_dropout > 0))
		return 0;
	v = source_need(&a->from, "y_embedder.embedding_table.weight");
	for (int64_t k = 0; k < trunk_config(f)->hidden; k++)
		bias[k] += v[f->classes * trunk_config(f)->hidden + k];
	mem_free(v);
	return 1;
}

static void tell(const struct adoption *a, const enum adopt_fate *fate)
{
	for (int i = 0; i < a->p->n; i++)
		a->report(a->arg, fate[i], a->p->v[i].name);
	for (int i = 0; i < a->from.params.n; i++)
		if (!a->from.used[i])
			a->report(a->arg, ADOPT_DROPPED, a->from.params.v[i].name);
}

static void adopt_all(struct adoption *a)
{
	enum adopt_fate *fate = mem_zalloc((size_t)a->p->n, sizeof *fate);
	int bias = -1;
	struct str name = {0};

	for (int i = 0; i < a->p->n; i++) {
		to_common(a->to->def, a->p->v[i].name, &name);
		fate[i] = adopt_one(a, &a->p->v[i], str_text(&name));
		if (!strcmp(str_text(&name), "y_embedder.embedding_table.weight"))
			a->classes_taken = fate[i] == ADOPT_TAKEN;
		if (!strcmp(str_text(&name), "t_embedder.mlp.2.bias"))
			bias = i;
	}
	if (fold_null_class(a))
		fate[bias] = ADOPT_DERIVED;
	if (changes_modulation(a, NET_MODULATION_EACH, NET_MODULATION_SHARED))
		derive_tables(a);
	tell(a, fate);
	str_release(&name);
	mem_free(fate);
}

int adopt_weights(const char *dir, const struct model_config *from, const struct net_config *to, int same, const struct params *p, float *values,
                  void (*report)(void *arg, enum adopt_fate fate, const char *name), void *arg, struct err *e)
{
	struct adoption a = {.to = to, .p = p, .values = values, .same = same, .report = report, .arg = arg};
	char *path = model_weights_path(dir, net_role(&from->net), e);
	int rc = -1;

	a.from.c = &from->net;
	net_params(&from->net, &a.from.params);
	a.from.used = mem_zalloc((size_t)a.from.params.n, 1);
	if (path && (a.from.s = weightfile_load(path, NULL, e)) && !model_match_weights(a.from.s, path, &a.from.params, e)) {
		adopt_all(&a);
		rc = 0;
	}
	st_free(a.from.s);
	params_release(&a.from.params);
	mem_free(a.from.used);
	mem_free(path);
	return rc;
}
