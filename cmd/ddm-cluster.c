/* ddm-cluster: which cluster each sample belongs to. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "cmd/opendevice.h"
#include "core/hash.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/names.h"
#include "core/str.h"
#include "cluster/centroids.h"
#include "cluster/features.h"
#include "cluster/featureset.h"
#include "cluster/grouping.h"
#include "cluster/kmeans.h"
#include "data/partition.h"
#include "cluster/randomshares.h"
#include "data/samples.h"
#include "data/sheet.h"
#include "file/claim.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "file/npy.h"
#include "file/standing.h"
#include "file/stamp.h"
#include "file/tsv.h"
#include "metric/extractor.h"

#define WORTH_A_GPU 1e10 /* samples x features x clusters */

enum { MOST_CLUSTERS = 1 << 20, SHEET_ROWS = 256, SHEET_COLUMNS = 16, SHEET_CELL = 64 };

static const char *const holdout_by_names[] = {"key", "dir", NULL};

static struct {
	int64_t k, fine, restarts, iterations, threads, max_errors;
	double holdout, balance;
	uint64_t seed;
	int holdout_by, skip_bad, nul, quiet;
	int blind; /* no features are looked at */
	int input, input_given, device_given, weights, weights_given;
	const char *device, *features, *centroids, *centroids_out, *like, *sheet, *report, *out, *by, *table;
	int k_given, fine_given, balance_given;
} o = {.input = -1, .device = "auto", .features = "hogcolor", .out = "-", .restarts = 3, .iterations = 100, .max_errors = -1};

static const char *const features_words[] = {"hogcolor", "random", "dinov2:", "clip:", "inception:", NULL};

/* Arguments of network features. */
#define NETWORKS "--features=inception:* --features=dinov2:* --features=clip:*"

