/* Samples of tars, shards, folders, lists and latents, one after the other. */
#include "data/samples.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/hash.h"
#include "core/mem.h"
#include "core/str.h"
#include "data/classnames.h"
#include "data/entries.h"
#include "data/feed.h"
#include "data/keyset.h"
#include "data/labels.h"
#include "data/latents.h"
#include "data/mds.h"
#include "data/memberfile.h"
#include "file/fileio.h"
#include "file/manifest.h"
#include "file/shard.h"
#include "file/tarfile.h"
#include "text/captionlines.h"

enum { MEMBERS = 64 };
static const size_t LIST_LIMIT = (size_t)1 << 30;
static const char apart[] = "they cannot be used together"; /* sources whose class names differ */

/* What is read one after the other: the files of a folder or list, a tar, a shard, a text of captions. */
enum unit_kind { UNIT_FILES, UNIT_TAR, UNIT_SHARD, UNIT_LATENTS, UNIT_MDS, UNIT_LINES };

struct unit {
	enum unit_kind kind;
	struct entries files; /* UNIT_FILES */
	struct labels *labels; /* of theirs, or NULL */
	char *path;
	int fd;                          /* of stdin: the feed's, borrowed; else -1 */
	const struct manifest *manifest; /* UNIT_SHARD listed in a manifest, borrowed from the iterator */
	int64_t row;
};

struct samples {
	struct samples_options o;
	struct unit *unit;
	size_t units;
	struct manifest **manifest;
	size_t manifests;
	char *what;     /* the operands, for messages */
	struct feed feed; /* stdin */
	int stdin_used;

	size_t at;      /* unit being read */
	int64_t next;   /* entry of files, sample of a shard */
	struct tar_reader *tar;
	struct tar_member ahead; /* tar: the member that begins the next sample */
	int have_ahead;
	struct shard *shard;
	struct shard_sample read;
	struct latents *latents;
	struct mds *mds;
	struct captionlines *lines;
	int64_t line;   /* of all texts */
	struct str key; /* of a latent or a line */
	json_t *class_names; /* of all sources so far; NULL: none */
	int told;       /* the stamp of the tar was looked at */

	struct str bytes; /* of the current sample */
	size_t start[MEMBERS];
	struct sample_member member[MEMBERS];
	struct arena names; /* of the current sample */
	struct keyset keys;

	int second;     /* this is not the first pass */
	int64_t count, skipped;
	struct sha256 digest;
	struct str passed; /* members of tars that are no files, in words */
};

static struct unit *unit_add(struct samples *s, enum unit_kind kind, const char *path)
{
	struct unit *u;

	s->unit = mem_resize(s->unit, s->units + 1, sizeof *s->unit);
	u = &s->unit[s->units++];
	*u = (struct unit){.kind = kind, .path = mem_strdup(path), .fd = -1};
	return u;
}

static int refused(void *arg, struct err *e)
{
	return samples_bad(arg, e);
}

int samples_bad(struct samples *s, struct err *e)
{
	if (!s->o.skip_bad)
		return -1;
	if (!s->second) {
		s->skipped++;
		if (s->o.bad)
			s->o.bad(s->o.bad_arg, e->msg);
	}
	*e = (struct err){0};
	return 0;
}

static int open_archive(struct samples *s, const char *path)
{
	unit_add(s, shard_sniff(path) ? UNIT_SHARD : UNIT_TAR, path);
	return 0;
}

