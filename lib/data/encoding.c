/* Runs pretrained encoders over samples: reads them ahead, encodes them by batches, hands them out in order. */
#include "data/encoding.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/shortfloat.h"
#include "data/encodingimpl.h"
#include "data/entries.h"
#include "file/npy.h"

enum { ADDED = 7 };
static const size_t BYTES_AT_ONCE = (size_t)64 << 20; /* limit for members and for pixels of a batch */

/* ---- opening ---- */

static int open_vae(struct encoding *x, struct err *e)
{
	const struct encoding_options *o = &x->o;
	const struct autoencoder_config *c;
	int half = o->decode ? AUTOENCODER_DECODE : AUTOENCODER_ENCODE;

	if (!o->vae)
		return o->decode ? err_set(e, ERR_USAGE, "only an autoencoder decodes latents to pictures") : 0;
	if (!(x->vae = autoencoder_open(o->vae, half, o->batch ? o->batch : ENCODING_PICTURES, compact_mapped(o->bulk, o->map), o->device, e)) ||
	    autoencoder_hash(o->vae, half, x->vae_hash, e))
		return err_lacking(e, "sd-vae-ft-mse");
	c = autoencoder_config(x->vae);
	x->factor = autoencoder_factor(c);
	if ((o->decode ? c->out_channels : c->in_channels) != 3)
		return err_set(e, ERR_DATA, "%s: its pictures do not have 3 channels", o->vae);
	if (o->size % x->factor)
		return err_set(e, ERR_USAGE, "--size: pictures of %lld x %lld cannot be encoded by %s: their side must be a multiple of %lld",
		               (long long)o->size, (long long)o->size, o->vae, (long long)x->factor);
	return 0;
}

static int open_text(struct encoding *x, struct err *e)
{
	const struct encoding_options *o = &x->o;
	struct textencoder_options to = {
	    .tokens = o->tokens, .batch = o->batch ? o->batch : ENCODING_TEXTS, .bulk = compact_mapped(o->bulk, o->map), .device = o->device};

	if (!o->text)
		return 0;
	if (!(x->text = textencoder_open(o->text, &to, e)))
		return -1;
	if (o->pooled && !textencoder_info(x->text)->embedding)
		return err_set(e, ERR_USAGE, "--pooled: %s is a T5 encoder, which has no pooled vector of a text; CLIP has", o->text);
	return 0;
}

struct encoding *encoding_open(const struct encoding_options *o, struct err *e)
{
	struct encoding *x = mem_zalloc(1, sizeof *x);

	x->o = *o;
	x->o.posterior = o->posterior < 0 ? ENCODING_STD : o->posterior;
	x->o.wide = o->wide > 0;
	x->now = mem_zalloc(1, sizeof *x->now);
	x->next = mem_zalloc(1, sizeof *x->next);
	if (!open_vae(x, e) && !open_text(x, e) && (x->readers = pool_new(pool_threads(o->pool), e)))
		return x;
	encoding_free(x);
	return NULL;
}

static void item_release(struct encoding_item *it)
{
	for (int i = 0; i < it->n; i++) {
		mem_free((void *)(uintptr_t)it->member[i].ext);
		mem_free((void *)(uintptr_t)it->member[i].data);
	}
	mem_free(it->member);
	mem_free(it->key);
	mem_free(it->origin);
	picture_release(&it->picture);
	for (int flip = 0; flip < 2; flip++) {
		str_release(&it->latent[flip]);
		str_release(&it->std[flip]);
	}
	str_release(&it->text);
	str_release(&it->pooled);
	str_release(&it->png);
	mem_free(it->z);
	*it = (struct encoding_item){0};
}

void encoding_clear(struct encoding_batch *b)
{
	for (int i = 0; i < b->n; i++)
		item_release(&b->item[i]);
	b->n = b->at = b->end = 0;
	b->err = (struct err){0};
}

