/* Computes the embedding of a picture and rates it. */
#include "cmd/ingest_rating.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/pool.h"
#include "metric/aesthetic.h"
#include "metric/extractor.h"

struct rater {
	struct pool *pool;
	struct device *device; /* both its own: the pool of the program makes clips meanwhile */
	struct extractor *features;
	struct aesthetic predictor;
	float *embedding;
	pthread_mutex_t lock;
};

struct rater *rater_open(const char *features, const char *predictor, int threads, char hash[2][65], struct err *e)
{
	struct rater *r = mem_zalloc(1, sizeof *r);
	int dims;

	pthread_mutex_init(&r->lock, NULL);
	r->pool = pool_new(threads, e);
	if (r->pool) {
		r->device = device_cpu(r->pool, DT_F32);
		r->features = extractor_open(features, &(struct extractor_options){-1, r->device, COMPACT_NONE}, e);
	}
	if (!r->features || aesthetic_load(&r->predictor, predictor, e)) {
		rater_free(r);
		return NULL;
	}
	dims = r->features->dims[TAP_MAIN];
	if (dims != r->predictor.dims) {
		err_set(e, ERR_DATA, "%s rates embeddings of %d numbers, and those of %s have %d", predictor, r->predictor.dims, features, dims);
		rater_free(r);
		return NULL;
	}
	r->embedding = mem_alloc((size_t)dims * sizeof *r->embedding);
	memcpy(hash[0], r->features->hash, sizeof hash[0]);
	memcpy(hash[1], r->predictor.hash, sizeof hash[1]);
	return r;
}

void rater_free(struct rater *r)
{
	if (!r)
		return;
	aesthetic_release(&r->predictor);
	extractor_free(r->features);
	device_free(r->device);
	pool_free(r->pool);
	mem_free(r->embedding);
	pthread_mutex_destroy(&r->lock);
	mem_free(r);
}

int rater_rate(struct rater *r, double *rating, const struct picture *p, struct err *e)
{
	struct extractor *x = r->features;
	float *out[TAPS] = {[TAP_MAIN] = r->embedding};
	int rc;

	if (p->width < x->least || p->height < x->least)
		return err_set(e, ERR_DATA, "a picture of %d x %d pixels is too small for %s, which reads at least %d x %d", p->width, p->height,
		               x->name, x->least, x->least);
	pthread_mutex_lock(&r->lock);
	rc = x->run(x, r->pool, out, p, 1, e) || aesthetic_rate(rating, &r->predictor, r->embedding, e) ? -1 : 0;
	pthread_mutex_unlock(&r->lock);
	return rc;
}