/* Rows of the manifest below `prefix` ("" or "cluster-3/"). */
static int open_manifest(struct samples *s, const char *dir, const char *prefix, struct err *e)
{
	struct manifest *m = mem_zalloc(1, sizeof *m);

	s->manifest = mem_resize(s->manifest, s->manifests + 1, sizeof *s->manifest);
	s->manifest[s->manifests++] = m;
	if (manifest_load(m, dir, e) || classnames_join(&s->class_names, json_incref(m->class_names), dir, apart, e))
		return -1;
	for (int64_t i = 0; i < m->n; i++) {
		const struct manifest_row *r = &m->rows[i];
		char *path;
		struct unit *u;

		if (strncmp(r->path, prefix, strlen(prefix)))
			continue;
		if ((s->o.part == SAMPLES_TRAIN && r->holdout) || (s->o.part == SAMPLES_HOLDOUT && !r->holdout))
			continue;
		path = manifest_shard_path(m, i);
		u = unit_add(s, UNIT_SHARD, path);
		mem_free(path);
		u->manifest = m;
		u->row = i;
	}
	return 0;
}

static int has_manifest(const char *dir)
{
	char *path = path_join(dir, "MANIFEST.tsv");
	int there = path_exists(path);

	mem_free(path);
	return there;
}

/* SHARDS, SHARDS/cluster-3, SHARDS/holdout, SHARDS/holdout/cluster-3: 1 when `dir` was one of them. */
static int open_shards(struct samples *s, const char *dir, struct err *e)
{
	char full[PATH_MAX];

	if (!realpath(dir, full))
		return err_errno(e, "%s", dir);
	for (int up = 0; up <= 2; up++) {
		char *rest = full + strlen(full), *prefix;
		int rc;

		for (int i = 0; i < up && rest > full; i++)
			do
				rest--;
			while (rest > full && *rest != '/');
		if (rest == full)
			return 0;
		prefix = *rest ? str_new("%s/", rest + 1) : mem_strdup("");
		*rest = 0;
		rc = has_manifest(full) && (!*prefix || !strncmp(prefix, "cluster-", 8) || !strncmp(prefix, "holdout/", 8));
		if (rc && open_manifest(s, full, prefix, e))
			rc = -1;
		mem_free(prefix);
		if (rc)
			return rc;
		if (!realpath(dir, full))
			return err_errno(e, "%s", dir);
	}
	return 0;
}

static int open_latents(struct samples *s, const char *dir, struct err *e)
{
	char **paths;
	size_t n;

	if (latents_list(dir, &paths, &n, e))
		return -1;
	for (size_t i = 0; i < n; i++)
		unit_add(s, UNIT_LATENTS, paths[i]);
	names_free(paths, n);
	return 0;
}

/* The files below a folder, and its archives. labels: theirs; taken. */
static int open_files(struct samples *s, const char *dir, struct labels *labels, struct err *e)
{
	struct entries files = {0};
	int rc = entries_scan(&files, dir, refused, s, e);

	for (size_t i = 0; i < files.ntars && !rc; i++)
		rc = open_archive(s, files.tars[i]);
	if (!rc && files.n) {
		struct unit *u = unit_add(s, UNIT_FILES, dir);

		u->files = files;
		u->labels = labels;
		return 0;
	}
	entries_release(&files);
	labels_free(labels);
	return rc;
}

static int open_folder(struct samples *s, const char *dir, struct err *e)
{
	struct labels *labels;
	char *below;
	int rc = open_shards(s, dir, e);

	if (rc)
		return rc < 0 ? -1 : 0;
	if (mds_sniff(dir)) {
		unit_add(s, UNIT_MDS, dir);
		return 0;
	}
	if (open_latents(s, dir, e) || classnames_join(&s->class_names, classnames_of_folder(dir), dir, apart, e))
		return -1;
	rc = labels_beside(dir, &labels, &below, e);
	if (rc >= 0)
		rc = open_files(s, below, labels, e);
	mem_free(below);
	return rc;
}

