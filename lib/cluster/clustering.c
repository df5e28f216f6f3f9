/* Clusters samples for a request: reads samples and features, makes the partition, and fills the report. */
#include "cluster/clustering.h"

#include <math.h>
#include <string.h>

#include "cluster/centroids.h"
#include "cluster/clipmotion.h"
#include "cluster/clusteringimpl.h"
#include "cluster/features.h"
#include "cluster/randomshares.h"
#include "cluster/soft.h"
#include "core/extends.h"
#include "core/mem.h"
#include "data/partition.h"
#include "file/claim.h"
#include "file/fileio.h"

#define WORTH_A_GPU 1e10 /* samples x features x clusters from which a GPU is worth its start */

static enum features_kind features_kind(const struct cluster_request *r)
{
	if (clustering_is_blind(r))
		return FEATURES_NONE;
	if (r->network)
		return FEATURES_MEASURE;
	return !strcmp(r->features, "hogcolor") || !strcmp(r->features, FEATURES_HOGCOLOR) ? FEATURES_COMPUTE : FEATURES_FILE;
}

/* Check the rules of the options, for requests that a C program filled; command lines were checked before. */
static int check_request(const struct cluster_request *r, struct err *e)
{
	int blind = clustering_is_blind(r);

	if (r->rate && (r->by || blind || r->k || r->centroids || r->fine || r->balance > 0 || r->holdout > 0 || r->seeds))
		return err_set(e, ERR_USAGE, "--rate measures given clusters by features: it cannot be combined with options that make clusters");
	if ((r->soft || r->margin > 0) && (r->by || r->rate || r->soft < 2 || r->soft > ASSIGNMENT_CLUSTERS))
		return err_set(e, ERR_USAGE, "--soft M needs clusters with centroids or at random, and M from 2 to %d", ASSIGNMENT_CLUSTERS);
	if (r->margin > 0 && blind)
		return err_set(e, ERR_USAGE, "--margin needs distances, which --features random has not");
	if (r->seeds && (r->by || blind || r->centroids))
		return err_set(e, ERR_USAGE, "--seeds needs clusters that are fitted to features");
	if (r->distance && (r->by || blind || r->centroids))
		return err_set(e, ERR_USAGE, "--distance is of features, and --centroids has its own");
	if (r->extend && (r->by || r->rate || blind || r->centroids || r->fine || r->balance > 0 || r->soft || r->seeds || r->distance ||
	                  r->method != METHOD_KMEANS))
		return err_set(e, ERR_USAGE,
		               "--extend adds clusters of k-means to given centroids: it cannot be combined with other ways to cluster");
	if (r->keep && !r->extend && !r->by)
		return err_set(e, ERR_USAGE, "--keep needs --extend or --by");
	if (r->motion > 0 && (r->motion >= 1 || r->by || r->centroids || r->extend || r->distance || features_kind(r) != FEATURES_COMPUTE))
		return err_set(e, ERR_USAGE,
		               "--motion is a share below 1 of the variance of hogcolor features by l2; --centroids and --extend have their own");
	if (r->by || r->rate)
		return 0;
	if (!r->k && !r->centroids && !r->like)
		return err_set(e, ERR_USAGE, "-k is missing: give the number of clusters");
	if (r->centroids && (r->fine || r->balance > 0 || blind))
		return err_set(e, ERR_USAGE, "--centroids fixes the clusters: it cannot be combined with --fine, --balance or --features random");
	if (blind && (r->fine || r->balance > 0 || r->centroids_out))
		return err_set(e, ERR_USAGE, "--features random has no centroids: it cannot be combined with --fine, --balance or --centroids-out");
	if (r->like && !blind)
		return err_set(e, ERR_USAGE, "--like needs --features random");
	if (r->method != METHOD_KMEANS && (r->centroids || blind))
		return err_set(e, ERR_USAGE, "--method cannot be combined with --centroids or --features random");
	if (r->method != METHOD_KMEANS && (r->balance > 0 || r->distance))
		return err_set(e, ERR_USAGE, "--balance and --distance cosine are for --method kmeans");
	return 0;
}

