/* Loads the aesthetic predictor and scores CLIP embeddings. */
#include "metric/aesthetic.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "file/weightfile.h"

enum { LAYERS = 64, WIDEST = 65536 };

static float *values(struct weightfile *w, int i, struct err *e)
{
	float *v = mem_try((size_t)st_count(weightfile_get(w, i)), sizeof *v, "a layer", e);

	if (v && !weightfile_f32(w, i, v, e))
		return v;
	mem_free(v);
	return NULL;
}

/* Prepend a layer (W, b) to the layers already in a: bias <- bias + weight b, weight <- weight W. */
static int prepend(struct aesthetic *a, struct weightfile *w, const char *path, int layer, struct err *e)
{
	char name[64], bias_name[64];
	const struct st_tensor *t;
	float *m = NULL, *b = NULL;
	double *next = NULL;
	int i, j, rc = -1;

	snprintf(name, sizeof name, "layers.%d.weight", layer);
	snprintf(bias_name, sizeof bias_name, "layers.%d.bias", layer);
	if ((i = weightfile_need(w, name, -1, NULL, e)) < 0)
		return -1;
	t = weightfile_get(w, i);
	if (t->rank != 2 || t->shape[0] != a->dims || t->shape[1] < 1 || t->shape[1] > WIDEST)
		return err_set(e, ERR_DATA, "%s: %s does not fit the layer after it, which takes %d numbers", path, name, a->dims);
	j = weightfile_need(w, bias_name, 1, t->shape, e);
	if (j >= 0 && (m = values(w, i, e)) && (b = values(w, j, e))) {
		next = mem_zalloc((size_t)t->shape[1], sizeof *next);
		for (int64_t o = 0; o < a->dims; o++) {
			a->bias += a->weight[o] * (double)b[o];
			for (int64_t k = 0; k < t->shape[1]; k++)
				next[k] += a->weight[o] * (double)m[o * t->shape[1] + k];
		}
		mem_free(a->weight);
		a->weight = next;
		a->dims = (int)t->shape[1];
		rc = 0;
	}
	mem_free(m);
	mem_free(b);
	return rc;
}

int aesthetic_load(struct aesthetic *a, const char *path, struct err *e)
{
	struct weightfile *w = weightfile_open(path, NULL, e);
	int rc = w ? weightfile_hash(w, a->hash, e) : err_lacking(e, "aesthetic"), layers = 0;

	a->weight = mem_alloc(sizeof *a->weight);
	*a->weight = 1;
	a->bias = 0;
	a->dims = 1;
	for (int i = LAYERS; i-- && !rc;) {
		char name[64];

		snprintf(name, sizeof name, "layers.%d.weight", i);
		if (weightfile_find(w, name) >= 0 && !(rc = prepend(a, w, path, i, e)))
			layers++;
	}
	if (!rc && !layers)
		rc = err_set(e, ERR_DATA, "%s is not an aesthetic predictor: it has no layers.0.weight", path);
	weightfile_free(w);
	if (rc)
		aesthetic_release(a);
	return rc;
}

void aesthetic_release(struct aesthetic *a)
{
	mem_free(a->weight);
	*a = (struct aesthetic){0};
}

int aesthetic_rate(double *score, const struct aesthetic *a, const float *x, struct err *e)
{
	double length = 0, v = 0;

	for (int k = 0; k < a->dims; k++) {
		length += (double)x[k] * (double)x[k];
		v += (double)x[k] * a->weight[k];
	}
	if (!(length > 0))
		return err_set(e, ERR_DATA, "aesthetic: the embedding of a picture is zero");
	*score = v / sqrt(length) + a->bias;
	return 0;
}

int aesthetic_score(double *mean, double *se, const struct aesthetic *a, const float *x, int64_t n, struct err *e)
{
	double sum = 0, squares = 0;

	if (n < 2)
		return err_set(e, ERR_USAGE, "aesthetic needs at least 2 samples, not %lld", (long long)n);
	for (int64_t i = 0; i < n; i++, x += a->dims) {
		double v;

		if (aesthetic_rate(&v, a, x, e))
			return -1;
		squares += i ? (v - sum / (double)i) * (v - sum / (double)i) * (double)i / (double)(i + 1) : 0;
		sum += v;
	}
	*mean = sum / (double)n;
	*se = sqrt(squares / (double)(n - 1) / (double)n);
	return 0;
}
