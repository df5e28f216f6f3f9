/* Computes the distances of predicted samples to the centroids of the clusters. */
#include "sample/distance.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cluster/centroids.h"
#include "cluster/features.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/str.h"
#include "data/motionfeat.h"
#include "diffusion/gallery.h"
#include "file/fileio.h"

enum { TOGETHER = 16 };            /* pictures that a network takes at a time */
enum { DECODED_PIXELS = 1 << 18 }; /* pixels decoded at a time */

/* The name of the features in the sidecar of a file of centroids, in new memory; "file" if it does not say. *input: the network's input convention;
 * -1 if it does not say. NULL and *e if it cannot be read. */
static char *features_of(const char *path, int *input, struct err *e)
{
	char *side = str_new("%s.json", path), *name = NULL;
	json_t *facts = path_exists(side) ? jsonio_load(side, e) : NULL;
	const char *text = json_string_value(json_object_get(facts, "features")), *in = json_string_value(json_object_get(facts, "input"));

	*input = -1;
	for (int i = 0; in && netinput_names[i]; i++)
		*input = strcmp(in, netinput_names[i]) ? *input : i;
	if (facts || !path_exists(side))
		name = mem_strdup(text ? text : "file");
	json_decref(facts);
	mem_free(side);
	return name;
}

/* Check that the features can be computed, and open their network. */
static int find_features(struct distance *c, const struct distance_source *s, struct featureset *f, int input, struct err *e)
{
	int own = c->hogcolor || !strcmp(f->name, "file"), pictures = s->vae || c->channels == 1 || c->channels == 3;

	if (strstr(f->name, "+" MOTION_NAME))
		return err_set(e, ERR_USAGE,
		               "%s: centroids of \"%s\": they hold the motion of clips, which routing by distance cannot compute; run ddm-cluster "
		               "without --motion",
		               s->path, f->name);
	if (own && s->features)
		return err_set(e, ERR_USAGE, "--features %s has no effect: %s holds centroids of \"%s\", which needs no network", s->features,
		               s->path, f->name);
	if (c->hogcolor && (s->vae || !pictures))
		return err_set(e, ERR_USAGE,
		               "%s: centroids of \"%s\", features of pictures, but the experts predict %s of %d channels: run ddm-cluster on the "
		               "latents, as .npy",
		               s->path, f->name, s->vae ? "latents" : "samples", c->channels);
	if (own)
		return 0;
	if (!s->features)
		return err_set(e, ERR_USAGE, "%s: centroids of \"%s\" features, which need their network: --features %s:PATH of ddm-sample", s->path,
		               f->name, f->name);
	if (!extractor_is_network(s->features))
		return err_set(e, ERR_USAGE, "--features %s: expected inception:PATH, dinov2:PATH or clip:PATH", s->features);
	if (strncmp(s->features, f->name, strlen(f->name)) || s->features[strlen(f->name)] != ':')
		return err_set(e, ERR_USAGE, "--features %s: %s holds centroids of \"%s\" features", s->features, s->path, f->name);
	if (!pictures)
		return err_set(e, ERR_USAGE, "--features %s: the experts predict latents of %d channels: give --vae DIR to decode them", s->features,
		               c->channels);
	if (!(c->network = extractor_open(s->features, &(struct extractor_options){input, s->device, compact_mapped(COMPACT_NONE, s->map)}, e)))
		return -1;
	f->d = c->network->dims[TAP_MAIN];
	snprintf(f->hash, sizeof f->hash, "%s", c->network->hash);
	c->latents = s->vae != NULL;
	return c->latents ? autoencoder_hash(s->vae, AUTOENCODER_DECODE, c->vae_hash, e) : 0;
}

int distance_load(struct distance *c, const struct distance_source *s, struct err *e)
{
	struct featureset f = {.d = (int64_t)s->channels * s->side * s->side};
	int input, rc;
	char *name = features_of(s->path, &input, e);

	if (!name)
		return -1;
	*c = (struct distance){.channels = s->channels, .side = s->side, .device = s->device, .hogcolor = !strcmp(name, FEATURES_HOGCOLOR)};
	f.name = name;
	f.d = c->hogcolor ? FEATURES_HOGCOLOR_DIM : f.d;
	rc = find_features(c, s, &f, input, e) || centroids_load(&c->centroids, c->hash, NULL, s->path, &f, c->network != NULL, 0, e) ? -1 : 0;
	if (!rc && c->centroids.k != s->k)
		rc = err_set(e, ERR_DATA, "%s: holds %d centroids, but the model has %d clusters", s->path, c->centroids.k, s->k);
	mem_free(name);
	return rc;
}

