/* Writes a SHARDS folder without some samples: finds them, checks the request, shares what stays and packs what changes. */
#include "data/forget.h"

#include <stdlib.h>
#include <string.h>

#include "core/jsonio.h"
#include "core/mem.h"
#include "core/names.h"
#include "core/str.h"
#include "data/provenance.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "file/manifest.h"
#include "file/share.h"

/* A sample to forget. */
struct item {
	const char *key;
	json_t *clusters; /* NULL: not found yet */
	int held;
};

struct forgetting {
	const struct forget_request *r;
	struct forget_result *result;
	struct manifest old;
	struct item *item; /* sorted by key */
	size_t items;
	int64_t *hits;      /* [rows of old] samples of the shard to forget */
	json_t *provenance; /* that of the old folder, less these samples; NULL: none */
	struct stamp *stamp;
	char *stamp_line;
	uint64_t shard_size;
	int level;
	struct manifest_row *row; /* of the new folder */
	int64_t rows, done;
};

static int by_key(const void *a, const void *b)
{
	return strcmp(((const struct item *)a)->key, ((const struct item *)b)->key);
}

static struct item *find(const struct forgetting *f, const char *key)
{
	struct item want = {.key = key};

	return bsearch(&want, f->item, f->items, sizeof *f->item, by_key);
}

static void take_keys(struct forgetting *f)
{
	const struct forget_request *r = f->r;

	f->item = mem_zalloc(r->n, sizeof *f->item);
	for (size_t i = 0; i < r->n; i++)
		f->item[i].key = r->key[i];
	qsort(f->item, r->n, sizeof *f->item, by_key);
	for (size_t i = 0; i < r->n; i++)
		if (!f->items || strcmp(f->item[f->items - 1].key, f->item[i].key))
			f->item[f->items++] = f->item[i];
	f->result->keys = (int64_t)f->items;
}

static void note(struct forgetting *f, struct item *it, const struct manifest_row *r)
{
	if (!it->clusters)
		it->clusters = json_array();
	json_array_append_new(it->clusters, json_integer(r->cluster));
	it->held = r->holdout;
	(r->holdout ? f->result->held : f->result->train)[r->cluster]++;
}

/* Take what a sample says of its origin out of the counts. */
static int uncount_origin(struct forgetting *f, struct shard *s, int64_t k, const struct manifest_row *r, struct err *e)
{
	struct shard_sample x;

	if (!f->provenance || r->holdout)
		return 0;
	if (shard_read(s, k, &x, e))
		return -1;
	for (int i = 0; i < x.members; i++)
		if (!strcmp(x.member[i].ext, "json"))
			provenance_add(f->provenance, x.member[i].data, x.member[i].size, r->cluster, f->old.clusters, -1);
	shard_sample_release(&x);
	return 0;
}

/* The key of sample k of shard i. An index without it was altered meanwhile: nobody could say that what was to be forgotten is not there. */
static int read_key(const struct forgetting *f, int64_t i, const struct shard *s, int64_t k, struct str *key, struct err *e)
{
	return *shard_key(s, k, key) ? 0 : err_set(e, ERR_DATA, "%s/%s: altered while it was read", f->old.dir, f->old.rows[i].path);
}

/* Look for the keys in every shard's index. */
static int locate(struct forgetting *f, struct err *e)
{
	struct str key = {0};
	int rc = 0;

	for (int64_t i = 0; i < f->old.n && !rc; i++) {
		struct shard *s = manifest_shard_open(&f->old, i, 0, e);

		rc = s ? 0 : -1;
		for (int64_t k = 0; !rc && k < shard_count(s); k++) {
			struct item *it;

			if ((rc = read_key(f, i, s, k, &key, e)) || !(it = find(f, str_text(&key))))
				continue;
			f->hits[i]++;
			note(f, it, &f->old.rows[i]);
			rc = uncount_origin(f, s, k, &f->old.rows[i], e);
		}
		shard_free(s);
	}
	str_release(&key);
	return rc;
}

static int check_found(const struct forgetting *f, struct err *e)
{
	const char *first = NULL;
	int64_t lacking = 0;

	for (size_t i = 0; i < f->items; i++)
		if (!f->item[i].clusters) {
			first = first ? first : f->item[i].key;
			lacking++;
		}
	if (lacking > 1)
		return err_set(e, ERR_DATA, "%s: no sample \"%s\" (%lld of %zu keys are not there)", f->r->shards, first, (long long)lacking,
		               f->items);
	return lacking ? err_set(e, ERR_DATA, "%s: no sample \"%s\"", f->r->shards, first) : 0;
}

