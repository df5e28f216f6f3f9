/* How far are samples from a reference: kernel and Frechet distances of picture features, and copies of training pictures. */
#include <stdlib.h>
#include <string.h>

#include "cmd/cmd.h"
#include "core/mem.h"
#include "core/pool.h"
#include "core/str.h"
#include "file/commit.h"
#include "file/stamp.h"
#include "file/standing.h"
#include "metric/evalreport.h"
#include "metric/evalset.h"

static int features = PIXFEAT_PIX, filter = RESIZE_BICUBIC, skip_bad;
static int64_t size, axes = 32, draws = 4, subsets, subset_size = 1000, max_errors = -1, threads;
static uint64_t seed;
static const char *heldout, *train, *stats_out, *out = "-";

static const struct opt options[] = {
    {"--features", 0, OPT_CHOICE, &features, .arg = "KIND",
     .help = "pix: layout, sharpness, colour; rgb8: 8 x 8 means (default pix)", .choices = pixfeat_names},
    {"--size", 0, OPT_INT, &size, PIXFEAT_SIDE_MIN, 4096, .arg = "N",
     .help = "resize the centre square to N x N (default: as they are, all of one size)"},
    {"--filter", 0, OPT_CHOICE, &filter, .arg = "NAME", .help = "of that resize (default bicubic)",
     .choices = resize_filter_names},
    {"--heldout", 0, OPT_TEXT, &heldout, .arg = "SET",
     .help = "also measure against this set; REFERENCE is then what was trained on"},
    {"--train", 0, OPT_TEXT, &train, .arg = "SET", .help = "what samples may be copies of (default REFERENCE)"},
    {"--axes", 0, OPT_INT, &axes, 1, 65536, .arg = "P", .help = "principal axes of the Frechet distance (default 32)"},
    {"--draws", 0, OPT_INT, &draws, 1, 1000, .arg = "R", .help = "rounds of drawing equal numbers for it (default 4)"},
    {"--subsets", 0, OPT_INT, &subsets, 2, 100000, .arg = "N",
     .help = "kernel distance as the mean over N subsets (default: all pairs)"},
    {"--subset-size", 0, OPT_INT, &subset_size, 3, 1000000, .arg = "M", .help = "samples in a subset (default 1000)"},
    {"--seed", 0, OPT_U64, &seed, .arg = "S", .help = "of draws and subsets (default 0)"},
    {"--stats-out", 0, OPT_TEXT, &stats_out, .arg = "FILE", .help = "write REFERENCE's statistics and features as .npz"},
    {"--output", 'o', OPT_TEXT, &out, .arg = "FILE", .help = "write the line there (default standard output)"},
    {"--skip-bad", 0, OPT_FLAG, &skip_bad, .help = "pass over unreadable pictures, naming them"},
    {"--max-errors", 0, OPT_INT, &max_errors, 0, 1e15, .arg = "N",
     .help = "exit 3 when more than N were passed over (default: no limit)"},
    {"--threads", 0, OPT_INT, &threads, 1, 4096, .arg = "N",
     .help = "threads (default: all CPUs); the result does not depend on it"},
    {0},
};

static const struct program program = {
    .name = "ddm-eval-fid",
    .synopsis =
	"[--features KIND] [--size N] [--filter NAME] [--heldout SET] [--train SET] [--axes P] [--draws R] [--subsets N] "
	"[--subset-size M] [--seed S] [--stats-out FILE] [-o FILE] [--skip-bad] [--max-errors N] [--threads N] REFERENCE SAMPLES",
    .about = "Measure how far samples are from a reference set of pictures.",
    .options = options,
};

enum role { REFERENCE, SAMPLES, HELDOUT, TRAIN, ROLES };
static const char *const role_names[ROLES] = {"reference", "samples", "heldout", "train"};

static void tell_bad(void *arg, const char *why)
{
	(void)arg;
	cmd_warn("skipped: %s", why);
}

/* Without --size, samples are measured as a reference that is a statistics file was. */
static int follow(struct evalset_options *o, const struct evalset *reference, struct err *e)
{
	const struct recipe *r = &reference->recipe;

	for (int k = 0; pixfeat_names[k]; k++)
		if (!strcmp(r->features, pixfeat_names[k]))
			o->kind = (enum pixfeat_kind)k;
	if (size || !strcmp(r->resize, "none"))
		return 0;
	for (int k = 0; resize_filter_names[k]; k++)
		if (str_ends(r->resize, resize_filter_names[k]) && r->width == r->height) {
			o->size = r->width;
			o->filter = (enum resize_filter)k;
			return 0;
		}
	return err_set(e, ERR_DATA, "the reference was resized in an unknown way: %s", r->resize);
}

static int sets_read(struct evalset set[ROLES], const char *const path[ROLES], struct pool *pool, const struct progress *progress,
                     struct err *e)
{
	struct evalset_options o = {.kind = (enum pixfeat_kind)features,
	                            .size = (int)size,
	                            .filter = (enum resize_filter)filter,
	                            .skip_bad = skip_bad,
	                            .max_errors = max_errors,
	                            .bad = tell_bad,
	                            .spool = getenv("TMPDIR"),
	                            .pool = pool,
	                            .progress = progress};

