/* Writes the outputs of clustering: the table, the centroids, the contact sheet and the report. */
#include <math.h>

#include "cluster/clusteringimpl.h"
#include "core/hash.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/names.h"
#include "core/str.h"
#include "data/sheet.h"
#include "file/commit.h"
#include "file/npy.h"
#include "file/standing.h"
#include "file/tsv.h"

enum { SHEET_ROWS = 256, SHEET_COLUMNS = 16, SHEET_CELL = 64 };

static void put_partition(struct stamp *s, const struct clustering *c)
{
	stamp_text(s, "partition", c->partition);
	if (c->extends)
		stamp_json(s, "extends", json_incref(c->extends));
}

static int write_centroids(const struct clustering *c, struct err *e)
{
	int64_t shape[2] = {c->m.k, c->m.d};
	struct stamp *s = clustering_stamp(c);
	json_t *offset = json_array(), *sizes = json_array();
	const char *path = c->r->centroids_out;
	struct str npy = {0};
	int rc;

	for (int i = 0; i < c->m.k; i++) {
		json_array_append_new(offset, json_real(c->m.offset[i]));
		json_array_append_new(sizes, json_integer(c->q.sizes ? c->q.sizes[i] : 0));
	}
	stamp_json(s, "offset", offset);
	stamp_json(s, "sizes", sizes);
	put_partition(s, c);
	npy_encode(&npy, NPY_F4, 2, shape, c->m.centroids);
	rc = stamp_sidecar_of(s, path, hash64(npy.p, npy.len), e) || commit_bytes(path, npy.p, npy.len, e) ? -1 : 0;
	str_release(&npy);
	stamp_free(s);
	return rc;
}

static int write_sheet(const struct clustering *c, struct err *e)
{
	struct stamp *s = clustering_stamp(c);
	char *line = stamp_line(s);
	struct still_text text = {"ddm", line};
	struct sheet sheet = {0};
	int32_t *cluster = mem_zalloc((size_t)c->f.n, sizeof *cluster);
	uint8_t *png = NULL;
	size_t len;
	int rc;

	for (int64_t i = 0; i < c->f.n; i++)
		cluster[i] = clustering_of(c, i);
	rc = sheet_init(&sheet, c->m.k < SHEET_ROWS ? c->m.k : SHEET_ROWS, SHEET_COLUMNS, SHEET_CELL, e);
	if (!rc)
		rc = sheet_fill(&sheet, c->samples, c->f.key, cluster, c->f.n, e);
	if (!rc)
		rc = still_encode_png(&sheet.picture, &text, 1, &png, &len, e);
	if (!rc)
		rc = commit_bytes(c->r->sheet, png, len, e);
	mem_free(png);
	mem_free(cluster);
	sheet_release(&sheet);
	mem_free(line);
	stamp_free(s);
	return rc;
}

static json_t *cluster_facts(const struct clustering *c, int i, int blind)
{
	int64_t size = c->q.sizes ? c->q.sizes[i] : 0;
	double inertia = c->q.inertia && !blind ? c->q.inertia[i] : (double)NAN;
	json_t *facts = json_pack("{s:i, s:I, s:I, s:o}", "cluster", i, "train", (json_int_t)size, "holdout", (json_int_t)c->held[i], "inertia",
	                          jsonio_real(inertia));

	json_object_set_new(facts, "silhouette", jsonio_real(c->q.silhouettes && !blind ? c->q.silhouettes[i] : (double)NAN));
	if (c->names)
		json_object_set(facts, "name", json_array_get(c->names, (size_t)i));
	return facts;
}

/* What a method besides k-means found. */
static json_t *method_facts(const struct clustering *c)
{
	const struct method_fit *f = &c->fit;
	json_t *facts = json_pack("{s:s, s:I, s:I}", "name", cluster_method_names[c->r->method], "micro_centroids", (json_int_t)f->micro, "away",
	                          (json_int_t)f->away);

	if (f->pieces)
		json_object_update_new(facts, json_pack("{s:I, s:i, s:o}", "pieces", (json_int_t)f->pieces, "iterations", f->iterations, "residual",
		                                        jsonio_real(f->residual)));
	if (f->height) {
		json_t *heights = json_array();

		for (int64_t i = 0; i < f->heights; i++)
			json_array_append_new(heights, jsonio_real(f->height[i]));
		json_object_set_new(facts, "heights", heights);
	}
	return facts;
}

static json_t *agreement_facts(const struct cluster_agreement *a, const char *others)
{
	return json_pack("{s:I, s:I, s:o, s:o}", others, (json_int_t)a->others, "samples", (json_int_t)a->samples, "adjusted_rand",
	                 jsonio_real(a->rand), "normalised_mutual_information", jsonio_real(a->information));
}

