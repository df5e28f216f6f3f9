/* Writes what the search for near duplicates found: a table of all samples or a tar of the kept ones, and the report. */
#include <stdio.h>

#include "cluster/dedupimpl.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/str.h"
#include "file/tarfile.h"
#include "file/tsv.h"

enum { LISTED = 1000 }; /* most crossing pairs in the report; the table has them all */

/* ---- table ---- */

static void put_key(struct tsv_writer *t, const struct deduping *w, int64_t item)
{
	tsv_put(t, item < 0 ? "-" : w->item[item].key);
}

static void put_distance(struct tsv_writer *t, int distance)
{
	if (distance < 0)
		tsv_put(t, "-");
	else
		tsv_put_i64(t, distance);
}

static void put_cosine(struct tsv_writer *t, int there, double cosine)
{
	if (there)
		tsv_put_f64(t, cosine);
	else
		tsv_put(t, "-");
}

/* 16 hexadecimal digits; of a clip whose three hashes differ, three times, with '-' between. */
static void put_hash(struct tsv_writer *t, const struct dedup_item *x, int hashed)
{
	char text[64];
	const uint64_t *h = x->hash;

	if (!hashed)
		snprintf(text, sizeof text, "-");
	else if (h[0] == h[1] && h[1] == h[2])
		snprintf(text, sizeof text, "%016llx", (unsigned long long)h[0]);
	else
		snprintf(text, sizeof text, "%016llx-%016llx-%016llx", (unsigned long long)h[0], (unsigned long long)h[1], (unsigned long long)h[2]);
	tsv_put(t, text);
}

static int put_row(struct tsv_writer *t, const struct deduping *w, int64_t i, struct err *e)
{
	const struct dedup_item *x = &w->item[i];

	tsv_put(t, x->key);
	tsv_put_i64(t, x->near < 0);
	put_key(t, w, dedup_group(w, i));
	put_key(t, w, x->near);
	put_distance(t, x->distance);
	put_cosine(t, x->near >= 0 && x->distance < 0, x->cosine);
	tsv_put(t, !w->report->has_parts ? "-" : x->held ? "holdout" : "train");
	put_key(t, w, x->crossed);
	put_distance(t, x->cross_distance);
	put_cosine(t, x->cross_cosine != 0, x->cross_cosine);
	put_hash(t, x, w->r->hash != DEDUP_NO_HASH);
	return tsv_row(t, e);
}

static int write_table(const struct deduping *w, struct err *e)
{
	static const char *const names[] = {"key",   "kept",    "group",          "near",         "distance", "cosine",
	                                    "split", "crosses", "cross_distance", "cross_cosine", "hash"};
	struct tsv_writer *t = tsv_create(w->r->out, names, sizeof names / sizeof *names, w->stamp, e);

	if (!t)
		return -1;
	for (int64_t i = 0; i < w->n; i++)
		if (put_row(t, w, i, e)) {
			tsv_abort(t);
			return -1;
		}
	return tsv_commit(t, e);
}

/* ---- tar ---- */

/* Read the samples once more and write the kept ones. */
static int add_samples(struct tar_writer *t, struct deduping *w, struct err *e)
{
	int64_t written = 0;
	struct sample x;
	int rc;

	if (samples_rewind(w->samples, e))
		return -1;
	while ((rc = samples_next(w->samples, &x, e)) > 0) {
		int64_t i = dedupread_find(w, x.key);

		if (i < 0 || w->item[i].near >= 0)
			continue;
		if (sample_put(t, &x, e))
			return -1;
		if (progress_tell(w->r->progress, "samples written", ++written, w->report->kept))
			return err_set(e, ERR_AGAIN, "interrupted");
	}
	return rc;
}

static int write_tar(struct deduping *w, struct err *e)
{
	struct outfile file = {0};
	struct tar_writer t = {0};
	char *line = stamp_line(w->stamp);
	int rc = outfile_open(&file, w->r->out, e);

	if (!rc)
		rc = tar_start(&t, &file, line, e) || add_samples(&t, w, e) ? -1 : 0;
	if (rc)
		tar_release(&t);
	else
		rc = tar_finish(&t, e) || outfile_commit(&file, e) ? -1 : 0;
	outfile_abort(&file);
	mem_free(line);
	return rc;
}

/* ---- report ---- */

static json_t *crossing_facts(const struct dedup_crossing *c)
{
	json_t *o = json_pack("{s:o, s:o}", "train", jsonio_text(c->train), "holdout", jsonio_text(c->held));

	if (c->distance >= 0)
		json_object_set_new(o, "distance", json_integer(c->distance));
	if (c->cosine != 0)
		json_object_set_new(o, "cosine", jsonio_real(c->cosine));
	return o;
}

static int write_report(const struct deduping *w, struct err *e)
{
	const struct dedup_report *p = w->report;
	json_t *o = json_object(), *pairs = json_array();
	const struct {
		const char *name;
		int64_t value;
	} numbers[] = {{"samples", p->samples},     {"kept", p->kept},     {"skipped", p->skipped}, {"by_hash", p->by_hash},
	               {"by_cosine", p->by_cosine}, {"groups", p->groups}, {"largest", p->largest}, {"holdout", p->held}};
	int rc;

	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		json_object_set_new(o, numbers[i].name, json_integer(numbers[i].value));
	if (p->has_parts) {
		for (int64_t i = 0; i < p->crossings && i < LISTED; i++)
			json_array_append_new(pairs, crossing_facts(&p->crossing[i]));
		json_object_set_new(o, "crossing", json_integer(p->crossings));
		json_object_set_new(o, "crossed", json_integer(p->crossed));
		json_object_set(o, "pairs", pairs);
	}
	json_decref(pairs);
	json_object_set(o, "stamp", (json_t *)(uintptr_t)stamp_root(w->stamp));
	rc = commit_json(w->r->report, o, e);
	json_decref(o);
	return rc;
}

int dedupfiles_write(struct deduping *w, struct err *e)
{
	if (w->r->report && write_report(w, e))
		return -1;
	return w->r->table ? write_table(w, e) : write_tar(w, e);
}
