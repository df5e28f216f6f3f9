/* A tokenizer and its network: from texts to features. */
#include "data/textencoder.h"

#include <stdio.h>
#include <string.h>

#include "core/hash.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/str.h"
#include "text/tokenizer.h"
#include "text/unicode.h"
#include "file/fileio.h"
#include "file/weightfile.h"
#include "net/clip.h"
#include "net/t5.h"

struct textencoder {
	struct textencoder_info info;
	struct device *device;
	struct tokenizer *tokenizer;
	struct clip_text *clip; /* or */
	struct t5 *t5;
	int lower; /* convert texts to lower case before tokenizing */
};

enum { BATCH = 16 };

/* The folders of the tokenizer and the network, and the model_index.json of their pipeline, which may be absent. */
struct parts {
	char *encoder, *tokenizer, *pipeline;
};

static void parts_release(struct parts *p)
{
	mem_free(p->pipeline);
	mem_free(p->encoder);
	mem_free(p->tokenizer);
}

static int holds_tokenizer(const char *dir)
{
	return path_holds(dir, "tokenizer.json") || path_holds(dir, "merges.txt") || path_holds(dir, "spiece.model");
}

/* Turn .../text_encoder_2 into .../tokenizer_2; NULL if dir has another name. Caller frees. */
static char *beside(const char *dir)
{
	static const char name[] = "text_encoder";
	size_t len = strlen(dir), base;

	while (len > 1 && dir[len - 1] == '/')
		len--;
	for (base = len; base && dir[base - 1] != '/';)
		base--;
	if (len - base < sizeof name - 1 || memcmp(dir + base, name, sizeof name - 1))
		return NULL;
	return str_new("%.*stokenizer%.*s", (int)base, dir, (int)(len - base - (sizeof name - 1)), dir + base + sizeof name - 1);
}

static const char pipeline_list[] = "model_index.json";

static struct parts parts_of(const char *dir)
{
	struct parts p = {0};

	if (path_holds(dir, "text_encoder")) {
		p.encoder = path_join(dir, "text_encoder");
		p.tokenizer = path_join(dir, "tokenizer");
		p.pipeline = path_join(dir, pipeline_list);
		return p;
	}
	p.encoder = mem_strdup(dir);
	p.pipeline = str_new("%s/../%s", dir, pipeline_list);
	if (!holds_tokenizer(dir))
		p.tokenizer = beside(dir);
	if (!p.tokenizer)
		p.tokenizer = mem_strdup(dir);
	return p;
}

static json_t *config_of(const char *dir, struct err *e)
{
	char *path = path_join(dir, "config.json");
	json_t *o = jsonio_load(path, e);

	mem_free(path);
	return o;
}

/* The kind of text encoder by its config.json; -1: not a text encoder. */
static int kind_of(const json_t *config)
{
	const char *type = json_string_value(json_object_get(config, "model_type"));

	if (type && (!strcmp(type, "clip") || !strcmp(type, "clip_text_model")))
		return TEXTENCODER_CLIP;
	return type && !strcmp(type, "t5") ? TEXTENCODER_T5 : -1;
}

static const char *const published[] = {[TEXTENCODER_CLIP] = "clip-vit-large-patch14", [TEXTENCODER_T5] = "t5-v1_1-xxl"};

const char *textencoder_published(int64_t width)
{
	return width == 768 ? published[TEXTENCODER_CLIP] : width == 4096 ? published[TEXTENCODER_T5] : NULL;
}

int textencoder_sniff(const char *dir)
{
	struct parts p = parts_of(dir);
	json_t *o = path_holds(p.encoder, "config.json") ? config_of(p.encoder, NULL) : NULL;
	int found = o && kind_of(o) >= 0 && holds_tokenizer(p.tokenizer);

	json_decref(o);
	parts_release(&p);
	return found;
}

/* PixArt's pipelines convert texts to lower case. They also strip blanks at both ends, which T5's tokenizer ignores anyway. */
static int read_lower(const char *pipeline, int *lower, struct err *e)
{
	json_t *o = path_exists(pipeline) ? jsonio_load(pipeline, e) : json_object();
	const char *class = json_string_value(json_object_get(o, "_class_name"));

	*lower |= class && !strncmp(class, "PixArt", 6);
	json_decref(o);
	return o ? 0 : -1;
}

