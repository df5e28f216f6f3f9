/* Reads, writes and checks MANIFEST.tsv of a SHARDS folder. */
#include "file/manifest.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/extends.h"
#include "core/hash.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/names.h"
#include "core/str.h"
#include "file/bytesource.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "file/remoteinput.h"
#include "file/tsv.h"

enum { PATH, BYTES, SAMPLES, SHA256, FIRST_KEY, LAST_KEY, CLUSTER, SPLIT, COLUMNS };

static const char *const columns[COLUMNS] = {"path", "bytes", "samples", "sha256", "first_key", "last_key", "cluster", "split"};
static const char *const splits[] = {"train", "holdout"};

enum { CLUSTERS_MAX = 1 << 20 };
/* Bytes of a manifest; a server could send bytes without end. */
static const size_t MANIFEST_MOST = (size_t)1 << 36, REMOTE_MOST = (size_t)1 << 30;

char *manifest_name(int cluster, int holdout, int64_t number)
{
	return str_new("%scluster-%d/%06lld.tar.zst", holdout ? "holdout/" : "", cluster, (long long)number);
}

char *manifest_shared_name(int cluster, int holdout, int further, int copies, int64_t number)
{
	char *times = copies > 1 ? str_new("x%d-", copies) : mem_strdup("");
	char *name = str_new("%scluster-%d/%s%s%06lld.tar.zst", holdout ? "holdout/" : "", cluster, further ? "also-" : "", times, (long long)number);

	mem_free(times);
	return name;
}

char *manifest_shard_path(const struct manifest *m, int64_t i)
{
	return path_join(m->dir, m->rows[i].path);
}

void manifest_row_release(struct manifest_row *r)
{
	mem_free(r->path);
	mem_free(r->first_key);
	mem_free(r->last_key);
	*r = (struct manifest_row){0};
}

void manifest_release(struct manifest *m)
{
	for (int64_t i = 0; i < m->n; i++)
		manifest_row_release(m->rows + i);
	mem_free(m->rows);
	mem_free(m->dir);
	mem_free(m->train);
	mem_free(m->held);
	mem_free(m->stamp);
	for (int i = 0; i < m->files; i++)
		mem_free(m->file[i].name);
	mem_free(m->file);
	json_decref(m->extends);
	json_decref(m->cluster_names);
	json_decref(m->class_names);
	*m = (struct manifest){0};
}

/* Only names that this toolkit gives are accepted, so that a manifest cannot name files outside its folder. Fills r->further and r->copies. */
static int name_is_ours(struct manifest_row *r)
{
	char *head = str_new("%scluster-%d/", r->holdout ? "holdout/" : "", r->cluster);
	size_t n = strlen(head), digits;
	const char *name = r->path + n;
	int same = !strncmp(r->path, head, n);

	mem_free(head);
	if (!same)
		return 0;
	r->further = !strncmp(name, "also-", 5);
	name += r->further ? 5 : 0;
	r->copies = 1;
	if (*name == 'x') {
		r->copies = name[1] == '1' && name[2] >= '0' && name[2] <= '6' ? 10 + name[2] - '0'
		            : name[1] >= '2' && name[1] <= '9'                 ? name[1] - '0'
		                                                               : 0;
		name += r->copies > 9 ? 3 : 2;
		if (!r->copies || *name++ != '-')
			return 0;
	}
	digits = strspn(name, "0123456789");
	return digits >= 6 && !strcmp(name + digits, ".tar.zst");
}

static int is_sha256(const char *text)
{
	return strlen(text) == 64 && strspn(text, "0123456789abcdef") == 64;
}

