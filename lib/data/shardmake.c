/* Makes a SHARDS folder from a request: opens the assignment, the encoders and the samples, and checks an existing folder. */
#include "data/shardmake.h"

#include <string.h>

#include "core/jsonio.h"
#include "core/mem.h"
#include "core/str.h"
#include "data/assignment.h"
#include "data/samples.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "file/manifest.h"
#include "file/optionstamp.h"

#define REQUEST(member) OPTION_FIELD(struct shard_request, member)

const struct option shard_options[] = {
    OPTION_GROUP("Shards"),
    {"--assign", 'a', .type = OPTION_TEXT, REQUEST(assign), .arg = "FILE", .required = "the assignment by ddm-cluster",
     .help = "table of samples and clusters, by ddm-cluster or any TSV or CSV", OPTION_ALWAYS, .stamp = STAMP_OTHERWISE},
    {"--output", 'o', .type = OPTION_TEXT, REQUEST(out), .arg = "SHARDS", .required = "the folder to make", .help = "folder to make", OPTION_ALWAYS},
    {"--holdout", .type = OPTION_REAL, REQUEST(holdout), .lo = 0, .hi = 1, .arg = "F",
     .help = "the held-out fraction the assignment must have been made with", OPTION_ALWAYS, .stamp = STAMP_OTHERWISE},
    {"--shard-size", .type = OPTION_SIZE, REQUEST(shard_size), .arg = "SIZE", .preset = "256M", .help = "start another shard at this size",
     OPTION_ALWAYS, .stamp = STAMP_ALWAYS, .key = "shard_size"},
    {"--level", .type = OPTION_INT, REQUEST(level), .lo = 1, .hi = 19, .arg = "N", .preset = "3", .help = "zstd level", OPTION_ALWAYS,
     .stamp = STAMP_ALWAYS, .key = "level"},
    OPTION_GROUP("Encoders"),
    {"--vae", .type = OPTION_TEXT, REQUEST(encoding.vae), .arg = "DIR", .help = "add latents by this autoencoder, as ddm-encode makes them",
     OPTION_ALWAYS, .stamp = STAMP_OTHERWISE},
    {"--size", .type = OPTION_INT, REQUEST(encoding.size), .lo = 1, .hi = 16384, .arg = "N", .help = "encode the centre square, resized to N x N",
     .said = "default: pictures as they are", .when = {{USE_NEEDS, "--vae"}}, .stamp = STAMP_OTHERWISE},
    {"--posterior", .type = OPTION_CHOICE, REQUEST(encoding.posterior), .arg = "WHAT", .choices = encoding_posteriors,
     .help = "keep mean and standard deviation of a latent, the mean alone, or one draw", .preset = "std", .when = {{USE_NEEDS, "--vae"}},
     .stamp = STAMP_OTHERWISE},
    {"--seed", .type = OPTION_U64, REQUEST(encoding.seed), .arg = "S", .help = "seed of the draw", .preset = "0",
     .when = {{USE_NEEDS, "--posterior=sample"}}, .stamp = STAMP_OTHERWISE},
    {"--flip", .type = OPTION_FLAG, REQUEST(encoding.flip), .help = "also encode every picture mirrored", .when = {{USE_NEEDS, "--vae"}},
     .stamp = STAMP_OTHERWISE},
    {"--no-pictures", .type = OPTION_FLAG, REQUEST(encoding.drop), .help = "leave out the pictures that became latents",
     .when = {{USE_NEEDS, "--vae"}}, .stamp = STAMP_OTHERWISE},
    {"--text", .type = OPTION_TEXT, REQUEST(encoding.text), .arg = "DIR", .help = "add features of captions by this text encoder", OPTION_ALWAYS,
     .stamp = STAMP_OTHERWISE},
    {"--tokens", .type = OPTION_INT, REQUEST(encoding.tokens), .lo = 1, .hi = 16384, .arg = "N", .help = "longest text of T5 in tokens",
     .said = "default 120", .when = {{USE_NEEDS, "--text"}}, .stamp = STAMP_OTHERWISE},
    {"--pooled", .type = OPTION_FLAG, REQUEST(encoding.pooled), .help = "also add the pooled vector of each caption, of CLIP",
     .when = {{USE_NEEDS, "--text"}}, .stamp = STAMP_OTHERWISE},
    {"--dtype", .type = OPTION_CHOICE, REQUEST(encoding.wide), .arg = "TYPE", .choices = encoding_dtypes, .help = "type of latents and text features",
     .preset = "f16", .when = {{USE_NEEDS, "--vae --text"}}, .stamp = STAMP_OTHERWISE},
    {"--batch", .type = OPTION_INT, REQUEST(encoding.batch), .lo = 1, .hi = 64, .arg = "N", .help = "pictures or texts that are encoded at a time",
     .said = "default 4 and 16", .when = {{USE_NEEDS, "--vae --text"}}},
    {"--weight-dtype", .type = OPTION_CHOICE, REQUEST(encoding.bulk), .arg = "TYPE", .choices = encoder_weights,
     .help = "type in which the encoders' matrices are held and multiplied", .preset = "f32", .when = {{USE_NEEDS, "--vae --text"}},
     .was = "--weights", .stamp = STAMP_OTHERWISE},
    {"--map", .type = OPTION_FLAG, REQUEST(encoding.map), .help = "leave f32 matrices in their files, mapped; changes no result",
     .when = {{USE_NEEDS, "--vae --text"}, {USE_AGAINST, "--weight-dtype=bf16 --weight-dtype=int8"}}},
    OPTION_GROUP("Reading"),
    {"--skip-bad", .type = OPTION_FLAG, REQUEST(skip_bad), .help = "skip unreadable and unassigned samples, naming them", OPTION_ALWAYS},
    {"--max-errors", .type = OPTION_INT, REQUEST(max_errors), .lo = 0, .hi = 1e15, .arg = "N",
     .help = "exit with 3 if more were skipped; no limit by default", .when = {{USE_NEEDS, "--skip-bad"}}},
    {"--null", '0', .type = OPTION_FLAG, REQUEST(nul_list), .help = "paths on stdin end with NUL, not newline", .when = {{USE_NEEDS, "-"}}},
    {0},
};