/* An expert cannot be trained on an empty cluster. */
static int check_left(const struct forgetting *f, struct err *e)
{
	const struct manifest *m = &f->old;

	for (int c = 0; c < m->clusters; c++) {
		const char *name = names_get(m->cluster_names, c);
		int64_t left = 0;

		for (int64_t i = 0; i < m->n; i++)
			if (m->rows[i].cluster == c && !m->rows[i].holdout)
				left += m->rows[i].samples - f->hits[i];
		if (m->train[c] && !left)
			return err_set(e, ERR_USAGE,
			               "%s: cluster %d%s%s%s would have no training sample left; to do without it, make new clusters (ddm-cluster) "
			               "or remove its expert",
			               f->r->shards, c, name ? " (" : "", name ? name : "", name ? ")" : "");
	}
	return 0;
}

static void report(struct forgetting *f)
{
	struct forget_result *r = f->result;

	r->items = json_array();
	for (size_t i = 0; i < f->items; i++)
		json_array_append_new(r->items, json_pack("{s:o, s:O, s:s}", "key", jsonio_text(f->item[i].key), "clusters", f->item[i].clusters,
		                                          "split", f->item[i].held ? "holdout" : "train"));
}

/* The manifests of which the old folder is a part, from its stamp, and its own. */
static json_t *known_manifests(const struct forgetting *f)
{
	const json_t *stamp = f->result->stamp, *before = json_object_get(stamp, "ancestors");
	const json_t *parent = json_object_get(json_object_get(stamp, "inputs"), "shards");
	json_t *list = json_is_array(before) ? json_copy((json_t *)(uintptr_t)before) : json_array();

	if (json_is_string(parent))
		json_array_append(list, (json_t *)(uintptr_t)parent);
	json_array_append_new(list, json_string(f->old.sha256));
	return list;
}

/* The old stamp, without what the forgotten samples were part of: the hashes of the table and of all samples. */
static void make_stamp(struct forgetting *f)
{
	static const char *const dropped[] = {"program",   "version",   "inputs",  "clusters",  "forgotten",
	                                      "ancestors", "partition", "extends", "provenance"};
	const char *key;
	json_t *v, *ancestors = json_copy(f->result->known);

	f->stamp = stamp_new("ddm-forget");
	json_object_foreach (f->result->stamp, key, v) {
		int keep = 1;

		for (size_t i = 0; i < sizeof dropped / sizeof *dropped; i++)
			keep &= strcmp(key, dropped[i]) != 0;
		if (keep)
			stamp_json(f->stamp, key, json_incref(v));
	}
	if (*f->old.partition)
		stamp_text(f->stamp, "partition", f->old.partition);
	if (f->old.extends)
		stamp_json(f->stamp, "extends", json_incref(f->old.extends));
	if (json_object_size(f->provenance))
		stamp_json(f->stamp, "provenance", json_incref(f->provenance));
	stamp_i64(f->stamp, "forgotten", (int64_t)f->items);
	json_object_foreach (json_object_get(f->result->stamp, "inputs"), key, v)
		if (json_is_string(v) && strcmp(key, "assign") && strcmp(key, "samples") && strcmp(key, "shards"))
			stamp_input(f->stamp, key, json_string_value(v));
	stamp_input(f->stamp, "shards", f->old.sha256);
	json_array_remove(ancestors, json_array_size(ancestors) - 1);
	if (json_array_size(ancestors))
		stamp_json(f->stamp, "ancestors", json_incref(ancestors));
	json_decref(ancestors);
	f->stamp_line = stamp_line(f->stamp);
}

static int take_settings(struct forgetting *f, struct err *e)
{
	int64_t size = 256 << 20, level = 0;

	if (jsonio_i64(f->result->stamp, "shard_size", 0, 1, INT64_MAX, &size, f->r->shards, e) ||
	    jsonio_i64(f->result->stamp, "level", 0, 0, 19, &level, f->r->shards, e))
		return -1;
	f->shard_size = (uint64_t)size;
	f->level = (int)level;
	return 0;
}

static int make_folder(const char *path, struct err *e)
{
	char *dir = mem_strdup(path);
	int rc;

	*strrchr(dir, '/') = 0;
	rc = dir_make(dir, e);
	mem_free(dir);
	return rc;
}

static struct manifest_row *add_row(struct forgetting *f, const struct manifest_row *like, char *path)
{
	struct manifest_row *r;

	f->row = mem_resize(f->row, (size_t)f->rows + 1, sizeof *f->row);
	r = &f->row[f->rows++];
	*r = (struct manifest_row){.path = path, .cluster = like->cluster, .holdout = like->holdout};
	return r;
}

