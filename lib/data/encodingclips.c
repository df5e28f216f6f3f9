/* Encodes clips of pixels into latents, and decodes latents into clips, frame by frame as the autoencoder asks for them. A clip is a KEY.npy of four
 * dimensions (F, C, H, W), of bytes if it holds pixels. */
#include <math.h>
#include <string.h>

#include "core/hash.h"
#include "core/mem.h"
#include "core/rng.h"
#include "core/str.h"
#include "data/encodingimpl.h"
#include "diffusion/gallery.h"
#include "file/frames.h"
#include "file/resize.h"

/* ---- pixels ---- */

int encoding_find_clip(struct encoding_item *it, const struct sample *s)
{
	const struct sample_member *m = sample_find(s, "npy");
	char *name;
	struct npy a;
	int is;

	if (!m || npy_parse(&a, m->data, m->len, s->key, &(struct err){0}))
		return 0;
	if ((is = clip_is(&a))) {
		name = str_new("%s: \"%s\"", s->origin, s->key);
		clip_of(&it->clip, &a, name, &it->err);
		mem_free(name);
	}
	npy_release(&a); /* the bytes are those of the member, which stays */
	return is;
}

/* Frame i, reduced to its centre square or cropped as a picture is. Release with picture_release. */
static int cropped_frame(const struct encoding *x, const struct encoding_item *it, int64_t i, struct picture *out, struct err *e)
{
	const struct clip *c = &it->clip;
	int64_t least = c->height < c->width ? c->height : c->width;
	struct picture p;
	int rc;

	if (clip_frame(&p, c, (int)i, 3, e))
		return -1;
	if (x->o.size && (c->height != x->o.size || c->width != x->o.size)) {
		rc = picture_square(out, &p, (int)x->o.size, x->o.size < least ? RESIZE_LANCZOS : RESIZE_BICUBIC, e);
		picture_release(&p);
		return rc;
	}
	if (encoding_crop(&p, (int)x->factor, it->key, e)) {
		picture_release(&p);
		return -1;
	}
	*out = p;
	return 0;
}

struct reading {
	struct encoding *x;
	const struct encoding_item *it;
	int flip;
};

/* 1 and ERR_AGAIN if the user or another rank wants to stop. */
static int interrupted(struct encoding *x, struct err *e)
{
	return x->o.tell && x->o.tell(x->o.tell_arg) ? err_set(e, ERR_AGAIN, "interrupted"), 1 : 0;
}

static int read_part(void *arg, const struct clip_part *p, float *x, struct err *e)
{
	const struct reading *r = arg;
	struct picture whole;
	int64_t n;
	float *v;

	if (interrupted(r->x, e) || cropped_frame(r->x, r->it, p->frame, &whole, e))
		return -1;
	n = (int64_t)whole.width * whole.height;
	v = p->height * p->width == n ? x : mem_try((size_t)(3 * n), sizeof *v, "a frame", e);
	if (v)
		gallery_numbers(v, &whole, r->flip);
	for (int64_t c = 0; v && v != x && c < 3; c++)
		for (int64_t y = 0; y < p->height; y++)
			memcpy(x + (c * p->height + y) * p->width, v + c * n + (p->top + y) * whole.width + p->left, (size_t)p->width * sizeof *x);
	if (v != x)
		mem_free(v);
	picture_release(&whole);
	return v ? 0 : -1;
}

/* ---- latents ---- */

/* Make the members of one direction from the moments (frames, autoencoder_moments, h, w). */
static void write_latents(const struct encoding *x, struct encoding_item *it, int flip, const float *moments, int64_t frames, int64_t h, int64_t w)
{
	const struct autoencoder_config *c = autoencoder_config(x->vae);
	int64_t one = c->latent_channels * h * w, each = autoencoder_moments(c) * h * w, shape[4] = {frames, c->latent_channels, h, w};
	float *z = mem_try((size_t)(frames * one), sizeof *z, "latents", &it->err), *noise = NULL;
	int posterior = autoencoder_has_posterior(c);

	if (z && posterior && x->o.posterior == ENCODING_SAMPLE && (noise = mem_try((size_t)(frames * one), sizeof *noise, "noise", &it->err)))
		rng_normal(noise, (size_t)(frames * one), x->o.seed, RNG_LATENT, (uint64_t)flip, hash64(it->key, strlen(it->key)) >> 20);
	for (int64_t i = 0; i < frames && !it->err.code; i++)
		autoencoder_latent(c, moments + i * each, noise ? noise + i * one : NULL, h * w, z + i * one);
	if (!it->err.code)
		encoding_array(&it->latent[flip], x->o.wide, 4, shape, z, it->key, &it->err);
	if (!it->err.code && posterior && x->o.posterior == ENCODING_STD) {
		for (int64_t i = 0; i < frames; i++)
			autoencoder_deviation(c, moments + i * each, h * w, z + i * one);
		encoding_array(&it->std[flip], x->o.wide, 4, shape, z, it->key, &it->err);
	}
	mem_free(z);
	mem_free(noise);
}

