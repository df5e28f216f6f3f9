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
	struct lookahead *read;
	float *x; /* (AT_ONCE, dims) */
};

/* Take the keys of n pictures, and write their features r->x, or with `passing` only count them: an earlier process wrote them. */
static int put_rows(struct encodejob *w, struct rows *r, int n, const char *const *key, int passing, struct err *e)
{
	for (int i = 0; i < n; i++) {
		sha256_add(&r->keys, key[i], strlen(key[i]));
		sha256_add(&r->keys, "\n", 1);
		if (w->o.keys)
			str_printf(&r->listed, "%s\n", key[i]);
	}
	w->done += n;
	r->batches++;
	if (progress_tell(&w->hooks.progress, "pictures", w->done, w->total))
		return err_set(e, ERR_AGAIN, "interrupted");
	if (passing)
		return 0;
	if (outfile_write(&w->partial.out, r->x, (size_t)n * (size_t)w->extractor->dims[TAP_MAIN] * sizeof *r->x, e))
		return -1;
	return partial_save(&w->partial, (const int64_t[PARTIAL_MARKS]){r->batches, w->done}, e);
}

static int compute_rows(struct encodejob *w, float *x, const struct picture *p, int n, struct err *e)
{
	float *taps[TAPS] = {x};

	return w->extractor->run(w->extractor, w->device->pool, taps, p, n, e);
}

static int put_pictures(struct encodejob *w, struct rows *r, struct samples *s, struct err *e)
{
	struct picture_batch *b;
	int n = -1;

	r->read = lookahead_new(s, w->device->pool, AT_ONCE, e);
	while (r->read && (!w->farm || w->done < w->partial.mark[1]) && (n = lookahead_next(r->read, &b, e)) > 0) {
		int passing = w->done < w->partial.mark[1];

		if ((!passing && compute_rows(w, r->x, b->picture, b->n, e)) || put_rows(w, r, b->n, (const char *const *)b->key, passing, e)) {
			n = -1;
			break;
		}
	}
	w->output = r;
	if (r->read && w->farm && !e->code && n) /* n is 0 where an earlier process wrote all rows */
		n = farm_run(w->farm, e);
	lookahead_free(r->read);
	return n;
}

/* ---- several ranks: an order holds keys and pictures; the result the features and, as the order is not kept, the keys ---- */

static int read_piece(void *arg, struct str *order, struct err *e)
{
	struct rows *r = ((struct encodejob *)arg)->output;
	struct picture_batch *b;
	int32_t n = lookahead_next(r->read, &b, e);

	if (n <= 0)
		return n;
	str_add(order, &n, sizeof n);
	for (int i = 0; i < n; i++)
		str_add(order, b->key[i], strlen(b->key[i]) + 1);
	for (int i = 0; i < n; i++) {
		const struct picture *p = &b->picture[i];
		const int32_t size[3] = {p->width, p->height, p->channels};

		str_add(order, size, sizeof size);
		str_add(order, p->pixels, (size_t)p->width * (size_t)p->height * (size_t)p->channels);
	}
	return 1;
}

/* n keys, borrowed from the text at `at`. Returns where they end. */
static const char *keys_at(const char *at, int n, const char *key[AT_ONCE])
{
	for (int i = 0; i < n; i++) {
		key[i] = at;
		at += strlen(at) + 1;
	}
	return at;
}

static int compute_piece(void *arg, const struct str *order, struct str *result, struct err *e)
{
	struct encodejob *w = arg;
	struct picture p[AT_ONCE];
	const char *at, *key[AT_ONCE], *keys = order->p + sizeof(int32_t);
	int32_t n;
	size_t floats;
	float *x;
	int rc;

	memcpy(&n, order->p, sizeof n);
	at = keys_at(keys, n, key);
	floats = (size_t)n * (size_t)w->extractor->dims[TAP_MAIN];
	x = mem_try(floats, sizeof *x, "features", e);
	str_add(result, order->p, (size_t)(at - order->p));
	for (int i = 0; i < n; i++) {
		int32_t size[3];

		memcpy(size, at, sizeof size);
		at += sizeof size;
		p[i] = (struct picture){size[0], size[1], size[2], (uint8_t *)(uintptr_t)at};
		at += (size_t)size[0] * (size_t)size[1] * (size_t)size[2];
	}
	rc = x ? compute_rows(w, x, p, n, e) : -1;
	if (!rc)
		str_add(result, x, floats * sizeof *x);
	mem_free(x);
	return rc;
}

static int take_piece(void *arg, const struct str *order, const struct str *result, struct err *e)
{
	struct encodejob *w = arg;
	struct rows *r = w->output;
	const char *key[AT_ONCE], *at;
	int32_t n;

	(void)order;
	memcpy(&n, result->p, sizeof n);
	at = keys_at(result->p + sizeof n, n, key);
	memcpy(r->x, at, result->len - (size_t)(at - result->p));
	return put_rows(w, r, n, key, 0, e);
}

void encodefeatures_join(struct encodejob *w)
{
	w->work = (struct farm_work){
	    .next = read_piece, .compute = compute_piece, .take = take_piece, .wait = encodejob_waits, .arg = w, .keep = sizeof(int32_t)};
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