static int read_samples(struct clustering *c, struct err *e)
{
	const struct cluster_request *r = c->r;
	const char *old = r->centroids ? r->centroids : r->extend;
	struct samples_options so = {.skip_bad = r->skip_bad,
	                             .max_errors = r->max_errors,
	                             .nul_list = r->nul_list,
	                             .once = !r->sheet,
	                             .clips = features_kind(r) == FEATURES_COMPUTE,
	                             .spool = r->spool,
	                             .bad = r->bad,
	                             .bad_arg = r->arg};
	struct featureset_options fo = {.kind = features_kind(r),
	                                .motion = r->motion > 0,
	                                .measure = &c->network,
	                                .file = r->features,
	                                .holdout = r->holdout,
	                                .holdout_by_dir = r->holdout_by,
	                                .value = r->by ? grouping_value : NULL,
	                                .pool = r->pool,
	                                .progress = r->progress};

	if ((r->rate && clustering_open_rated(c, e)) || (r->against && clustering_open_against(c, e)))
		return -1;
	if (r->by && !(fo.value_arg = c->groups = grouping_open(r->by, r->table, e)))
		return -1;
	if (fo.kind == FEATURES_MEASURE && r->network(r->arg, &c->network, e))
		return -1;
	if (fo.kind == FEATURES_FILE && !path_exists(r->features))
		return err_set(e, ERR_NOINPUT,
		               "--features %s: no such file; expected hogcolor, random, dinov2:PATH, clip:PATH, inception:PATH or a .npy",
		               r->features);
	if (fo.kind == FEATURES_COMPUTE && old && centroids_motion(&c->motion_scale, old, e))
		return -1;
	fo.motion |= c->motion_scale > 0;
	c->samples = samples_open(r->sources, r->nsources, &so, e);
	if (!c->samples || featureset_read(&c->f, c->samples, &fo, e))
		return -1;
	if (fo.motion && clipmotion_scale(&c->f, &c->motion_scale, r->motion, e))
		return -1;
	if (r->distance && featureset_unit(&c->f, r->pool, e))
		return -1;
	samples_digest(c->samples, c->samples_hash);
	return 0;
}

void clustering_new_parts(struct clustering *c)
{
	for (int h = 0; h < 2; h++) {
		c->cluster[h] = mem_zalloc((size_t)c->f.count[h], sizeof *c->cluster[h]);
		c->distance[h] = mem_zalloc((size_t)c->f.count[h], sizeof *c->distance[h]);
	}
}

int clustering_of(const struct clustering *c, int64_t i)
{
	return c->cluster[c->f.held[i]][c->f.row[i]];
}

static int partition_by_fact(struct clustering *c, struct err *e)
{
	const struct cluster_request *r = c->r;
	int32_t *cluster = mem_zalloc((size_t)c->f.n, sizeof *cluster);
	int rc = grouping_number(c->groups, c->f.value, c->f.n, samples_class_names(c->samples), cluster, &c->names, e);

	if (!rc && r->keep)
		rc = clustering_extend_names(c, cluster, e);
	c->m.k = (int)json_array_size(c->names);
	if (!rc && r->k && r->k != c->m.k)
		rc = err_set(e, ERR_USAGE, "-k %lld, but --by %s makes %d clusters", (long long)r->k, r->by, c->m.k);
	if (!rc)
		clustering_new_parts(c);
	for (int64_t i = 0; i < c->f.n && !rc; i++)
		c->cluster[c->f.held[i]][c->f.row[i]] = cluster[i];
	partition_of_names(c->partition, r->by, c->names);
	mem_free(cluster);
	return rc;
}

/* Draw the further clusters of every sample. */
static void soften_at_random(struct clustering *c)
{
	int most = (int)c->r->soft;
	int32_t *order = mem_alloc((size_t)c->m.k * sizeof *order);

	for (int64_t i = 0; i < c->f.n; i++)
		random_further(c->further[c->f.held[i]] + c->f.row[i] * (most - 1), c->f.key[i], clustering_of(c, i), c->share, c->m.k, most,
		               c->r->seed, order);
	mem_free(order);
}

/* Find the further clusters of every sample. */
static int soften(struct clustering *c, struct err *e)
{
	const struct cluster_request *r = c->r;

	if (r->soft > c->m.k)
		return err_set(e, ERR_USAGE, "--soft %lld, but there are %d clusters", (long long)r->soft, c->m.k);
	for (int h = 0; h < 2; h++) {
		if (!(c->further[h] = mem_try((size_t)(c->f.count[h] * (r->soft - 1)) + 1, sizeof(int32_t), "further clusters", e)))
			return -1;
		if (!c->share)
			soft_clusters(c->further[h], &c->m, c->cluster[h], c->f.x[h], c->f.count[h], (int)r->soft, r->margin, r->pool);
	}
	if (c->share)
		soften_at_random(c);
	partition_of_soft(c->partition, (int)r->soft, r->margin);
	return 0;
}