static int keep_shard(struct forgetting *f, const char *dir, int64_t i, struct err *e)
{
	const struct manifest_row *old = &f->old.rows[i];
	struct manifest_row *r = add_row(f, old, mem_strdup(old->path));
	char *from = manifest_shard_path(&f->old, i), *to = path_join(dir, old->path);
	int rc = make_folder(to, e) || file_share(from, to, e) ? -1 : 0;

	r->bytes = old->bytes;
	r->samples = old->samples;
	memcpy(r->sha256, old->sha256, sizeof r->sha256);
	r->first_key = mem_strdup(old->first_key);
	r->last_key = mem_strdup(old->last_key);
	f->result->linked++;
	mem_free(from);
	mem_free(to);
	return rc;
}

/* The number in the name of a shard. */
static int64_t number_of(const struct manifest_row *r)
{
	const char *name = strrchr(r->path, '/') + 1, *digits = strrchr(name, '-');
	int64_t n = 0;

	for (digits = digits ? digits + 1 : name; *digits >= '0' && *digits <= '9'; digits++)
		n = 10 * n + *digits - '0';
	return n;
}

/* The shards of one stream, from the first that changes on. */
struct output {
	struct shard_writer *w;
	const struct manifest_row *like;
	char *name;
	int64_t number;
};

static int output_close(struct forgetting *f, struct output *o, struct err *e)
{
	struct shard_writer *w = o->w;

	if (!w)
		return 0;
	o->w = NULL;
	f->result->written++;
	return shard_commit(w, add_row(f, o->like, o->name), e);
}

static int output_add(struct forgetting *f, struct output *o, const char *dir, const struct shard_sample *x, struct err *e)
{
	struct shard_options so = {.level = f->level, .stamp = f->stamp_line};

	if (!o->w) {
		char *path;
		int rc;

		o->name = manifest_shared_name(o->like->cluster, o->like->holdout, o->like->further, o->like->copies, o->number++);
		path = path_join(dir, o->name);
		rc = make_folder(path, e);
		o->w = rc ? NULL : shard_create(path, &so, e);
		mem_free(path);
		if (!o->w) {
			mem_free(o->name);
			return -1;
		}
	}
	if (shard_add(o->w, x->key, x->member, x->members, e))
		return -1;
	return shard_writer_bytes(o->w) >= f->shard_size ? output_close(f, o, e) : 0;
}

static int repack(struct forgetting *f, struct output *o, const char *dir, int64_t i, struct err *e)
{
	char *path = manifest_shard_path(&f->old, i);
	struct shard *s = shard_open(path, e);
	struct str key = {0};
	int rc = s ? 0 : -1;

	for (int64_t k = 0; s && k < shard_count(s) && !rc; k++) {
		struct shard_sample x;

		if (find(f, shard_key(s, k, &key)))
			continue;
		rc = shard_read(s, k, &x, e);
		if (!rc) {
			rc = output_add(f, o, dir, &x, e);
			shard_sample_release(&x);
		}
		if (!rc && progress_tell(f->r->progress, "samples", ++f->done, 0))
			rc = err_set(e, ERR_AGAIN, "interrupted");
	}
	shard_free(s);
	str_release(&key);
	mem_free(path);
	return rc;
}

static int same_stream(const struct manifest_row *a, const struct manifest_row *b)
{
	return a->cluster == b->cluster && a->holdout == b->holdout && a->further == b->further && a->copies == b->copies;
}

/* Rows first to last - 1 are a stream, in the order of their samples. */
static int write_stream(struct forgetting *f, const char *dir, int64_t first, int64_t last, struct err *e)
{
	int64_t changed = first;
	struct output o = {0};
	int rc = 0;

	while (changed < last && !f->hits[changed])
		changed++;
	for (int64_t i = first; i < changed && !rc; i++)
		rc = keep_shard(f, dir, i, e);
	if (changed < last) {
		o.like = &f->old.rows[changed];
		o.number = number_of(o.like);
	}
	for (int64_t i = changed; i < last && !rc; i++)
		rc = repack(f, &o, dir, i, e);
	if (!rc)
		rc = output_close(f, &o, e);
	if (o.w) {
		shard_abort(o.w);
		mem_free(o.name);
	}
	return rc;
}

static int keep_file(const struct forgetting *f, const char *dir, int i, struct err *e)
{
	char *from = path_join(f->old.dir, f->old.file[i].name), *to = path_join(dir, f->old.file[i].name);
	int rc = manifest_check_file(&f->old, i, e) || file_share(from, to, e) ? -1 : 0;

	mem_free(from);
	mem_free(to);
	return rc;
}

