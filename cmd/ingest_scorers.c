/* Runs the networks that score pictures. */
#include "cmd/ingest_scorers.h"

#include <pthread.h>
#include <string.h>

#include "core/mem.h"
#include "core/pool.h"
#include "data/textarea.h"
#include "file/filehash.h"
#include "metric/aesthetic.h"
#include "metric/extractor.h"

struct scorers {
	struct pool *pool; /* not that of the program, which makes clips meanwhile */
	struct device *device;
	struct textarea *text;      /* NULL: no score `text` */
	struct extractor *features; /* NULL: no score `aesthetic` */
	struct aesthetic predictor;
	float *embedding;
	pthread_mutex_t lock;
};

static int text_open(struct scorers *s, const char *path, struct ingest_nets *nets, struct err *e)
{
	if (filehash(path, nets->text, e))
		return -1;
	s->text = textarea_open(path, s->device, e);
	return s->text ? 0 : -1;
}

static int rating_open(struct scorers *s, const struct ingest_request *r, struct ingest_nets *nets, struct err *e)
{
	int dims;

	s->features = extractor_open(r->features, &(struct extractor_options){-1, s->device, COMPACT_NONE}, e);
	if (!s->features || aesthetic_load(&s->predictor, r->aesthetic, e))
		return -1;
	dims = s->features->dims[TAP_MAIN];
	if (dims != s->predictor.dims)
		return err_set(e, ERR_DATA, "%s rates embeddings of %d numbers, and those of %s have %d", r->aesthetic, s->predictor.dims,
		               r->features, dims);
	s->embedding = mem_alloc((size_t)dims * sizeof *s->embedding);
	memcpy(nets->features, s->features->hash, sizeof nets->features);
	memcpy(nets->aesthetic, s->predictor.hash, sizeof nets->aesthetic);
	return 0;
}

struct scorers *scorers_open(const struct ingest_request *r, struct ingest_nets *nets, struct err *e)
{
	struct scorers *s = mem_zalloc(1, sizeof *s);

	pthread_mutex_init(&s->lock, NULL);
	s->pool = pool_new((int)r->threads, e);
	if (s->pool)
		s->device = device_cpu(s->pool, DT_F32);
	if (s->pool && !(r->text && text_open(s, r->text, nets, e)) && !(r->aesthetic && rating_open(s, r, nets, e)))
		return s;
	scorers_free(s);
	return NULL;
}

void scorers_free(struct scorers *s)
{
	if (!s)
		return;
	aesthetic_release(&s->predictor);
	extractor_free(s->features);
	textarea_free(s->text);
	device_free(s->device);
	pool_free(s->pool);
	mem_free(s->embedding);
	pthread_mutex_destroy(&s->lock);
	mem_free(s);
}

static int rate(struct scorers *s, double *rating, const struct picture *p, struct err *e)
{
	struct extractor *x = s->features;
	float *out[TAPS] = {[TAP_MAIN] = s->embedding};

	if (p->width < x->least || p->height < x->least)
		return err_set(e, ERR_DATA, "a picture of %d x %d pixels is too small for %s, which reads at least %d x %d", p->width, p->height,
		               x->name, x->least, x->least);
	return x->run(x, s->pool, out, p, 1, e) || aesthetic_rate(rating, &s->predictor, s->embedding, e) ? -1 : 0;
}

int scorers_put(struct scorers *s, json_t *facts, const struct picture *p, struct err *e)
{
	double text = 0, rating = 0;
	int rc = 0;

	if (!s)
		return 0;
	pthread_mutex_lock(&s->lock);
	if (s->text)
		rc = textarea_score(s->text, &text, p, e);
	if (!rc && s->features)
		rc = rate(s, &rating, p, e);
	pthread_mutex_unlock(&s->lock);
	if (!rc && s->text)
		json_object_set_new(facts, "text", score_number(text));
	if (!rc && s->features)
		json_object_set_new(facts, "aesthetic", score_number(rating));
	return rc;
}
