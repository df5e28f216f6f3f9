/* Collects facts about archives, folders and SHARDS directories of samples. */
#include "inspect/samplefacts.h"

#include <string.h>
#include <sys/stat.h>

#include "core/jsonio.h"
#include "core/mem.h"
#include "core/names.h"
#include "core/seal.h"
#include "core/str.h"
#include "data/classnames.h"
#include "data/entries.h"
#include "data/keyset.h"
#include "data/labels.h"
#include "data/idx.h"
#include "data/latents.h"
#include "data/mds.h"
#include "data/provenance.h"
#include "data/samples.h"
#include "file/fileio.h"
#include "file/manifest.h"
#include "file/notfinite.h"
#include "file/npy.h"
#include "file/remoteinput.h"
#include "file/shard.h"
#include "file/still.h"
#include "file/tarfile.h"
#include "file/tarseal.h"
#include "inspect/soundtally.h"

enum { PICTURES_MOST = 4096, CLASSES_MOST = 1 << 20, CLASSES_SHOWN = 100, KINDS_MOST = 1000 };

static const uint64_t PEEK = 64 << 20; /* without check, at most this much is read of a foreign or compressed tar */

/* Counts over the samples read so far. */
struct tally {
	const char *where;
	const struct facts_options *f;
	int64_t samples, captions, repeated;
	json_t *members;         /* extension -> number of files */
	char *first, *last;      /* keys of the first and last sample */
	int64_t pictures;        /* number of pictures whose size was read */
	int width[2], height[2]; /* smallest, largest */
	struct soundtally sounds;
	int64_t *classes; /* [cap] samples of each class */
	int64_t cap, top; /* top: 1 + the largest class */
	struct keyset keys;
	struct notfinite wild; /* samples with a NaN or infinity in an array, each noted once */
	int64_t wild_at;       /* number of the last such sample */
	struct arena names;    /* scratch for the names of one member */
};

static void tally_release(struct tally *t)
{
	json_decref(t->members);
	mem_free(t->first);
	mem_free(t->last);
	mem_free(t->classes);
	keyset_release(&t->keys);
	notfinite_end(&t->wild, "", NULL);
	arena_release(&t->names);
}

static void look_finite(struct tally *t, const char *key, const char *ext, const struct tar_member *m)
{
	int64_t n = t->f->check && t->wild_at != t->samples ? notfinite_count(ext, m->data, m->size) : 0;

	notfinite_note(&t->wild, key, ext, n);
	t->wild_at = n ? t->samples : t->wild_at;
}

static void extent(struct tally *t, int width, int height)
{
	int first = !t->pictures++;

	t->width[0] = first || width < t->width[0] ? width : t->width[0];
	t->width[1] = first || width > t->width[1] ? width : t->width[1];
	t->height[0] = first || height < t->height[0] ? height : t->height[0];
	t->height[1] = first || height > t->height[1] ? height : t->height[1];
}

static int take_picture(struct tally *t, const char *key, const struct tar_member *m, struct err *e)
{
	char *name = str_new("%s: %s", t->where, key);
	struct picture p = {0};
	int w, h, rc = 0;

	if (t->f->check)
		rc = still_decode(&p, m->data, m->size, name, 3, NULL, e);
	if (!rc && (t->f->check || t->pictures < PICTURES_MOST) && !still_size(m->data, m->size, name, &w, &h, NULL))
		extent(t, w, h);
	picture_release(&p);
	mem_free(name);
	return rc;
}

static int take_class(struct tally *t, const char *key, const struct tar_member *m, struct err *e)
{
	struct sample_member member = {"cls", m->data, m->size};
	struct sample s = {key, t->where, 1, &member};
	int32_t label = -1;

	if (sample_class(&s, &label, t->f->check ? e : NULL))
		return t->f->check ? -1 : 0;
	if (label < 0 || label >= CLASSES_MOST)
		return 0;
	if (label >= t->cap) {
		int64_t cap = 2 * (int64_t)label + 16;

		t->classes = mem_resize(t->classes, (size_t)cap, sizeof *t->classes);
		memset(t->classes + t->cap, 0, (size_t)(cap - t->cap) * sizeof *t->classes);
		t->cap = cap;
	}
	t->classes[label]++;
	t->top = label >= t->top ? label + 1 : t->top;
	return 0;
}