static int open_path(struct samples *s, const char *path, struct err *e)
{
	struct entries files = {0};
	enum entry_kind kind;
	const char *ext;
	struct stat st;

	if (stat(path, &st))
		return err_errno(e, "%s", path);
	if (S_ISDIR(st.st_mode))
		return open_folder(s, path, e);
	if (latents_sniff(path)) {
		unit_add(s, UNIT_LATENTS, path);
		return 0;
	}
	if (mds_sniff(path)) {
		unit_add(s, UNIT_MDS, path);
		return 0;
	}
	if (entry_sniff(path, &kind, &ext, e))
		return -1;
	if (kind == ENTRY_TAR)
		return open_archive(s, path);
	if (kind != ENTRY_PICTURE && s->o.captions) {
		unit_add(s, UNIT_LINES, path);
		return 0;
	}
	if (kind != ENTRY_PICTURE)
		return err_set(e, ERR_DATA, "%s: neither a folder, a tar, a shard nor a picture", path);
	if (entries_file(&files, path, e)) {
		entries_release(&files);
		return -1;
	}
	unit_add(s, UNIT_FILES, path)->files = files;
	return 0;
}

static int open_list(struct samples *s, int fd, struct err *e)
{
	struct entries files = {0};
	struct stat st;
	char *text;
	int rc;

	if (fstat(fd, &st))
		return err_errno(e, "stdin");
	if ((uint64_t)st.st_size > LIST_LIMIT)
		return err_set(e, ERR_DATA, "stdin: %lld bytes and no tar: too long for a list of paths", (long long)st.st_size);
	text = mem_try((size_t)st.st_size + 1, 1, "list of paths", e);
	if (!text)
		return -1;
	if (fd_pread(fd, text, (size_t)st.st_size, 0) != st.st_size) {
		mem_free(text);
		return err_errno(e, "stdin");
	}
	rc = entries_list(&files, text, (size_t)st.st_size, s->o.nul_list ? 0 : '\n', refused, s, e);
	mem_free(text);
	if (rc) {
		entries_release(&files);
		return -1;
	}
	unit_add(s, UNIT_FILES, "-")->files = files;
	return 0;
}

static int open_stdin(struct samples *s, struct err *e)
{
	struct feed *f = &s->feed;
	int tar;

	if (s->stdin_used++)
		return err_set(e, ERR_USAGE, "\"-\" (standard input) given twice");
	if (feed_open(f, e))
		return -1;
	tar = f->n && tar_sniff(f->head, f->n);
	if (!tar && !s->o.captions)
		return feed_copy(f, s->o.spool, e) ? -1 : open_list(s, f->fd, e);
	if (s->o.once ? feed_stream(f, e) : feed_copy(f, s->o.spool, e))
		return -1;
	unit_add(s, tar ? UNIT_TAR : UNIT_LINES, "-")->fd = f->fd;
	return 0;
}

struct samples *samples_open(const char *const *sources, int n, const struct samples_options *o, struct err *e)
{
	struct samples *s = mem_zalloc(1, sizeof *s);
	struct str what = {0};

	s->o = *o;
	s->feed.fd = -1;
	if (!s->o.max_member)
		s->o.max_member = (size_t)256 << 20;
	sha256_init(&s->digest);
	for (int i = 0; i < n; i++) {
		int rc = strcmp(sources[i], "-") ? open_path(s, sources[i], e) : open_stdin(s, e);

		str_printf(&what, i ? ", %s" : "%s", strcmp(sources[i], "-") ? sources[i] : "stdin");
		if (rc) {
			str_release(&what);
			samples_close(s);
			return NULL;
		}
	}
	s->what = mem_strdup(str_text(&what));
	str_release(&what);
	return s;
}

/* What a tar holds that is no sample's: remembered, and said once all samples have been read. */
static void remember_passed(struct samples *s)
{
	const char *first;
	int64_t n = s->tar && !s->second ? tar_passed(s->tar, &first) : 0;

	if (n)
		str_printf(&s->passed, "%s%s: passed over: %s%s", s->passed.len ? "; " : "",
		           s->unit[s->at].fd >= 0 ? "stdin" : s->unit[s->at].path, first, n > 3 ? " and more" : "");
}