static int take_row(struct manifest *m, const struct tsv *t, const int *c, int64_t i, const char *where, struct err *e)
{
	struct manifest_row *r = m->rows + i;
	const char *sha = tsv_get(t, i, c[SHA256]), *split = tsv_get(t, i, c[SPLIT]);
	int64_t bytes, cluster;

	if (tsv_i64(t, i, c[BYTES], 1, INT64_MAX, &bytes, e) || tsv_i64(t, i, c[SAMPLES], 1, (int64_t)1 << 40, &r->samples, e) ||
	    tsv_i64(t, i, c[CLUSTER], 0, m->clusters - 1, &cluster, e))
		return -1;
	if (!is_sha256(sha))
		return err_set(e, ERR_DATA, "%s:%lld: '%.80s' is not a SHA-256", where, (long long)i + 3, sha);
	if (strcmp(split, splits[0]) && strcmp(split, splits[1]))
		return err_set(e, ERR_DATA, "%s:%lld: split '%.80s' is neither train nor holdout", where, (long long)i + 3, split);
	r->path = mem_strdup(tsv_get(t, i, c[PATH]));
	r->bytes = (uint64_t)bytes;
	memcpy(r->sha256, sha, 65);
	r->first_key = mem_strdup(tsv_get(t, i, c[FIRST_KEY]));
	r->last_key = mem_strdup(tsv_get(t, i, c[LAST_KEY]));
	r->cluster = (int)cluster;
	r->holdout = !strcmp(split, splits[1]);
	if (!name_is_ours(r))
		return err_set(e, ERR_DATA, "%s:%lld: '%.200s' is not the place of a %s shard of cluster %d", where, (long long)i + 3, r->path, split,
		               r->cluster);
	(r->holdout ? m->held : m->train)[r->cluster] += r->samples * r->copies;
	return 0;
}

/* Read "files" of the stamp: files directly in the folder. */
static int take_files(struct manifest *m, const json_t *stamp, const char *where, struct err *e)
{
	const json_t *files = json_object_get(stamp, "files");
	const char *name;
	json_t *v;

	m->file = mem_zalloc(json_object_size(files) + 1, sizeof *m->file);
	json_object_foreach ((json_t *)(uintptr_t)files, name, v) {
		const char *sha = json_string_value(v);

		if (!sha || !is_sha256(sha) || !*name || *name == '.' || strchr(name, '/'))
			return err_set(e, ERR_DATA, "%s:2: \"files\" of the stamp are not names and their SHA-256", where);
		m->file[m->files].name = mem_strdup(name);
		memcpy(m->file[m->files++].sha256, sha, 65);
	}
	return 0;
}

/* Read the partition and the names of clusters and classes from the stamp. */
static int take_names(struct manifest *m, const json_t *stamp, const char *where, struct err *e)
{
	const char *partition = json_string_value(json_object_get(json_object_get(stamp, "inputs"), "assign"));

	if (jsonio_str(stamp, "partition", 0, &partition, where, e) || extends_load(&m->extends, stamp, where, e) ||
	    names_load(&m->cluster_names, stamp, "cluster_names", m->clusters, where, e) ||
	    names_load(&m->class_names, stamp, "class_names", -1, where, e))
		return -1;
	if (partition && is_sha256(partition))
		memcpy(m->partition, partition, sizeof m->partition);
	return 0;
}

static int row_cmp(const void *a, const void *b)
{
	return strcmp(((const struct manifest_row *)a)->path, ((const struct manifest_row *)b)->path);
}

