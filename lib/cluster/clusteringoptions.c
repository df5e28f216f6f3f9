/* The options of clustering: the table that fills struct cluster_request, and the stamp. */
#include <string.h>

#include "cluster/clusteringimpl.h"
#include "data/motionfeat.h"
#include "file/optionstamp.h"

#define REQUEST(member) OPTION_FIELD(struct cluster_request, member)

const char *const cluster_holdouts[] = {"key", "dir", NULL};
const char *const cluster_distances[] = {"l2", "cosine", NULL};

static const char *const features_words[] = {"hogcolor", "random", "dinov2:", "clip:", "inception:", NULL};

int clustering_is_blind(const struct cluster_request *r)
{
	return r->by || !strcmp(r->features, "random");
}

static int is_fitted(const void *request)
{
	const struct cluster_request *r = request;

	return !clustering_is_blind(r) && !r->centroids && !r->rate;
}

static int fits_balance(const void *request)
{
	const struct cluster_request *r = request;

	return is_fitted(request) && r->method == METHOD_KMEANS;
}

static int fits_kmeans(const void *request)
{
	const struct cluster_request *r = request;

	return is_fitted(request) && (r->method == METHOD_KMEANS || r->method == METHOD_SPECTRAL);
}

static int fits_graph(const void *request)
{
	const struct cluster_request *r = request;

	return is_fitted(request) && r->method == METHOD_SPECTRAL;
}

static int is_seeded(const void *request)
{
	const struct cluster_request *r = request;

	return !r->by && !r->centroids;
}