static const struct option options[] = {
    OPTION_GROUP("Clusters"),
    {.letter = 'k', .type = OPTION_INT, .value = &o.k, .lo = 1, .hi = MOST_CLUSTERS, .arg = "K",
     .help = "number of clusters", .required = "", .given = &o.k_given, OPTION_ALWAYS},
    {.name = "--by", .type = OPTION_TEXT, .value = &o.by, .arg = "WHAT", .either = 1,
     .help = "no features: a cluster for each class, folder, or value of this entry of the samples' .json or of --table", OPTION_ALWAYS},
    {.name = "--table", .type = OPTION_TEXT, .value = &o.table, .arg = "FILE",
     .help = "a TSV or CSV with a column key and the column that --by names", .when = {{USE_NEEDS, "--by"}}},
    {.name = "--fine", .type = OPTION_INT, .value = &o.fine, .lo = 2, .hi = MOST_CLUSTERS, .arg = "N", .given = &o.fine_given,
     .help = "N fine centroids first, the K ones over those",
     .when = {{USE_AGAINST, "--by"}, {USE_AGAINST, "--centroids --features=random"}}},
    OPTION_GROUP("Features"),
    {.name = "--features", .type = OPTION_TEXT, .value = &o.features, .arg = "KIND", .choices = features_words,
     .help = "hogcolor, random, dinov2:PATH, clip:PATH, inception:PATH, or a .npy with a row per sample (default hogcolor)",
     .when = {{USE_AGAINST, "--by"}}},
    {.name = "--input", .type = OPTION_CHOICE, .value = &o.input, .arg = "NAME", .choices = netinput_names, .given = &o.input_given,
     .help = "how pictures are fed to a network (default: as is usual for it)", .when = {{USE_AGAINST, "--by"}, {USE_NEEDS, NETWORKS}}},
    {.name = "--weight-dtype", .type = OPTION_CHOICE, .value = &o.weights, .arg = "TYPE", .choices = encoder_weights, .given = &o.weights_given,
     .help = "how a network's matrices are held and multiplied (default f32)",
     .when = {{USE_AGAINST, "--by"}, {USE_NEEDS, NETWORKS}}, .was = "--weights"},
    {.name = "--device", .type = OPTION_TEXT, .value = &o.device, .arg = "NAME", .given = &o.device_given,
     .help = "auto, cpu, cuda or cuda:N: where a network and k-means run (default auto)",
     .when = {{USE_AGAINST, "--by"}, {USE_AGAINST, "--features=random"}}},
    OPTION_GROUP("Held-out part"),
    {.name = "--holdout", .type = OPTION_REAL, .value = &o.holdout, .lo = 0, .hi = 1, .arg = "F",
     .help = "hold out this fraction, by hash of the key (default 0)", OPTION_ALWAYS},
    {.name = "--holdout-by", .type = OPTION_CHOICE, .value = &o.holdout_by, .arg = "WHAT", .choices = holdout_by_names,
     .help = "hash the whole key or its folder (default key)", .when = {{USE_NEEDS, "--holdout"}}},
    OPTION_GROUP("Clustering"),
    {.name = "--centroids", .type = OPTION_TEXT, .value = &o.centroids, .arg = "FILE",
     .help = "assign to the centroids in FILE, fit none", .when = {{USE_AGAINST, "--by"}}},
    {.name = "--centroids-out", .type = OPTION_TEXT, .value = &o.centroids_out, .arg = "FILE",
     .help = "write the centroids as .npy", .when = {{USE_AGAINST, "--by"}, {USE_AGAINST, "--features=random"}}},
    {.name = "--like", .type = OPTION_TEXT, .value = &o.like, .arg = "FILE",
     .help = "with random: as many clusters and the shares of this assignment",
     .when = {{USE_AGAINST, "--by"}, {USE_NEEDS, "--features=random"}}},
    {.name = "--balance", .type = OPTION_REAL, .value = &o.balance, .lo = 1.01, .hi = MOST_CLUSTERS, .arg = "R",
     .given = &o.balance_given,     .help = "no cluster above R times the mean size",
     .when = {{USE_AGAINST, "--by"}, {USE_AGAINST, "--centroids --features=random"}}},
    {.name = "--restarts", .type = OPTION_INT, .value = &o.restarts, .lo = 1, .hi = 1000, .arg = "N",
     .help = "seedings, the best counts (default 3)", .when = {{USE_AGAINST, "--by"}, {USE_AGAINST, "--centroids --features=random"}}},
    {.name = "--iterations", .type = OPTION_INT, .value = &o.iterations, .lo = 1, .hi = 1000000, .arg = "N",
     .help = "iterations at most (default 100)", .when = {{USE_AGAINST, "--by"}, {USE_AGAINST, "--centroids --features=random"}}},
    {.name = "--seed", .type = OPTION_U64, .value = &o.seed, .arg = "S",
     .help = "seed of the clustering (default 0)", .when = {{USE_AGAINST, "--by"}}},
    OPTION_GROUP("Reports"),
    {.name = "--sheet", .type = OPTION_TEXT, .value = &o.sheet, .arg = "FILE",
     .help = "write a contact sheet, a row per cluster, as PNG", OPTION_ALWAYS},
    {.name = "--report", .type = OPTION_TEXT, .value = &o.report, .arg = "FILE",
     .help = "write the quality of the clusters as JSON", OPTION_ALWAYS},
    OPTION_GROUP("Reading and output"),
    {.name = "--skip-bad", .type = OPTION_FLAG, .value = &o.skip_bad, .help = "pass over unreadable samples, naming them", OPTION_ALWAYS},
    {.name = "--max-errors", .type = OPTION_INT, .value = &o.max_errors, .lo = 0, .hi = 1e15, .arg = "N",
     .help = "exit 3 when more were skipped", .when = {{USE_NEEDS, "--skip-bad"}}},
    {.name = "--null", .letter = '0', .type = OPTION_FLAG, .value = &o.nul, .help = "paths on stdin end with NUL, not newline",
     .when = {{USE_NEEDS, "-"}}},
    {.name = "--threads", .type = OPTION_INT, .value = &o.threads, .lo = 1, .hi = 4096, .arg = "N",
     .help = "threads (default: what the machine has)", OPTION_ALWAYS},
    {.name = "--quiet", .letter = 'q', .type = OPTION_FLAG, .value = &o.quiet, .help = "no report on stderr", OPTION_ALWAYS},
    {.name = "--output", .letter = 'o', .type = OPTION_TEXT, .value = &o.out, .arg = "FILE",
     .help = "write the assignment to FILE (default stdout)", OPTION_ALWAYS},
    {0},
};

