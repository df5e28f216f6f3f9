/* Reads samples for the search for near duplicates: the hashes of their pictures or frames, their parts and their clusters. */
#include <stdlib.h>
#include <string.h>

#include "cluster/dedupimpl.h"
#include "core/hash.h"
#include "core/mem.h"
#include "core/str.h"
#include "data/assignment.h"
#include "data/keyset.h"
#include "file/fileio.h"
#include "file/frames.h"
#include "file/manifest.h"

enum { BATCH = 64 };
static const size_t BATCH_BYTES = (size_t)64 << 20; /* limit for the encoded pictures of a batch, and for its frames */

/* A sample whose hashes are to be computed. */
struct pending {
	char *key, *origin;
	uint8_t *bytes; /* the encoded picture; NULL: a clip */
	size_t len;
	struct picture frame[HASHINDEX_PARTS]; /* of a clip, grey: the first, the middle and the last one */
	uint64_t hash[HASHINDEX_PARTS];
	struct err err;
};

struct batch {
	struct pending item[BATCH];
	int n;
	size_t bytes;
	enum imagehash_kind kind;
};

static void pending_release(struct pending *p)
{
	mem_free(p->key);
	mem_free(p->origin);
	mem_free(p->bytes);
	for (int i = 0; i < HASHINDEX_PARTS; i++)
		picture_release(&p->frame[i]);
	*p = (struct pending){0};
}

/* Frame i as a grey picture. */
static int grey_frame(struct picture *out, const struct clip *c, int i, struct err *e)
{
	struct picture colour;

	if (c->channels == 1)
		return clip_frame(out, c, i, 1, e);
	if (clip_frame(&colour, c, i, 3, e))
		return -1;
	if (!picture_alloc(out, c->width, c->height, 1, e))
		picture_grey(out->pixels, colour.pixels, (int64_t)c->width * c->height);
	picture_release(&colour);
	return out->pixels ? 0 : -1;
}

/* The frames of a clip (F, C, H, W), or of one array (C, H, W), of bytes. */
static int read_clip(struct pending *p, struct npy a, struct err *e)
{
	char *name = str_new("%s: the array of \"%s\"", p->origin, p->key);
	struct clip c;
	int rc;

	if (a.rank == 3) {
		memmove(a.shape + 1, a.shape, 3 * sizeof *a.shape);
		a.shape[0] = 1;
		a.rank = 4;
	}
	rc = clip_of(&c, &a, name, e);
	for (int i = 0; i < HASHINDEX_PARTS && !rc; i++)
		rc = grey_frame(&p->frame[i], &c, (const int[]){0, c.frames / 2, c.frames - 1}[i], e);
	mem_free(name);
	return rc;
}

/* Take what the hashes need: the array if it holds pixels, or else the picture. */
static int read_pending(struct pending *p, const struct sample *x, int hashed, struct err *e)
{
	const struct sample_member *array = sample_find(x, "npy"), *picture = sample_picture(x);
	struct npy a;
	int is_clip, rc;

	p->key = mem_strdup(x->key);
	p->origin = mem_strdup(x->origin);
	if (!hashed)
		return 0;
	if (array) {
		if (npy_parse(&a, array->data, array->len, x->key, e))
			return err_prefix(e, "%s", x->origin);
		is_clip = a.type == NPY_U1;
		rc = is_clip ? read_clip(p, a, e) : 0;
		npy_release(&a);
		if (is_clip)
			return rc;
	}
	if (!picture)
		return err_set(e, ERR_DATA, "%s: \"%s\" has no pixels: neither a picture nor a clip of bytes; --hash none compares features alone",
		               x->origin, x->key);
	p->bytes = mem_alloc(picture->len + 1);
	memcpy(p->bytes, picture->data, picture->len);
	p->len = picture->len;
	return 0;
}

