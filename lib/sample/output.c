/* Decodes and encodes pictures and latents, and writes them in order. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/str.h"
#include "core/version.h"
#include "diffusion/gallery.h"
#include "file/claim.h"
#include "sample/output.h"

enum { JPEG_QUALITY = 95 };
enum { DECODED_PIXELS = 1 << 18 }; /* pixels decoded at a time, in all pictures of a chunk */

const char *const output_endings[] = {
    [FORMAT_PNG] = "png", [FORMAT_WEBP] = "webp", [FORMAT_NPZ] = NULL, [FORMAT_LATENT] = "npy", [FORMAT_JPG] = "jpg", [FORMAT_CLIP] = "npy"};

/* Elements of a picture, or of a clip of pixels. */
static int64_t shown_elements(const struct output *o)
{
	return o->picture_frames * o->picture_channels * o->picture_size * o->picture_size;
}

int output_vae(struct output *o, const char *dir, enum compact_type bulk, struct device *d, int64_t batch, struct err *e)
{
	const struct autoencoder_config *c;

	if (!(o->vae = autoencoder_open(dir, AUTOENCODER_DECODE, 1, bulk, d, e)))
		return -1;
	c = autoencoder_config(o->vae);
	if (c->latent_channels != o->channels)
		return err_set(e, ERR_DATA, "%s: the autoencoder decodes latents of %lld channels, but the experts make %lld", dir,
		               (long long)c->latent_channels, (long long)o->channels);
	if (c->out_channels != 1 && c->out_channels != 3)
		return err_set(e, ERR_DATA, "%s: the autoencoder decodes to %lld channels; pictures have 1 or 3", dir, (long long)c->out_channels);
	o->picture_channels = c->out_channels;
	o->picture_size = o->size * autoencoder_factor(c);
	o->picture_frames = autoencoder_clip_frames(c, o->frames);
	o->chunk = DECODED_PIXELS / (o->picture_frames * o->picture_size * o->picture_size);
	o->chunk = o->chunk < 1 ? 1 : o->chunk < batch ? o->chunk : batch;
	o->decoded = mem_try((size_t)(o->chunk * shown_elements(o)), sizeof *o->decoded, "decoded pictures", e);
	return o->decoded ? 0 : -1;
}

int output_claim(const char *const *path, size_t n, struct err *e)
{
	int piped = 0;

	for (size_t i = 0; i < n; i++)
		piped += path[i] && !strcmp(path[i], "-");
	return piped > 1 ? err_set(e, ERR_USAGE, "%d outputs would share standard output: give all but one a file name", piped)
	                 : claim_take(path, n, e);
}

int output_start(struct output *o, enum sink_kind kind, const char *path, const char *stamp, const char *same, int64_t n, struct err *e)
{
	const int64_t shape[4] = {n, o->picture_size, o->picture_size, o->picture_channels};

	return sink_open(&o->sink, kind, path, stamp, same, shape, e);
}

/* Encodes the pictures of a chunk in parallel, one task each. */
struct task {
	struct output *o;
	const float *x; /* (.., picture_channels, picture_size, picture_size) */
	const struct output_item *item;
	int files;
	struct done {
		struct output_made made;
		struct err e;
	} * done;
};

/* The picture of a sample x: its frames (picture_frames, channels, size, size) in a row. */
static int sample_picture_of(struct picture *p, const struct output *o, const float *x, const char *what, struct err *e)
{
	int64_t c = o->picture_channels, s = o->picture_size, f = o->picture_frames;
	float *row;
	int rc;

	if (f == 1)
		return gallery_picture(p, x, c, s, s, what, e);
	row = mem_alloc((size_t)(f * c * s * s) * sizeof *row);
	for (int64_t k = 0; k < f; k++)
		for (int64_t y = 0; y < c * s; y++)
			memcpy(row + (y * f + k) * s, x + (k * c * s + y) * s, (size_t)s * sizeof *row);
	rc = gallery_picture(p, row, c, s, f * s, what, e);
	mem_free(row);
	return rc;
}

