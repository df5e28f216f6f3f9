/* Writes the table of features of pictures. */
#include <string.h>

#include "core/hash.h"
#include "core/mem.h"
#include "core/str.h"
#include "data/lookahead.h"
#include "file/fileio.h"
#include "file/npy.h"
#include "metric/encodejobimpl.h"

enum { AT_ONCE = 64 };

struct rows {
	int64_t batches;
	struct sha256 keys; /* running hash of the keys, as in featureset_keys */
	struct str listed;  /* for --keys */
	float *x;           /* (AT_ONCE, dims) */
};

/* Compute and write the features of a batch. Rows written by an earlier process are not computed again; only their keys are read. */
static int put_rows(struct encodejob *w, struct rows *r, const struct picture_batch *b, struct err *e)
{
	struct extractor *x = w->extractor;
	float *taps[TAPS] = {r->x};
	int passing = w->done < w->partial.mark[1];

	if (!passing && x->run(x, w->device->pool, taps, b->picture, b->n, e))
		return -1;
	for (int i = 0; i < b->n; i++) {
		sha256_add(&r->keys, b->key[i], strlen(b->key[i]));
		sha256_add(&r->keys, "\n", 1);
		if (w->o.keys)
			str_printf(&r->listed, "%s\n", b->key[i]);
	}
	w->done += b->n;
	r->batches++;
	if (progress_tell(&w->hooks.progress, "pictures", w->done, w->total))
		return err_set(e, ERR_AGAIN, "interrupted");
	if (passing)
		return 0;
	if (outfile_write(&w->partial.out, r->x, (size_t)b->n * (size_t)x->dims[TAP_MAIN] * sizeof *r->x, e))
		return -1;
	return partial_save(&w->partial, (const int64_t[PARTIAL_MARKS]){r->batches, w->done}, e);
}

static int put_pictures(struct encodejob *w, struct rows *r, struct samples *s, struct err *e)
{
	struct lookahead *l = lookahead_new(s, w->device->pool, AT_ONCE, e);
	struct picture_batch *b;
	int n = -1;

	while (l && (n = lookahead_next(l, &b, e)) > 0)
		if (put_rows(w, r, b, e)) {
			n = -1;
			break;
		}
	lookahead_free(l);
	return n;
}

/* The .npy header. Its length does not depend on the number of rows. */
static void header(const struct encodejob *w, int64_t rows, struct str *head)
{
	int64_t shape[2] = {rows, w->extractor->dims[TAP_MAIN]};

	npy_encode(head, NPY_F4, 2, shape, NULL);
}

/* Write the sidecar before the table is renamed to its final name: a sidecar without a table does no harm, but a table without a sidecar would not be
 * recognised as ours. If the output is a regular file, the sidecar holds the hash of the bytes written so far. */
static int write_sidecar(struct encodejob *w, const struct stamp *s, struct err *e)
{
	struct outfile *out = &w->partial.out;
	struct filemap all = {0};
	int rc;

	if (!out->place)
		return stamp_sidecar(s, w->o.out, e);
	if (fflush(out->file))
		return err_errno(e, "%s: write", out->path);
	rc = filemap_open(&all, out->tmp, e) || stamp_sidecar_of(s, w->o.out, hash64(all.data, all.len), e) ? -1 : 0;
	filemap_close(&all);
	return rc;
}

static int publish_rows(struct encodejob *w, struct rows *r, struct stamp *stamp, struct err *e)
{
	struct outfile *out = &w->partial.out;
	struct str head = {0};
	char keys[65];
	int rc;

	sha256_end(&r->keys, keys);
	stamp_i64(stamp, "samples", w->done);
	stamp_text(stamp, "keys", keys);
	header(w, w->done, &head);
	if (w->o.keys && stamp_write(stamp, w->o.keys, str_text(&r->listed), r->listed.len, e))
		rc = -1;
	else if (fseek(out->file, 0, SEEK_SET))
		rc = err_errno(e, "%s: not a regular file, which the features need because they are written in two passes", out->path);
	else
		rc = outfile_write(out, head.p, head.len, e) || write_sidecar(w, stamp, e) || partial_commit(&w->partial, e) ? -1 : 0;
	str_release(&head);
	return rc;
}

int encodefeatures_write(struct encodejob *w, struct stamp *stamp, struct samples *s, struct err *e)
{
	struct rows r = {.x = mem_try((size_t)(AT_ONCE * w->extractor->dims[TAP_MAIN]), sizeof *r.x, "features", e)};
	struct str head = {0};
	int on = -1, rc = -1;

	sha256_init(&r.keys);
	header(w, 0, &head);
	if (r.x)
		on = encodejob_open_output(w, stamp, (int64_t)head.len, e);
	if (on > 0 || (!on && !outfile_write(&w->partial.out, head.p, head.len, e)))
		rc = put_pictures(w, &r, s, e) ? -1 : publish_rows(w, &r, stamp, e);
	encodejob_close_output(w, e);
	str_release(&head);
	str_release(&r.listed);
	mem_free(r.x);
	return rc;
}
