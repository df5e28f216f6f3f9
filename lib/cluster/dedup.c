/* Finds near duplicates.
 *
 * Being near is not transitive: of a chain of pictures that each resemble the next, the first and the last may have nothing in common. Groups of
 * all that is connected would drop the last though nothing like it is kept. Therefore an item is dropped only if it is near one that is kept. */
#include "cluster/dedup.h"

#include <math.h>
#include <string.h>

#include "cluster/dedupimpl.h"
#include "cluster/featureset.h"
#include "cluster/points.h"
#include "cluster/semdedup.h"
#include "core/hash.h"
#include "core/mem.h"
#include "file/claim.h"
#include "file/optionstamp.h"
#include "file/standing.h"

enum { TELL_EVERY = 1024 };

/* ---- by hashes ---- */

static int tell_hashes(const struct deduping *w, int64_t done, struct err *e)
{
	if (done % TELL_EVERY || !progress_tell(w->r->progress, "near hashes", done, w->n))
		return 0;
	return err_set(e, ERR_AGAIN, "interrupted");
}

/* Compare each item with the earlier ones that are kept. */
static int near_by_hash(struct deduping *w, struct err *e)
{
	struct hashindex *kept = hashindex_new((int)w->r->distance);
	int64_t *item = mem_zalloc((size_t)w->n + 1, sizeof *item), n = 0;
	int rc = 0;

	for (int64_t i = 0; i < w->n && !rc; i++) {
		struct dedup_item *x = &w->item[i];
		int64_t found = hashindex_nearest(kept, x->hash, &x->distance);

		if (found >= 0) {
			x->near = item[found];
			w->report->by_hash++;
		} else {
			x->distance = -1;
			hashindex_add(kept, x->hash);
			item[n++] = i;
		}
		rc = tell_hashes(w, i, e);
	}
	hashindex_free(kept);
	mem_free(item);
	return rc;
}

/* Compare each training item with all held-out ones, of which equal ones are indexed once. */
static int cross_by_hash(struct deduping *w, struct err *e)
{
	struct hashindex *held = hashindex_new((int)w->r->distance), *same = hashindex_new(0);
	int64_t *item = mem_zalloc((size_t)w->n + 1, sizeof *item), n = 0;
	int rc = 0;

	for (int64_t i = 0; i < w->n && !rc; i++) {
		struct dedup_item *x = &w->item[i];
		int64_t found;

		if (x->held && hashindex_nearest(same, x->hash, &x->cross_distance) < 0) {
			hashindex_add(same, x->hash);
			hashindex_add(held, x->hash);
			item[n++] = i;
		}
		found = x->held ? -1 : hashindex_nearest(held, x->hash, &x->cross_distance);
		x->crossed = found < 0 ? -1 : item[found];
		x->cross_distance = found < 0 ? -1 : x->cross_distance;
		rc = tell_hashes(w, i, e);
	}
	hashindex_free(held);
	hashindex_free(same);
	mem_free(item);
	return rc;
}

/* ---- by features ---- */

/* The items of one cluster, in the order of all items, and their features. */
struct member_set {
	int64_t *item; /* [n] */
	float *x;      /* (n, d), each of length 1 */
	uint8_t *held, *out;
	int64_t *near;
	double *cosine;
	int64_t n;
};

static void member_set_release(struct member_set *m)
{
	mem_free(m->item);
	mem_free(m->x);
	mem_free(m->held);
	mem_free(m->out);
	mem_free(m->near);
	mem_free(m->cosine);
}

static int member_set_fill(struct member_set *m, const struct deduping *w, const struct featureset *f, int cluster, struct err *e)
{
	int64_t n = 0;

	for (int64_t i = 0; i < w->n; i++)
		n += w->item[i].cluster == cluster;
	m->item = mem_zalloc((size_t)n + 1, sizeof *m->item);
	m->held = mem_zalloc((size_t)n + 1, 1);
	m->out = mem_zalloc((size_t)n + 1, 1);
	m->near = mem_zalloc((size_t)n + 1, sizeof *m->near);
	m->cosine = mem_zalloc((size_t)n + 1, sizeof *m->cosine);
	m->x = mem_try((size_t)(n * f->d) + 1, sizeof *m->x, "features of a cluster", e);
	if (!m->x)
		return -1;
	for (int64_t i = 0; i < w->n; i++) {
		if (w->item[i].cluster != cluster)
			continue;
		m->item[m->n] = i;
		m->held[m->n] = w->item[i].held;
		m->out[m->n] = w->item[i].near >= 0;
		memcpy(m->x + m->n++ * f->d, f->x[0] + w->item[i].row * f->d, (size_t)f->d * sizeof *m->x);
	}
	return 0;
}