static int hash_picture(struct pending *p, enum imagehash_kind kind)
{
	struct picture grey = {0};
	int rc;

	if (still_decode(&grey, p->bytes, p->len, p->key, 1, &(struct still_limits){.max_pixels = 1 << 26}, &p->err))
		return err_prefix(&p->err, "%s", p->origin);
	rc = imagehash_of(&p->hash[0], &grey, kind, &p->err);
	p->hash[1] = p->hash[2] = p->hash[0];
	picture_release(&grey);
	return rc;
}

static void hash_task(void *arg, int64_t task, int worker)
{
	struct batch *b = arg;
	struct pending *p = &b->item[task];

	(void)worker;
	if (p->bytes)
		hash_picture(p, b->kind);
	for (int i = 0; i < HASHINDEX_PARTS && p->frame[i].pixels && !p->err.code; i++)
		imagehash_of(&p->hash[i], &p->frame[i], b->kind, &p->err);
}

/* Count a sample that cannot be used. */
static int skip(struct deduping *w, struct err *e)
{
	if (!w->r->skip_bad)
		return -1;
	samples_passed(w->samples, 1);
	if (w->r->bad)
		w->r->bad(w->r->arg, e->msg);
	*e = (struct err){0};
	return 0;
}

/* Move the hashes of a batch into the items. */
static int take_batch(struct deduping *w, struct batch *b, struct err *e)
{
	int rc = 0;

	pool_run(w->r->pool, b->n, hash_task, b);
	for (int i = 0; i < b->n; i++) {
		struct pending *p = &b->item[i];

		if (p->err.code && !rc) {
			*e = p->err;
			rc = skip(w, e);
		} else if (!rc) {
			if (w->n == w->room) {
				w->room = w->room ? 2 * w->room : 1024;
				w->item = mem_resize(w->item, (size_t)w->room, sizeof *w->item);
			}
			w->item[w->n] =
			    (struct dedup_item){.key = p->key, .row = -1, .near = -1, .distance = -1, .crossed = -1, .cross_distance = -1};
			memcpy(w->item[w->n++].hash, p->hash, sizeof p->hash);
			p->key = NULL;
		}
		pending_release(p);
	}
	b->n = 0;
	b->bytes = 0;
	return rc;
}

static int read_hashes(struct deduping *w, struct err *e)
{
	int hashed = w->r->hash != DEDUP_NO_HASH, rc;
	struct batch *b = mem_zalloc(1, sizeof *b);
	struct sample x;

	b->kind = hashed ? (enum imagehash_kind)w->r->hash : IMAGEHASH_PHASH;
	while ((rc = samples_next(w->samples, &x, e)) > 0) {
		struct pending *p = &b->item[b->n];

		if (read_pending(p, &x, hashed, e)) {
			pending_release(p);
			if ((rc = skip(w, e)))
				break;
			continue;
		}
		b->bytes += p->len;
		for (int i = 0; i < HASHINDEX_PARTS; i++)
			b->bytes += (size_t)p->frame[i].width * (size_t)p->frame[i].height;
		if ((++b->n == BATCH || b->bytes > BATCH_BYTES) && (rc = take_batch(w, b, e)))
			break;
		if (progress_tell(w->r->progress, "hashes", w->n, samples_count(w->samples))) {
			rc = err_set(e, ERR_AGAIN, "interrupted");
			break;
		}
	}
	if (!rc)
		rc = take_batch(w, b, e);
	for (int i = 0; i < b->n; i++)
		pending_release(&b->item[i]);
	mem_free(b);
	if (!rc && !w->n)
		rc = err_set(e, ERR_DATA, "no samples: %lld skipped", (long long)samples_skipped(w->samples));
	return rc;
}

/* ---- parts and clusters ---- */