void encoding_free(struct encoding *x)
{
	if (!x)
		return;
	ahead_wait(&x->ahead);
	encoding_clear(x->now);
	encoding_clear(x->next);
	if (x->piece)
		encoding_clear(x->piece);
	mem_free(x->now);
	mem_free(x->next);
	mem_free(x->piece);
	mem_free(x->out);
	mem_free(x->pixels);
	mem_free(x->moments);
	pool_free(x->readers);
	autoencoder_free(x->vae);
	textencoder_free(x->text);
	mem_free(x);
}

int64_t encoding_cut(const struct encoding *x)
{
	return x->place.cut;
}

int encoding_reads_texts(const struct encoding *x)
{
	return x->text != NULL;
}

int encoding_pools_texts(const struct encoding *x)
{
	return x->text && x->o.pooled;
}

const char *encoding_idle(const struct encoding_options *o)
{
	if (!o->vae || o->text || !o->device->compact)
		return NULL;
	return o->bulk ? "--weight-dtype" : o->map ? "--map" : NULL;
}

/* ---- arrays ---- */

int encoding_array(struct str *npy, int wide, int rank, const int64_t *shape, const float *x, const char *what, struct err *e)
{
	int64_t n = 1;
	uint16_t *h;
	int rc = 0;

	for (int i = 0; i < rank; i++)
		n *= shape[i];
	for (int64_t i = 0; i < n && !rc; i++)
		if (!isfinite(x[i]) || (!wide && !isfinite(f16_to_f32(f32_to_f16(x[i])))))
			rc = err_set(e, ERR_DATA, "%s: %g does not fit into %d bits", what, (double)x[i], wide ? 32 : 16);
	if (rc || wide) {
		if (!rc)
			npy_encode(npy, NPY_F4, rank, shape, x);
		return rc;
	}
	h = mem_alloc((size_t)n * sizeof *h);
	for (int64_t i = 0; i < n; i++)
		h[i] = f32_to_f16(x[i]);
	npy_encode(npy, NPY_F2, rank, shape, h);
	mem_free(h);
	return 0;
}

/* ---- reading ---- */

void encoding_fill(struct encoding_item *it, const struct sample *s)
{
	*it = (struct encoding_item){.key = mem_strdup(s->key), .origin = mem_strdup(s->origin), .n = s->n};
	it->member = mem_zalloc((size_t)s->n, sizeof *it->member);
	for (int i = 0; i < s->n; i++) {
		char *data = mem_alloc(s->member[i].len + 1);

		memcpy(data, s->member[i].data, s->member[i].len);
		data[s->member[i].len] = 0;
		it->member[i] = (struct sample_member){mem_strdup(s->member[i].ext), data, s->member[i].len};
	}
}

struct sample encoding_item_sample(const struct encoding_item *it)
{
	return (struct sample){.key = it->key, .origin = it->origin, .n = it->n, .member = it->member};
}

int encoding_crop(struct picture *p, int factor, const char *key, struct err *e)
{
	int w = p->width / factor * factor, h = p->height / factor * factor, x0 = (p->width - w) / 2, y0 = (p->height - h) / 2;

	if (!w || !h)
		return err_set(e, ERR_DATA, "\"%s\" is %d x %d: too small for the autoencoder, which divides width and height by %d", key, p->width,
		               p->height, factor);
	for (int y = 0; y < h; y++)
		memmove(p->pixels + (size_t)y * (size_t)w * 3, p->pixels + ((size_t)(y0 + y) * (size_t)p->width + (size_t)x0) * 3, (size_t)w * 3);
	p->width = w;
	p->height = h;
	return 0;
}