static const struct program program = {
    .name = "ddm-cluster",
    .operands = "SAMPLES...",
    .about = "assigns every sample to one of K clusters of similar pictures",
    .options = options,
};

/* Everything between reading and writing. */
struct work {
	struct pool *pool;
	struct progress progress;
	struct samples *samples;
	struct device *device;       /* of a network and of k-means; NULL: neither needs one */
	struct device *gpu;          /* that, where k-means runs on a GPU */
	struct extractor *extractor; /* which features are by; or NULL */
	struct grouping *groups;     /* of --by; or NULL */
	struct featureset f;
	struct kmeans m;
	json_t *names;          /* [k] of the clusters; NULL: they have none */
	double *share;          /* [k] of a random partition */
	char centroids_hash[65], like_hash[65], digest[65], partition[65];
	int32_t *part[2];       /* [f.count] clusters of the two parts */
	float *distance[2];     /* [f.count] */
	struct kmeans_quality q; /* of the training part */
};

static void say_bad(void *arg, const char *why)
{
	(void)arg;
	cmd_warn("skipped: %s", why);
}

static int check_options(struct err *e)
{
	o.blind = o.by || !strcmp(o.features, "random");
	if (o.by)
		return 0;
	if (!o.k_given && !o.centroids && !o.like)
		return err_set(e, ERR_USAGE, "-k is missing: how many clusters?");
	if (o.centroids && (o.fine_given || o.balance_given || o.blind))
		return err_set(e, ERR_USAGE, "--centroids fixes the clusters: no --fine, --balance or --features random beside it");
	if (o.blind && (o.fine_given || o.balance_given || o.centroids_out))
		return err_set(e, ERR_USAGE, "--features random has no centroids: no --fine, --balance or --centroids-out beside it");
	if ((o.input_given || o.weights_given) && !extractor_is_network(o.features))
		return err_set(e, ERR_USAGE, "%s goes with a network: --features dinov2:PATH, clip:PATH or inception:PATH",
		               o.input_given ? "--input" : "--weight-dtype");
	if (o.device_given && o.blind)
		return err_set(e, ERR_USAGE, "--features random computes nothing: no --device beside it");
	if (o.like && !o.blind)
		return err_set(e, ERR_USAGE, "--like goes with --features random");
	return 0;
}

static int look(void *arg, float *out, const struct picture *p, int n, struct err *e)
{
	struct work *w = arg;
	float *taps[TAPS] = {out};

	return w->extractor->run(w->extractor, w->pool, taps, p, n, e);
}

/* Where features are a network's: that, and how to ask it. */
static int open_network(struct work *w, struct features_measure *m, struct featureset_options *fo, struct err *e)
{
	if (!extractor_is_network(o.features))
		return 0;
	if (!(w->device = open_device(o.device, w->pool, e)) ||
	    !(w->extractor = extractor_open(o.features, &(struct extractor_options){o.input, w->device, (enum compact_type)o.weights}, e)))
		return -1;
	*m = (struct features_measure){w->extractor->dims[TAP_MAIN], w->extractor->name, w->extractor->hash, look, w};
	fo->kind = FEATURES_MEASURE;
	fo->measure = m;
	return 0;
}

