/* Checks whether an existing output was made by the same request. */
#include <string.h>

#include "core/mem.h"
#include "core/str.h"
#include "file/fileio.h"
#include "file/standing.h"
#include "file/tarfile.h"
#include "sample/sampling.h"

static int missing_reports(const struct sampling *r)
{
	return (r->ask.grid && !path_exists(r->ask.grid)) || (r->ask.report && !path_exists(r->ask.report)) ||
	       (r->ask.log && !path_exists(r->ask.log));
}

/* A picture in a file of its own has the same stamp as in a tar. */
static int finished_file(struct sampling *r, struct err *e)
{
	struct stamp *s;
	int rc;

	sampling_choose(r, 0);
	s = samplestamp_picture(r, 0);
	rc = standing_check(r->ask.out, s, 0, e) ? -1 : 1;
	stamp_free(s);
	return rc;
}

/* Picture i of a folder: 1 if it has the stamp of this request, 0 if it does not exist, -1 if it has another stamp. */
static int finished_member(struct sampling *r, int64_t i, struct err *e)
{
	char *path, *side;
	struct stamp *s;
	int rc;

	r->at = i;
	sampling_choose(r, 0);
	path = str_new("%s%06lld.%s", r->ask.out, (long long)r->index[0], output_endings[r->ask.format]);
	side = str_new("%s%06lld.json", r->ask.out, (long long)r->index[0]);
	s = samplestamp_picture(r, 0);
	rc = !standing_is_file(path) ? 0 : standing_check(r->ask.format == FORMAT_PNG ? path : side, s, 0, e) ? -1 : 1;
	stamp_free(s);
	mem_free(path);
	mem_free(side);
	return rc;
}

/* Checks the stamp of every picture of a folder. */
static int finished_folder(struct sampling *r, struct err *e)
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
	for (int64_t i = 0; i < r->count && rc > 0; i++)
		rc = finished_member(r, i, e);
	if (!rc)
		rc = err_set(e, ERR_EXISTS, "%s: exists, but not all of these pictures are in it: name another folder", r->ask.out);
	else if (rc > 0 && finished_member(r, r->count, &(struct err){0}))
		rc = err_set(e, ERR_EXISTS, "%s: exists, and more than these pictures are in it: name another folder", r->ask.out);
	r->at = 0;
	return rc;
}

static int finished_sheet(const struct sampling *r, struct err *e)
{
	struct stamp *s = samplestamp_all(r);
	int rc = !r->ask.grid || !standing_is_file(r->ask.grid) ? 0 : standing_check(r->ask.grid, s, 0, e) ? -1 : 1;

	stamp_free(s);
	return rc;
}

/* Checks the one stamp of a tar or an array. */
static int finished_all(const struct sampling *r, struct err *e)
{
	struct tar_reader *t;
	struct tar_member m;
	struct stamp *stamp;
	struct str what = {0};
	struct err bad = {0};
	int more, rc = -1;

	stamp = samplestamp_all(r);
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

int sampling_finished(struct sampling *r, struct err *e)
{
	int rc;

	if (r->sink == SINK_NOTHING)
		rc = finished_sheet(r, e);
	else if (r->sink == SINK_FOLDER)
		rc = finished_folder(r, e);
	else if (!standing_is_file(r->ask.out))
		return 0;
	else
		rc = r->sink == SINK_FILE ? finished_file(r, e) : finished_all(r, e);
	if (rc == 1 && r->sink == SINK_TAR)
		partial_tidy(r->ask.out);
	if (rc != 1 || !missing_reports(r))
		return rc;
	if (r->sink == SINK_FOLDER) /* the finished folder is left alone; only missing reports are written */
		r->sink = SINK_NOTHING;
	return 0;
}