static int read_assignment(struct deduping *w, struct err *e)
{
	struct assignment a;
	int rc = assignment_load(&a, w->r->clusters, w->r->holdout, e);

	for (int64_t i = 0; i < w->n && !rc; i++) {
		int64_t row = assignment_find(&a, w->item[i].key);
		int cluster, held;

		if (row < 0)
			rc = err_set(e, ERR_DATA, "--clusters %s: no row for the sample \"%s\"", w->r->clusters, w->item[i].key);
		else
			rc = assignment_get(&a, row, &cluster, &held, e);
		if (!rc) {
			w->item[i].cluster = cluster;
			w->item[i].held = (uint8_t)held;
		}
	}
	if (!rc)
		w->report->has_parts = a.split >= 0 || a.holdout >= 0;
	assignment_release(&a);
	return rc;
}

/* Add the keys of the held-out part, if `dir` is a SHARDS folder that has one. */
static int read_heldout(struct keyset *held, const char *dir, const struct samples_options *o, struct err *e)
{
	struct samples_options part = *o;
	struct manifest m = {0};
	struct samples *s;
	struct sample x;
	int any = 0, rc = samples_is_shards(dir, e);

	part.part = SAMPLES_HOLDOUT;
	part.bad = NULL;
	part.skip_bad = 1;
	if (rc > 0) {
		rc = manifest_load(&m, dir, e);
		for (int64_t i = 0; i < m.n && !rc; i++)
			any |= m.rows[i].holdout;
		manifest_release(&m);
	}
	if (rc || !any)
		return rc;
	s = samples_open(&dir, 1, &part, e);
	rc = s ? 1 : -1;
	while (rc > 0 && (rc = samples_next(s, &x, e)) > 0)
		keyset_add(held, x.key);
	samples_close(s);
	return rc;
}

static int read_shards(struct deduping *w, struct err *e)
{
	struct keyset held = {0};
	int rc = 0;

	for (int i = 0; i < w->r->nsources && !rc; i++)
		rc = read_heldout(&held, w->r->sources[i], samples_settings(w->samples), e);
	if (!rc && held.n && w->r->holdout >= 0)
		rc = err_set(e, ERR_USAGE, "--holdout: the shards say what is held out; leave out this option");
	for (int64_t i = 0; i < w->n && !rc && held.n; i++)
		w->item[i].held = (uint8_t)keyset_has(&held, w->item[i].key);
	w->report->has_parts |= held.n > 0;
	keyset_release(&held);
	return rc;
}

static int read_parts(struct deduping *w, struct err *e)
{
	if (w->r->clusters)
		return read_assignment(w, e);
	if (w->r->holdout >= 0)
		w->report->has_parts = 1;
	for (int64_t i = 0; i < w->n && w->r->holdout >= 0; i++)
		w->item[i].held = (uint8_t)hash_holdout(w->item[i].key, w->r->holdout);
	return read_shards(w, e);
}

static int by_part_and_key(const void *a, const void *b)
{
	const struct dedup_item *p = a, *q = b;

	return p->held != q->held ? q->held - p->held : strcmp(p->key, q->key);
}

int64_t dedupread_find(const struct deduping *w, const char *key)
{
	for (int held = 1; held >= 0; held--) {
		struct dedup_item wanted = {.key = (char *)(uintptr_t)key, .held = (uint8_t)held};
		const struct dedup_item *found = bsearch(&wanted, w->item, (size_t)w->n, sizeof *w->item, by_part_and_key);

		if (found)
			return found - w->item;
	}
	return -1;
}

int dedupread_items(struct deduping *w, struct err *e)
{
	if (read_hashes(w, e) || read_parts(w, e))
		return -1;
	qsort(w->item, (size_t)w->n, sizeof *w->item, by_part_and_key);
	for (int64_t i = 0; i < w->n; i++)
		w->report->held += w->item[i].held;
	if (w->r->check && !w->report->has_parts)
		return err_set(e, ERR_USAGE,
		               "--check: nothing says what is held out; give --clusters, --holdout, or a SHARDS folder with a held-out part");
	return 0;
}
