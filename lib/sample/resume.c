/* Resumes the work of a process that was killed or stopped. The finished part of a tar is in .NAME.part (file/partial.h), saved with the counts for
 * the report, so that the report equals that of an uninterrupted run. The contact sheet is rebuilt from the finished pictures. */
#include <string.h>

#include "core/jsonio.h"
#include "core/mem.h"
#include "core/str.h"
#include "file/fileio.h"
#include "sample/sampling.h"

/* Only a tar can be resumed. A log would lack the lines of the finished pictures. A sheet of JPEGs would differ, because JPEG loses information, and
 * clips are not read back for a sheet. */
static int is_resumable(const struct sampling *r)
{
	return r->sink == SINK_TAR && !r->ask.log && !(r->sheet_n && (r->ask.format == FORMAT_JPG || r->ensemble.frames));
}

char *resume_key(const struct sampling *r, const char *stamp)
{
	if (!is_resumable(r))
		return NULL;
	/* On a GPU the last bits depend on the batch size, unless the kernels are batch-invariant. */
	return str_new("%s %s %lld", stamp, r->device->name, r->device->host || r->ask.invariant ? 0LL : (long long)r->ask.batch);
}

/* ---- the counts ---- */

static void put_counts(json_t *o, const char *name, const int64_t *v, int64_t n)
{
	json_t *a = json_array();

	for (int64_t i = 0; i < n; i++)
		json_array_append_new(a, json_integer(v[i]));
	json_object_set_new(o, name, a);
}

static int take_counts(const json_t *o, const char *name, int64_t *v, int64_t n)
{
	const json_t *a = json_object_get(o, name);

	if (!json_is_array(a) || json_array_size(a) != (size_t)n)
		return -1;
	for (int64_t i = 0; i < n; i++) {
		if (!json_is_integer(json_array_get(a, (size_t)i)))
			return -1;
		v[i] = json_integer_value(json_array_get(a, (size_t)i));
	}
	return 0;
}

static json_t *facts_of(struct sampling *r)
{
	struct stats_row row[STATS_ROWS];
	json_t *o = json_object();

	mixture_stats_rows(&r->stats, row);
	for (int i = 0; i < STATS_ROWS; i++)
		put_counts(o, row[i].name, row[i].v, row[i].n);
	put_counts(o, "assigned", r->assigned, r->stats.k);
	put_counts(o, "bytes", r->bytes, r->networks);
	json_object_set_new(o, "seconds", json_real(r->before + clock_seconds() - r->started));
	return o;
}

static int take_facts(struct sampling *r, const json_t *o)
{
	struct stats_row row[STATS_ROWS];

	mixture_stats_rows(&r->stats, row);
	for (int i = 0; i < STATS_ROWS; i++)
		if (take_counts(o, row[i].name, row[i].v, row[i].n))
			return -1;
	r->before = json_number_value(json_object_get(o, "seconds"));
	return take_counts(o, "assigned", r->assigned, r->stats.k) || take_counts(o, "bytes", r->bytes, r->networks) ? -1 : 0;
}

/* ---- the sheet ---- */

static int place_kept(struct sampling *r, const struct tar_member *m, struct err *e)
{
	struct picture p = {0};
	char ext[64];
	size_t key;
	int64_t place;

	if (tar_key(m->name, &key, ext) || still_sniff(m->data, m->size) == STILL_UNKNOWN)
		return 0;
	place = strtoll(m->name, NULL, 10) - r->ask.first;
	if (place < 0 || place >= r->sheet_n)
		return 0;
	if (still_decode(&p, m->data, m->size, m->name, (int)r->out.picture_channels, NULL, e))
		return -1;
	contactsheet_put(&r->sheet, &r->layout, place, 0, &p);
	picture_release(&p);
	return 0;
}

static int sheet_of_kept(struct sampling *r, struct err *e)
{
	const char *path = r->out.sink.part.out.tmp;
	struct filemap f;
	struct tar_member m;
	struct str name = {0};
	size_t pos = 0;
	int rc;

	if (!r->sheet_n)
		return 0;
	if (filemap_open(&f, path, e))
		return -1;
	while ((rc = tar_parse(f.data, f.len, &pos, &m, &name, NULL, path, e)) > 0 && !place_kept(r, &m, e))
		;
	filemap_close(&f);
	str_release(&name);
	return rc;
}

/* ---- start, save, end ---- */

/* Discards a saved state whose counts do not fit, as if its bytes were damaged, and starts at the first picture. */
static int start_over(struct sampling *r, const char *stamp, struct err *e)
{
	struct sink *s = &r->out.sink;

	s->part.dropped = PARTIAL_DAMAGED;
	mixture_stats_reset(&r->stats);
	memset(r->assigned, 0, (size_t)r->ensemble.k * sizeof *r->assigned);
	memset(r->bytes, 0, (size_t)r->networks * sizeof *r->bytes);
	r->before = 0;
	tar_release(&s->tar);
	return partial_restart(&s->part, e) || tar_start(&s->tar, &s->part.out, stamp, e) ? -1 : 0;
}

int resume_start(struct sampling *r, int on, const char *stamp, struct err *e)
{
	struct partial *p = &r->out.sink.part;

	if (on && (p->mark[0] >= r->count || take_facts(r, p->facts)) && start_over(r, stamp, e))
		return -1;
	r->kept = p->mark[0];
	if (p->dropped)
		sampling_say(r, "%s: starting over: the unfinished output there %s", r->ask.out,
		             p->dropped == PARTIAL_OTHER ? "is of another command" : "is damaged");
	if (!r->kept)
		return 0;
	sampling_say(r, "%s: continuing after %lld of %lld pictures", r->ask.out, (long long)r->kept, (long long)r->count);
	return sheet_of_kept(r, e);
}

int resume_save(struct sampling *r, int64_t done, struct err *e)
{
	struct partial *p = &r->out.sink.part;

	if (done >= r->count || !partial_is_due(p))
		return 0;
	if (ranks_count_bytes(r, e))
		return -1;
	json_decref(p->facts);
	p->facts = facts_of(r);
	return partial_save(p, (const int64_t[PARTIAL_MARKS]){done}, e);
}

int resume_keep(const struct sampling *r, const struct err *e)
{
	const struct partial *p = &r->out.sink.part;
	int keep = (r->hooks.stop && *r->hooks.stop) || e->code == ERR_AGAIN || e->code == ERR_UNAVAILABLE;

	if (keep && p->out.file && partial_is_kept(p))
		sampling_say(r, "%s: %lld of %lld pictures are saved: run the same command again to continue", r->ask.out, (long long)p->mark[0],
		             (long long)r->count);
	return keep;
}
