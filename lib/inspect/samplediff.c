/* Compares two sets of samples by key: lists where each key is on both sides, sorts the lists, and walks through them together. */
#include "inspect/samplediff.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

#include "core/hash.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/str.h"
#include "data/assignment.h"
#include "data/samples.h"
#include "file/fileio.h"
#include "file/kind.h"
#include "file/manifest.h"

/* One place of a key. A sample of several clusters has several, of which the one in its own cluster is the first. */
struct spot {
	const char *key;
	int cluster, copies, further, held; /* as in struct manifest_row; cluster -1: the side does not say */
	int32_t shard;                      /* index in struct side's `shard` */
	int64_t at;                         /* index in the shard */
	uint64_t hash;                      /* of the members, unless the side is a SHARDS folder */
};

struct side {
	struct spot *spot; /* sorted by key */
	size_t n, cap;
	struct arena keys;
	int placed, filled; /* it says where its samples are; it holds their members */
	struct shard **shard;
	int shards;
};

static struct spot *add_spot(struct side *s, const char *key)
{
	if (s->n == s->cap) {
		s->cap = s->cap ? 2 * s->cap : 1024;
		s->spot = mem_resize(s->spot, s->cap, sizeof *s->spot);
	}
	s->spot[s->n] = (struct spot){.key = key, .cluster = -1, .copies = 1};
	return &s->spot[s->n++];
}

static int scan_shards(struct side *s, const char *dir, struct err *e)
{
	struct str key = {0};
	struct manifest m;
	int rc = 0;

	if (manifest_load(&m, dir, e))
		return -1;
	s->placed = s->filled = 1;
	s->shard = mem_zalloc((size_t)m.n, sizeof *s->shard);
	for (int64_t i = 0; i < m.n && !rc; i++) {
		const struct manifest_row *r = &m.rows[i];
		struct shard *x = s->shard[s->shards] = manifest_shard_open(&m, i, 0, e);

		rc = x ? 0 : -1;
		s->shards += x != NULL;
		for (int64_t k = 0; x && k < shard_count(x); k++) {
			struct spot *p = add_spot(s, arena_strdup(&s->keys, shard_key(x, k, &key)));

			*p = (struct spot){p->key, r->cluster, r->copies, r->further, r->holdout, s->shards - 1, k, 0};
		}
	}
	manifest_release(&m);
	str_release(&key);
	return rc;
}

/* Add the places of a row as ddm-shard would make them. */
static int add_row(struct side *s, const struct assignment *a, int64_t row, struct err *e)
{
	const char *key = assignment_key(a, row, e);
	size_t own = s->n;
	const int32_t *further;
	int n, cluster, held;

	if (!key || assignment_get(a, row, &cluster, &held, e))
		return -1;
	key = arena_strdup(&s->keys, key);
	n = assignment_further(a, row, &further);
	for (int i = -1; i < n; i++) {
		int c = i < 0 ? cluster : further[i];
		size_t j = own;

		while (j < s->n && s->spot[j].cluster != c)
			j++;
		if (j < s->n) {
			s->spot[j].copies++;
			continue;
		}
		add_spot(s, key);
		s->spot[j].cluster = c;
		s->spot[j].held = held;
		s->spot[j].further = i >= 0;
	}
	return 0;
}

static int scan_table(struct side *s, const char *path, struct err *e)
{
	struct assignment a;
	int rc = assignment_load(&a, path, -1, e);

	s->placed = 1;
	for (int64_t i = 0; !rc && i < a.rows; i++)
		rc = add_row(s, &a, i, e);
	assignment_release(&a);
	return rc;
}

static void hash_member(XXH3_state_t *h, const char *ext, const void *data, size_t len)
{
	uint64_t size = len;

	XXH3_64bits_update(h, ext, strlen(ext) + 1);
	XXH3_64bits_update(h, &size, sizeof size);
	XXH3_64bits_update(h, data, len);
}

static int scan_samples(struct side *s, const char *path, struct err *e)
{
	struct samples_options so = {.once = 1};
	struct samples *x = samples_open(&path, 1, &so, e);
	XXH3_state_t *h = hash64_state();
	struct sample sample;
	int rc = -1;

	s->filled = 1;
	while (x && (rc = samples_next(x, &sample, e)) == 1) {
		XXH3_64bits_reset(h);
		for (int i = 0; i < sample.n; i++)
			hash_member(h, sample.member[i].ext, sample.member[i].data, sample.member[i].len);
		add_spot(s, arena_strdup(&s->keys, sample.key))->hash = XXH3_64bits_digest(h);
	}
	XXH3_freeState(h);
	samples_close(x);
	return rc;
}

static int by_key(const void *a, const void *b)
{
	const struct spot *x = a, *y = b;
	int c = strcmp(x->key, y->key);

	if (!c)
		c = x->further - y->further;
	return c ? c : (x->cluster > y->cluster) - (x->cluster < y->cluster);
}

/* A table of another program has no magic, so any file of unknown content is read as one. */
static int is_table(const char *path)
{
	struct filemap m;
	enum kind kind;

	if (!strcmp(path, "-") || filemap_open(&m, path, NULL))
		return 0;
	kind = kind_of_bytes(m.data, m.len);
	filemap_close(&m);
	return kind == KIND_TABLE || kind == KIND_UNKNOWN;
}

static int scan(struct side *s, const char *path, struct err *e)
{
	enum kind kind = KIND_FOLDER;
	struct stat st;
	int rc;

	if (!stat(path, &st) && S_ISDIR(st.st_mode) && kind_of_folder(path, &kind, e))
		return -1;
	rc = kind == KIND_SHARDS                                         ? scan_shards(s, path, e)
	     : !stat(path, &st) && S_ISREG(st.st_mode) && is_table(path) ? scan_table(s, path, e)
	                                                                 : scan_samples(s, path, e);
	if (!rc && s->n)
		qsort(s->spot, s->n, sizeof *s->spot, by_key);
	return rc;
}