static void tell_passed(struct samples *s)
{
	void (*tell)(void *, const char *) = s->o.passed ? s->o.passed : s->o.bad;

	if (s->passed.len && tell)
		tell(s->o.bad_arg, str_text(&s->passed));
	str_reset(&s->passed);
}

static void end_unit(struct samples *s)
{
	tar_close(s->tar);
	shard_sample_release(&s->read);
	s->read = (struct shard_sample){0};
	shard_free(s->shard);
	latents_free(s->latents);
	mds_free(s->mds);
	captionlines_free(s->lines);
	s->lines = NULL;
	s->mds = NULL;
	s->latents = NULL;
	s->tar = NULL;
	s->shard = NULL;
	s->have_ahead = s->told = 0;
	s->next = 0;
}

void samples_close(struct samples *s)
{
	if (!s)
		return;
	end_unit(s);
	for (size_t i = 0; i < s->units; i++) {
		entries_release(&s->unit[i].files);
		labels_free(s->unit[i].labels);
		mem_free(s->unit[i].path);
	}
	for (size_t i = 0; i < s->manifests; i++) {
		manifest_release(s->manifest[i]);
		mem_free(s->manifest[i]);
	}
	feed_close(&s->feed);
	mem_free(s->manifest);
	mem_free(s->unit);
	mem_free(s->what);
	str_release(&s->bytes);
	str_release(&s->key);
	json_decref(s->class_names);
	str_release(&s->passed);
	arena_release(&s->names);
	keyset_release(&s->keys);
	mem_free(s);
}

int samples_rewind(struct samples *s, struct err *e)
{
	end_unit(s);
	if (s->o.once)
		return err_set(e, ERR_INTERNAL, "samples to be read once are read again");
	for (size_t i = 0; i < s->units; i++)
		if (s->unit[i].fd >= 0 && lseek(s->unit[i].fd, 0, SEEK_SET))
			return err_errno(e, "stdin");
	keyset_clear(&s->keys);
	s->at = 0;
	s->line = 0;
	s->second = 1;
	return 0;
}

/* The sample being gathered: members copied one after the other, addresses filled in when it is complete. */
static void begin(struct samples *s, struct sample *out, const char *key, const char *origin)
{
	arena_release(&s->names);
	str_reset(&s->bytes);
	*out = (struct sample){arena_strdup(&s->names, key), origin, 0, s->member};
}

static int by_ext(const void *a, const void *b)
{
	return strcmp(((const struct sample_member *)a)->ext, ((const struct sample_member *)b)->ext);
}

static int member_add(struct samples *s, struct sample *out, const char *ext, size_t len, struct err *e)
{
	if (out->n == MEMBERS)
		return err_set(e, ERR_DATA, "%s: sample \"%s\" has more than %d members", out->origin, out->key, MEMBERS);
	s->member[out->n] = (struct sample_member){arena_strdup(&s->names, ext), NULL, len};
	s->start[out->n++] = s->bytes.len;
	return 0;
}

/* Names the member of a dotless file by its magic. */
static int finish(struct samples *s, struct sample *out, struct err *e)
{
	for (int i = 0; i < out->n; i++) {
		struct sample_member *m = &s->member[i];

		m->data = str_text(&s->bytes) + s->start[i];
		if (!*m->ext)
			m->ext = entry_picture_ext(still_sniff(m->data, m->len));
		if (!*m->ext)
			return err_set(e, ERR_DATA, "%s: neither JPEG, PNG nor WebP", out->origin);
	}
	qsort(s->member, (size_t)out->n, sizeof *s->member, by_ext);
	for (int i = 1; i < out->n; i++)
		if (!strcmp(s->member[i].ext, s->member[i - 1].ext))
			return err_set(e, ERR_DATA, "%s: sample \"%s\" has two members \"%s\"", out->origin, out->key,
			               s->member[i].ext);
	return 0;
}