/* Set the size of the decoded pictures, and add the FLOPs of decoding one. */
static int find_decoder(struct distance *c, struct autoencoder *shared, const char *vae, enum compact_type bulk, double *flops, struct err *e)
{
	const struct autoencoder_config *a;
	double decoding;

	if (!shared && !(c->own_vae = autoencoder_open(vae, AUTOENCODER_DECODE, 1, bulk, c->device, e)))
		return -1;
	c->vae = shared ? shared : c->own_vae;
	a = autoencoder_config(c->vae);
	if (a->latent_channels != c->channels || (a->out_channels != 1 && a->out_channels != 3))
		return err_set(e, ERR_DATA,
		               "%s: the autoencoder decodes latents of %lld channels to %lld, but the experts make %d, and pictures have 1 or 3", vae,
		               (long long)a->latent_channels, (long long)a->out_channels, c->channels);
	c->width = c->side * autoencoder_factor(a);
	c->planes = a->out_channels;
	if (autoencoder_decode_flops(c->vae, c->side, c->side, &decoding, e))
		return -1;
	*flops += decoding;
	return 0;
}

int distance_ready(struct distance *c, struct autoencoder *shared, const char *vae, enum compact_type bulk, double *flops, struct err *e)
{
	int64_t most;

	*flops = 0;
	if (!c->network)
		return 0;
	*flops = c->network->flops;
	c->width = c->side;
	c->planes = c->channels;
	if (c->latents && find_decoder(c, shared, vae, bulk, flops, e))
		return -1;
	most = c->latents ? DECODED_PIXELS / (c->width * c->width) : TOGETHER;
	c->chunk = most < 1 ? 1 : most < TOGETHER ? most : TOGETHER;
	c->values = mem_alloc((size_t)(c->chunk * c->centroids.d) * sizeof *c->values);
	return !c->latents || ((c->decoded = mem_try((size_t)(c->chunk * c->planes * c->width * c->width), sizeof(float), "decoded pictures", e)) &&
	                       (c->row = mem_try((size_t)(c->chunk * c->channels * c->side * c->side), sizeof(float), "latents", e)))
	           ? 0
	           : -1;
}

void distance_release(struct distance *c)
{
	kmeans_release(&c->centroids);
	extractor_free(c->network);
	autoencoder_free(c->own_vae);
	mem_free(c->decoded);
	mem_free(c->row);
	mem_free(c->values);
	mem_free(c->bad);
	memset(c, 0, sizeof *c);
}

/* hogcolor of x0 (channels, side, side), as 8-bit pixels. */
static int picture_features(const struct distance *c, float *out, const float *x0, struct err *e)
{
	struct picture p;
	int rc;

	if (gallery_picture(&p, x0, c->channels, c->side, c->side, "a predicted sample", e))
		return -1;
	rc = features_hogcolor(out, &p, e);
	picture_release(&p);
	return rc;
}

static void to_centroids(const struct distance *c, double *squared, const float *x)
{
	int64_t d = c->centroids.d;
	double length2 = 0, scale;

	for (int64_t v = 0; v < d && c->centroids.cosine; v++)
		length2 += (double)x[v] * x[v];
	scale = length2 > 0 ? 1 / sqrt(length2) : 1; /* without a direction, all centroids are equally far */
	for (int k = 0; k < c->centroids.k; k++) {
		const float *m = c->centroids.centroids + k * d;
		double sum = c->centroids.offset[k];

		for (int64_t v = 0; v < d; v++)
			sum += (scale * x[v] - m[v]) * (scale * x[v] - m[v]);
		squared[k] = sum;
	}
}