static int near_in_cluster(struct deduping *w, const struct featureset *f, int cluster, struct err *e)
{
	const struct dedup_request *r = w->r;
	struct member_set m = {0};
	int rc = member_set_fill(&m, w, f, cluster, e);

	if (!rc)
		rc = semdedup_near(m.near, m.cosine, m.x, m.n, f->d, m.held, m.out, r->cosine, r->pool, r->progress, e);
	for (int64_t i = 0; i < m.n && !rc; i++)
		if (m.near[i] >= 0) {
			w->item[m.item[i]].near = m.item[m.near[i]];
			w->item[m.item[i]].cosine = m.cosine[i];
			w->report->by_cosine++;
		}
	if (!rc && w->report->has_parts)
		rc = semdedup_across(m.near, m.cosine, m.x, m.n, f->d, m.held, r->cosine, r->pool, r->progress, e);
	for (int64_t i = 0; i < m.n && !rc && w->report->has_parts; i++) {
		struct dedup_item *x = &w->item[m.item[i]];

		if (m.near[i] >= 0 && x->crossed < 0) {
			x->crossed = m.item[m.near[i]];
			x->cross_cosine = m.cosine[i];
		}
	}
	member_set_release(&m);
	return rc;
}

/* The features of pairs that cross by their hashes. */
static void cosines_of_crossings(struct deduping *w, const struct featureset *f)
{
	for (int64_t i = 0; i < w->n; i++) {
		struct dedup_item *x = &w->item[i];
		const float *held = x->cross_distance < 0 ? NULL : f->x[0] + w->item[x->crossed].row * f->d;
		double cosine = held ? points_cosine(f->x[0] + x->row * f->d, held, f->d) : 0;

		if (cosine > w->r->cosine)
			x->cross_cosine = cosine;
	}
}

/* Find the row of features of each item, and scale the rows to length 1. */
static int match_features(struct deduping *w, struct featureset *f, struct err *e)
{
	for (int64_t row = 0; row < f->n; row++) {
		int64_t i = dedupread_find(w, f->key[row]);

		if (i >= 0)
			w->item[i].row = row;
	}
	for (int64_t i = 0; i < w->n; i++)
		if (w->item[i].row < 0)
			return err_set(e, ERR_DATA, "--features %s: no row for the sample \"%s\"", w->r->features, w->item[i].key);
	return featureset_unit(f, w->r->pool, e);
}

static int near_by_features(struct deduping *w, struct err *e)
{
	struct featureset_options o = {.kind = FEATURES_FILE, .file = w->r->features, .pool = w->r->pool, .progress = w->r->progress};
	struct featureset f = {0};
	int32_t clusters = 0;
	int rc;

	if (samples_rewind(w->samples, e) || featureset_read(&f, w->samples, &o, e))
		return -1;
	for (int64_t i = 0; i < w->n; i++)
		clusters = w->item[i].cluster >= clusters ? w->item[i].cluster + 1 : clusters;
	rc = match_features(w, &f, e);
	for (int32_t k = 0; k < clusters && !rc; k++)
		rc = near_in_cluster(w, &f, k, e);
	if (!rc)
		cosines_of_crossings(w, &f);
	featureset_release(&f);
	return rc;
}

/* ---- report ---- */

int64_t dedup_group(const struct deduping *w, int64_t i)
{
	while (w->item[i].near >= 0)
		i = w->item[i].near;
	return i;
}

static void count_groups(struct deduping *w)
{
	struct dedup_report *p = w->report;
	int64_t *size = mem_zalloc((size_t)w->n + 1, sizeof *size);

	p->samples = w->n;
	p->skipped = samples_skipped(w->samples);
	p->kept = w->n - p->by_hash - p->by_cosine;
	for (int64_t i = 0; i < w->n; i++)
		size[dedup_group(w, i)]++;
	for (int64_t i = 0; i < w->n; i++) {
		p->groups += size[i] > 1;
		p->largest = size[i] > p->largest ? size[i] : p->largest;
	}
	mem_free(size);
}

static void list_crossings(struct deduping *w)
{
	struct dedup_report *p = w->report;
	uint8_t *seen = mem_zalloc((size_t)w->n + 1, 1);

	for (int64_t i = 0; i < w->n; i++)
		p->crossings += w->item[i].crossed >= 0;
	p->crossing = mem_zalloc((size_t)p->crossings + 1, sizeof *p->crossing);
	for (int64_t i = 0, n = 0; i < w->n; i++) {
		const struct dedup_item *x = &w->item[i];

		if (x->crossed < 0)
			continue;
		p->crossing[n++] =
		    (struct dedup_crossing){mem_strdup(x->key), mem_strdup(w->item[x->crossed].key), x->cross_distance, x->cross_cosine};
		p->crossed += !seen[x->crossed];
		seen[x->crossed] = 1;
	}
	mem_free(seen);
}