static int take_array(struct tally *t, const char *key, const struct tar_member *m, struct err *e)
{
	char *name = str_new("%s: %s", t->where, key);
	struct npy a;
	int rc = t->f->check ? npy_parse(&a, m->data, m->size, name, e) : 0;

	mem_free(name);
	return rc;
}

static int take_sound(struct tally *t, const char *key, const struct tar_member *m, struct err *e)
{
	char *name = str_new("%s: %s", t->where, key);
	int rc = soundtally_add(&t->sounds, m->data, m->size, name, t->f->check ? e : NULL);

	mem_free(name);
	return t->f->check ? rc : 0;
}

static int take_member(struct tally *t, const struct tar_member *m, struct err *e)
{
	const char *key, *ext;
	int rc = entry_key(&t->names, m->name, NULL, &key, &ext, t->f->check ? e : NULL);

	if (rc)
		return rc < 0 && t->f->check ? err_prefix(e, "%s", t->where) : 0;
	if (json_object_get(t->members, ext) || json_object_size(t->members) < KINDS_MOST)
		json_object_set_new(t->members, ext, json_integer(json_integer_value(json_object_get(t->members, ext)) + 1));
	t->captions += !strcmp(ext, "txt");
	if (!t->last || strcmp(t->last, key)) {
		t->samples++;
		t->repeated += t->f->check && keyset_add(&t->keys, key);
		mem_free(t->last);
		t->last = mem_strdup(key);
		t->first = t->first ? t->first : mem_strdup(key);
	}
	look_finite(t, key, ext, m);
	rc = still_sniff(m->data, m->size) != STILL_UNKNOWN || (t->f->check && entry_is_picture(ext)) ? take_picture(t, key, m, e)
	     : !strcmp(ext, "cls")                                                                    ? take_class(t, key, m, e)
	     : !strcmp(ext, "npy")                                                                    ? take_array(t, key, m, e)
	     : !strcmp(ext, "flac")                                                                   ? take_sound(t, key, m, e)
	                                                                                              : 0;
	arena_release(&t->names);
	if (!rc && t->repeated)
		rc = err_set(e, ERR_DATA, "%s: the key \"%s\" appears twice", t->where, t->last);
	return rc;
}

static void tally_facts(json_t *o, struct tally *t, int complete)
{
	facts_i64(o, "samples", t->samples);
	json_object_set(o, "members", t->members);
	if (t->first)
		json_object_set_new(o, "first", jsonio_text(t->first));
	if (t->last)
		json_object_set_new(o, "last", jsonio_text(t->last));
	if (t->pictures && t->width[0] == t->width[1] && t->height[0] == t->height[1]) {
		json_object_set_new(o, "size", json_pack("[i, i]", *t->width, *t->height));
	} else if (t->pictures) {
		json_object_set_new(o, "smallest", json_pack("[i, i]", t->width[0], t->height[0]));
		json_object_set_new(o, "largest", json_pack("[i, i]", t->width[1], t->height[1]));
	}
	if (t->pictures == PICTURES_MOST && !t->f->check)
		facts_i64(o, "sizes_of", t->pictures);
	soundtally_facts(o, &t->sounds);
	if (t->captions)
		facts_i64(o, "captions", t->captions);
	if (t->top)
		facts_i64(o, "classes", t->top);
	if (t->top && (t->f->full || t->top <= CLASSES_SHOWN)) {
		json_t *v = json_array();

		for (int64_t i = 0; i < t->top; i++)
			json_array_append_new(v, json_integer(t->classes[i]));
		json_object_set_new(o, "class_counts", v);
	}
	json_object_set_new(o, "complete", json_boolean(complete));
}

/* Adds the stamp, and separately the names of classes in it. */
static void stamp_facts(json_t *o, const char *line)
{
	json_t *names = classnames_of_stamp(line);

	if (names)
		json_object_set_new(o, "class_names", names);
	facts_stamp(o, line);
}

/* Read an archive in the plain form of our writer: headers are parsed in place and contents are not copied. Returns 1 if the archive has that form, 0
 * if it has not or is cut, so that walk_any should try, -1 on error. *pos: the offset up to which headers were parsed. */
