/* Encodes pictures into latents, and decodes latents into pictures. Clips go to encodingclips.c. */
#include <math.h>
#include <string.h>

#include "core/hash.h"
#include "core/mem.h"
#include "core/rng.h"
#include "data/encodingimpl.h"
#include "diffusion/gallery.h"

struct pixels_job {
	struct encoding_item *const *item;
	float *out;
	int flip;
};

static void pixels_task(void *arg, int64_t task, int worker)
{
	struct pixels_job *j = arg;
	const struct picture *p = &j->item[task]->picture;

	(void)worker;
	gallery_numbers(j->out + task * 3 * p->width * p->height, p, j->flip);
}

static int room(float **p, int64_t *have, int64_t want, const char *what, struct err *e)
{
	if (want <= *have)
		return 0;
	mem_free(*p);
	*p = mem_try((size_t)want, sizeof **p, what, e);
	*have = *p ? want : 0;
	return *p ? 0 : -1;
}

static int write_latent(const struct encoding *x, struct encoding_item *it, int flip, const float *moments, int64_t h, int64_t w)
{
	const struct autoencoder_config *c = autoencoder_config(x->vae);
	int64_t shape[3] = {c->latent_channels, h, w}, n = c->latent_channels * h * w;
	float *z = mem_alloc((size_t)n * sizeof *z), *noise = NULL;
	int posterior = autoencoder_has_posterior(c), rc;

	if (posterior && x->o.posterior == ENCODING_SAMPLE) {
		noise = mem_alloc((size_t)n * sizeof *noise);
		rng_normal(noise, (size_t)n, x->o.seed, RNG_LATENT, (uint64_t)flip, hash64(it->key, strlen(it->key)) >> 20);
	}
	autoencoder_latent(c, moments, noise, h * w, z);
	rc = encoding_array(&it->latent[flip], x->o.wide, 3, shape, z, it->key, &it->err);
	if (!rc && posterior && x->o.posterior == ENCODING_STD) {
		autoencoder_deviation(c, moments, h * w, z);
		rc = encoding_array(&it->std[flip], x->o.wide, 3, shape, z, it->key, &it->err);
	}
	mem_free(z);
	mem_free(noise);
	return rc;
}

/* n pictures of one size. */
static int encode_equal(struct encoding *x, struct encoding_item *const *item, int n, struct err *e)
{
	const struct autoencoder_config *c = autoencoder_config(x->vae);
	int64_t w = item[0]->picture.width, h = item[0]->picture.height, lw = w / x->factor, lh = h / x->factor;
	int64_t each = autoencoder_moments(c) * lw * lh;
	struct pixels_job j = {.item = item};

	if (room(&x->pixels, &x->room, n * 3 * w * h, "pictures", e) || room(&x->moments, &x->room_moments, n * each, "latents", e))
		return -1;
	j.out = x->pixels;
	for (j.flip = 0; j.flip <= x->o.flip; j.flip++) {
		pool_run(x->o.pool, n, pixels_task, &j);
		if (autoencoder_encode(x->vae, n, x->pixels, h, w, x->o.tile, x->moments, e) || x->o.device->error(x->o.device, e))
			return -1;
		for (int i = 0; i < n; i++)
			write_latent(x, item[i], j.flip, x->moments + i * each, lh, lw);
	}
	return 0;
}

/* ---- pictures of latents ---- */

struct png_job {
	struct encoding_item *const *item;
	const float *pixels;
	int height, width;
};

static void png_task(void *arg, int64_t task, int worker)
{
	struct png_job *j = arg;
	struct encoding_item *it = j->item[task];
	const float *in = j->pixels + task * 3 * j->height * j->width;
	uint8_t *png = NULL;
	struct picture p;
	size_t len;

	(void)worker;
	if (gallery_picture(&p, in, 3, j->height, j->width, it->key, &it->err))
		return;
	if (!still_encode_png(&p, NULL, 0, &png, &len, &it->err))
		str_add(&it->png, png, len);
	mem_free(png);
	picture_release(&p);
}

/* n latents of one size. */
static int decode_equal(struct encoding *x, struct encoding_item *const *item, int n, struct err *e)
{
	const struct autoencoder_config *c = autoencoder_config(x->vae);
	int64_t h = item[0]->zh, w = item[0]->zw, each = c->latent_channels * h * w, area = h * w * x->factor * x->factor;
	struct png_job j = {.item = item, .height = (int)(h * x->factor), .width = (int)(w * x->factor)};

	if (room(&x->moments, &x->room_moments, n * each, "latents", e) || room(&x->pixels, &x->room, n * 3 * area, "pictures", e))
		return -1;
	for (int i = 0; i < n; i++)
		autoencoder_unscale(c, item[i]->z, 1, h * w, x->moments + i * each);
	if (autoencoder_decode(x->vae, n, x->moments, h, w, x->o.tile, x->pixels, e) || x->o.device->error(x->o.device, e))
		return -1;
	j.pixels = x->pixels;
	pool_run(x->o.pool, n, png_task, &j);
	return 0;
}

/* A clip runs alone. */
static int run_clip(struct encoding *x, struct encoding_item *it, struct err *e)
{
	return (x->o.decode ? encoding_decode_clip : encoding_encode_clip)(x, it, e);
}

static int is_clip(const struct encoding_item *it)
{
	return it->clip.pixels || it->zf;
}

static int equal_size(const struct encoding_item *a, const struct encoding_item *b)
{
	return a->picture.width == b->picture.width && a->picture.height == b->picture.height && a->zh == b->zh && a->zw == b->zw;
}

/* The pictures between two clips may be of one run, as no result depends on that. */
int encoding_pictures(struct encoding *x, struct encoding_batch *b, struct err *e)
{
	int (*run_equal)(struct encoding *, struct encoding_item *const *, int, struct err *) = x->o.decode ? decode_equal : encode_equal;
	int64_t most = x->o.batch ? x->o.batch : ENCODING_PICTURES;
	struct encoding_item *run[ENCODING_AT_ONCE];
	int n = 0;

	for (int i = 0; i < b->n; i++) {
		struct encoding_item *it = &b->item[i];

		if (it->err.code)
			continue;
		if (is_clip(it)) {
			if (run_clip(x, it, e))
				return -1;
			continue;
		}
		if (n && (n == most || !equal_size(it, run[0]))) {
			if (run_equal(x, run, n, e))
				return -1;
			if (x->o.tell && x->o.tell(x->o.tell_arg))
				return err_set(e, ERR_AGAIN, "interrupted");
			n = 0;
		}
		run[n++] = it;
	}
	return n ? run_equal(x, run, n, e) : 0;
}