static int take_table(struct manifest *m, const struct tsv *t, const char *where, struct err *e)
{
	json_t *stamp = json_loads(tsv_stamp(t), JSON_REJECT_DUPLICATES, NULL);
	json_t *k = json_object_get(stamp, "clusters");
	json_int_t clusters = json_is_integer(k) ? json_integer_value(k) : 0;
	int c[COLUMNS], rc = take_files(m, stamp, where, e);

	if (!rc && (clusters < 1 || clusters > CLUSTERS_MAX))
		rc = err_set(e, ERR_DATA, "%s:2: the stamp has no \"clusters\" in 1..%d", where, CLUSTERS_MAX);
	m->clusters = (int)clusters;
	if (!rc)
		rc = take_names(m, stamp, where, e);
	json_decref(stamp);
	if (rc)
		return -1;
	m->stamp = mem_strdup(tsv_stamp(t));
	m->train = mem_zalloc((size_t)m->clusters, sizeof *m->train);
	m->held = mem_zalloc((size_t)m->clusters, sizeof *m->held);
	for (int i = 0; i < COLUMNS; i++)
		if ((c[i] = tsv_need(t, columns[i], e)) < 0)
			return -1;
	m->rows = mem_try((size_t)tsv_rows(t), sizeof *m->rows, where, e);
	if (!m->rows)
		return -1;
	m->n = tsv_rows(t);
	for (int64_t i = 0; i < m->n; i++)
		if (take_row(m, t, c, i, where, e))
			return -1;
	qsort(m->rows, (size_t)m->n, sizeof *m->rows, row_cmp);
	for (int64_t i = 1; i < m->n; i++)
		if (!strcmp(m->rows[i].path, m->rows[i - 1].path))
			return err_set(e, ERR_DATA, "%s: '%s' is listed twice", where, m->rows[i].path);
	return 0;
}

int manifest_load(struct manifest *m, const char *dir, struct err *e)
{
	char *path = path_join(dir, "MANIFEST.tsv"), *text;
	struct tsv *t = NULL;
	size_t len;
	int rc = -1;

	*m = (struct manifest){.dir = mem_strdup(dir)};
	text = bytesource_load(path, remote_is_url(path) ? REMOTE_MOST : MANIFEST_MOST, &len, e);
	if (text)
		t = tsv_parse(text, len, path, e);
	if (t && !take_table(m, t, path, e)) {
		memcpy(m->sha256, tsv_sha256(t), sizeof m->sha256);
		rc = 0;
	}
	mem_free(text);
	tsv_free(t);
	mem_free(path);
	if (rc)
		manifest_release(m);
	return rc;
}

static struct stamp *stamp_with_clusters(const struct stamp *s, int clusters)
{
	struct stamp *copy = stamp_new("ddm");
	const char *key;
	json_t *v;

	if (s)
		json_object_foreach ((json_t *)(uintptr_t)stamp_root(s), key, v)
			stamp_json(copy, key, json_incref(v));
	stamp_i64(copy, "clusters", clusters);
	return copy;
}

static int write_table(const char *path, const struct manifest_row *const *row, int64_t n, const struct stamp *s, struct err *e)
{
	struct tsv_writer *w = tsv_create(path, columns, COLUMNS, s, e);

	if (!w)
		return -1;
	for (int64_t i = 0; i < n; i++) {
		tsv_put(w, row[i]->path);
		tsv_put_i64(w, (int64_t)row[i]->bytes);
		tsv_put_i64(w, row[i]->samples);
		tsv_put(w, row[i]->sha256);
		tsv_put(w, row[i]->first_key);
		tsv_put(w, row[i]->last_key);
		tsv_put_i64(w, row[i]->cluster);
		tsv_put(w, splits[!!row[i]->holdout]);
		if (tsv_row(w, e)) {
			tsv_abort(w);
			return -1;
		}
	}
	return tsv_commit(w, e);
}

static int row_ptr_cmp(const void *a, const void *b)
{
	return strcmp((*(const struct manifest_row *const *)a)->path, (*(const struct manifest_row *const *)b)->path);
}

int manifest_write(const char *dir, const struct manifest_row *rows, int64_t n, int clusters, const struct stamp *s, struct err *e)
{
	char *table = path_join(dir, "MANIFEST.tsv"), *sums = path_join(dir, "SHA256SUMS"), sha[65];
	const struct manifest_row **row = mem_zalloc((size_t)n, sizeof *row);
	struct stamp *full = stamp_with_clusters(s, clusters);
	struct str text = {0};
	const char *name;
	json_t *v;
	int rc;

	for (int64_t i = 0; i < n; i++)
		row[i] = rows + i;
	qsort(row, (size_t)n, sizeof *row, row_ptr_cmp);
	rc = write_table(table, row, n, full, e);
	if (!rc)
		rc = sha256_file(table, sha, NULL, e);
	if (!rc) {
		str_printf(&text, "%s  MANIFEST.tsv\n", sha);
		for (int64_t i = 0; i < n; i++)
			str_printf(&text, "%s  %s\n", row[i]->sha256, row[i]->path);
		json_object_foreach (json_object_get(stamp_root(full), "files"), name, v)
			str_printf(&text, "%s  %s\n", json_string_value(v), name);
		rc = commit_bytes(sums, text.p, text.len, e);
	}
	stamp_free(full);
	str_release(&text);
	mem_free(row);
	mem_free(table);
	mem_free(sums);
	return rc;
}

