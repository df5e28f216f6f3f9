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

char *sample_picture_stamp(const struct run *r, int64_t i)
{
	struct stamp *s = stamp_base(r, r->seeds[i]);
	const struct prompt *p = r->prompts.n ? &r->prompts.v[r->prompt[i]] : NULL;
	char *line;

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
	line = stamp_line(s);
	stamp_free(s);
	return line;
}

static int missing_reports(const struct run *r)
{
	return (r->ask.grid && !path_exists(r->ask.grid)) || (r->ask.report && !path_exists(r->ask.report)) || (r->ask.log && !path_exists(r->ask.log));
}

int sample_finished(const struct run *r, struct err *e)
{
	struct stat st;
	struct tar_reader *t;
	struct tar_member m;
	struct stamp *stamp;
	struct str what = {0};
	struct err bad = {0};
	int more, rc = -1;

	if (!strcmp(r->ask.out, "-") || stat(r->ask.out, &st) || !S_ISREG(st.st_mode) || !st.st_size)
		return 0;
	stamp = sample_stamp(r);
	if (r->ask.format == FORMAT_NPZ) {
		rc = standing_check(r->ask.out, stamp, 0, e) ? -1 : 1;
		stamp_free(stamp);
		return rc == 1 && missing_reports(r) ? 0 : rc;
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
	return rc == 1 && missing_reports(r) ? 0 : rc;
}
