/* Computes the distances of predicted samples to the centroids of the clusters. */
#include "sample/distance.h"

#include <math.h>
#include <string.h>

#include "cluster/centroids.h"
#include "cluster/features.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/str.h"
#include "diffusion/gallery.h"
#include "file/fileio.h"

/* The name of the features in the sidecar of a file of centroids, in new memory; "file" if it does not say. NULL and *e if it cannot be read. */
static char *features_of(const char *path, struct err *e)
{
	char *side = str_new("%s.json", path), *name = NULL;
	json_t *facts = path_exists(side) ? jsonio_load(side, e) : NULL;
	const char *text = json_string_value(json_object_get(facts, "features"));

	if (facts || !path_exists(side))
		name = mem_strdup(text ? text : "file");
	json_decref(facts);
	mem_free(side);
	return name;
}

int distance_load(struct distance *c, const char *path, int k, int channels, int side, int latents, struct pool *pool, struct err *e)
{
	struct featureset f = {.d = (int64_t)channels * side * side};
	char *name = features_of(path, e);
	int rc = -1;

	if (!name)
		return -1;
	*c = (struct distance){.channels = channels, .side = side, .pool = pool, .hogcolor = !strcmp(name, FEATURES_HOGCOLOR)};
	f.name = name;
	f.d = c->hogcolor ? FEATURES_HOGCOLOR_DIM : f.d;
	if (c->hogcolor && (latents || (channels != 1 && channels != 3)))
		err_set(e, ERR_USAGE,
		        "%s: centroids of \"%s\", features of pictures, but the experts predict %s of %d channels: cluster the latents, as .npy",
		        path, name, latents ? "latents" : "samples", channels);
	else if (!c->hogcolor && strcmp(name, "file"))
		err_set(e, ERR_USAGE,
		        "%s: centroids of \"%s\" features, which take a network that the ensemble does not have: distances are of %s or of the "
		        "values of samples",
		        path, name, FEATURES_HOGCOLOR);
	else
		rc = centroids_load(&c->centroids, c->hash, path, &f, 0, 0, e);
	if (!rc && c->centroids.k != k)
		rc = err_set(e, ERR_DATA, "%s: holds %d centroids, but the model has %d clusters", path, c->centroids.k, k);
	mem_free(name);
	return rc;
}

void distance_release(struct distance *c)
{
	kmeans_release(&c->centroids);
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

struct job {
	const struct distance *c;
	double *squared;
	const float *x0;
	struct err *bad; /* (n) */
};

static void measure(void *arg, int64_t i, int worker)
{
	const struct job *j = arg;
	const struct distance *c = j->c;
	int64_t d = c->centroids.d, values = (int64_t)c->channels * c->side * c->side;
	const float *x = j->x0 + i * values;
	float features[FEATURES_HOGCOLOR_DIM];
	double length2 = 0, scale;

	(void)worker;
	j->bad[i].code = 0;
	for (int64_t v = 0; v < values; v++)
		if (!isfinite(x[v])) {
			for (int k = 0; k < c->centroids.k; k++)
				j->squared[i * c->centroids.k + k] = NAN;
			return;
		}
	if (c->hogcolor && picture_features(c, features, x, &j->bad[i]))
		return;
	x = c->hogcolor ? features : x;
	for (int64_t v = 0; v < d && c->centroids.cosine; v++)
		length2 += (double)x[v] * x[v];
	scale = length2 > 0 ? 1 / sqrt(length2) : 1; /* without a direction, all centroids are equally far */
	for (int k = 0; k < c->centroids.k; k++) {
		const float *m = c->centroids.centroids + k * d;
		double sum = c->centroids.offset[k];

		for (int64_t v = 0; v < d; v++)
			sum += (scale * x[v] - m[v]) * (scale * x[v] - m[v]);
		j->squared[i * c->centroids.k + k] = sum;
	}
}

int distance_squared(void *arg, double *squared, const float *x0, int64_t n, struct err *e)
{
	struct distance *c = arg;
	struct job j = {c, squared, x0, mem_alloc((size_t)n * sizeof *j.bad)};
	int rc = 0;

	pool_run(c->pool, n, measure, &j);
	for (int64_t i = 0; i < n && !rc; i++)
		if (j.bad[i].code)
			rc = err_set(e, j.bad[i].code, "%s", j.bad[i].msg);
	mem_free(j.bad);
	return rc;
}