static int partition_at_random(struct clustering *c, struct err *e)
{
	const struct cluster_request *r = c->r;

	if (random_shares(r->like, r->k, r->soft > 0, &c->m.k, &c->share, c->like_hash, e))
		return -1;
	clustering_new_parts(c);
	for (int64_t i = 0; i < c->f.n; i++)
		c->cluster[c->f.held[i]][c->f.row[i]] = kmeans_random(c->f.key[i], c->share, c->m.k, r->seed);
	partition_of_shares(c->partition, c->share, c->m.k, r->seed);
	return r->soft ? soften(c, e) : 0;
}

/* The choice of device depends only on sizes, so the same samples are always clustered on the same device. */
int clustering_find_device(struct clustering *c, struct err *e)
{
	const struct cluster_request *r = c->r;
	double k = r->centroids ? (double)c->m.k : (double)(r->fine > r->k ? r->fine : r->k);
	struct device *d = NULL;

	if (r->device && r->device(r->arg, (double)c->f.n * (double)c->f.d * k >= WORTH_A_GPU, &d, e))
		return -1;
	c->gpu = d && !d->host ? d : NULL;
	return 0;
}

struct method_options clustering_method(const struct clustering *c, uint64_t seed)
{
	const struct cluster_request *r = c->r;

	return (struct method_options){.method = (enum cluster_method)r->method,
	                               .k = (int)r->k,
	                               .fine = (int)r->fine,
	                               .neighbours = (int)r->neighbours,
	                               .restarts = (int)r->restarts,
	                               .iterations = (int)r->iterations,
	                               .balance = r->balance,
	                               .cosine = r->distance,
	                               .seed = seed,
	                               .pool = r->pool,
	                               .device = c->gpu,
	                               .progress = r->progress};
}

/* Fit clusters to the training part, whose assignment c takes. */
static int fit(struct clustering *c, struct err *e)
{
	struct method_options o = clustering_method(c, c->r->seed);

	if (method_cut(&c->fit, c->f.x[0], c->f.count[0], c->f.d, &o, e))
		return -1;
	memcpy(c->cluster[0], c->fit.cluster, (size_t)c->f.count[0] * sizeof *c->cluster[0]);
	memcpy(c->distance[0], c->fit.distance, (size_t)c->f.count[0] * sizeof *c->distance[0]);
	c->m = c->fit.m;
	c->fit.m = (struct kmeans){0};
	return 0;
}

double clustering_memberships(const struct clustering *c)
{
	int64_t n = c->f.count[0], more = c->r->soft - 1, all = n;

	for (int64_t i = 0; i < n && c->further[0]; i++) {
		const int32_t *further = c->further[0] + i * more;

		for (int at = 0; at < more; at++) {
			int again = further[at] == c->cluster[0][i];

			for (int before = 0; before < at; before++)
				again |= further[before] == further[at];
			all += !again;
		}
	}
	return n ? (double)all / (double)n : 1;
}

static int partition_by_features(struct clustering *c, struct err *e)
{
	const struct cluster_request *r = c->r;
	struct centroids_past past = {0};
	int rc = 0;

	if (r->centroids)
		rc = centroids_load(&c->m, c->centroids_hash, &past, r->centroids, &c->f, r->network != NULL, r->k, e) ||
		             (c->m.cosine && featureset_unit(&c->f, r->pool, e))
		         ? -1
		         : 0;
	c->extends = past.extends;
	if (rc || clustering_find_device(c, e))
		return -1;
	clustering_new_parts(c);
	if (!r->centroids && fit(c, e))
		return -1;
	for (int h = !r->centroids; h < 2 && !rc; h++)
		if (c->f.count[h])
			rc = kmeans_assign(c->cluster[h], c->distance[h], &c->m, c->f.x[h], c->f.count[h], r->pool, c->gpu, e);
	partition_of_centroids(c->partition, c->m.centroids, c->m.offset, c->m.k, c->m.d, c->f.name);
	if (c->m.cosine)
		partition_of_cosine(c->partition);
	if (c->extends)
		partition_of_extension(c->partition, extends_last(c->extends));
	if (!r->centroids && r->method != METHOD_KMEANS)
		partition_of_method(c->partition, cluster_method_names[r->method], c->samples_hash);
	if (r->soft && !rc)
		rc = soften(c, e);
	return rc;
}