static int add_class(struct samples *s, struct sample *out, int32_t label, struct err *e)
{
	size_t was = s->bytes.len;

	if (member_add(s, out, "cls", 0, e))
		return -1;
	str_printf(&s->bytes, "%d\n", (int)label);
	s->member[out->n - 1].len = s->bytes.len - was;
	return 0;
}

/* The class that stands beside, where none is among the members. */
static int class_beside(struct samples *s, const struct unit *u, struct sample *out, const char *path, struct err *e)
{
	int32_t label;
	int rc = 0;

	for (int i = 0; i < out->n; i++)
		if (!strcmp(s->member[i].ext, "cls"))
			return 0;
	if (u->labels)
		rc = labels_get(u->labels, path, &label, e);
	return rc > 0 ? add_class(s, out, label, e) : rc;
}

/* 1 a sample, 0 the unit's end, -1 the unit is broken, 2 a bad sample (*e says why) that can be passed over. */
static int next_files(struct samples *s, struct unit *u, struct sample *out, struct err *e)
{
	const struct entry *v = u->files.v;
	int64_t n = (int64_t)u->files.n, i = s->next;
	int rc = 1;

	if (i >= n)
		return 0;
	begin(s, out, v[i].key, v[i].path);
	for (; s->next < n && !strcmp(v[s->next].key, v[i].key); s->next++) {
		size_t len;

		if (rc != 1)
			continue;
		if (member_add(s, out, v[s->next].ext, 0, e) || member_file(&s->bytes, v[s->next].path, s->o.max_member, &len, e))
			rc = 2;
		else
			s->member[out->n - 1].len = len;
	}
	return rc == 1 && (class_beside(s, u, out, v[i].path, e) || finish(s, out, e)) ? 2 : rc;
}

static int tar_begin(struct samples *s, struct unit *u, const char *name, struct err *e)
{
	struct tar_limits limits = {.member = s->o.max_member};

	if (!s->tar)
		s->tar = u->fd >= 0 ? tar_open_fd(u->fd, name, &limits, e) : tar_open(u->path, &limits, e);
	return s->tar ? 0 : -1;
}

/* Add the member ahead to *out, or to nothing when the sample is bad already. */
static int tar_take(struct samples *s, struct sample *out, const char *ext, const char *name, struct err *e)
{
	if (s->bytes.len + s->ahead.size > 4 * s->o.max_member)
		return err_set(e, ERR_DATA, "%s: sample \"%s\" is larger than %zu bytes", name, out->key, 4 * s->o.max_member);
	if (member_add(s, out, ext, s->ahead.size, e))
		return -1;
	str_add(&s->bytes, s->ahead.data, s->ahead.size);
	return 0;
}

static int next_tar(struct samples *s, struct unit *u, struct sample *out, struct err *e)
{
	const char *key, *ext, *name = u->fd >= 0 ? "stdin" : u->path;
	struct arena scratch = {0};
	int rc, got = 0, bad = 0;

	if (tar_begin(s, u, name, e))
		return -1;
	while ((rc = s->have_ahead ? 1 : tar_next(s->tar, &s->ahead, e)) > 0) {
		int keyed = entry_key(&scratch, s->ahead.name, NULL, &key, &ext, e);

		s->have_ahead = 0;
		if (keyed > 0) {
			if (entry_is_picture(s->ahead.name))
				tar_pass(s->tar, s->ahead.name, "a name that is no key");
			continue;
		}
		if (keyed < 0 && !got) {
			err_prefix(e, "%s", name);
			bad = 1;
			break;
		}
		if (got && (keyed < 0 || strcmp(key, out->key))) {
			if (keyed < 0 && !bad)
				*e = (struct err){0};
			s->have_ahead = 1;
			break;
		}
		if (!got++)
			begin(s, out, key, name);
		if (!bad)
			bad = tar_take(s, out, ext, name, e) != 0;
	}
	arena_release(&scratch);
	if (rc >= 0 && !s->told++ && classnames_join(&s->class_names, classnames_of_stamp(tar_stamp(s->tar)), name, apart, e))
		return -1;
	if (rc < 0 || bad)
		return rc < 0 ? -1 : 2;
	if (!got)
		return 0;
	return finish(s, out, e) ? 2 : 1;
}

