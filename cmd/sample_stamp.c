/* ddm-sample: what the pictures depend on, as a stamp, and whether an output that stands there was made by the same command. */
#include <string.h>
#include <sys/stat.h>

#include "cmd/opendevice.h"
#include "cmd/sample_run.h"
#include "core/mem.h"
#include "core/str.h"
#include "file/fileio.h"
#include "file/standing.h"
#include "file/tarfile.h"

/* What determines a picture, apart from its index. */
static struct stamp *stamp_base(const struct run *r, uint64_t of)
{
	struct stamp *s = stamp_new("ddm-sample");

	stamp_text(s, "route", r->ask.route);
	stamp_text(s, "solver", r->ask.solver);
	if (r->ask.times)
		stamp_text(s, "times", sample_times[r->ask.times]);
	if (r->ask.noise)
		stamp_text(s, "noise", sample_noises[r->ask.noise]);
	stamp_i64(s, "steps", r->ask.steps);
	stamp_u64(s, "seed", of);
	if (r->ask.cfg != 1)
		stamp_f64(s, "cfg", r->ask.cfg);
	if (r->ask.cfg_channels)
		stamp_i64(s, "cfg_channels", r->ask.cfg_channels);
	if (r->ask.convert)
		stamp_text(s, "convert", sample_converts[r->ask.convert]);
	if (r->ask.weights)
		stamp_text(s, "weights", sample_weights[r->ask.weights]);
	if (r->ask.encoders)
		stamp_text(s, "encoder_weights", encoder_weights[r->ask.encoders]);
	if (r->ask.invariant)
		stamp_i64(s, "batch_invariant", 1);
	return s;
}

/* What the experts read and what becomes of their numbers. */
static void stamp_output(const struct run *r, struct stamp *s)
{
	if (r->ask.format)
		stamp_text(s, "format", sample_formats[r->ask.format]);
	if (r->ask.tile && *r->vae_hash)
		stamp_i64(s, "tile", 1);
	if (*r->vae_hash)
		stamp_input(s, "vae", r->vae_hash);
	if (r->text)
		text_stamp(r->text, s);
}

struct stamp *sample_stamp(const struct run *r)
{
	struct stamp *s = stamp_base(r, r->ask.seed);
	char hash[65];

	if (r->ask.class)
		stamp_text(s, "class", r->ask.class);
	stamp_i64(s, "first", r->ask.first);
	stamp_i64(s, "n", r->ask.each);
	stamp_output(r, s);
	if (r->prompts.n == 1 && !r->prompts.v->negative && !r->prompts.v->seeded) {
		stamp_text(s, "prompt", r->prompts.v->text);
	} else if (r->prompts.n) {
		prompts_hash(&r->prompts, hash);
		stamp_input(s, "prompts", hash);
	}
	if (r->text && r->ask.cfg != 1 && !r->ask.away)
		stamp_text(s, "negative", r->ask.negative);
	if (r->labels.n)
		stamp_input(s, "labels", r->labels.hash);
	for (int i = 0; i < r->ensemble.files; i++)
		stamp_input(s, r->ensemble.file[i].name, r->ensemble.file[i].hash);
	return s;
}

static struct stamp *picture_stamp(const struct run *r, int64_t i)
{
	struct stamp *s = stamp_base(r, r->seeds[i]);
	const struct prompt *p = r->prompts.n ? &r->prompts.v[r->prompt[i]] : NULL;

	stamp_i64(s, "index", r->index[i]);
	if (r->draw[i] != r->index[i])
		stamp_i64(s, "draw", r->draw[i]);
	if (p)
		stamp_text(s, "prompt", p->text);
	else if (r->text)
		stamp_i64(s, "text", r->prompt[i]);
	if (r->text && r->ask.cfg != 1 && !r->ask.away)
		stamp_text(s, "negative", p && p->negative ? p->negative : r->ask.negative);
	if (r->label)
		stamp_i64(s, "class", r->label[i]);
	if (r->policy.kind == POLICY_ORACLE)
		stamp_i64(s, "expert", r->chosen[i]);
	stamp_output(r, s);
	if (r->labels.n)
		stamp_input(s, "labels", r->labels.hash);
	stamp_input(s, "model", r->ensemble.hash);
	return s;
}

char *sample_picture_stamp(const struct run *r, int64_t i)
{
	struct stamp *s = picture_stamp(r, i);
	char *line = stamp_line(s);

	stamp_free(s);
	return line;
}

static int missing_reports(const struct run *r)
{
	return (r->ask.grid && !path_exists(r->ask.grid)) || (r->ask.report && !path_exists(r->ask.report)) || (r->ask.log && !path_exists(r->ask.log));
}

