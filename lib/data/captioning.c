/* Reads samples up to three times: for the digest in the stamp, to show them to the command, and to write them with their captions. */
#include "data/captioning.h"

#include <string.h>

#include "core/mem.h"
#include "core/str.h"
#include "data/samplecolumns.h"
#include "file/claim.h"
#include "file/optionstamp.h"
#include "file/standing.h"
#include "file/tarfile.h"

struct captioning {
	const struct caption_request *r;
	struct caption_report *report;
	struct samples *samples;
	struct samplecolumns *columns; /* of the column; NULL: a command */
	int64_t wanted;                /* samples that are asked for */
	struct str texts;              /* their captions, each with a NUL */
	size_t *at, cap;               /* (taken) where each begins */
	int64_t taken, next;           /* captions that came; the next one to be written */
	struct stamp *stamp;
	struct outfile file;
	struct tar_writer tar;
};

static int tell(const struct captioning *w, const char *what, struct err *e)
{
	if (progress_tell(w->r->progress, what, samples_count(w->samples), samples_expected(w->samples)))
		return err_set(e, ERR_AGAIN, "interrupted");
	return 0;
}

/* Whether the sample is to get a caption. */
static int is_asked(const struct captioning *w, const struct sample *x)
{
	return !w->r->missing || !sample_find(x, "txt");
}

/* The caption of a sample that is asked for; NULL or empty: none. */
static int caption_find(struct captioning *w, const struct sample *x, const char **text, struct err *e)
{
	struct condition_value v;

	if (!w->columns) {
		*text = str_text(&w->texts) + w->at[w->next++];
		return 0;
	}
	if (samplecolumns_read(w->columns, x, samples_class_names(w->samples), &v, e))
		return -1;
	*text = v.there ? v.text : NULL;
	return 0;
}

/* The first pass: what is asked for, and the stamp. Samples whose columns are damaged are reported here, because no later pass does. */
static int scan(struct captioning *w, struct err *e)
{
	static const struct option *const tables[] = {caption_options, NULL};
	const json_t *names;
	char digest[65];
	struct sample x;
	const char *text;
	int rc;

	while ((rc = samples_next(w->samples, &x, e)) > 0) {
		w->wanted += is_asked(w, &x);
		if (w->columns && is_asked(w, &x) && caption_find(w, &x, &text, e) && samples_bad(w->samples, e))
			return -1;
		if (tell(w, "samples read", e))
			return -1;
	}
	if (rc)
		return -1;
	w->stamp = stamp_new("ddm-caption");
	optionstamp_put(w->stamp, tables, w->r, "");
	if ((names = samples_class_names(w->samples)))
		stamp_json(w->stamp, "class_names", json_incref((json_t *)(uintptr_t)names));
	samples_digest(w->samples, digest);
	stamp_input(w->stamp, "samples", digest);
	for (int i = 0; w->columns && i < samplecolumns_tables(w->columns); i++) {
		char *role = samplecolumns_tables(w->columns) > 1 ? str_new("table %d", i + 1) : mem_strdup("table");

		stamp_input(w->stamp, role, samplecolumns_table_sha256(w->columns, i));
		mem_free(role);
	}
	return 0;
}

int captioning_feed(struct captioning *w, struct outfile *to, struct err *e)
{
	struct tar_writer tar = {0};
	struct sample x;
	int rc = samples_rewind(w->samples, e) || tar_start(&tar, to, NULL, e) ? -1 : 1;

	while (rc > 0 && (rc = samples_next(w->samples, &x, e)) > 0)
		if (tell(w, "samples shown", e) || (is_asked(w, &x) && sample_put(&tar, &x, e)))
			rc = -1;
	if (!rc)
		rc = tar_finish(&tar, e);
	tar_release(&tar);
	return rc ? -1 : 0;
}

/* Write a sample with this caption in place of its own. */
static int captioned_put(struct captioning *w, const struct sample *x, const char *text, struct err *e)
{
	struct sample_member *m = mem_zalloc((size_t)x->n + 1, sizeof *m), caption = {"txt", text, strlen(text)};
	struct sample out = *x;
	int rc, n = 0, put = 0;

	for (int i = 0; i < x->n; i++) {
		int order = strcmp(x->member[i].ext, caption.ext);

		if (order >= 0 && !put++)
			m[n++] = caption;
		if (order)
			m[n++] = x->member[i];
	}
	if (!put)
		m[n++] = caption;
	out.member = m;
	out.n = n;
	rc = sample_put(&w->tar, &out, e);
	mem_free(m);
	return rc;
}