/* Read pad_token of a file into *out: a string, or an object with "content". Caller frees. */
static int read_padding(const char *dir, const char *name, char **out, struct err *e)
{
	char *path = path_join(dir, name);
	json_t *o = path_exists(path) ? jsonio_load_real(path, e) : json_object();
	const json_t *v = json_object_get(o, "pad_token");
	const char *text = json_string_value(json_is_object(v) ? json_object_get(v, "content") : v);

	if (text)
		*out = mem_strdup(text);
	json_decref(o);
	mem_free(path);
	return o ? 0 : -1;
}

static int open_tokenizer(struct textencoder *t, const char *dir, char hash[65], struct err *e)
{
	char *padding = NULL;
	int rc = -1;

	if (!holds_tokenizer(dir)) {
		err_set(e, ERR_NOINPUT, "%s: holds no tokenizer (tokenizer.json, merges.txt or spiece.model)", dir);
		return -1;
	}
	if ((t->tokenizer = tokenizer_open(dir, e)) && !tokenizer_hash(dir, hash, e) && !read_padding(dir, "special_tokens_map.json", &padding, e) &&
	    (padding || !read_padding(dir, "tokenizer_config.json", &padding, e)))
		rc = padding ? tokenizer_pad_token(t->tokenizer, padding, dir, e) : 0;
	mem_free(padding);
	return rc;
}

/* Check that every token id is a row of the network's embedding table. */
static int check_vocabulary(const struct textencoder *t, int64_t rows, const char *dir, struct err *e)
{
	int64_t most = tokenizer_largest(t->tokenizer);

	if (most < rows)
		return 0;
	return err_set(e, ERR_DATA, "%s: the tokenizer has token %lld, but the encoder knows only %lld tokens", dir, (long long)most,
	               (long long)rows);
}

static int open_clip(struct textencoder *t, const char *dir, const struct textencoder_options *o, struct str *what, struct err *e)
{
	const struct clip_config *c;

	if (!(t->clip = clip_text_open(dir, o->batch ? o->batch : BATCH, o->bulk, o->device, e)))
		return -1;
	c = clip_text_config(t->clip);
	if (o->tokens && o->tokens != c->tokens)
		return err_set(e, ERR_USAGE, "%s: --tokens %lld, but texts of CLIP have %lld tokens", dir, (long long)o->tokens,
		               (long long)c->tokens);
	t->info.tokens = c->tokens;
	t->info.width = c->hidden;
	t->info.projected = c->projection > 0;
	t->info.embedding = c->projection ? c->projection : c->hidden;
	str_printf(what, "clip text hidden %lld depth %lld heads %lld wide %lld quick %d eps %.9g eos %lld tokens %lld", (long long)c->hidden,
	           (long long)c->depth, (long long)c->heads, (long long)c->wide, c->quick, c->eps, (long long)c->eos, (long long)c->tokens);
	return check_vocabulary(t, c->vocabulary, dir, e);
}

static int open_t5(struct textencoder *t, const char *dir, const struct textencoder_options *o, struct str *what, struct err *e)
{
	const struct t5_config *c;

	if (!(t->t5 = t5_open(dir, o->tokens ? o->tokens : TEXTENCODER_T5_TOKENS, o->batch ? o->batch : BATCH, o->bulk, o->device, e)))
		return -1;
	c = t5_config(t->t5);
	t->info.tokens = c->tokens;
	t->info.width = c->hidden;
	str_printf(what, "t5 encoder hidden %lld depth %lld heads %lld width %lld wide %lld buckets %lld distance %lld eps %.9g",
	           (long long)c->hidden, (long long)c->depth, (long long)c->heads, (long long)c->width, (long long)c->wide, (long long)c->buckets,
	           (long long)c->distance, c->eps);
	return check_vocabulary(t, c->vocabulary, dir, e);
}