static int is_there(const char *path)
{
	struct stat st;

	return strcmp(path, "-") && !stat(path, &st) && S_ISREG(st.st_mode) && st.st_size;
}

/* The picture of one file is stamped as in a tar: it is the same picture. */
static int finished_file(struct run *r, struct err *e)
{
	struct stamp *s;
	int rc;

	sample_choose(r, 0);
	s = picture_stamp(r, 0);
	rc = standing_check(r->ask.out, s, 0, e) ? -1 : 1;
	stamp_free(s);
	return rc;
}

/* Picture i of a folder: 1, 0 where it is not there, -1. */
static int finished_member(struct run *r, int64_t i, struct err *e)
{
	static const char *const ending[] = {
	    [FORMAT_PNG] = "png", [FORMAT_WEBP] = "webp", [FORMAT_LATENT] = "npy", [FORMAT_JPG] = "jpg"};
	char *path, *side;
	struct stamp *s;
	int rc;

	r->at = i;
	sample_choose(r, 0);
	path = str_new("%s%06lld.%s", r->ask.out, (long long)r->index[0], ending[r->ask.format]);
	side = str_new("%s%06lld.json", r->ask.out, (long long)r->index[0]);
	s = picture_stamp(r, 0);
	rc = !is_there(path) ? 0 : standing_check(r->ask.format == FORMAT_PNG ? path : side, s, 0, e) ? -1 : 1;
	stamp_free(s);
	mem_free(path);
	mem_free(side);
	return rc;
}

/* Every picture of a folder has its own stamp. */
static int finished_folder(struct run *r, struct err *e)
{
	char **names;
	size_t n;
	int rc = 1;

	if (!path_exists(r->ask.out))
		return 0;
	if (dir_list(r->ask.out, &names, &n, e))
		return -1;
	names_free(names, n);
	if (!n)
		return 0;
	for (int64_t i = 0; i < r->ask.count && rc > 0; i++)
		rc = finished_member(r, i, e);
	if (!rc)
		rc = err_set(e, ERR_EXISTS, "%s: exists, and does not hold all of these pictures: name another folder", r->ask.out);
	else if (rc > 0 && finished_member(r, r->ask.count, &(struct err){0}))
		rc = err_set(e, ERR_EXISTS, "%s: exists, and holds more than these pictures: name another folder", r->ask.out);
	r->at = 0;
	return rc;
}

static int finished_sheet(const struct run *r, struct err *e)
{
	struct stamp *s = sample_stamp(r);
	int rc = !is_there(r->ask.grid) ? 0 : standing_check(r->ask.grid, s, 0, e) ? -1 : 1;

	stamp_free(s);
	return rc;
}

/* A tar or an array. */
static int finished_all(const struct run *r, struct err *e)
{
	struct tar_reader *t;
	struct tar_member m;
	struct stamp *stamp;
	struct str what = {0};
	struct err bad = {0};
	int more, rc = -1;

	stamp = sample_stamp(r);
	if (r->sink == SINK_NPZ) {
		rc = standing_check(r->ask.out, stamp, 0, e) ? -1 : 1;
		stamp_free(stamp);
		return rc;
	}
	t = tar_open(r->ask.out, NULL, &bad);
	more = t ? tar_next(t, &m, &bad) : -1;
	if (more < 0 || !tar_stamp(t) || (rc = stamp_differs(stamp, tar_stamp(t), &what)) < 0)
		rc = err_set(e, ERR_EXISTS, "%s: exists and is not an output of this program", r->ask.out);
	else if (rc > 0)
		rc = err_set(e, ERR_EXISTS, "%s: exists and was made with other options: %s", r->ask.out, str_text(&what));
	else
		rc = 1;
	while (rc == 1 && more > 0)
		more = tar_next(t, &m, &bad);
	if (rc == 1 && more < 0)
		rc = err_set(e, bad.code, "%s", bad.msg);
	tar_close(t);
	stamp_free(stamp);
	str_release(&what);
	return rc;
}

int sample_finished(struct run *r, struct err *e)
{
	int rc;

	if (r->sink == SINK_NOTHING)
		rc = finished_sheet(r, e);
	else if (r->sink == SINK_FOLDER)
		rc = finished_folder(r, e);
	else if (!is_there(r->ask.out))
		return 0;
	else
		rc = r->sink == SINK_FILE ? finished_file(r, e) : finished_all(r, e);
	if (rc == 1 && r->sink == SINK_TAR)
		partial_tidy(r->ask.out);
	if (rc != 1 || !missing_reports(r))
		return rc;
	if (r->sink == SINK_FOLDER) /* which stays as it is */
		r->sink = SINK_NOTHING;
	return 0;
}