	for (int k = 0; k < ROLES; k++) {
		if (!path[k])
			continue;
		if (evalset_read(&set[k], path[k], &o, e) || (k == REFERENCE && follow(&o, &set[k], e)) ||
		    (k && evalset_agree(&set[REFERENCE], path[REFERENCE], &set[k], path[k], e)))
			return -1;
		if (set[k].partition &&
		    (!strcmp(set[k].partition, set[k].recipe.features) || !strcmp(set[k].partition, set[k].recipe.features_hash)))
			cmd_warn("%s was clustered by the same features \"%s\": that favours its partition", path[k],
			         set[k].recipe.features);
	}
	return 0;
}

static json_t *recipe_json(const struct recipe *r)
{
	json_t *o = json_object();

	json_object_set_new(o, "features", json_string(r->features));
	if (*r->features_hash)
		json_object_set_new(o, "features-hash", json_string(r->features_hash));
	json_object_set_new(o, "dims", json_integer(r->dims));
	if (r->width) {
		json_object_set_new(o, "width", json_integer(r->width));
		json_object_set_new(o, "height", json_integer(r->height));
		json_object_set_new(o, "resize", json_string(r->resize));
		json_object_set_new(o, "colour", json_string("8-bit RGB, turned by EXIF, no profile applied"));
		json_object_set_new(o, "copies", json_string("box means of at most 32 x 32"));
	}
	json_object_set_new(o, "draws", json_integer(draws));
	if (subsets) {
		json_object_set_new(o, "subsets", json_integer(subsets));
		json_object_set_new(o, "subset-size", json_integer(subset_size));
	}
	return o;
}

static int evaluate(struct stamp *st, const char *const path[ROLES], struct pool *pool, struct err *e)
{
	struct progress progress = cmd_progress();
	struct evalset set[ROLES] = {{.n = 0}};
	struct evalreport r = {.reference = &set[REFERENCE],
	                       .samples = &set[SAMPLES],
	                       .heldout = path[HELDOUT] ? &set[HELDOUT] : NULL,
	                       .train = path[TRAIN] ? &set[TRAIN] : NULL,
	                       .axes = (int)axes,
	                       .draws = (int)draws,
	                       .subsets = subsets,
	                       .size = subset_size,
	                       .seed = seed,
	                       .pool = pool};
	int rc = sets_read(set, path, pool, &progress, e);

	if (!rc) {
		stamp_json(st, "recipe", recipe_json(&set[REFERENCE].recipe));
		stamp_u64(st, "seed", seed);
		for (int k = 0; k < ROLES; k++) {
			if (*set[k].hash)
				stamp_input(st, role_names[k], set[k].hash);
			if (set[k].skipped)
				stamp_i64(st,
				          k == REFERENCE ? "skipped-reference"
				          : k == SAMPLES ? "skipped-samples"
				                         : "skipped-other",
				          set[k].skipped);
		}
		if (set[REFERENCE].partition)
			stamp_text(st, "cluster-features", set[REFERENCE].partition);
		rc = standing_check(out, st, 1, e) || evalreport_fill(st, &r, e) ? -1 : 0;
	}
	if (!rc && stats_out)
		rc = evalset_statistics(&set[REFERENCE], pool, e) || evalset_write(&set[REFERENCE], stats_out, e) ? -1 : 0;
	for (int k = 0; k < ROLES; k++)
		evalset_release(&set[k]);
	return rc;
}

static int line_write(const struct stamp *st, struct err *e)
{
	char *line = stamp_line(st), *text = str_new("%s\n", line);
	int rc = standing_check(out, st, 0, e) || commit_bytes(out, text, strlen(text), e) ? -1 : 0;

	mem_free(line);
	mem_free(text);
	return rc;
}

static int stdin_shared(const char *const path[ROLES], struct err *e)
{
	int n = 0;

	for (int k = 0; k < ROLES; k++)
		n += path[k] && !strcmp(path[k], "-");
	return n > 1 ? err_set(e, ERR_USAGE, "standard input (-) can be one set only") : 0;
}

int main(int argc, char **argv)
{
	const char *path[ROLES];
	struct err e = {0};
	struct stamp *st;
	struct pool *pool;

	cmd_start(&program, argc, argv, 2, 2);
	path[REFERENCE] = argv[1], path[SAMPLES] = argv[2], path[HELDOUT] = heldout, path[TRAIN] = train;
	if (stdin_shared(path, &e))
		cmd_die(&e);
	pool = pool_new((int)threads, &e);
	st = stamp_new(program.name);
	if (pool && !evaluate(st, path, pool, &e))
		line_write(st, &e);
	stamp_free(st);
	pool_free(pool);
	return cmd_end(&e);
}