static int read_samples(struct work *w, char **sources, int n, struct err *e)
{
	struct samples_options so = {.skip_bad = o.skip_bad, .max_errors = o.max_errors, .nul_list = o.nul, .once = !o.sheet,
	                             .spool = getenv("TMPDIR"), .bad = say_bad};
	int builtin = !strcmp(o.features, "hogcolor") || !strcmp(o.features, FEATURES_HOGCOLOR);
	struct featureset_options fo = {.kind = o.blind ? FEATURES_NONE : builtin ? FEATURES_COMPUTE : FEATURES_FILE,
	                                .file = o.features, .holdout = o.holdout, .holdout_by_dir = o.holdout_by,
	                                .value = o.by ? grouping_value : NULL,
	                                .pool = w->pool, .progress = &w->progress};

	struct features_measure m;

	if (o.by && !(fo.value_arg = w->groups = grouping_open(o.by, o.table, e)))
		return -1;
	if (open_network(w, &m, &fo, e))
		return -1;
	if (fo.kind == FEATURES_FILE && !path_exists(o.features))
		return err_set(e, ERR_NOINPUT, "features \"%s\": neither hogcolor nor random nor a network nor a file", o.features);
	w->samples = samples_open((const char *const *)sources, n, &so, e);
	cmd_catch_signals(); /* not before: reading a pipe would go on after a signal, and nothing is there yet to clean up */
	if (!w->samples || featureset_read(&w->f, w->samples, &fo, e))
		return -1;
	samples_digest(w->samples, w->digest);
	return 0;
}

/* Where k-means runs. Of itself it takes a GPU where that is worth the start: by sizes alone, so that the same samples
 * are clustered in the same place. */
static int choose_device(struct work *w, struct err *e)
{
	double k = o.centroids ? (double)w->m.k : o.fine > o.k ? (double)o.fine : (double)o.k;
	int worth = (double)w->f.n * (double)w->f.d * k >= WORTH_A_GPU;

	if (o.blind || (!strcmp(o.device, "auto") && !worth))
		return 0;
	if (!w->device && !(w->device = open_device(o.device, w->pool, e)))
		return -1;
	if (!w->device->host)
		w->gpu = w->device;
	return 0;
}

/* By what the samples say: w->m.k and the clusters of both parts. */
static int partition_by(struct work *w, struct err *e)
{
	int32_t *cluster = mem_zalloc((size_t)w->f.n, sizeof *cluster);
	int rc = grouping_number(w->groups, w->f.value, w->f.n, samples_class_names(w->samples), cluster, &w->names, e);

	w->m.k = (int)json_array_size(w->names);
	if (!rc && o.k_given && o.k != w->m.k)
		rc = err_set(e, ERR_USAGE, "-k %lld, but by %s there are %d clusters", (long long)o.k, o.by, w->m.k);
	for (int h = 0; h < 2 && !rc; h++) {
		w->part[h] = mem_zalloc((size_t)w->f.count[h], sizeof *w->part[h]);
		w->distance[h] = mem_zalloc((size_t)w->f.count[h], sizeof *w->distance[h]);
	}
	for (int64_t i = 0; i < w->f.n && !rc; i++)
		w->part[w->f.held[i]][w->f.row[i]] = cluster[i];
	partition_of_names(w->partition, o.by, w->names);
	mem_free(cluster);
	if (rc || !w->f.count[0])
		return rc;
	return kmeans_rate(&w->q, w->f.x[0], w->f.count[0], w->f.d, w->part[0], w->distance[0], w->m.k, o.seed, w->pool, e);
}