const struct option cluster_options[] = {
    OPTION_GROUP("Clusters"),
    {.letter = 'k',
     .type = OPTION_INT,
     REQUEST(k),
     .lo = 1,
     .hi = KMEANS_MOST,
     .arg = "K",
     .help = "number of clusters",
     .required = "",
     .when = {{USE_AGAINST, "--rate"}},
     .stamp = STAMP_OTHERWISE},
    {"--by", .type = OPTION_TEXT, REQUEST(by), .arg = "WHAT", .either = 1,
     .help = "no features: a cluster for each class, each folder, or each value of the entry WHAT in the samples' .json or in --table",
     .when = {{USE_AGAINST, "--rate"}}, .stamp = STAMP_ALWAYS, .key = "by"},
    {"--table", .type = OPTION_TEXT, REQUEST(table), .arg = "FILE",
     .help = "a TSV or CSV with a column key and the column that --by or --against names", .when = {{USE_NEEDS, "--by --against"}},
     .stamp = STAMP_OTHERWISE},
    {"--fine", .type = OPTION_INT, REQUEST(fine), .lo = 2, .hi = KMEANS_MOST, .arg = "N",
     .help = "fit N fine centroids by k-means first, then cluster these into K",
     .when = {{USE_AGAINST, "--by --rate"}, {USE_AGAINST, "--centroids --features=random"}}, .stamp = STAMP_ALWAYS, .key = "fine",
     .counts = is_fitted},
    OPTION_GROUP("Features"),
    {"--features", .type = OPTION_TEXT, REQUEST(features), .arg = "KIND", .choices = features_words, .preset = "hogcolor",
     .help = "hogcolor, random, dinov2:PATH, clip:PATH, inception:PATH, or a .npy with a row per sample", .when = {{USE_AGAINST, "--by"}},
     .stamp = STAMP_OTHERWISE},
    {"--motion", .type = OPTION_REAL, REQUEST(motion), .lo = .001, .hi = .999, .arg = "SHARE",
     .help = "append features of the motion of clips, with this share of the variance",
     .when = {{USE_AGAINST, "--by --centroids --extend"}, {USE_NEEDS, "--features=hogcolor"}, {USE_NEEDS, "--distance=l2"}},
     .stamp = STAMP_UNLESS_DEFAULT, .key = "motion"},
    OPTION_GROUP("Held-out part"),
    {"--holdout", .type = OPTION_REAL, REQUEST(holdout), .lo = 0, .hi = 1, .arg = "F", .preset = "0",
     .help = "hold out this fraction, by hash of the key", .when = {{USE_AGAINST, "--rate"}}, .stamp = STAMP_ALWAYS, .key = "holdout"},
    {"--holdout-by", .type = OPTION_CHOICE, REQUEST(holdout_by), .arg = "WHAT", .choices = cluster_holdouts, .preset = "key",
     .help = "hash the whole key or its folder", .when = {{USE_NEEDS, "--holdout"}}, .stamp = STAMP_ALWAYS, .key = "holdout_by"},
    OPTION_GROUP("Clustering"),
    {"--centroids", .type = OPTION_TEXT, REQUEST(centroids), .arg = "FILE", .help = "assign to the centroids in FILE instead of fitting",
     .when = {{USE_AGAINST, "--by --rate"}}, .stamp = STAMP_OTHERWISE},
    {"--extend", .type = OPTION_TEXT, REQUEST(extend), .arg = "FILE",
     .help = "keep the centroids in FILE, and add new clusters up to K for samples far from them",
     .when = {{USE_AGAINST, "--by --rate --centroids --features=random --fine --balance --soft"},
              {USE_NEEDS, "--method=kmeans"},
              {USE_NEEDS, "--distance=l2"}},
     .stamp = STAMP_OTHERWISE},
    {"--keep", .type = OPTION_TEXT, REQUEST(keep), .arg = "FILE", .help = "samples in this assignment keep their clusters",
     .when = {{USE_NEEDS, "--extend --by"}}, .stamp = STAMP_OTHERWISE},
    {"--centroids-out", .type = OPTION_TEXT, REQUEST(centroids_out), .arg = "FILE", .help = "write the centroids as .npy",
     .when = {{USE_AGAINST, "--by"}, {USE_AGAINST, "--features=random"}}},
    {"--like", .type = OPTION_TEXT, REQUEST(like), .arg = "FILE", .help = "with random: number and shares of clusters as in this assignment",
     .when = {{USE_AGAINST, "--by --rate"}, {USE_NEEDS, "--features=random"}}, .stamp = STAMP_OTHERWISE},
    {"--method", .type = OPTION_CHOICE, REQUEST(method), .arg = "NAME", .choices = cluster_method_names, .preset = "kmeans", .help = "how to cluster",
     .when = {{USE_AGAINST, "--by --rate"}, {USE_AGAINST, "--centroids --features=random"}}, .stamp = STAMP_UNLESS_DEFAULT, .key = "method"},
    {"--distance", .type = OPTION_CHOICE, REQUEST(distance), .arg = "NAME", .choices = cluster_distances, .preset = "l2",
     .help = "what k-means compares: l2, or cosine, of features scaled to unit length",
     .when = {{USE_AGAINST, "--by --centroids --features=random"}, {USE_NEEDS, "--method=kmeans"}}, .stamp = STAMP_OTHERWISE},
    {"--neighbours", .type = OPTION_INT, REQUEST(neighbours), .lo = 1, .hi = 1000, .arg = "N", .preset = "10",
     .help = "nearest neighbours of each sample in the graph", .when = {{USE_AGAINST, "--by --rate"}, {USE_NEEDS, "--method=spectral"}},
     .stamp = STAMP_ALWAYS, .key = "neighbours", .counts = fits_graph},
    {"--balance", .type = OPTION_REAL, REQUEST(balance), .lo = 1.01, .hi = KMEANS_MOST, .arg = "R", .help = "no cluster above R times the mean size",
     .when = {{USE_AGAINST, "--by --rate"}, {USE_AGAINST, "--centroids --features=random"}, {USE_NEEDS, "--method=kmeans"}}, .stamp = STAMP_ALWAYS,
     .key = "balance", .counts = fits_balance},
    {"--soft", .type = OPTION_INT, REQUEST(soft), .lo = 2, .hi = ASSIGNMENT_CLUSTERS, .arg = "M",
     .help = "a sample is in its M nearest clusters, or in M random ones", .when = {{USE_AGAINST, "--by --rate"}}, .stamp = STAMP_UNLESS_DEFAULT,
     .key = "soft"},
    {"--margin", .type = OPTION_REAL, REQUEST(margin), .lo = 1, .hi = 1e9, .arg = "R",
     .help = "with --soft, not those more than R times as far as its own", .when = {{USE_NEEDS, "--soft"}, {USE_AGAINST, "--features=random"}},
     .stamp = STAMP_UNLESS_DEFAULT, .key = "margin"},
    {"--restarts", .type = OPTION_INT, REQUEST(restarts), .lo = 1, .hi = 1000, .arg = "N", .preset = "3",
     .help = "random starts; the best one is kept",
     .when = {{USE_AGAINST, "--by --rate"}, {USE_AGAINST, "--centroids --features=random"}, {USE_AGAINST, "--method=ward --method=average"}},
     .stamp = STAMP_ALWAYS, .key = "restarts", .counts = fits_kmeans},
    {"--iterations", .type = OPTION_INT, REQUEST(iterations), .lo = 1, .hi = 1000000, .arg = "N", .preset = "100",
     .help = "largest number of iterations",
     .when = {{USE_AGAINST, "--by --rate"}, {USE_AGAINST, "--centroids --features=random"}, {USE_AGAINST, "--method=ward --method=average"}},
     .stamp = STAMP_ALWAYS, .key = "iterations", .counts = fits_kmeans},
    {"--seed", .type = OPTION_U64, REQUEST(seed), .arg = "S", .preset = "0", .help = "seed of the clustering", .when = {{USE_AGAINST, "--by"}},
     .stamp = STAMP_ALWAYS, .key = "seed", .counts = is_seeded},
    OPTION_GROUP("Reports"),
    {"--sheet", .type = OPTION_TEXT, REQUEST(sheet), .arg = "FILE", .help = "write a contact sheet, a row per cluster, as PNG", OPTION_ALWAYS},
    {"--report", .type = OPTION_TEXT, REQUEST(report), .arg = "FILE", .help = "write the quality of the clusters as JSON", OPTION_ALWAYS},
    {"--rate", .type = OPTION_TEXT, REQUEST(rate), .arg = "FILE", .help = "measure the assignment in FILE, and write no table",
     .when = {{USE_AGAINST, "--by"}, {USE_AGAINST, "--features=random"}}, .stamp = STAMP_OTHERWISE},
    {"--silhouette", .type = OPTION_INT, REQUEST(silhouette), .lo = 0, .hi = 1e9, .arg = "N", .preset = "1500",
     .help = "most samples in the silhouette; 0: all", .when = {{USE_AGAINST, "--by"}, {USE_AGAINST, "--features=random"}}},
    {"--seeds", .type = OPTION_INT, REQUEST(seeds), .lo = 2, .hi = 100, .arg = "R", .help = "cluster with R seeds, and measure how the results agree",
     .when = {{USE_AGAINST, "--by --rate --extend"}, {USE_AGAINST, "--centroids --features=random"}}},
    {"--against", .type = OPTION_TEXT, REQUEST(against), .arg = "WHAT",
     .help = "measure the agreement with the class, the folder or a column of --table", OPTION_ALWAYS},
    OPTION_GROUP("Reading and output"),
    {"--skip-bad", .type = OPTION_FLAG, REQUEST(skip_bad), .help = "skip unreadable samples, naming them", OPTION_ALWAYS},
    {"--max-errors", .type = OPTION_INT, REQUEST(max_errors), .lo = 0, .hi = 1e15, .arg = "N",
     .help = "exit with 3 if more were skipped; no limit by default", .when = {{USE_NEEDS, "--skip-bad"}}},
    {"--null", '0', OPTION_FLAG, REQUEST(nul_list), .help = "paths on stdin end with NUL, not newline", .when = {{USE_NEEDS, "-"}}},
    {"--output", 'o', OPTION_TEXT, REQUEST(out), .arg = "FILE", .preset = "-", .said = "default stdout", .help = "write the assignment to FILE",
     .when = {{USE_AGAINST, "--rate"}}},
    {0},
};