void dedup_report_release(struct dedup_report *report)
{
	for (int64_t i = 0; i < report->crossings && report->crossing; i++) {
		mem_free(report->crossing[i].train);
		mem_free(report->crossing[i].held);
	}
	mem_free(report->crossing);
	*report = (struct dedup_report){0};
}

/* ---- the whole ---- */

static int check_request(const struct dedup_request *r, struct err *e)
{
	if (r->hash == DEDUP_NO_HASH && !r->features)
		return err_set(e, ERR_USAGE, "--hash none compares nothing without --features");
	return 0;
}

static struct samples *open_samples(const struct deduping *w, struct err *e)
{
	const struct dedup_request *r = w->r;
	struct samples_options o = {
	    .skip_bad = r->skip_bad, .max_errors = r->max_errors, .nul_list = r->nul_list, .spool = r->spool, .bad = r->bad, .bad_arg = r->arg};

	return samples_open(r->sources, r->nsources, &o, e);
}

/* A first pass for the digest. */
static int scan(struct deduping *w, struct err *e)
{
	struct sample x;
	int rc;

	while ((rc = samples_next(w->samples, &x, e)) > 0)
		if (progress_tell(w->r->progress, "samples read", samples_count(w->samples), samples_expected(w->samples)))
			return err_set(e, ERR_AGAIN, "interrupted");
	if (rc)
		return -1;
	samples_digest(w->samples, w->digest);
	return samples_rewind(w->samples, e);
}

static int make_stamp(struct deduping *w, struct err *e)
{
	static const struct option *const tables[] = {dedup_options, NULL};
	const struct dedup_request *r = w->r;
	const json_t *names = samples_class_names(w->samples);

	if ((r->features && sha256_file(r->features, w->features_hash, NULL, e)) ||
	    (r->clusters && sha256_file(r->clusters, w->clusters_hash, NULL, e)))
		return -1;
	w->stamp = stamp_new("ddm-dedup");
	optionstamp_put(w->stamp, tables, r, "");
	if (r->holdout >= 0)
		stamp_f64(w->stamp, "holdout", r->holdout);
	if (names && !r->table)
		stamp_json(w->stamp, "class_names", json_incref((json_t *)(uintptr_t)names));
	stamp_input(w->stamp, "samples", w->digest);
	if (r->features)
		stamp_input(w->stamp, "features", w->features_hash);
	if (r->clusters)
		stamp_input(w->stamp, "clusters", w->clusters_hash);
	return 0;
}

static int find_near(struct deduping *w, struct err *e)
{
	int hashed = w->r->hash != DEDUP_NO_HASH;

	if (dedupread_items(w, e))
		return -1;
	if (hashed && (near_by_hash(w, e) || (w->report->has_parts && cross_by_hash(w, e))))
		return -1;
	if (w->r->features && near_by_features(w, e))
		return -1;
	count_groups(w);
	list_crossings(w);
	w->report->judged = 1;
	return 0;
}

static int make(struct deduping *w, struct err *e)
{
	const struct dedup_request *r = w->r;
	const char *const outputs[] = {r->out, r->report};
	int there;

	if (claim_take(outputs, 2, e) || !(w->samples = open_samples(w, e)) || scan(w, e) || make_stamp(w, e))
		return -1;
	there = standing_all(outputs, 2, w->stamp, e);
	if (there < 0)
		return -1;
	if (there && !r->check && standing_are_files(outputs, 2)) {
		w->report->there = 1;
		return 0;
	}
	if (find_near(w, e) || dedupfiles_write(w, e))
		return -1;
	w->report->made = 1;
	if (r->check && w->report->crossings)
		return err_set(e, ERR_FAIL, "%lld training samples are near %lld held-out ones", (long long)w->report->crossings,
		               (long long)w->report->crossed);
	return samples_check(w->samples, e);
}

int dedup_make(const struct dedup_request *r, struct dedup_report *report, struct err *e)
{
	struct dedup_request usual = dedup_defaults(), request = *r;
	struct deduping w = {.r = &request, .report = report};
	int rc;

	*report = (struct dedup_report){0};
	if (option_check_request(dedup_options, r, &usual, e) || check_request(r, e))
		return -1;
	if (request.distance < 0)
		request.distance = dedup_distances[request.hash];
	rc = make(&w, e);
	claim_drop((const char *const[]){r->out, r->report}, 2);
	for (int64_t i = 0; i < w.n; i++)
		mem_free(w.item[i].key);
	mem_free(w.item);
	samples_close(w.samples);
	stamp_free(w.stamp);
	return rc;
}
