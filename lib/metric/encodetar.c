/* Writes the tar of samples with the members that the encoders add. */
#include "core/mem.h"
#include "core/str.h"
#include "file/standing.h"
#include "file/tarfile.h"
#include "metric/encodejobimpl.h"

/* The files of the empty text: its features and its pooled vector. */
enum { NULL_FILES = 2 };

int encodetar_null_text(const struct encodejob *w, struct err *e)
{
	const char *const path[NULL_FILES] = {w->o.null_text, w->o.null_pooled};
	struct stamp *s = stamp_new("ddm-encode");
	struct str npy[NULL_FILES] = {0};
	int rc = 0;

	encoding_stamp(w->encoding, s);
	for (int i = 0; i < NULL_FILES && !rc; i++)
		rc = path[i] ? standing_check(path[i], s, 1, e) : 0;
	if (!rc && (path[0] || path[1]))
		rc = encoding_null_text(w->encoding, &npy[0], &npy[1], e);
	for (int i = 0; i < NULL_FILES; i++) {
		if (!rc && path[i])
			rc = stamp_write(s, path[i], npy[i].p, npy[i].len, e);
		str_release(&npy[i]);
	}
	stamp_free(s);
	return rc;
}

/* Save a position from which to resume, if the encoder is between two batches. */
static int save_place(struct encodejob *w, struct err *e)
{
	struct encoding_place p;

	if (!encoding_place(w->encoding, &p))
		return 0;
	return partial_save(&w->partial, (const int64_t[PARTIAL_MARKS]){p.batches, w->done, p.bad, p.cut}, e);
}

static int go_on(struct encodejob *w, struct err *e)
{
	const int64_t *mark = w->partial.mark;

	w->done = mark[1];
	return encoding_go_on(w->encoding, &(struct encoding_place){.batches = mark[0], .bad = mark[2], .cut = mark[3]}, e);
}

/* All samples that encoding_next hands out: of a batch, or without other ranks of all. */
static int put_samples(struct encodejob *w, struct tar_writer *t, struct err *e)
{
	struct sample x;
	int rc;

	while ((rc = encoding_next(w->encoding, &x, e)) > 0) {
		if (sample_put(t, &x, e))
			return -1;
		if (progress_tell(&w->hooks.progress, "samples", ++w->done, w->total))
			return err_set(e, ERR_AGAIN, "interrupted");
		if (save_place(w, e))
			return -1;
	}
	return rc;
}

static int read_piece(void *arg, struct str *order, struct err *e)
{
	return encoding_read(((struct encodejob *)arg)->encoding, order, e);
}

static int compute_piece(void *arg, const struct str *order, struct str *result, struct err *e)
{
	return encoding_compute(((struct encodejob *)arg)->encoding, order, result, e);
}

static int take_piece(void *arg, const struct str *order, const struct str *result, struct err *e)
{
	struct encodejob *w = arg;

	return encoding_take(w->encoding, order, result, e) || put_samples(w, w->output, e) ? -1 : 0;
}

void encodetar_join(struct encodejob *w)
{
	w->work = (struct farm_work){.next = read_piece, .compute = compute_piece, .take = take_piece, .wait = encodejob_waits, .arg = w};
}

static int encode_samples(struct encodejob *w, struct tar_writer *t, struct samples *s, struct err *e)
{
	encoding_begin(w->encoding, s);
	if (partial_is_kept(&w->partial) && go_on(w, e))
		return -1;
	w->output = t;
	return w->farm ? farm_run(w->farm, e) : put_samples(w, t, e);
}

int encodetar_write(struct encodejob *w, const struct stamp *stamp, struct samples *s, struct err *e)
{
	struct tar_writer t = {0};
	char *line = stamp_line(stamp);
	int on = encodejob_open_output(w, stamp, 0, e), rc = -1;

	if (on >= 0 && !tar_start(&t, &w->partial.out, on ? NULL : line, e))
		rc = encode_samples(w, &t, s, e);
	if (rc)
		tar_release(&t);
	else
		rc = tar_finish(&t, e) || partial_commit(&w->partial, e) ? -1 : 0;
	encodejob_close_output(w, e);
	mem_free(line);
	return rc;
}