struct shard_request shard_defaults(void)
{
	struct shard_request r = {.holdout = -1, .max_errors = -1};

	option_presets(shard_options, &r);
	return r;
}

static struct stamp *make_stamp(const struct shard_request *r, const struct assignment *a, const struct encoding *x)
{
	static const struct option *const tables[] = {shard_options, NULL};
	struct stamp *s = stamp_new("ddm-shard");

	if (a->split < 0)
		stamp_f64(s, "holdout", r->holdout);
	if (*a->features)
		stamp_text(s, "features", a->features); /* recorded because a metric must not use the same features */
	optionstamp_put(s, tables, r, "shard_size level");
	stamp_input(s, "assign", a->hash);
	if (x)
		encoding_stamp(x, s);
	return s;
}

/* Compare the request with an existing output. 0 if the output is complete and was made from the same options and assignment, so nothing is left
 * to do. Facts that only a full pass over the samples could find are taken from its stamp. */
static int compare_existing(const struct shard_request *r, const struct assignment *a, const struct encoding *x, struct err *e)
{
	static const char *const facts[] = {"classes", "equal_sizes",   "files",       "clusters",  "partition",
	                                    "extends", "cluster_names", "class_names", "provenance"};
	struct stamp *s = make_stamp(r, a, x);
	struct manifest m = {0};
	struct str what = {0};
	json_t *old = NULL;
	int rc = manifest_load(&m, r->out, e);

	if (!rc) {
		old = json_loads(m.stamp, 0, NULL);
		const char *digest = json_string_value(json_object_get(json_object_get(old, "inputs"), "samples"));

		if (digest)
			stamp_input(s, "samples", digest);
		for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
			if (json_object_get(old, facts[i]))
				stamp_json(s, facts[i], json_incref(json_object_get(old, facts[i])));
		if (stamp_differs(s, m.stamp, &what))
			rc = err_set(e, ERR_EXISTS, "%s exists and was made with other options: %s", r->out, str_text(&what));
		for (int64_t i = 0; i < m.n && !rc; i++)
			rc = manifest_check(&m, i, e);
		for (int i = 0; i < m.files && !rc; i++)
			rc = manifest_check_file(&m, i, e);
	}
	json_decref(old);
	str_release(&what);
	manifest_release(&m);
	stamp_free(s);
	return rc;
}

static int write_shards(const struct shard_request *r, struct assignment *a, struct encoding *x, struct shard_report *report, struct err *e)
{
	struct samples_options so = {.skip_bad = r->skip_bad,
	                             .max_errors = r->max_errors,
	                             .nul_list = r->nul_list,
	                             .once = 1,
	                             .repeats = 1,
	                             .spool = r->spool,
	                             .bad = r->bad,
	                             .bad_arg = r->bad_arg};
	struct sharding_options zo = {
	    .shard_size = r->shard_size, .level = r->level, .encoding = x, .pool = r->encoding.pool, .progress = r->progress};
	struct samples *s = samples_open(r->sources, r->nsources, &so, e);
	struct stamp *stamp = make_stamp(r, a, x);
	struct outdir d = {0};
	int rc;

	rc = s ? outdir_begin(&d, r->out, e) : -1;
	if (!rc)
		rc = sharding_run(&report->result, d.tmp, s, a, stamp, &zo, e);
	if (!rc)
		rc = outdir_commit(&d, e);
	if (!rc) {
		report->made = 1;
		report->clusters = a->clusters;
		report->skipped = samples_skipped(s);
		report->cut = x ? encoding_cut(x) : 0;
		report->class_names = json_array_size(samples_class_names(s));
		rc = samples_check(s, e);
	}
	outdir_abort(&d);
	stamp_free(stamp);
	if (x)
		encoding_begin(x, NULL);
	samples_close(s);
	return rc;
}

int shard_make(const struct shard_request *r, struct shard_report *report, struct err *e)
{
	char *manifest = path_join(r->out, "MANIFEST.tsv");
	struct assignment a = {0};
	struct encoding *x = NULL;
	int rc;

	*report = (struct shard_report){0};
	rc = assignment_load(&a, r->assign, r->holdout, e);
	if (!rc && (r->encoding.vae || r->encoding.text))
		rc = (x = encoding_open(&r->encoding, e)) ? 0 : -1;
	if (!rc)
		rc = path_exists(manifest) ? compare_existing(r, &a, x, e) : write_shards(r, &a, x, report, e);
	encoding_free(x);
	assignment_release(&a);
	mem_free(manifest);
	return rc;
}
