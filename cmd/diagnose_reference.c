/* Loads the shards or the law that ddm-diagnose measures a model against. */
#include "cmd/diagnose_reference.h"

#include <string.h>

#include "cmd/cmd.h"
#include "core/mem.h"
#include "core/rng.h"
#include "data/dataset.h"
#include "data/operand.h"
#include "diffusion/finite.h"
#include "diffusion/lawmodel.h"
#include "diffusion/velocityloss.h"
#include "file/fileio.h"

/* 1 if the folder is a model with an exact router. */
static int has_exact_router(const char *path)
{
	char *router = path_join(path, "router");
	struct model_config c = {0};
	int yes =
	    !path_holds(path, "MANIFEST.tsv") && path_holds(router, "config.json") && !model_config_load(router, &c, NULL) && net_is_exact(&c.net);

	model_config_release(&c);
	mem_free(router);
	return yes;
}

static int find_law(struct diagnose_reference *r, const char *path, const struct diagnose_reference_options *o, struct err *e)
{
	char *router = path_join(path, "router");
	int rc = -1;

	if ((r->model = law_model_open(router, o->pool, r->hash, e)))
		rc = (r->g = law_model_gaussians(r->model))
		         ? 0
		         : err_set(e, ERR_DATA, "%s: is a model of samples: give the shards that ddm-exact made it from", path);
	mem_free(router);
	return rc;
}

int diagnose_reference_find(struct diagnose_reference *r, const char *path, const struct diagnose_reference_options *o, struct err *e)
{
	if (has_exact_router(path))
		return find_law(r, path, o, e);
	return operand_shards(path, e);
}

void diagnose_reference_stamp(const struct diagnose_reference *r, struct stamp *s)
{
	stamp_input(s, r->g ? "law" : "shards", r->g ? r->hash : r->manifest.sha256);
}

static int check_size(const char *path, const struct ensemble *s, int64_t channels, int64_t size, struct err *e)
{
	if (channels == s->channels && size == s->size)
		return 0;
	return err_set(e, ERR_DATA, "%s: samples of %lld x %lld x %lld, but the model is of %lld x %lld x %lld", path, (long long)channels,
	               (long long)size, (long long)size, (long long)s->channels, (long long)s->size, (long long)s->size);
}

/* A model with one expert is compared with the whole law; so is one whose clusters are others. */
static int match_law(struct diagnose_reference *r, const char *path, const struct ensemble *s, struct err *e)
{
	const struct model_config *c = law_model_config(r->model);

	if (check_size(path, s, c->net.channels, c->net.size, e))
		return -1;
	r->law = law_model_law(r->model);
	r->whole = s->k == 1 || s->k != r->law->clusters || strcmp(s->partition, c->partition) != 0;
	return 0;
}

static int load_shards(struct diagnose_reference *r, const char *path, const struct ensemble *s, const struct diagnose_reference_options *o,
                       struct err *e)
{
	struct gather_options from = {
	    .cluster = DATASET_ALL, .part = SAMPLES_TRAIN, .size = (int)s->size, .channels = s->channels == 1, .verify = o->verify, .pool = o->pool};
	struct gathered *g = &r->train;
	struct finite_set set;

	if (gather(g, path, &from, e))
		return -1;
	if (o->holdout) {
		from.part = SAMPLES_HOLDOUT;
		if (gather(&r->items, path, &from, e))
			return -1;
	}
	if (check_size(path, s, g->channels, g->size, e))
		return -1;
	if (o->holdout && (r->items.d != g->d || r->items.bytes != g->bytes))
		return check_size(path, s, r->items.channels, r->items.size, e)
		           ? -1
		           : err_set(e, ERR_DATA, "%s: training and held-out samples differ in kind", path);
	if (s->k != 1 && s->k != g->clusters)
		return err_set(e, ERR_DATA, "%s: %d clusters, but the model has %d", path, g->clusters, s->k);
	for (int k = 0; s->sized && s->k == g->clusters && k < s->k; k++)
		if (s->shares[k] != (double)g->sizes[k]) {
			cmd_warn("%s: cluster %d has %lld samples, but the model was trained on %.0f: not its training data", path, k,
			         (long long)g->sizes[k], s->shares[k]);
			break;
		}
	r->first[1] = g->n;
	set = (struct finite_set){g->n, g->d, g->sample, g->bytes, s->k, s->k == 1 ? r->first : g->first, NULL};
	r->law = r->samples = finite_new(&set, o->pool, e);
	return r->law ? 0 : -1;
}

int diagnose_reference_match(struct diagnose_reference *r, const char *path, const struct ensemble *s, struct err *e)
{
	return r->g ? match_law(r, path, s, e) : manifest_load(&r->manifest, path, e);
}

int diagnose_reference_load(struct diagnose_reference *r, const char *path, const struct ensemble *s, const struct diagnose_reference_options *o,
                            struct err *e)
{
	return r->g ? 0 : load_shards(r, path, s, o, e);
}

/* Sample `index` into x0 (d): of the shards in an order that the seed gives, of a law a new one. Returns its cluster. */
static int draw_sample(const struct diagnose_reference *r, uint64_t seed, uint64_t index, float *x0)
{
	const struct gathered *g = r->items.n ? &r->items : &r->train;
	uint64_t n = (uint64_t)g->n;
	int64_t pick;

	if (r->g)
		return gaussians_draw(r->g, seed, RNG_METRIC, index, x0);
	pick = (int64_t)rng_permute(index % n, n, seed, RNG_METRIC, index / n);
	gathered_sample(g, pick, x0);
	return gathered_cluster(g, pick);
}

int diagnose_reference_state(const struct diagnose_reference *r, uint64_t seed, uint64_t index, float t, int64_t d, float *x0, float *eps, float *x,
                             float *target)
{
	int own = draw_sample(r, seed, index, x0);

	velocity_state(d, x0, t, seed, index, eps, x, target);
	return own;
}

void diagnose_reference_release(struct diagnose_reference *r)
{
	law_free(r->samples);
	law_model_free(r->model);
	gathered_release(&r->train);
	gathered_release(&r->items);
	manifest_release(&r->manifest);
	*r = (struct diagnose_reference){0};
}