static int next_shard(struct samples *s, struct unit *u, struct sample *out, struct err *e)
{
	if (!s->shard) {
		if (u->manifest && manifest_check_quick(u->manifest, u->row, e))
			return -1;
		s->shard = shard_open(u->path, e);
		if (!s->shard)
			return -1;
	}
	shard_sample_release(&s->read);
	s->read = (struct shard_sample){0};
	if (s->next >= shard_count(s->shard))
		return 0;
	if (shard_read(s->shard, s->next++, &s->read, e))
		return -1;
	if (s->read.members > MEMBERS)
		return err_set(e, ERR_DATA, "%s: sample \"%s\" has more than %d members", u->path, s->read.key, MEMBERS);
	*out = (struct sample){s->read.key, u->path, s->read.members, s->member};
	for (int i = 0; i < out->n; i++)
		s->member[i] = (struct sample_member){s->read.member[i].ext, s->read.member[i].data, s->read.member[i].size};
	return 1;
}

static int add_latent(struct samples *s, struct sample *out, int64_t i, int flip, struct err *e)
{
	size_t was = s->bytes.len;

	if (member_add(s, out, flip ? "flip.npy" : "npy", 0, e))
		return -1;
	if (latents_array(s->latents, i, flip, &s->bytes))
		s->member[out->n - 1].len = s->bytes.len - was;
	else
		out->n--;
	return 0;
}

static int next_latents(struct samples *s, struct unit *u, struct sample *out, struct err *e)
{
	int64_t i = s->next;
	int32_t label;

	if (!s->latents && !(s->latents = latents_open(u->path, e)))
		return -1;
	if (i >= latents_count(s->latents))
		return 0;
	s->next++;
	label = latents_label(s->latents, i);
	latents_key(s->latents, i, &s->key);
	begin(s, out, str_text(&s->key), u->path);
	if (add_latent(s, out, i, 0, e) || add_latent(s, out, i, 1, e) || (label >= 0 && add_class(s, out, label, e)) || finish(s, out, e))
		return -1;
	return 1;
}

static int next_mds(struct samples *s, struct unit *u, struct sample *out, struct err *e)
{
	const char *ext;
	size_t was = 0;
	int rc;

	if (!s->mds && !(s->mds = mds_open(u->path, !s->second, 4 * s->o.max_member, e)))
		return -1;
	if (s->next >= mds_count(s->mds))
		return 0;
	str_reset(&s->key);
	rc = mds_seek(s->mds, s->next++, &s->key, e);
	if (rc != 1)
		return rc;
	begin(s, out, str_text(&s->key), mds_file(s->mds));
	while ((rc = mds_member(s->mds, &ext, &s->bytes, e)) == 1) {
		if (member_add(s, out, ext, s->bytes.len - was, e))
			return 2;
		s->start[out->n - 1] = was;
		was = s->bytes.len;
	}
	return rc || finish(s, out, e) ? 2 : 1;
}

static int next_line(struct samples *s, struct unit *u, struct sample *out, struct err *e)
{
	const char *name = u->fd >= 0 ? "stdin" : u->path;
	int rc;

	if (!s->lines && !(s->lines = captionlines_open(name, u->fd, e)))
		return -1;
	str_reset(&s->key);
	str_printf(&s->key, "%09lld", (long long)s->line);
	begin(s, out, str_text(&s->key), name);
	rc = captionlines_next(s->lines, &s->bytes, e);
	s->line += rc > 0;
	if (rc != 1)
		return rc;
	s->start[0] = 0;
	s->member[0] = (struct sample_member){"txt", str_text(&s->bytes), s->bytes.len};
	out->n = 1;
	return 1;
}

