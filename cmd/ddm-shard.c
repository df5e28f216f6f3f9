/* ddm-shard: samples into a SHARDS folder, one set of shards per cluster. */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "cmd/cmd.h"
#include "cmd/opendevice.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/pool.h"
#include "core/str.h"
#include "data/encoding.h"
#include "data/samples.h"
#include "data/sharding.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "file/manifest.h"
#include "file/stamp.h"

static const char *const dtype_names[] = {"f16", "f32", NULL};

static struct {
	const char *assign, *out, *vae, *text, *device;
	double holdout;
	uint64_t shard_size, seed;
	int64_t level, threads, max_errors, size, tokens, batch;
	int holdout_given, skip_bad, nul, quiet, posterior, flip, drop, wide, weights;
} o = {.shard_size = (uint64_t)256 << 20, .level = 3, .max_errors = -1, .device = "auto"};

static const struct option options[] = {
    OPTION_GROUP("Shards"),
    {.name = "--assign", .letter = 'a', .type = OPTION_TEXT, .value = &o.assign, .arg = "FILE",
     .required = "the assignment by ddm-cluster", .help = "assignment by ddm-cluster", OPTION_ALWAYS},
    {.name = "--output", .letter = 'o', .type = OPTION_TEXT, .value = &o.out, .arg = "SHARDS",
     .required = "the folder to make", .help = "folder to make", OPTION_ALWAYS},
    {.name = "--holdout", .type = OPTION_REAL, .value = &o.holdout, .lo = 0, .hi = 1, .arg = "F", .given = &o.holdout_given,
     .help = "the held-out fraction the assignment must have been made with", OPTION_ALWAYS},
    {.name = "--shard-size", .type = OPTION_SIZE, .value = &o.shard_size, .arg = "SIZE",
     .help = "start another shard at this size (default 256M)", OPTION_ALWAYS},
    {.name = "--level", .type = OPTION_INT, .value = &o.level, .lo = 1, .hi = 19, .arg = "N", .help = "zstd level (default 3)", OPTION_ALWAYS},
    OPTION_GROUP("Encoders"),
    {.name = "--vae", .type = OPTION_TEXT, .value = &o.vae, .arg = "DIR", .help = "add latents by this autoencoder, as ddm-encode makes them",
     OPTION_ALWAYS},
    {.name = "--size", .type = OPTION_INT, .value = &o.size, .lo = 1, .hi = 16384, .arg = "N",
     .help = "of the centre square, resized to N x N (default: pictures as they are)", .when = {{USE_NEEDS, "--vae"}}},
    {.name = "--posterior", .type = OPTION_CHOICE, .value = &o.posterior, .arg = "WHAT", .choices = encoding_posteriors,
     .help = "mean and deviation of a latent, the mean alone, or one draw (default std)",
     .when = {{USE_NEEDS, "--vae"}}},
    {.name = "--seed", .type = OPTION_U64, .value = &o.seed, .arg = "S", .help = "of that draw (default 0)",
     .when = {{USE_NEEDS, "--posterior=sample"}}},
    {.name = "--flip", .type = OPTION_FLAG, .value = &o.flip, .help = "encode every picture mirrored, too",
     .when = {{USE_NEEDS, "--vae"}}},
    {.name = "--no-pictures", .type = OPTION_FLAG, .value = &o.drop,
     .help = "leave out the pictures that became latents", .when = {{USE_NEEDS, "--vae"}}},
    {.name = "--text", .type = OPTION_TEXT, .value = &o.text, .arg = "DIR", .help = "add features of captions by this text encoder",
     OPTION_ALWAYS},
    {.name = "--tokens", .type = OPTION_INT, .value = &o.tokens, .lo = 1, .hi = 16384, .arg = "N",
     .help = "longest text of T5 in tokens (default 120)", .when = {{USE_NEEDS, "--text"}}},
    {.name = "--dtype", .type = OPTION_CHOICE, .value = &o.wide, .arg = "TYPE", .choices = dtype_names,
     .help = "of latents and texts (default f16)", .when = {{USE_NEEDS, "--vae --text"}}},
    {.name = "--batch", .type = OPTION_INT, .value = &o.batch, .lo = 1, .hi = 64, .arg = "N",
     .help = "pictures or texts that are encoded at a time (default 4 and 16)", .when = {{USE_NEEDS, "--vae --text"}}},
    {.name = "--weight-dtype", .type = OPTION_CHOICE, .value = &o.weights, .arg = "TYPE", .choices = encoder_weights,
     .help = "how the encoders' matrices are held and multiplied (default f32)",
     .when = {{USE_NEEDS, "--vae --text"}}, .was = "--weights"},
    {.name = "--device", .type = OPTION_TEXT, .value = &o.device, .arg = "NAME",
     .help = "auto, cpu, cuda or cuda:N: where encoders run (default auto)", .when = {{USE_NEEDS, "--vae --text"}}},
    OPTION_GROUP("Reading"),
    {.name = "--skip-bad", .type = OPTION_FLAG, .value = &o.skip_bad,
     .help = "pass over unreadable and unassigned samples, naming them", OPTION_ALWAYS},
    {.name = "--max-errors", .type = OPTION_INT, .value = &o.max_errors, .lo = 0, .hi = 1e15, .arg = "N",
     .help = "exit 3 when more were skipped", .when = {{USE_NEEDS, "--skip-bad"}}},
    {.name = "--null", .letter = '0', .type = OPTION_FLAG, .value = &o.nul, .help = "paths on stdin end with NUL, not newline",
     .when = {{USE_NEEDS, "-"}}},
    {.name = "--threads", .type = OPTION_INT, .value = &o.threads, .lo = 1, .hi = 4096, .arg = "N",
     .help = "threads (default: what the machine has)", OPTION_ALWAYS},
    {.name = "--quiet", .letter = 'q', .type = OPTION_FLAG, .value = &o.quiet, .help = "no report on stderr", OPTION_ALWAYS},
    {0},
};