static int read_latent(const struct encoding *x, struct encoding_item *it, const struct sample *s)
{
	const struct sample_member *m = sample_find(s, "npy");
	const struct autoencoder_config *c = autoencoder_config(x->vae);
	int64_t channels = c->latent_channels;
	const int64_t *shape;
	struct npy a;
	int clip, rc = 0;

	if (!m)
		return err_set(&it->err, ERR_DATA, "%s: \"%s\" has no latent (.npy)", s->origin, s->key);
	if (npy_parse(&a, m->data, m->len, s->key, &it->err))
		return -1;
	shape = a.rank == 4 ? a.shape + 1 : a.shape;
	clip = a.rank == 4 && (a.shape[0] != 1 || autoencoder_joins_frames(c)); /* else (1, C, H, W) is (C, H, W) */
	if (a.rank != 3 + (int)(shape - a.shape) || a.type == NPY_U1 || shape[0] != channels || a.shape[0] < 1 || shape[1] < 1 || shape[2] < 1 ||
	    npy_count(&a) > 1 << 28)
		rc = err_set(&it->err, ERR_DATA, "%s: \"%s\" is not a latent (%lld, H, W), nor one of a clip (F, %lld, H, W)", s->origin, s->key,
		             (long long)channels, (long long)channels);
	else if (npy_not_finite(&a))
		rc = err_set(&it->err, ERR_DATA, "%s: \"%s\" contains a NaN", s->origin, s->key);
	if (!rc) {
		it->zf = clip ? a.shape[0] : 0;
		it->zh = shape[1];
		it->zw = shape[2];
		it->z = mem_alloc((size_t)npy_count(&a) * sizeof *it->z);
		npy_to_f32(it->z, &a);
	}
	npy_release(&a);
	return rc;
}

/* A batch whose pixels are decoded, one picture each task. */
struct decoding {
	struct encoding *x;
	struct encoding_batch *batch;
};

static void decode_task(void *arg, int64_t task, int worker)
{
	struct encoding *x = ((struct decoding *)arg)->x;
	struct encoding_item *it = &((struct decoding *)arg)->batch->item[task];
	struct samples_options so = x->samples ? *samples_settings(x->samples) : (struct samples_options){0};
	struct sample s = encoding_item_sample(it);

	(void)worker;
	if (x->o.decode) {
		read_latent(x, it, &s);
		return;
	}
	if (encoding_find_clip(it, &s))
		return;
	so.size = (int)x->o.size;
	so.channels = 3;
	if (!sample_pixels(&it->picture, &s, &so, &it->err))
		encoding_crop(&it->picture, (int)x->factor, it->key, &it->err);
}

void encoding_decode(struct encoding *x, struct encoding_batch *b)
{
	struct decoding d = {x, b};

	if (x->vae)
		pool_run(x->readers, b->n, decode_task, &d);
}

/* Bytes of a picture's pixels after decoding. */
static size_t weigh(const struct encoding *x, const struct sample *s)
{
	const struct sample_member *m = x->vae && !x->o.decode ? sample_picture(s) : NULL;
	int w, h;

	if (!m || x->o.size || still_size(m->data, m->len, "", &w, &h, &(struct err){0}))
		return m ? (size_t)(3 * x->o.size * x->o.size) : 0;
	return (size_t)w * (size_t)h * 3;
}

void encoding_read_next(void *arg)
{
	struct encoding *x = arg;
	struct encoding_batch *b = x->next;
	size_t bytes = 0, pixels = 0;
	struct sample s;
	int rc = 1;

	encoding_clear(b);
	while (b->n < ENCODING_AT_ONCE && bytes < BYTES_AT_ONCE && pixels < BYTES_AT_ONCE && (rc = samples_next(x->samples, &s, &b->err)) > 0) {
		encoding_fill(&b->item[b->n++], &s);
		pixels += weigh(x, &s);
		for (int i = 0; i < s.n; i++)
			bytes += s.member[i].len;
	}
	b->end = rc <= 0;
	if (!x->passing && !x->shared)
		encoding_decode(x, b);
}

/* ---- handing out ---- */

void encoding_begin(struct encoding *x, struct samples *s)
{
	ahead_wait(&x->ahead);
	x->samples = s;
	x->begun = x->shared = x->ended = 0;
	x->place.batches = x->place.bad = 0;
	encoding_clear(x->now);
	encoding_clear(x->next);
}

int encoding_run(struct encoding *x, struct encoding_batch *b, struct err *e)
{
	return (x->vae && encoding_pictures(x, b, e)) || (x->text && encoding_texts(x, b, e)) ? -1 : 0;
}