static void digest_add(struct samples *s, const struct sample *x)
{
	sha256_add(&s->digest, x->key, strlen(x->key) + 1);
	for (int i = 0; i < x->n; i++) {
		const struct sample_member *m = &x->member[i];
		uint64_t v[2] = {m->len, hash64(m->data, m->len)};
		uint8_t le[16];

		for (int b = 0; b < 16; b++)
			le[b] = (uint8_t)(v[b / 8] >> (8 * (b % 8)));
		sha256_add(&s->digest, m->ext, strlen(m->ext) + 1);
		sha256_add(&s->digest, le, sizeof le);
	}
	sha256_add(&s->digest, "\n", 1);
}

static int at_end(struct samples *s, struct err *e)
{
	if (s->count) {
		tell_passed(s);
		return 0;
	}
	if (s->skipped)
		return err_set(e, ERR_DATA, "%s: none of %lld samples is readable", s->what, (long long)s->skipped);
	return err_set(e, ERR_DATA, "%s: no samples (%s)", s->what, s->o.captions ? "captions" : "pictures or arrays");
}

int samples_next(struct samples *s, struct sample *out, struct err *e)
{
	static int (*const next_of[])(struct samples *s, struct unit *u, struct sample *out, struct err *e) = {
	    [UNIT_FILES] = next_files, [UNIT_TAR] = next_tar, [UNIT_SHARD] = next_shard, [UNIT_LATENTS] = next_latents,
	    [UNIT_MDS] = next_mds,     [UNIT_LINES] = next_line};
	struct err scratch = {0}; /* samples_bad needs one to clear */

	if (!e)
		e = &scratch;
	for (; s->at < s->units; remember_passed(s), s->at++, end_unit(s)) {
		struct unit *u = &s->unit[s->at];
		int rc;

		while ((rc = next_of[u->kind](s, u, out, e)) > 0) {
			if (rc == 2) {
				if (samples_bad(s, e))
					return -1;
				continue;
			}
			if (!sample_picture(out) && !sample_find(out, "npy") && !(s->o.captions && sample_find(out, "txt")))
				continue;
			if (keyset_add(&s->keys, out->key))
				return err_set(e, ERR_DATA, "%s: the key \"%s\" appears twice", out->origin, out->key);
			if (!s->second) {
				s->count++;
				digest_add(s, out);
			}
			return 1;
		}
		if (rc < 0)
			return -1;
	}
	return at_end(s, e);
}

void samples_passed(struct samples *s, int64_t n)
{
	s->skipped += n;
}

const struct samples_options *samples_settings(const struct samples *s)
{
	return &s->o;
}

const json_t *samples_class_names(const struct samples *s)
{
	return s->class_names;
}

int64_t samples_count(const struct samples *s)
{
	return s->count;
}

/* Of the unit being read, 0 .. 1. */
static double fraction_read(const struct samples *s)
{
	const struct unit *u = &s->unit[s->at];

	if (u->kind == UNIT_FILES)
		return u->files.n ? (double)s->next / (double)u->files.n : 0;
	return s->tar ? tar_fraction(s->tar) : s->shard ? (double)s->next / (double)(shard_count(s->shard) + 1) : 0;
}

int64_t samples_expected(const struct samples *s)
{
	double fraction = s->at < s->units ? ((double)s->at + fraction_read(s)) / (double)s->units : 1;

	return fraction > 0 ? (int64_t)((double)s->count / fraction) : 0;
}

int64_t samples_skipped(const struct samples *s)
{
	return s->skipped;
}

void samples_digest(const struct samples *s, char hex[65])
{
	struct sha256 copy = s->digest;

	sha256_end(&copy, hex);
}

int samples_check(const struct samples *s, struct err *e)
{
	if (s->o.max_errors < 0 || s->skipped <= s->o.max_errors)
		return 0;
	return err_set(e, ERR_SKIPPED, "%lld bad samples skipped, more than the %lld allowed", (long long)s->skipped,
	               (long long)s->o.max_errors);
}