static int open_parts(struct textencoder *t, const struct parts *p, const struct textencoder_options *o, struct err *e)
{
	json_t *config = config_of(p->encoder, e);
	char tokenizer[65], weights[65];
	struct str what = {0};
	int kind, rc = -1;

	if (!config)
		return -1;
	kind = kind_of(config);
	if (kind < 0)
		err_set(e, ERR_DATA, "%s/config.json: model_type must be that of a text encoder (clip, clip_text_model, t5)", p->encoder);
	t->info.kind = (enum textencoder_kind)kind;
	if (kind >= 0 && !read_lower(p->pipeline, &t->lower, e) && !open_tokenizer(t, p->tokenizer, tokenizer, e) &&
	    !weightfile_hash_at(p->encoder, weights, e) && !(kind == TEXTENCODER_CLIP ? open_clip : open_t5)(t, p->encoder, o, &what, e)) {
		str_printf(&what, ", weights %s, tokenizer %s, padding %d", weights, tokenizer, (int)tokenizer_padding(t->tokenizer));
		if (*compact_rounding(o->bulk))
			str_printf(&what, ", matrices %s", compact_rounding(o->bulk));
		if (t->lower)
			str_puts(&what, ", lower case");
		sha256_text(what.p, t->info.hash);
		rc = 0;
	}
	if (rc && kind >= 0)
		err_lacking(e, published[kind]);
	str_release(&what);
	json_decref(config);
	return rc;
}

struct textencoder *textencoder_open(const char *dir, const struct textencoder_options *o, struct err *e)
{
	struct textencoder *t = mem_zalloc(1, sizeof *t);
	struct parts p = parts_of(dir);
	int rc;

	t->device = o->device;
	t->lower = o->lower;
	rc = open_parts(t, &p, o, e);
	parts_release(&p);
	if (!rc)
		return t;
	textencoder_free(t);
	return NULL;
}

void textencoder_free(struct textencoder *t)
{
	if (!t)
		return;
	tokenizer_free(t->tokenizer);
	clip_text_free(t->clip);
	t5_free(t->t5);
	mem_free(t);
}

const struct textencoder_info *textencoder_info(const struct textencoder *t)
{
	return &t->info;
}

static int64_t encode(const struct textencoder *t, const char *text, size_t n, int32_t *ids)
{
	struct str low = {0};
	int64_t all;

	if (t->lower)
		unicode_lower(&low, text, n);
	all = tokenizer_encode(t->tokenizer, t->lower ? str_text(&low) : text, t->lower ? low.len : n, t->info.tokens, ids);
	str_release(&low);
	return all;
}

/* Tokenize into ids (n, tokens) and length (n), special tokens included. */
static void tokens_of(const struct textencoder *t, int64_t n, const char *const *texts, const size_t *lens, int32_t *ids, int32_t *length,
                      int64_t *cut)
{
	int64_t most = t->info.tokens;

	for (int64_t i = 0; i < n; i++) {
		int64_t all = encode(t, texts[i], lens ? lens[i] : strlen(texts[i]), ids + i * most);

		*cut += all > most;
		length[i] = (int32_t)(all < most ? all : most);
	}
}

static void clear_padding(const struct textencoder_info *info, int64_t n, const int32_t *length, float *hidden)
{
	for (int64_t i = 0; i < n; i++)
		memset(hidden + (i * info->tokens + length[i]) * info->width, 0, (size_t)((info->tokens - length[i]) * info->width) * sizeof *hidden);
}

int textencoder_run(struct textencoder *t, int64_t n, const char *const *texts, const size_t *lens, struct text_features *f, struct err *e)
{
	const struct textencoder_info *info = &t->info;
	int32_t *ids, *length;

	if (f->embedding && !info->embedding)
		return err_set(e, ERR_USAGE, "T5 has no embedding of a whole text");
	ids = mem_zalloc((size_t)(n * info->tokens), sizeof *ids);
	length = mem_zalloc((size_t)n, sizeof *length);
	tokens_of(t, n, texts, lens, ids, length, &f->cut);
	if (t->clip) {
		clip_text_run(t->clip, n, ids, f->hidden, f->embedding);
	} else if (f->hidden) {
		t5_run(t->t5, n, ids, length, f->hidden);
		clear_padding(info, n, length, f->hidden);
	}
	for (int64_t i = 0; f->length && i < n; i++)
		f->length[i] = t->clip ? (int32_t)info->tokens : length[i];
	mem_free(ids);
	mem_free(length);
	return t->device->error(t->device, e);
}