static int write_folder(struct forgetting *f, const char *dir, struct err *e)
{
	const struct manifest *m = &f->old;
	int rc = 0;

	for (int64_t i = 0, end; i < m->n && !rc; i = end) {
		for (end = i + 1; end < m->n && same_stream(&m->rows[i], &m->rows[end]); end++)
			;
		rc = write_stream(f, dir, i, end, e);
	}
	for (int i = 0; i < m->files && !rc; i++)
		rc = keep_file(f, dir, i, e);
	return rc ? -1 : manifest_write(dir, f->row, f->rows, m->clusters, f->stamp, e);
}

/* Whether any of the keys is in the folder: 1, 0, or -1 on error. */
static int holds_keys(const struct forgetting *f, const struct manifest *m, struct err *e)
{
	for (int64_t i = 0; i < m->n; i++) {
		char *path = manifest_shard_path(m, i);
		struct shard *s = shard_open(path, e);
		struct str key = {0};
		int held = 0;

		mem_free(path);
		if (!s)
			return -1;
		for (int64_t k = 0; k < shard_count(s) && !held; k++)
			held = find(f, shard_key(s, k, &key)) != NULL;
		str_release(&key);
		shard_free(s);
		if (held)
			return 1;
	}
	return 0;
}

/* 0 if the existing folder is what the request makes. The stamp does not name the keys, because a folder that names what was forgotten has not
 * forgotten it: as many were forgotten, from the same folder, and none of these keys is left, so they are the same. */
static int compare_existing(struct forgetting *f, struct err *e)
{
	struct manifest m = {0};
	struct str what = {0};
	int rc = manifest_load(&m, f->r->out, e), held;

	if (!rc) {
		stamp_i64(f->stamp, "clusters", f->old.clusters);
		if (stamp_differs(f->stamp, m.stamp, &what))
			rc = err_set(e, ERR_EXISTS, "%s exists and was made in another way: %s", f->r->out, str_text(&what));
	}
	for (int64_t i = 0; i < m.n && !rc; i++)
		rc = manifest_check(&m, i, e);
	for (int i = 0; i < m.files && !rc; i++)
		rc = manifest_check_file(&m, i, e);
	held = rc ? 0 : holds_keys(f, &m, e);
	if (held)
		rc = held < 0 ? -1 : err_set(e, ERR_EXISTS, "%s exists, and other samples were forgotten in it", f->r->out);
	str_release(&what);
	manifest_release(&m);
	return rc;
}

static int write_out(struct forgetting *f, struct err *e)
{
	struct outdir d = {0};
	int rc = outdir_begin(&d, f->r->out, e);

	if (!rc)
		rc = write_folder(f, d.tmp, e);
	if (!rc)
		rc = outdir_commit(&d, e);
	outdir_abort(&d);
	f->result->made = !rc;
	return rc;
}

static int run(struct forgetting *f, struct err *e)
{
	struct forget_result *out = f->result;
	char *manifest;
	int rc;

	if (manifest_load(&f->old, f->r->shards, e))
		return -1;
	out->clusters = f->old.clusters;
	out->train = mem_zalloc((size_t)out->clusters, sizeof *out->train);
	out->held = mem_zalloc((size_t)out->clusters, sizeof *out->held);
	out->stamp = json_loads(f->old.stamp, 0, NULL);
	out->known = known_manifests(f);
	f->provenance = json_deep_copy(json_object_get(out->stamp, "provenance"));
	f->hits = mem_zalloc((size_t)f->old.n, sizeof *f->hits);
	if (take_settings(f, e) || locate(f, e) || check_found(f, e) || check_left(f, e))
		return -1;
	report(f);
	make_stamp(f);
	manifest = path_join(f->r->out, "MANIFEST.tsv");
	rc = path_exists(manifest) ? compare_existing(f, e) : write_out(f, e);
	mem_free(manifest);
	return rc;
}

int forget_make(const struct forget_request *r, struct forget_result *out, struct err *e)
{
	struct forgetting f = {.r = r, .result = out};
	int rc;

	*out = (struct forget_result){0};
	take_keys(&f);
	rc = run(&f, e);
	for (size_t i = 0; i < f.items; i++)
		json_decref(f.item[i].clusters);
	for (int64_t i = 0; i < f.rows; i++)
		manifest_row_release(&f.row[i]);
	mem_free(f.row);
	mem_free(f.item);
	mem_free(f.hits);
	json_decref(f.provenance);
	mem_free(f.stamp_line);
	stamp_free(f.stamp);
	manifest_release(&f.old);
	return rc;
}

void forget_result_release(struct forget_result *r)
{
	mem_free(r->train);
	mem_free(r->held);
	json_decref(r->items);
	json_decref(r->stamp);
	json_decref(r->known);
	*r = (struct forget_result){0};
}