static int partition(struct work *w, struct err *e)
{
	struct kmeans_options ko = {.k = (int)o.k, .fine = (int)o.fine, .restarts = (int)o.restarts, .iterations = (int)o.iterations,
	                            .balance = o.balance, .seed = o.seed, .pool = w->pool, .progress = &w->progress};
	int rc;

	if (o.by)
		return partition_by(w, e);
	if (o.blind)
		rc = random_shares(o.like, o.k_given ? o.k : 0, &w->m.k, &w->share, w->like_hash, e);
	else if (o.centroids)
		rc = centroids_load(&w->m, w->centroids_hash, o.centroids, &w->f, w->extractor != NULL, o.k_given ? o.k : 0, e);
	else
		rc = 0;
	if (rc || choose_device(w, e))
		return -1;
	ko.device = w->gpu;
	if (!o.blind && !o.centroids)
		rc = kmeans_fit(&w->m, w->f.x[0], w->f.count[0], w->f.d, &ko, e);
	for (int h = 0; h < 2 && !rc; h++) {
		w->part[h] = mem_zalloc((size_t)w->f.count[h], sizeof *w->part[h]);
		w->distance[h] = mem_zalloc((size_t)w->f.count[h], sizeof *w->distance[h]);
		if (!o.blind && w->f.count[h])
			rc = kmeans_assign(w->part[h], w->distance[h], &w->m, w->f.x[h], w->f.count[h], w->pool, w->gpu, e);
	}
	if (!rc && o.blind)
		partition_of_shares(w->partition, w->share, w->m.k, o.seed);
	else if (!rc)
		partition_of_centroids(w->partition, w->m.centroids, w->m.offset, w->m.k, w->m.d, w->f.name);
	for (int64_t i = 0; i < w->f.n && o.blind && !rc; i++)
		w->part[w->f.held[i]][w->f.row[i]] = kmeans_random(w->f.key[i], w->share, w->m.k, o.seed);
	if (rc || !w->f.count[0])
		return rc;
	return kmeans_rate(&w->q, w->f.x[0], w->f.count[0], w->f.d, w->part[0], w->distance[0], w->m.k, o.seed, w->pool, e);
}

static struct stamp *make_stamp(const struct work *w)
{
	struct stamp *s = stamp_new("ddm-cluster");

	stamp_i64(s, "k", w->m.k);
	if (o.by)
		stamp_text(s, "by", o.by);
	else
		stamp_text(s, "features", o.blind ? "random" : w->f.name);
	if (w->extractor)
		stamp_text(s, "input", w->extractor->input);
	stamp_f64(s, "holdout", o.holdout);
	stamp_text(s, "holdout_by", holdout_by_names[o.holdout_by]);
	if (!o.blind && !o.centroids) {
		stamp_i64(s, "fine", o.fine);
		stamp_f64(s, "balance", o.balance);
		stamp_i64(s, "restarts", o.restarts);
		stamp_i64(s, "iterations", o.iterations);
	}
	if (!o.centroids && !o.by)
		stamp_u64(s, "seed", o.seed);
	stamp_input(s, "samples", w->digest);
	if (*w->f.hash)
		stamp_input(s, "features", w->f.hash);
	if (o.centroids)
		stamp_input(s, "centroids", w->centroids_hash);
	if (o.like)
		stamp_input(s, "like", w->like_hash);
	if (o.table)
		stamp_input(s, "table", grouping_table_hash(w->groups));
	return s;
}

static int write_centroids(const struct work *w, struct err *e)
{
	int64_t shape[2] = {w->m.k, w->m.d};
	struct stamp *s = make_stamp(w);
	json_t *offset = json_array(), *sizes = json_array();
	struct str npy = {0};
	int rc;

	for (int c = 0; c < w->m.k; c++) {
		json_array_append_new(offset, json_real(w->m.offset[c]));
		json_array_append_new(sizes, json_integer(w->q.sizes ? w->q.sizes[c] : 0));
	}
	stamp_json(s, "offset", offset);
	stamp_json(s, "sizes", sizes);
	npy_encode(&npy, NPY_F4, 2, shape, w->m.centroids);
	rc = stamp_sidecar_of(s, o.centroids_out, hash64(npy.p, npy.len), e) || commit_bytes(o.centroids_out, npy.p, npy.len, e) ? -1 : 0;
	str_release(&npy);
	stamp_free(s);
	return rc;
}