/* Hand out the batch that was read, and read the next one in the background. */
static int turn(struct encoding *x, struct err *e)
{
	struct encoding_batch *b;
	int rc;

	if (!x->begun)
		encoding_read_next(x);
	x->begun = 1;
	b = x->next;
	x->next = x->now;
	x->now = b;
	x->place.batches++;
	if (!b->end)
		ahead_start(&x->ahead, encoding_read_next, x);
	rc = encoding_run(x, b, e);
	ahead_wait(&x->ahead);
	return rc;
}

/* Whether an existing member is left out: the encoding replaces it, or it is a latent of another encoder. */
static int replaced(const struct encoding *x, const struct encoding_item *it, const char *ext)
{
	static const char *const latents[] = {"npy", "std.npy", "flip.npy", "flip.std.npy"};

	if (x->o.decode)
		return !strcmp(ext, "npy") || str_ends(ext, ".npy") || entry_is_picture(ext);
	for (int i = 0; i < 4 && x->vae; i++)
		if (!strcmp(ext, latents[i]))
			return 1;
	return (it->text.len && !strcmp(ext, "text.npy")) || (it->text.len && !strcmp(ext, "pooled.npy")) ||
	       (x->vae && x->o.drop && entry_is_picture(ext));
}

static int by_ext(const void *a, const void *b)
{
	return strcmp(((const struct sample_member *)a)->ext, ((const struct sample_member *)b)->ext);
}

static void hand_out(struct encoding *x, const struct encoding_item *it, struct sample *out)
{
	const struct sample_member added[ADDED] = {{"npy", it->latent[0].p, it->latent[0].len},
	                                           {"std.npy", it->std[0].p, it->std[0].len},
	                                           {"flip.npy", it->latent[1].p, it->latent[1].len},
	                                           {"flip.std.npy", it->std[1].p, it->std[1].len},
	                                           {"text.npy", it->text.p, it->text.len},
	                                           {"pooled.npy", it->pooled.p, it->pooled.len},
	                                           {"png", it->png.p, it->png.len}};
	int n = 0;

	x->out = mem_resize(x->out, (size_t)it->n + ADDED, sizeof *x->out);
	for (int i = 0; i < it->n; i++)
		if (!replaced(x, it, it->member[i].ext))
			x->out[n++] = it->member[i];
	for (int i = 0; i < ADDED; i++)
		if (added[i].len)
			x->out[n++] = added[i];
	qsort(x->out, (size_t)n, sizeof *x->out, by_ext);
	*out = (struct sample){.key = it->key, .origin = it->origin, .n = n, .member = x->out};
}

int encoding_place(const struct encoding *x, struct encoding_place *p)
{
	*p = x->place;
	return x->now->at == x->now->n;
}

int encoding_go_on(struct encoding *x, const struct encoding_place *p, struct err *e)
{
	assert(x->samples && !x->begun);
	x->passing = 1;
	for (int64_t i = 0; i < p->batches && !e->code; i++) {
		encoding_read_next(x);
		if (x->next->err.code || (x->next->end && i + 1 < p->batches))
			err_set(e, x->next->err.code ? x->next->err.code : ERR_DATA, "%s",
			        x->next->err.code ? x->next->err.msg : "samples are missing");
		x->now->end = x->next->end;
	}
	x->passing = 0;
	encoding_clear(x->next);
	x->place = *p;
	samples_passed(x->samples, p->bad);
	return e->code ? -1 : 0;
}

int encoding_next(struct encoding *x, struct sample *out, struct err *e)
{
	assert(x->samples);
	for (;;) {
		struct encoding_item *it;

		while (x->now->at == x->now->n) {
			if (x->now->err.code)
				return err_set(e, x->now->err.code, "%s", x->now->err.msg);
			if (x->now->end || x->shared)
				return 0;
			if (turn(x, e))
				return -1;
		}
		it = &x->now->item[x->now->at++];
		if (!it->err.code) {
			hand_out(x, it, out);
			return 1;
		}
		x->place.bad++;
		if (samples_bad(x->samples, &it->err))
			return err_set(e, it->err.code, "%s", it->err.msg);
	}
}