/* The array (F, C, H, W) of bytes of a clip, from its frames in a row. */
static void encode_clip(const struct output *o, const struct picture *p, struct output_made *m)
{
	int64_t c = o->picture_channels, s = o->picture_size, f = o->picture_frames, shape[4] = {f, c, s, s};
	uint8_t *bytes = mem_alloc((size_t)(f * c * s * s)), *to = bytes;
	struct str npy = {0};

	for (int64_t k = 0; k < f; k++)
		for (int64_t j = 0; j < c; j++)
			for (int64_t i = 0; i < s * s; i++)
				*to++ = p->pixels[((i / s * f + k) * s + i % s) * c + j];
	npy_encode(&npy, NPY_U1, 4, shape, bytes);
	mem_free(bytes);
	m->data = (uint8_t *)npy.p;
	m->len = npy.len;
}

static void encode(void *arg, int64_t i, int worker)
{
	const struct task *t = arg;
	const struct output *o = t->o;
	struct done *d = &t->done[i];
	struct output_made *m = &d->made;
	char what[64];
	int64_t each = shown_elements(o);

	(void)worker;
	snprintf(what, sizeof what, "%s %s", o->picture_frames > 1 ? "clip" : "picture", t->item[i].name);
	if (sample_picture_of(&m->picture, o, t->x + i * each, what, &d->e) || !t->files)
		return;
	if (o->format == FORMAT_CLIP) {
		encode_clip(o, &m->picture, m);
	} else if (o->format == FORMAT_PNG) {
		struct still_text text[] = {{"Software", "ddm-sample " DDM_VERSION}, {"ddm", t->item[i].stamp}, {"Description", t->item[i].prompt}};

		still_encode_png(&m->picture, text, t->item[i].prompt ? 3 : 2, &m->data, &m->len, &d->e);
	} else if (o->format == FORMAT_WEBP) {
		still_encode_webp(&m->picture, &m->data, &m->len, &d->e);
	} else if (o->format == FORMAT_JPG) {
		still_encode_jpeg(&m->picture, JPEG_QUALITY, &m->data, &m->len, &d->e);
	}
}

/* Members in the order of their names: jpg, json, npy, png, txt, webp. */
static int add_members(struct output *o, const struct output_item *item, const void *data, size_t len, struct err *e)
{
	const char *ending = output_endings[o->format];
	int first = o->format == FORMAT_JPG, last = o->format == FORMAT_WEBP, rc = 0;

	if (first)
		rc = sink_add(&o->sink, item->name, ending, 1, data, len, e);
	if (!rc && o->format != FORMAT_PNG)
		rc = sink_add(&o->sink, item->name, "json", 0, item->stamp, strlen(item->stamp), e);
	if (!rc && !first && !last)
		rc = sink_add(&o->sink, item->name, ending, 1, data, len, e);
	if (!rc && item->prompt)
		rc = sink_add(&o->sink, item->name, "txt", 0, item->prompt, strlen(item->prompt), e);
	if (!rc && last)
		rc = sink_add(&o->sink, item->name, ending, 1, data, len, e);
	return rc;
}

int output_makes_files(const struct output *o)
{
	return o->sink.kind != SINK_NOTHING && o->sink.kind != SINK_NPZ;
}

int output_put(struct output *o, const struct output_item *item, const struct output_made *m, struct err *e)
{
	if (o->sink.kind == SINK_NPZ)
		return sink_rows(&o->sink, m->picture.pixels, (size_t)shown_elements(o), e);
	return output_makes_files(o) ? add_members(o, item, m->data, m->len, e) : 0;
}