static int write_sheet(struct work *w, struct err *e)
{
	struct stamp *s = make_stamp(w);
	char *line = stamp_line(s);
	struct still_text text = {"ddm", line};
	struct sheet sheet = {0};
	int32_t *cluster = mem_zalloc((size_t)w->f.n, sizeof *cluster);
	uint8_t *png = NULL;
	size_t len;
	int rc;

	for (int64_t i = 0; i < w->f.n; i++)
		cluster[i] = w->part[w->f.held[i]][w->f.row[i]];
	rc = sheet_init(&sheet, w->m.k < SHEET_ROWS ? w->m.k : SHEET_ROWS, SHEET_COLUMNS, SHEET_CELL, e);
	if (!rc)
		rc = sheet_fill(&sheet, w->samples, w->f.key, cluster, w->f.n, e);
	if (!rc)
		rc = still_encode_png(&sheet.picture, &text, 1, &png, &len, e);
	if (!rc)
		rc = commit_bytes(o.sheet, png, len, e);
	mem_free(png);
	mem_free(cluster);
	sheet_release(&sheet);
	mem_free(line);
	stamp_free(s);
	return rc;
}

static int64_t held_in(const struct work *w, int c)
{
	int64_t n = 0;

	for (int64_t i = 0; i < w->f.count[1]; i++)
		n += w->part[1][i] == c;
	return n;
}

static int write_report(const struct work *w, struct err *e)
{
	struct stamp *s = make_stamp(w);
	json_t *r = json_object(), *clusters = json_array();
	int rc;

	json_object_set_new(r, "samples", json_integer(w->f.n));
	json_object_set_new(r, "train", json_integer(w->f.count[0]));
	json_object_set_new(r, "holdout", json_integer(w->f.count[1]));
	json_object_set_new(r, "skipped", json_integer(samples_skipped(w->samples)));
	json_object_set_new(r, "inertia", jsonio_real(o.blind ? (double)NAN : w->q.total));
	json_object_set_new(r, "silhouette", jsonio_real(o.blind ? (double)NAN : w->q.silhouette));
	json_object_set_new(r, "silhouette_samples", json_integer(w->q.silhouette_n));
	json_object_set_new(r, "largest", jsonio_real(w->q.largest));
	json_object_set_new(r, "smallest", jsonio_real(w->q.smallest));
	json_object_set_new(r, "iterations", json_integer(w->m.iterations));
	json_object_set_new(r, "reseeded", json_integer(w->m.reseeded));
	for (int c = 0; c < w->m.k; c++) {
		int64_t size = w->q.sizes ? w->q.sizes[c] : 0;
		double inertia = w->q.inertia && !o.blind ? w->q.inertia[c] : (double)NAN;

		json_array_append_new(clusters, json_pack("{s:i, s:I, s:I, s:o}", "cluster", c, "train", (json_int_t)size, "holdout",
		                                          (json_int_t)held_in(w, c), "inertia", jsonio_real(inertia)));
		if (w->names)
			json_object_set(json_array_get(clusters, (size_t)c), "name", json_array_get(w->names, (size_t)c));
	}
	json_object_set_new(r, "clusters", clusters);
	json_object_set(r, "stamp", (json_t *)stamp_root(s));
	rc = commit_json(o.report, r, e);
	json_decref(r);
	stamp_free(s);
	return rc;
}

static void say_report(const struct work *w)
{
	int most = w->m.k < 64 ? w->m.k : 64;

	if (o.by)
		cmd_say("%lld samples by %s, %lld held out, in %d clusters", (long long)w->f.n, o.by, (long long)w->f.count[1], w->m.k);
	else if (o.blind || !w->f.count[0])
		cmd_say("%lld samples at random, %lld held out, in %d clusters", (long long)w->f.n, (long long)w->f.count[1], w->m.k);
	else
		cmd_say("%lld samples, %lld held out, %d clusters of %s: inertia %.4g each, silhouette %.3f", (long long)w->f.n,
		        (long long)w->f.count[1], w->m.k, w->f.name, w->q.total / (double)w->f.count[0], w->q.silhouette);
	if (w->gpu)
		cmd_say("k-means on %s", w->gpu->name);
	for (int c = 0; c < most && w->q.sizes; c++)
		cmd_say("cluster %d%s%s%s: %lld (%.1f%%), held out %lld", c, w->names ? " (" : "", w->names ? names_get(w->names, c) : "",
		        w->names ? ")" : "", (long long)w->q.sizes[c], 100. * (double)w->q.sizes[c] / (double)w->f.count[0], (long long)held_in(w, c));
	if (most < w->m.k)
		cmd_say("and %d more", w->m.k - most);
	if (o.balance && w->q.largest * (double)w->f.count[0] > (double)kmeans_room(o.balance, w->f.count[0], w->m.k) + .5)
		cmd_warn("the largest cluster holds %.3f times the mean, not %g: too many samples are alike", w->q.largest * w->m.k,
		         o.balance);
	if (samples_skipped(w->samples) && (o.max_errors < 0 || samples_skipped(w->samples) <= o.max_errors))
		cmd_warn("%lld bad samples skipped", (long long)samples_skipped(w->samples));
}