static int sample_write(struct captioning *w, const struct sample *x, struct err *e)
{
	struct caption_report *p = w->report;
	const char *text = NULL;

	if (is_asked(w, x) && caption_find(w, x, &text, e))
		return samples_bad(w->samples, e);
	p->samples++;
	if (text && *text) {
		p->captioned++;
		return captioned_put(w, x, text, e);
	}
	*(sample_find(x, "txt") ? &p->kept : &p->without) += 1;
	return sample_put(&w->tar, x, e);
}

static int samples_write(struct captioning *w, struct err *e)
{
	char *line = stamp_line(w->stamp);
	struct sample x;
	int rc = samples_rewind(w->samples, e) || outfile_open(&w->file, w->r->out, e) || tar_start(&w->tar, &w->file, line, e) ? -1 : 1;

	mem_free(line);
	while (rc > 0 && (rc = samples_next(w->samples, &x, e)) > 0)
		if (tell(w, "samples", e) || sample_write(w, &x, e))
			rc = -1;
	if (rc)
		return -1;
	w->report->skipped = samples_skipped(w->samples);
	if (w->columns && w->report->samples && !samplecolumns_found(w->columns, 0))
		return samplecolumns_unknown(w->columns, 0, e);
	return tar_finish(&w->tar, e) || outfile_commit(&w->file, e) ? -1 : samples_check(w->samples, e);
}

int captioning_take(struct captioning *w, const char *text, size_t n, struct err *e)
{
	if (w->taken == w->wanted)
		return err_set(e, ERR_DATA, "--command: more than %lld lines, for as many samples", (long long)w->wanted);
	if ((size_t)w->taken == w->cap) {
		w->cap = w->cap ? 2 * w->cap : 256;
		w->at = mem_resize(w->at, w->cap, sizeof *w->at);
	}
	w->at[w->taken++] = w->texts.len;
	str_add(&w->texts, text, n);
	str_add(&w->texts, "", 1);
	return 0;
}

static int run(struct captioning *w, struct err *e)
{
	if (w->r->run(w->r->arg, w->r, w, e))
		return -1;
	if (w->taken < w->wanted)
		return err_set(e, ERR_DATA, "--command: %lld lines for %lld samples", (long long)w->taken, (long long)w->wanted);
	return 0;
}

static int make(struct captioning *w, struct err *e)
{
	const struct caption_request *r = w->r;
	struct samples_options o = {
	    .skip_bad = r->skip_bad, .max_errors = r->max_errors, .nul_list = r->nul_list, .spool = r->spool, .bad = r->bad, .bad_arg = r->arg};
	int there;

	if (r->column && !(w->columns = samplecolumns_open(&r->column, 1, r->with.v, r->with.n, e)))
		return -1;
	if (claim_take(&r->out, 1, e) || !(w->samples = samples_open(r->sources, r->nsources, &o, e)) || scan(w, e))
		return -1;
	there = standing_all(&r->out, 1, w->stamp, e);
	if (there < 0)
		return -1;
	if (there && standing_is_file(r->out)) {
		w->report->there = 1;
		return 0;
	}
	if (r->command && w->wanted && run(w, e))
		return -1;
	return samples_write(w, e);
}

int caption_make(const struct caption_request *r, struct caption_report *report, struct err *e)
{
	struct caption_request usual = caption_defaults();
	struct captioning w = {.r = r, .report = report};
	int rc;

	*report = (struct caption_report){0};
	if (option_check_request(caption_options, r, &usual, e))
		return -1;
	if (!r->command == !r->column)
		return err_set(e, ERR_USAGE, "captions come from --command CMD or from --column NAME: give one of them");
	rc = make(&w, e);
	claim_drop(&r->out, 1);
	outfile_abort(&w.file);
	tar_release(&w.tar);
	samples_close(w.samples);
	samplecolumns_free(w.columns);
	str_release(&w.texts);
	mem_free(w.at);
	stamp_free(w.stamp);
	return rc;
}