/* Whether sample x is finite. The distances of one that is not are NaN. */
static int is_finite(const struct distance *c, double *squared, const float *x)
{
	for (int64_t v = 0; v < (int64_t)c->channels * c->side * c->side; v++)
		if (!isfinite(x[v])) {
			for (int k = 0; k < c->centroids.k; k++)
				squared[k] = NAN;
			return 0;
		}
	return 1;
}

struct job {
	const struct distance *c;
	double *squared;
	const float *x0;
};

static void measure(void *arg, int64_t i, int worker)
{
	const struct job *j = arg;
	const struct distance *c = j->c;
	const float *x = j->x0 + i * c->channels * c->side * c->side;
	double *squared = j->squared + i * c->centroids.k;
	float features[FEATURES_HOGCOLOR_DIM];

	(void)worker;
	c->bad[i].code = 0;
	if (!is_finite(c, squared, x) || (c->hogcolor && picture_features(c, features, x, &c->bad[i])))
		return;
	to_centroids(c, squared, c->hogcolor ? features : x);
}

/* *p = x (planes, width, width) as a picture of three channels, which networks take. */
static int colour_picture(const struct distance *c, struct picture *p, const float *x, struct err *e)
{
	struct picture grey;

	if (c->planes == 3)
		return gallery_picture(p, x, 3, c->width, c->width, "a predicted sample", e);
	if (gallery_picture(&grey, x, 1, c->width, c->width, "a predicted sample", e))
		return -1;
	if (!picture_alloc(p, grey.width, grey.height, 3, e))
		for (int64_t i = 0; i < 3 * c->width * c->width; i++)
			p->pixels[i] = grey.pixels[i / 3];
	picture_release(&grey);
	return p->pixels ? 0 : -1;
}

/* The distances of the n finite samples x0 [which], n <= c->chunk, by the network. */
static int measure_chunk(struct distance *c, double *squared, const float *x0, const int64_t *which, int n, struct err *e)
{
	int64_t each = (int64_t)c->channels * c->side * c->side, pixels = c->planes * c->width * c->width;
	struct picture p[TOGETHER] = {{0}};
	float *taps[TAPS] = {c->values};
	int rc = 0;

	for (int i = 0; i < n && c->latents; i++)
		memcpy(c->row + i * each, x0 + which[i] * each, (size_t)each * sizeof *x0);
	if (c->latents) {
		autoencoder_unscale(autoencoder_config(c->vae), c->row, n, c->side * c->side, c->row);
		if (autoencoder_decode(c->vae, n, c->row, c->side, c->side, 0, c->decoded, e))
			return -1;
	}
	for (int i = 0; i < n && !rc; i++)
		rc = colour_picture(c, &p[i], c->latents ? c->decoded + i * pixels : x0 + which[i] * each, e);
	if (!rc)
		rc = c->network->run(c->network, c->device->pool, taps, p, n, e);
	for (int i = 0; i < n; i++) {
		if (!rc)
			to_centroids(c, squared + which[i] * c->centroids.k, c->values + i * c->centroids.d);
		picture_release(&p[i]);
	}
	return rc;
}

static int measure_by_network(struct distance *c, double *squared, const float *x0, int64_t n, struct err *e)
{
	int64_t each = (int64_t)c->channels * c->side * c->side, which[TOGETHER];
	int held = 0, rc = 0;

	for (int64_t i = 0; i < n && !rc; i++) {
		if (is_finite(c, squared + i * c->centroids.k, x0 + i * each))
			which[held++] = i;
		if (held && (held == c->chunk || i + 1 == n)) {
			rc = measure_chunk(c, squared, x0, which, held, e);
			held = 0;
		}
	}
	return rc;
}

int distance_squared(void *arg, double *squared, const float *x0, int64_t n, struct err *e)
{
	struct distance *c = arg;
	struct job j = {c, squared, x0};
	int rc = 0;

	if (c->network)
		return measure_by_network(c, squared, x0, n, e);
	if (n > c->room)
		c->bad = mem_resize(c->bad, (size_t)(c->room = n), sizeof *c->bad);
	pool_run(c->device->pool, n, measure, &j);
	for (int64_t i = 0; i < n && !rc; i++)
		if (c->bad[i].code)
			rc = err_set(e, c->bad[i].code, "%s", c->bad[i].msg);
	return rc;
}