static int write_assignment(const struct work *w, struct err *e)
{
	static const char *const columns[] = {"key", "cluster", "distance", "split", "class", "name"};
	struct stamp *s = make_stamp(w);
	struct tsv_writer *t;
	int rc;

	stamp_text(s, "partition", w->partition);
	if (w->names)
		stamp_json(s, "cluster_names", json_incref(w->names));
	t = tsv_create(o.out, columns, w->names ? 6 : 5, s, e);
	rc = t ? 0 : -1;
	stamp_free(s);
	for (int64_t i = 0; i < w->f.n && !rc; i++) {
		int held = w->f.held[i];

		tsv_put(t, w->f.key[i]);
		tsv_put_i64(t, w->part[held][w->f.row[i]]);
		tsv_put_f64(t, w->distance[held][w->f.row[i]]);
		tsv_put(t, held ? "holdout" : "train");
		tsv_put_i64(t, w->f.label[i]);
		if (w->names)
			tsv_put(t, names_get(w->names, w->part[held][w->f.row[i]]));
		rc = tsv_row(t, e);
	}
	if (rc)
		tsv_abort(t);
	return rc ? -1 : tsv_commit(t, e);
}

static void work_release(struct work *w)
{
	for (int h = 0; h < 2; h++) {
		mem_free(w->part[h]);
		mem_free(w->distance[h]);
	}
	kmeans_quality_release(&w->q);
	kmeans_release(&w->m);
	featureset_release(&w->f);
	grouping_free(w->groups);
	json_decref(w->names);
	extractor_free(w->extractor);
	device_free(w->device);
	samples_close(w->samples);
	mem_free(w->share);
	pool_free(w->pool);
}

/* Before anything is replaced. */
static int check_standing(const struct work *w, struct err *e)
{
	const char *const paths[] = {o.out, o.sheet, o.report, o.centroids_out};
	struct stamp *s = make_stamp(w);
	int rc = 0;

	for (size_t i = 0; i < sizeof paths / sizeof *paths && !rc; i++)
		rc = paths[i] ? standing_check(paths[i], s, 1, e) : 0;
	stamp_free(s);
	return rc;
}

static int run(struct work *w, char **sources, int n, struct err *e)
{
	w->pool = pool_new((int)o.threads, e);
	if (!w->pool || read_samples(w, sources, n, e) || partition(w, e) || check_standing(w, e))
		return -1;
	if ((o.centroids_out && write_centroids(w, e)) || (o.sheet && write_sheet(w, e)) || (o.report && write_report(w, e)))
		return -1;
	if (write_assignment(w, e))
		return -1;
	if (!o.quiet)
		say_report(w);
	return samples_check(w->samples, e);
}

int main(int argc, char **argv)
{
	int n = cmd_start(&program, argc, argv, 1, -1);
	struct work w = {0};
	struct err e = {0};

	if (check_options(&e) || claim_take((const char *const[]){o.out, o.sheet, o.report, o.centroids_out}, 4, &e))
		cmd_die(&e);
	w.progress = cmd_progress();
	run(&w, argv + 1, n, &e);
	work_release(&w);
	return cmd_end_over(&e);
}