static int partition(struct clustering *c, struct err *e)
{
	const struct cluster_request *r = c->r;

	if (r->rate                  ? clustering_take_rated(c, e)
	    : r->by                  ? partition_by_fact(c, e)
	    : clustering_is_blind(r) ? partition_at_random(c, e)
	    : r->extend              ? clustering_extend(c, e)
	                             : partition_by_features(c, e))
		return -1;
	c->held = mem_zalloc((size_t)c->m.k, sizeof *c->held);
	for (int64_t i = 0; i < c->f.count[1]; i++)
		c->held[c->cluster[1][i]]++;
	return c->f.count[0] ? clustering_rate(c, e) : 0;
}

/* Move the results from c into the report. */
static void fill_report(struct cluster_report *report, struct clustering *c)
{
	const struct cluster_request *r = c->r;

	*report = (struct cluster_report){.made = 1,
	                                  .k = c->m.k,
	                                  .samples = c->f.n,
	                                  .skipped = samples_skipped(c->samples),
	                                  .count = {c->f.count[0], c->f.count[1]},
	                                  .size = {c->q.sizes ? c->q.sizes : mem_zalloc((size_t)c->m.k, sizeof *c->q.sizes), c->held},
	                                  .names = c->names,
	                                  .features = clustering_is_blind(r) ? NULL : mem_strdup(c->f.name),
	                                  .cosine = c->m.cosine,
	                                  .inertia = c->q.total,
	                                  .silhouette = c->q.silhouette,
	                                  .largest = c->q.largest,
	                                  .separation = {NAN, NAN},
	                                  .seeds = c->seeds,
	                                  .labels = c->labels,
	                                  .memberships = clustering_memberships(c),
	                                  .micro = c->fit.micro,
	                                  .away = c->fit.away,
	                                  .settled = !c->fit.cluster || c->fit.settled,
	                                  .residual = c->fit.residual,
	                                  .gpu = c->gpu ? c->gpu->name : NULL,
	                                  .old_k = c->old.k,
	                                  .kept = c->keeps,
	                                  .joined = c->joins};
	if (r->balance > 0)
		report->crowded = c->q.largest * (double)c->f.count[0] > (double)kmeans_room(r->balance, c->f.count[0], c->m.k) + .5;
	if (report->features && c->q.sizes) {
		report->silhouette_n = c->q.silhouette_n;
		report->separation = c->q.separation;
		report->silhouettes = c->q.silhouettes;
		report->spread = c->q.inertia;
		for (int i = 0; i < c->m.k; i++)
			report->spread[i] = report->size[0][i] ? report->spread[i] / (double)report->size[0][i] : NAN;
		c->q.silhouettes = c->q.inertia = NULL;
	}
	c->q.sizes = NULL;
	c->held = NULL;
	c->names = NULL;
}

void cluster_report_release(struct cluster_report *report)
{
	mem_free(report->size[0]);
	mem_free(report->size[1]);
	json_decref(report->names);
	mem_free(report->features);
	mem_free(report->spread);
	mem_free(report->silhouettes);
	*report = (struct cluster_report){0};
}

static void clustering_release(struct clustering *c)
{
	for (int h = 0; h < 2; h++) {
		mem_free(c->cluster[h]);
		mem_free(c->distance[h]);
		mem_free(c->further[h]);
	}
	kmeans_quality_release(&c->q);
	kmeans_release(&c->m);
	method_fit_release(&c->fit);
	featureset_release(&c->f);
	grouping_free(c->groups);
	json_decref(c->names);
	samples_close(c->samples);
	assignment_release(&c->rated);
	assignment_release(&c->kept);
	kmeans_release(&c->old);
	json_decref(c->extends);
	tsv_free(c->against);
	mem_free(c->held);
	mem_free(c->share);
}

int cluster_make(const struct cluster_request *r, struct cluster_report *report, struct err *e)
{
	const char *const outputs[] = {r->rate ? NULL : r->out, r->sheet, r->report, r->centroids_out};
	struct clustering c = {.r = r};
	int rc;

	*report = (struct cluster_report){0};
	if (check_request(r, e) || claim_take(outputs, 4, e))
		return -1;
	rc = read_samples(&c, e) || partition(&c, e) || clustering_write(&c, e) ? -1 : 0;
	if (!rc) {
		fill_report(report, &c);
		rc = samples_check(c.samples, e);
	}
	clustering_release(&c);
	claim_drop(outputs, 4);
	return rc;
}