static const struct program program = {
    .name = "ddm-shard",
    .operands = "SAMPLES...",
    .about = "packs samples into shards by cluster",
    .options = options,
};

static void say_bad(void *arg, const char *why)
{
	(void)arg;
	cmd_warn("skipped: %s", why);
}

/* What --vae and --text ask for; x is NULL where they do not. */
struct encoders {
	struct pool *pool;
	struct device *device;
	struct encoding *x;
};

static int encoders_open(struct encoders *c, struct err *e)
{
	struct encoding_options eo = {.vae = o.vae, .text = o.text, .size = o.size, .posterior = o.posterior, .seed = o.seed, .wide = o.wide,
	                              .tokens = o.tokens, .batch = o.batch, .flip = o.flip, .drop = o.drop,
	                              .bulk = (enum compact_type)o.weights};

	if (!(c->pool = pool_new((int)o.threads, e)))
		return -1;
	if (!o.vae && !o.text)
		return 0;
	if (!(c->device = open_device(o.device, c->pool, e)))
		return -1;
	eo.device = c->device;
	eo.pool = c->pool;
	return (c->x = encoding_open(&eo, e)) ? 0 : -1;
}

static void encoders_close(struct encoders *c)
{
	encoding_free(c->x);
	device_free(c->device);
	pool_free(c->pool);
}

static struct stamp *make_stamp(const struct assignment *a, const struct encoders *c)
{
	struct stamp *s = stamp_new("ddm-shard");

	if (a->split < 0)
		stamp_f64(s, "holdout", o.holdout);
	if (*a->features)
		stamp_text(s, "features", a->features); /* a metric must not use the same */
	stamp_u64(s, "shard_size", o.shard_size);
	stamp_i64(s, "level", o.level);
	stamp_input(s, "assign", a->hash);
	if (c->x)
		encoding_stamp(c->x, s);
	return s;
}

/* The output is there. 0 when it is whole and came from the same options and assignment: nothing to do. What only a full
 * pass over the samples could tell is taken from the old stamp. */