/* Height and width of the frames that are encoded. An error is the item's. */
static int size_of(const struct encoding *x, struct encoding_item *it, int64_t *h, int64_t *w)
{
	struct picture first;

	if (cropped_frame(x, it, 0, &first, &it->err))
		return -1;
	*h = first.height;
	*w = first.width;
	picture_release(&first);
	return 0;
}

int encoding_encode_clip(struct encoding *x, struct encoding_item *it, struct err *e)
{
	const struct autoencoder_config *c = autoencoder_config(x->vae);
	int64_t frames = autoencoder_latent_frames(c, it->clip.frames), h, w, each;
	struct reading r = {x, it, 0};
	float *moments;
	int rc = 0;

	if (size_of(x, it, &h, &w))
		return 0;
	each = autoencoder_moments(c) * (h / x->factor) * (w / x->factor);
	if (!(moments = mem_try((size_t)(frames * each), sizeof *moments, "latents", e)))
		return -1;
	for (r.flip = 0; r.flip <= x->o.flip && !rc && !it->err.code; r.flip++) {
		rc =
		    autoencoder_encode_clip(x->vae, it->clip.frames, h, w, x->o.tile, read_part, &r, moments, e) || x->o.device->error(x->o.device, e)
			? -1
			: 0;
		if (!rc)
			write_latents(x, it, r.flip, moments, frames, h / x->factor, w / x->factor);
	}
	mem_free(moments);
	return rc;
}

/* ---- clips of latents ---- */

struct writing {
	struct encoding *x;
	const char *key;
	uint8_t *pixels; /* (frames, 3, height, width) */
	int64_t height, width;
};

static int write_part(void *arg, const struct clip_part *p, const float *x, struct err *e)
{
	const struct writing *w = arg;

	if (interrupted(w->x, e))
		return -1;
	for (int64_t i = 0; i < p->frames * 3 * p->height; i++) {
		int64_t plane = p->frame * 3 + i / p->height, y = p->top + i % p->height;
		uint8_t *to = w->pixels + (plane * w->height + y) * w->width + p->left;

		for (int64_t j = 0; j < p->width; j++) {
			double v = floor((x[i * p->width + j] + 1.) * 127.5 + .5);

			if (!isfinite(v))
				return err_set(e, ERR_FAIL, "%s: not finite", w->key);
			to[j] = (uint8_t)fmin(fmax(v, 0), 255);
		}
	}
	return 0;
}

int encoding_decode_clip(struct encoding *x, struct encoding_item *it, struct err *e)
{
	const struct autoencoder_config *c = autoencoder_config(x->vae);
	int64_t h = it->zh * x->factor, w = it->zw * x->factor, shape[4] = {autoencoder_clip_frames(c, it->zf), 3, h, w};
	struct writing out = {x, it->key, NULL, h, w};
	struct err why = {0};
	int rc;

	if (!(out.pixels = mem_try((size_t)(shape[0] * 3 * h), (size_t)w, "a decoded clip", e)))
		return -1;
	autoencoder_unscale(c, it->z, it->zf, it->zh * it->zw, it->z);
	rc =
	    autoencoder_decode_clip(x->vae, it->zf, it->z, it->zh, it->zw, x->o.tile, write_part, &out, &why) || x->o.device->error(x->o.device, &why)
		? -1
		: 0;
	if (!rc)
		npy_encode(&it->latent[0], NPY_U1, 4, shape, out.pixels);
	mem_free(out.pixels);
	if (rc && why.code == ERR_FAIL) { /* the latents' fault */
		it->err = why;
		return 0;
	}
	return rc ? err_set(e, why.code, "%s", why.msg) : 0;
}