static int walk_ours(json_t *o, struct tally *t, const struct facts_source *s, size_t *pos, struct err *e)
{
	struct str name = {0}, stamp = {0}, seen = {0};
	struct tar_member m;
	int rc;

	while ((rc = tar_parse(s->data, s->len, pos, &m, &name, &seen, s->name, NULL)) == 1) {
		if (seen.len && !stamp.len)
			str_puts(&stamp, seen.p);
		if (take_member(t, &m, e)) {
			rc = -2;
			break;
		}
	}
	if (seen.len && !stamp.len)
		str_puts(&stamp, seen.p);
	/* Our writer ends an archive with two zero blocks; without them it is cut. */
	if (!rc && (s->len < 1024 || memcmp(s->data + s->len - 1024, (uint8_t[1024]){0}, 1024)))
		rc = -1;
	if (!rc && t->f->check) {
		struct tarseal seal = {0};

		tarseal_add(&seal, s->data, s->len);
		if (tarseal_broken(&seal)) {
			seal_broken(s->name, e);
			rc = -2;
		}
		tarseal_release(&seal);
	}
	if (!rc) {
		tally_facts(o, t, 1);
		stamp_facts(o, stamp.len ? stamp.p : NULL);
	}
	str_release(&name);
	str_release(&stamp);
	str_release(&seen);
	return rc == -2 ? -1 : !rc;
}

/* Read members of any tar, up to about `most` bytes. */
static int walk_any(json_t *o, struct tally *t, const struct facts_source *s, uint64_t most, struct err *e)
{
	struct tar_limits limits = {.member = (uint64_t)256 << 20};
	struct tar_reader *r = s->data ? tar_open_memory(s->data, s->len, s->name, &limits, e) : tar_open(s->path, &limits, e);
	struct tar_member m;
	uint64_t bytes = 0;
	int rc = -1;

	while (r && (rc = tar_next(r, &m, e)) == 1) {
		bytes += m.size + 512;
		if (take_member(t, &m, e))
			rc = -1;
		if (rc < 0 || bytes > most)
			break;
	}
	if (r && (t->samples || rc >= 0)) {
		tally_facts(o, t, rc == 0);
		stamp_facts(o, tar_stamp(r));
	}
	tar_close(r);
	return rc < 0 ? -1 : 0;
}

/* Read the samples again as the other programs do. This finds what those would refuse, and gives the digest under which they know the samples. */
static int digest(json_t *o, const char *path, struct err *e)
{
	struct samples_options so = {.once = 1};
	struct samples *x = samples_open(&path, 1, &so, e);
	struct sample sample;
	char hex[65];
	int rc = -1;

	while (x && (rc = samples_next(x, &sample, e)) == 1)
		;
	if (!rc) {
		samples_digest(x, hex);
		facts_i64(o, "samples", samples_count(x));
		json_object_set_new(o, "digest", json_string(hex));
	}
	samples_close(x);
	return rc;
}

int facts_tar(json_t *o, const struct facts_source *s, const struct facts_options *f, struct err *e)
{
	struct tally t = {.where = s->name, .f = f, .members = json_object()};
	size_t pos = 0;
	int rc = s->data ? walk_ours(o, &t, s, &pos, e) : 0;

	/* If some headers were parsed, the archive is plain but of another form or cut; only reading to its end can tell. */
	if (!rc) {
		tally_release(&t);
		t = (struct tally){.where = s->name, .f = f, .members = json_object()};
		rc = walk_any(o, &t, s, f->check || f->full || pos ? UINT64_MAX : PEEK, e);
	}
	if (rc >= 0 && f->check && s->path && t.samples)
		rc = digest(o, s->path, e);
	if (rc >= 0 && notfinite_end(&t.wild, s->name, e))
		rc = -1;
	tally_release(&t);
	return rc < 0 ? -1 : 0;
}

struct refusals {
	int64_t n;
	int fatal;
};

static int refused(void *arg, struct err *e)
{
	struct refusals *r = arg;

	r->n++;
	if (r->fatal)
		return -1;
	*e = (struct err){0};
	return 0;
}

/* Read every sample and decode its picture. */
static int check_folder(json_t *o, const char *dir, struct err *e)
{
	struct samples_options so = {.once = 1};
	struct samples *x = samples_open(&dir, 1, &so, e);
	struct notfinite wild = {0};
	struct sample sample;
	int rc = -1;

	while (x && (rc = samples_next(x, &sample, e)) == 1) {
		struct picture p = {0};

		if (sample_picture(&sample) && sample_pixels(&p, &sample, &so, e))
			rc = -1;
		for (int i = 0, noted = 0; i < sample.n && !noted; i++) {
			int64_t n = notfinite_count(sample.member[i].ext, sample.member[i].data, sample.member[i].len);

			notfinite_note(&wild, sample.key, sample.member[i].ext, n);
			noted = n > 0;
		}
		picture_release(&p);
		if (rc < 0)
			break;
	}
	samples_close(x);
	if (notfinite_end(&wild, dir, rc < 0 ? NULL : e) || rc < 0)
		return -1;
	return digest(o, dir, e);
}