static void side_release(struct side *s)
{
	for (int i = 0; i < s->shards; i++)
		shard_free(s->shard[i]);
	mem_free(s->shard);
	mem_free(s->spot);
	arena_release(&s->keys);
}

/* The number of places of the key at i. */
static size_t places(const struct side *s, size_t i)
{
	size_t n = 1;

	while (i + n < s->n && !strcmp(s->spot[i].key, s->spot[i + n].key))
		n++;
	return n;
}

static int content(const struct side *s, const struct spot *p, uint64_t *hash, struct err *e)
{
	struct shard_sample sample;
	XXH3_state_t *h;

	if (!s->shards) {
		*hash = p->hash;
		return 0;
	}
	if (shard_read(s->shard[p->shard], p->at, &sample, e))
		return -1;
	h = hash64_state();
	for (int i = 0; i < sample.members; i++)
		hash_member(h, sample.member[i].ext, sample.member[i].data, sample.member[i].size);
	*hash = XXH3_64bits_digest(h);
	XXH3_freeState(h);
	shard_sample_release(&sample);
	return 0;
}

/* 1 if the members of two samples differ, 0 if not, -1 on error. */
static int is_changed(const struct side *a, const struct spot *p, const struct side *b, const struct spot *q, struct err *e)
{
	uint64_t x, y;

	if (a->shards && b->shards && shard_mark(a->shard[p->shard], p->at) == shard_mark(b->shard[q->shard], q->at))
		return 0;
	if (content(a, p, &x, e) || content(b, q, &y, e))
		return -1;
	return x != y;
}

static int is_moved(const struct spot *p, size_t np, const struct spot *q, size_t nq)
{
	if (np != nq)
		return 1;
	for (size_t i = 0; i < np; i++)
		if (p[i].cluster != q[i].cluster || p[i].copies != q[i].copies || p[i].further != q[i].further || p[i].held != q[i].held)
			return 1;
	return 0;
}

/* "0", "0 held out", "0 twice and 2": the own cluster first. */
static json_t *place_text(const struct spot *p, size_t n)
{
	struct str s = {0};
	json_t *o;

	for (size_t i = 0; i < n; i++) {
		str_printf(&s, "%s%d", i ? " and " : "", p[i].cluster);
		if (p[i].copies > 1)
			str_printf(&s, " x%d", p[i].copies);
	}
	if (p->held)
		str_puts(&s, " held out");
	o = json_string(str_text(&s));
	str_release(&s);
	return o;
}

/* What the walk has found: numbers, and keys by name of the list. */
struct found {
	int64_t same, added, removed, moved, changed;
	json_t *lists;
};

static void note(struct found *f, int64_t *count, const char *list, json_t *entry)
{
	if (!json_object_get(f->lists, list))
		json_object_set_new(f->lists, list, json_array());
	json_array_append_new(json_object_get(f->lists, list), entry);
	++*count;
}

/* Compare a key that both sides have. */
static int compare(struct found *f, const struct side *a, size_t i, size_t ni, const struct side *b, size_t j, size_t nj, struct err *e)
{
	const struct spot *p = &a->spot[i], *q = &b->spot[j];
	int moved = a->placed && b->placed && is_moved(p, ni, q, nj);
	int changed = a->filled && b->filled ? is_changed(a, p, b, q, e) : 0;

	if (changed < 0)
		return -1;
	if (moved)
		note(f, &f->moved, "moved_keys",
		     json_pack("{s:o, s:o, s:o}", "key", jsonio_text(p->key), "from", place_text(p, ni), "to", place_text(q, nj)));
	if (changed)
		note(f, &f->changed, "changed_keys", jsonio_text(p->key));
	f->same += !moved && !changed;
	return 0;
}

static int walk(struct found *f, const struct side *a, const struct side *b, int64_t *differ, struct err *e)
{
	for (size_t i = 0, j = 0; i < a->n || j < b->n;) {
		int order = i == a->n ? 1 : j == b->n ? -1 : strcmp(a->spot[i].key, b->spot[j].key);
		size_t ni = order <= 0 ? places(a, i) : 0, nj = order >= 0 ? places(b, j) : 0;
		int64_t same = f->same;

		if (order < 0)
			note(f, &f->removed, "removed_keys", jsonio_text(a->spot[i].key));
		else if (order > 0)
			note(f, &f->added, "added_keys", jsonio_text(b->spot[j].key));
		else if (compare(f, a, i, ni, b, j, nj, e))
			return -1;
		*differ += same == f->same;
		i += ni;
		j += nj;
	}
	return 0;
}

int samplediff(json_t *o, const char *a, const char *b, int64_t *differ, struct err *e)
{
	struct found f = {.lists = json_object()};
	struct side sa = {0}, sb = {0};
	int rc;

	*differ = 0;
	rc = scan(&sa, a, e) || scan(&sb, b, e) || walk(&f, &sa, &sb, differ, e) ? -1 : 0;
	if (!rc) {
		json_object_set_new(o, "same", json_integer(f.same));
		json_object_set_new(o, "added", json_integer(f.added));
		json_object_set_new(o, "removed", json_integer(f.removed));
		if (sa.placed && sb.placed)
			json_object_set_new(o, "moved", json_integer(f.moved));
		if (sa.filled && sb.filled)
			json_object_set_new(o, "changed", json_integer(f.changed));
		json_object_update(o, f.lists);
	}
	json_decref(f.lists);
	side_release(&sa);
	side_release(&sb);
	return rc;
}