/* Agreement with other seeds and with labels. */
static void put_agreements(json_t *r, const struct clustering *c)
{
	json_t *o;

	if (c->seeds.samples) {
		o = agreement_facts(&c->seeds, "pairs");
		json_object_set_new(o, "seeds", json_integer(c->r->seeds));
		json_object_set_new(o, "adjusted_rand_least", jsonio_real(c->seeds.least));
		json_object_set_new(o, "normalised_mutual_information_least", jsonio_real(c->seeds.least_information));
		json_object_set_new(r, "seeds", o);
	}
	if (c->labels.samples) {
		o = agreement_facts(&c->labels, "labels");
		json_object_set_new(o, "what", jsonio_text(c->r->against));
		json_object_set_new(r, "against", o);
	}
}

static int write_report(const struct clustering *c, struct err *e)
{
	struct stamp *s = clustering_stamp(c);
	json_t *r = json_object(), *clusters = json_array();
	int blind = clustering_is_blind(c->r), rc;

	json_object_set_new(r, "samples", json_integer(c->f.n));
	json_object_set_new(r, "train", json_integer(c->f.count[0]));
	json_object_set_new(r, "holdout", json_integer(c->f.count[1]));
	json_object_set_new(r, "skipped", json_integer(samples_skipped(c->samples)));
	json_object_set_new(r, "inertia", jsonio_real(blind ? (double)NAN : c->q.total));
	json_object_set_new(r, "silhouette", jsonio_real(blind ? (double)NAN : c->q.silhouette));
	json_object_set_new(r, "silhouette_samples", json_integer(c->q.silhouette_n));
	json_object_set_new(r, "davies_bouldin", jsonio_real(blind ? (double)NAN : c->q.separation.davies_bouldin));
	json_object_set_new(r, "calinski_harabasz", jsonio_real(blind ? (double)NAN : c->q.separation.calinski_harabasz));
	json_object_set_new(r, "largest", jsonio_real(c->q.largest));
	json_object_set_new(r, "smallest", jsonio_real(c->q.smallest));
	if (c->r->soft)
		json_object_set_new(r, "memberships", jsonio_real(clustering_memberships(c)));
	json_object_set_new(r, "iterations", json_integer(c->m.iterations));
	json_object_set_new(r, "reseeded", json_integer(c->m.reseeded));
	put_agreements(r, c);
	if (c->fit.cluster && c->r->method != METHOD_KMEANS)
		json_object_set_new(r, "method", method_facts(c));
	for (int i = 0; i < c->m.k; i++)
		json_array_append_new(clusters, cluster_facts(c, i, blind));
	json_object_set_new(r, "clusters", clusters);
	json_object_set(r, "stamp", (json_t *)stamp_root(s));
	rc = commit_json(c->r->report, r, e);
	json_decref(r);
	stamp_free(s);
	return rc;
}

/* "4 0" */
static void put_further(struct tsv_writer *t, const int32_t *further, int n)
{
	struct str text = {0};

	for (int i = 0; i < n; i++)
		str_printf(&text, "%s%d", i ? " " : "", (int)further[i]);
	tsv_put(t, str_text(&text));
	str_release(&text);
}

static int write_table(const struct clustering *c, struct err *e)
{
	const char *const columns[] = {"key", "cluster", "distance", "split", "class", c->names ? "name" : "also"};
	struct stamp *s = clustering_stamp(c);
	struct tsv_writer *t;
	int rc;

	put_partition(s, c);
	if (c->names)
		stamp_json(s, "cluster_names", json_incref(c->names));
	t = tsv_create(c->r->out, columns, c->names || c->r->soft ? 6 : 5, s, e);
	rc = t ? 0 : -1;
	stamp_free(s);
	for (int64_t i = 0; i < c->f.n && !rc; i++) {
		int held = c->f.held[i], cluster = clustering_of(c, i);

		tsv_put(t, c->f.key[i]);
		tsv_put_i64(t, cluster);
		tsv_put_f64(t, c->distance[held][c->f.row[i]]);
		tsv_put(t, held ? "holdout" : "train");
		tsv_put_i64(t, c->f.label[i]);
		if (c->names)
			tsv_put(t, names_get(c->names, cluster));
		else if (c->r->soft)
			put_further(t, c->further[held] + c->f.row[i] * (c->r->soft - 1), (int)c->r->soft - 1);
		rc = tsv_row(t, e);
	}
	if (rc)
		tsv_abort(t);
	return rc ? -1 : tsv_commit(t, e);
}

static int check_standing(const struct clustering *c, struct err *e)
{
	const char *const paths[] = {c->r->rate ? NULL : c->r->out, c->r->sheet, c->r->report, c->r->centroids_out};
	struct stamp *s = clustering_stamp(c);
	int rc = 0;

	for (size_t i = 0; i < sizeof paths / sizeof *paths && !rc; i++)
		rc = paths[i] ? standing_check(paths[i], s, 1, e) : 0;
	stamp_free(s);
	return rc;
}

int clustering_write(const struct clustering *c, struct err *e)
{
	const struct cluster_request *r = c->r;

	if (check_standing(c, e) || (r->centroids_out && write_centroids(c, e)) || (r->sheet && write_sheet(c, e)) ||
	    (r->report && write_report(c, e)))
		return -1;
	return r->rate ? 0 : write_table(c, e);
}