/* Add the number of samples in a folder's files of latents to *samples. */
static int latents_facts(json_t *o, const char *dir, int64_t *samples, struct err *e)
{
	char **paths = NULL;
	size_t n;
	int rc = latents_list(dir, &paths, &n, e);

	for (size_t i = 0; i < n && !rc; i++) {
		struct latents *l = latents_open(paths[i], e);

		if (l)
			*samples += latents_count(l);
		rc = l ? 0 : -1;
		latents_free(l);
	}
	if (n)
		facts_i64(o, "latents_files", (int64_t)n);
	names_free(paths, n);
	return rc;
}

/* The same of its idx files. */
static int idx_facts(json_t *o, const struct entries *files, int64_t *samples, struct err *e)
{
	for (size_t i = 0; i < files->nidx; i++) {
		struct idx *x = idx_open(files->idx[i], e);

		if (!x)
			return -1;
		*samples += idx_count(x);
		idx_free(x);
	}
	if (files->nidx)
		facts_i64(o, "idx_files", (int64_t)files->nidx);
	return 0;
}

static int mds_facts(json_t *o, const char *dir, const struct facts_options *f, struct err *e)
{
	struct mds *m = mds_open(dir, 0, SIZE_MAX, e);

	if (!m)
		return -1;
	facts_i64(o, "samples", mds_count(m));
	facts_i64(o, "mds_shards", mds_shards(m));
	json_object_set_new(o, "columns", mds_columns(m));
	mds_free(m);
	return f->check ? check_folder(o, dir, e) : 0;
}

int facts_folder(json_t *o, const char *dir, const struct facts_options *f, struct err *e)
{
	struct refusals r = {.fatal = f->check};
	json_t *members = json_object(), *names;
	struct entries files = {0};
	struct labels *labels;
	char *below;
	int64_t samples = 0, latents;
	int rc;

	if (mds_sniff(dir)) {
		json_decref(members);
		return mds_facts(o, dir, f, e);
	}
	if ((names = classnames_of_folder(dir)))
		json_object_set_new(o, "class_names", names);
	rc = labels_beside(dir, &labels, &below, e);
	if (rc >= 0)
		rc = entries_scan(&files, below, refused, &r, e);
	if (!rc)
		rc = latents_facts(o, dir, &samples, e) || idx_facts(o, &files, &samples, e) ? -1 : 0;
	latents = samples;
	if (labels)
		json_object_set_new(o, "classes_beside", json_true());
	labels_free(labels);
	mem_free(below);
	for (size_t i = 0; i < files.n; i++) {
		const struct entry *v = files.v + i;

		samples += !i || strcmp(v->key, v[-1].key);
		json_object_set_new(members, v->ext, json_integer(json_integer_value(json_object_get(members, v->ext)) + 1));
	}
	if (!rc) {
		facts_i64(o, "samples", samples);
		if (files.n)
			json_object_set(o, "members", members);
		if (files.ntars)
			facts_i64(o, "archives", (int64_t)files.ntars);
		if (r.n)
			facts_i64(o, "refused", r.n);
		if (!files.n && !files.ntars && !latents)
			rc = err_set(e, ERR_DATA, "%s: no samples, shards or model in this folder", dir);
	}
	json_decref(members);
	entries_release(&files);
	return !rc && f->check ? check_folder(o, dir, e) : rc;
}

static json_t *shard_row(const struct manifest_row *r)
{
	return json_pack("{s:o, s:i, s:s, s:I, s:I, s:s}", "path", jsonio_text(r->path), "cluster", r->cluster, "split",
	                 r->holdout ? "holdout" : "train", "samples", (json_int_t)r->samples, "bytes", (json_int_t)r->bytes, "sha256", r->sha256);
}