static int compare_existing(const struct assignment *a, const struct encoders *c, struct err *e)
{
	static const char *const facts[] = {"classes", "equal_sizes", "files", "clusters", "partition", "cluster_names", "class_names"};
	struct stamp *s = make_stamp(a, c);
	struct manifest m = {0};
	struct str what = {0};
	json_t *old = NULL;
	int rc = manifest_load(&m, o.out, e);

	if (!rc) {
		old = json_loads(m.stamp, 0, NULL);
		const char *digest = json_string_value(json_object_get(json_object_get(old, "inputs"), "samples"));

		if (digest)
			stamp_input(s, "samples", digest);
		for (size_t i = 0; i < sizeof facts / sizeof *facts; i++)
			if (json_object_get(old, facts[i]))
				stamp_json(s, facts[i], json_incref(json_object_get(old, facts[i])));
		if (stamp_differs(s, m.stamp, &what))
			rc = err_set(e, ERR_EXISTS, "%s exists and was made otherwise: %s", o.out, str_text(&what));
		for (int64_t i = 0; i < m.n && !rc; i++)
			rc = manifest_check(&m, i, e);
		for (int i = 0; i < m.files && !rc; i++)
			rc = manifest_check_file(&m, i, e);
		if (!rc && !o.quiet)
			cmd_say("%s is there already", o.out);
	}
	json_decref(old);
	str_release(&what);
	manifest_release(&m);
	stamp_free(s);
	return rc;
}

static void say_report(const struct sharding_result *r, const struct assignment *a, const struct samples *s, const struct encoding *x)
{
	if (o.quiet)
		return;
	cmd_say("%lld samples, %lld held out, %d clusters, %lld shards", (long long)(r->train + r->held), (long long)r->held,
	        a->clusters, (long long)r->shards);
	if (r->names_lacking)
		cmd_warn("the names of classes are not kept: there are %zu, fewer than the classes of the samples",
		         json_array_size(samples_class_names(s)));
	if (samples_skipped(s) || r->unused)
		cmd_warn("%lld samples skipped, %lld of the assignment not found", (long long)samples_skipped(s), (long long)r->unused);
	if (x && encoding_cut(x))
		cmd_warn("%lld captions were longer than the encoder reads, and were cut", (long long)encoding_cut(x));
}

static int write_shards(struct assignment *a, const struct encoders *c, char **sources, int n, struct err *e)
{
	struct progress progress = cmd_progress();
	struct samples_options so = {.skip_bad = o.skip_bad, .max_errors = o.max_errors, .nul_list = o.nul, .once = 1,
	                             .spool = getenv("TMPDIR"), .bad = say_bad};
	struct sharding_options zo = {.shard_size = o.shard_size, .level = (int)o.level, .encoding = c->x, .pool = c->pool,
	                              .progress = &progress};
	struct samples *s = samples_open((const char *const *)sources, n, &so, e);
	struct stamp *stamp = make_stamp(a, c);
	struct sharding_result r;
	struct outdir d = {0};
	int rc;

	cmd_catch_signals(); /* not before: reading a pipe would go on after a signal, and nothing is there yet to clean up */
	rc = s ? outdir_begin(&d, o.out, e) : -1;
	if (!rc)
		rc = sharding_run(&r, d.tmp, s, a, stamp, &zo, e);
	if (!rc)
		rc = outdir_commit(&d, e);
	if (!rc)
		say_report(&r, a, s, c->x);
	if (!rc)
		rc = samples_check(s, e);
	outdir_abort(&d);
	stamp_free(stamp);
	if (c->x)
		encoding_begin(c->x, NULL);
	samples_close(s);
	return rc;
}

/* Two shards are open for every cluster. */
static void allow_files(void)
{
	struct rlimit l;

	if (!getrlimit(RLIMIT_NOFILE, &l)) {
		l.rlim_cur = l.rlim_max;
		setrlimit(RLIMIT_NOFILE, &l);
	}
}

int main(int argc, char **argv)
{
	int n = cmd_start(&program, argc, argv, 1, -1);
	struct assignment a = {0};
	struct encoders c = {0};
	struct err e = {0};
	char *manifest;

	allow_files();
	manifest = path_join(o.out, "MANIFEST.tsv");
	if (!assignment_load(&a, o.assign, o.holdout_given ? o.holdout : -1, &e) && !encoders_open(&c, &e)) {
		if (path_exists(manifest))
			compare_existing(&a, &c, &e);
		else
			write_shards(&a, &c, argv + 1, n, &e);
	}
	encoders_close(&c);
	mem_free(manifest);
	assignment_release(&a);
	return cmd_end_over(&e);
}