static int check_ends(const struct manifest_row *r, const struct shard *s, const char *path, struct err *e)
{
	struct str first = {0}, last = {0};
	int64_t n = shard_count(s);
	int rc = 0;

	if (n != r->samples)
		return err_set(e, ERR_DATA, "%s: %lld samples where the manifest says %lld", path, (long long)n, (long long)r->samples);
	if (strcmp(shard_key(s, 0, &first), r->first_key) || strcmp(shard_key(s, n - 1, &last), r->last_key))
		rc = err_set(e, ERR_DATA, "%s: keys '%s'..'%s' where the manifest says '%s'..'%s'", path, str_text(&first), str_text(&last),
		             r->first_key, r->last_key);
	str_release(&first);
	str_release(&last);
	return rc;
}

static int check_sha256(const char *path, const char *want, struct err *e)
{
	char sha[65];

	if (bytesource_sha256(path, sha, NULL, e))
		return -1;
	return strcmp(sha, want) ? err_set(e, ERR_DATA, "%s: SHA-256 %s where the manifest says %s", path, sha, want) : 0;
}

static int other_size(const struct manifest_row *r, const char *path, uint64_t bytes, struct err *e)
{
	return err_set(e, ERR_DATA, "%s: %llu bytes where the manifest says %llu", path, (unsigned long long)bytes, (unsigned long long)r->bytes);
}

/* The size of a file is compared first: of one that was cut short, it says more than the end record that the shard then lacks. */
static int check_size(const struct manifest_row *r, const char *path, struct err *e)
{
	struct stat st;

	if (stat(path, &st))
		return err_errno(e, "%s: listed in the manifest", path);
	return (uint64_t)st.st_size != r->bytes ? other_size(r, path, (uint64_t)st.st_size, e) : 0;
}

struct shard *manifest_shard_open(const struct manifest *m, int64_t i, int whole, struct err *e)
{
	const struct manifest_row *r = m->rows + i;
	char *path = manifest_shard_path(m, i);
	struct shard *s = NULL;

	/* Of a file on a server the size is known once it is open. It bounds what is hashed. */
	if (!remote_is_url(path) && (check_size(r, path, e) || (whole && check_sha256(path, r->sha256, e))))
		s = NULL;
	else
		s = shard_open(path, e);
	if (s && ((shard_bytes(s) != r->bytes ? other_size(r, path, shard_bytes(s), e) : check_ends(r, s, path, e)) ||
	          (whole && remote_is_url(path) && check_sha256(path, r->sha256, e)))) {
		shard_free(s);
		s = NULL;
	}
	mem_free(path);
	return s;
}

static int check(const struct manifest *m, int64_t i, int whole, struct err *e)
{
	struct shard *s = manifest_shard_open(m, i, whole, e);

	shard_free(s);
	return s ? 0 : -1;
}

int manifest_check(const struct manifest *m, int64_t i, struct err *e)
{
	return check(m, i, 1, e);
}

int manifest_check_quick(const struct manifest *m, int64_t i, struct err *e)
{
	return check(m, i, 0, e);
}

int manifest_check_file(const struct manifest *m, int i, struct err *e)
{
	char *path = path_join(m->dir, m->file[i].name);
	int rc = check_sha256(path, m->file[i].sha256, e);

	mem_free(path);
	return rc;
}