static json_t *cluster_row(const struct manifest *m, int c, int64_t total)
{
	int64_t shards = 0, bytes = 0;
	json_t *o = json_object();
	const char *name = names_get(m->cluster_names, c);

	for (int64_t i = 0; i < m->n; i++)
		if (m->rows[i].cluster == c) {
			shards++;
			bytes += (int64_t)m->rows[i].bytes;
		}
	facts_i64(o, "cluster", c);
	if (name)
		json_object_set_new(o, "name", json_string(name));
	facts_i64(o, "samples", m->train[c]);
	json_object_set_new(o, "share", json_real(total ? (double)m->train[c] / (double)total : 0));
	facts_i64(o, "held_out", m->held[c]);
	facts_i64(o, "shards", shards);
	facts_i64(o, "bytes", bytes);
	return o;
}

static int check_finite(const char *path, struct err *e)
{
	struct shard *s = shard_open(path, e);
	int rc = s ? notfinite_shard(s, path, e) : -1;

	shard_free(s);
	return rc;
}

static int check_row(const struct manifest *m, int64_t i, const struct facts_options *f, struct err *e)
{
	char *path;
	struct stat st;
	int rc = 0;

	path = manifest_shard_path(m, i);
	if (f->check)
		rc = manifest_check(m, i, e) || check_finite(path, e) ? -1 : 0;
	else if (remote_is_url(path)) /* a request for each shard would be needed */
		rc = 0;
	else if (stat(path, &st))
		rc = err_errno(e, "%s: listed in the manifest", path);
	else if ((uint64_t)st.st_size != m->rows[i].bytes)
		rc = err_set(e, ERR_DATA, "%s: %lld bytes where the manifest says %llu", path, (long long)st.st_size,
		             (unsigned long long)m->rows[i].bytes);
	mem_free(path);
	return rc;
}

static int first_picture(json_t *o, const struct manifest *m, struct err *e)
{
	static const struct facts_options quick;
	char *path = manifest_shard_path(m, 0);
	struct facts_source s = {.name = path, .path = path};
	json_t *v = json_object();
	int rc = facts_shard(v, &s, &quick, e);

	if (!rc)
		json_object_set(o, "first_sample", json_object_get(v, "first_sample"));
	json_decref(v);
	mem_free(path);
	return rc;
}

static void manifest_facts(json_t *o, const struct manifest *m, const struct facts_options *f)
{
	json_t *clusters = json_array(), *list = json_array(), *provenance;
	int64_t train = 0, held = 0, bytes = 0, further = 0;

	for (int c = 0; c < m->clusters; c++) {
		train += m->train[c];
		held += m->held[c];
	}
	for (int c = 0; c < m->clusters && (f->full || m->clusters <= CLASSES_SHOWN); c++)
		json_array_append_new(clusters, cluster_row(m, c, train));
	for (int64_t i = 0; i < m->n; i++) {
		bytes += (int64_t)m->rows[i].bytes;
		further += m->rows[i].samples * (m->rows[i].copies - !m->rows[i].further);
		if (f->full)
			json_array_append_new(list, shard_row(m->rows + i));
	}
	facts_i64(o, "k", m->clusters);
	facts_i64(o, "samples", train);
	facts_i64(o, "held_out", held);
	if (further)
		facts_i64(o, "further", further);
	facts_i64(o, "shards", m->n);
	facts_i64(o, "shard_bytes", bytes);
	json_object_set(o, "clusters", clusters);
	if (m->class_names)
		json_object_set(o, "class_names", m->class_names);
	if (f->full)
		json_object_set(o, "list", list);
	json_object_set_new(o, "sha256", json_string(m->sha256));
	facts_stamp(o, m->stamp);
	if ((provenance = provenance_of(json_object_get(json_object_get(o, "stamp"), "provenance"), -1)))
		json_object_set_new(o, "provenance", provenance);
	json_decref(clusters);
	json_decref(list);
}

int facts_shards(json_t *o, const char *dir, const struct facts_options *f, struct err *e)
{
	struct manifest m;
	int rc = 0;

	if (manifest_load(&m, dir, e))
		return -1;
	manifest_facts(o, &m, f);
	for (int64_t i = 0; i < m.n && !rc; i++)
		rc = check_row(&m, i, f, e);
	for (int i = 0; i < m.files && !rc && f->check; i++)
		rc = manifest_check_file(&m, i, e);
	if (!rc && m.n)
		rc = first_picture(o, &m, e);
	manifest_release(&m);
	return rc;
}