static int make_latents(const struct output *o, int64_t n, const float *x, output_made_fn *fn, void *arg, struct err *e)
{
	const int64_t shape[4] = {o->frames, o->channels, o->size, o->size}, each = o->frames * o->channels * o->size * o->size;
	int clip = o->frames > 1;
	struct str s = {0};
	int rc = 0;

	for (int64_t i = 0; i < n && !rc; i++) {
		str_reset(&s);
		npy_encode(&s, NPY_F4, 3 + clip, shape + !clip, x + i * each);
		rc = fn(arg, i, &(struct output_made){.data = (uint8_t *)s.p, .len = s.len}, e);
	}
	str_release(&s);
	return rc;
}

static int make_pictures(struct output *o, int64_t n, const float *x, const struct output_item *item, int files, int64_t first, output_made_fn *fn,
                         void *arg, struct err *e)
{
	struct task t = {o, x, item, files, mem_zalloc((size_t)n, sizeof *t.done)};
	int rc = 0;

	pool_run(o->pool, n, encode, &t);
	for (int64_t i = 0; i < n; i++) {
		struct done *d = &t.done[i];

		if (!rc && d->e.code)
			rc = err_set(e, d->e.code, "%s", d->e.msg);
		if (!rc)
			rc = fn(arg, first + i, &d->made, e);
		picture_release(&d->made.picture);
		mem_free(d->made.data);
	}
	mem_free(t.done);
	return rc;
}

/* A clip that is being decoded. */
struct decoding {
	const struct output *o;
	float *x; /* (picture_frames, picture_channels, picture_size, picture_size) */
};

static int take_part(void *arg, const struct clip_part *p, const float *x, struct err *e)
{
	const struct decoding *d = arg;
	int64_t planes = p->frames * d->o->picture_channels, side = d->o->picture_size;

	(void)e;
	for (int64_t i = 0; i < planes; i++)
		for (int64_t y = 0; y < p->height; y++)
			memcpy(d->x + ((p->frame * d->o->picture_channels + i) * side + p->top + y) * side + p->left,
			       x + (i * p->height + y) * p->width, (size_t)p->width * sizeof *x);
	return 0;
}

/* Decode n samples: pictures all at once, clips one by one. */
static int decode_samples(struct output *o, int64_t n, const float *x, struct err *e)
{
	int64_t each = o->frames * o->channels * o->size * o->size;

	if (o->frames == 1)
		return autoencoder_decode(o->vae, n, x, o->size, o->size, o->tile, o->decoded, e);
	for (int64_t i = 0; i < n; i++) {
		struct decoding d = {o, o->decoded + i * shown_elements(o)};

		if (autoencoder_decode_clip(o->vae, o->frames, x + i * each, o->size, o->size, o->tile, take_part, &d, e))
			return -1;
	}
	return 0;
}

static int decode_pictures(struct output *o, int64_t n, float *x, const struct output_item *item, int files, output_made_fn *fn, void *arg,
                           struct err *e)
{
	int64_t each = o->frames * o->channels * o->size * o->size;

	autoencoder_unscale(autoencoder_config(o->vae), x, n * o->frames, o->size * o->size, x);
	for (int64_t at = 0; at < n; at += o->chunk) {
		int64_t k = n - at < o->chunk ? n - at : o->chunk;

		if (decode_samples(o, k, x + at * each, e) || make_pictures(o, k, o->decoded, item + at, files, at, fn, arg, e))
			return -1;
	}
	return 0;
}

int output_make(struct output *o, int64_t n, float *x, const struct output_item *item, int files, output_made_fn *fn, void *arg, struct err *e)
{
	if (o->format == FORMAT_LATENT)
		return make_latents(o, n, x, fn, arg, e);
	return o->vae ? decode_pictures(o, n, x, item, files, fn, arg, e) : make_pictures(o, n, x, item, files, 0, fn, arg, e);
}

int output_finish(struct output *o, struct err *e)
{
	return sink_finish(&o->sink, e);
}

void output_release(struct output *o, int keep)
{
	sink_close(&o->sink, keep);
	autoencoder_free(o->vae);
	mem_free(o->decoded);
}