struct cluster_request cluster_defaults(void)
{
	struct cluster_request r = {.max_errors = -1};

	option_presets(cluster_options, &r);
	return r;
}

struct stamp *clustering_stamp(const struct clustering *c)
{
	static const struct option *const tables[] = {cluster_options, NULL};
	const struct cluster_request *r = c->r;
	struct stamp *s = stamp_new("ddm-cluster");
	char motion[65];

	stamp_i64(s, "k", c->m.k);
	if (!r->by)
		stamp_text(s, "features", clustering_is_blind(r) ? "random" : c->f.name);
	if (c->network.input)
		stamp_text(s, "input", c->network.input);
	if (c->m.cosine)
		stamp_text(s, "distance", cluster_distances[1]);
	optionstamp_put(s, tables, r, "by holdout holdout_by fine balance restarts iterations seed method neighbours soft margin motion");
	if (c->motion_scale > 0) {
		motion_hash(motion);
		stamp_text(s, "motion_hash", motion);
		stamp_f64(s, "motion_scale", c->motion_scale);
	}
	stamp_input(s, "samples", c->samples_hash);
	if (*c->f.hash)
		stamp_input(s, "features", c->f.hash);
	if (r->centroids)
		stamp_input(s, "centroids", c->centroids_hash);
	if (r->like)
		stamp_input(s, "like", c->like_hash);
	if (r->extend)
		stamp_input(s, "extend", c->extend_hash);
	if (r->keep)
		stamp_input(s, "keep", c->kept.hash);
	if (c->groups && r->table)
		stamp_input(s, "table", grouping_table_hash(c->groups));
	if (r->rate)
		stamp_input(s, "assign", c->rated.hash);
	return s;
}
