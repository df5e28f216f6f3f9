/* Opens sources of samples: finds out what each is, and lists what is to be read one after the other. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data/classnames.h"
#include "data/samplesimpl.h"
#include "file/bytesource.h"
#include "file/fileio.h"
#include "file/remoteinput.h"

static const size_t LIST_LIMIT = (size_t)1 << 30;

static struct unit *unit_add(struct samples *s, enum unit_kind kind, const char *path)
{
	struct unit *u;

	s->unit = mem_resize(s->unit, s->units + 1, sizeof *s->unit);
	u = &s->unit[s->units++];
	*u = (struct unit){.kind = kind, .path = mem_strdup(path), .name = remote_shown(path), .fd = -1};
	return u;
}

static int refused(void *arg, struct err *e)
{
	return samples_bad(arg, e);
}

static int open_archive(struct samples *s, const char *path, struct err *e)
{
	int shard = shard_sniff(path, e);

	if (shard >= 0)
		unit_add(s, shard ? UNIT_SHARD : UNIT_TAR, path);
	return shard < 0 ? -1 : 0;
}

/* Add the shards that the manifest lists below `prefix` ("" or "cluster-3/"). Where samples are in several clusters, the folder of a cluster gives
 * all of its samples, and the whole folder or its held-out part gives each sample once. */
static int open_manifest(struct samples *s, const char *dir, const char *prefix, struct err *e)
{
	struct manifest *m = mem_zalloc(1, sizeof *m);

	s->manifest = mem_resize(s->manifest, s->manifests + 1, sizeof *s->manifest);
	s->manifest[s->manifests++] = m;
	if (manifest_load(m, dir, e) || classnames_join(&s->class_names, json_incref(m->class_names), dir, SAMPLES_APART, e))
		return -1;
	for (int64_t i = 0; i < m->n; i++) {
		const struct manifest_row *r = &m->rows[i];
		char *path;
		struct unit *u;

		if (strncmp(r->path, prefix, strlen(prefix)))
			continue;
		if (r->further && !strstr(prefix, "cluster-"))
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
		rc = samples_is_shards(full, e) && (!*prefix || !strncmp(prefix, "cluster-", 8) || !strncmp(prefix, "holdout/", 8));
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

/* Add the files, archives and idx files below a folder. labels: those of the folder; ownership is taken. */
static int open_files(struct samples *s, const char *dir, struct labels *labels, struct err *e)
{
	struct entries files = {0};
	int rc = entries_scan(&files, dir, refused, s, e);

	for (size_t i = 0; i < files.ntars && !rc; i++)
		rc = open_archive(s, files.tars[i], e);
	for (size_t i = 0; i < files.nidx && !rc; i++)
		unit_add(s, UNIT_IDX, files.idx[i]);
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
	if (open_latents(s, dir, e) || classnames_join(&s->class_names, classnames_of_folder(dir), dir, SAMPLES_APART, e))
		return -1;
	rc = labels_beside(dir, &labels, &below, e);
	if (rc >= 0)
		rc = open_files(s, below, labels, e);
	mem_free(below);
	return rc;
}

/* Whether a URL names one file: it has a query, or its last component is that of a tar. */
static int names_archive(const char *url)
{
	const char *name = strrchr(url, '/');

	return strpbrk(url, "?#") || strstr(name, ".tar") || str_ends(name, ".tgz");
}

/* Cut a last component "holdout" or "cluster-N" off the URL, and put it before the prefix. 1 if there was one. */
static int cut_part(char *url, char **prefix)
{
	char *name = strrchr(url, '/') + 1, *longer;

	if (strcmp(name, "holdout") && (strncmp(name, "cluster-", 8) || name[8 + strspn(name + 8, "0123456789")]))
		return 0;
	longer = str_new("%s/%s", name, *prefix);
	mem_free(*prefix);
	*prefix = longer;
	name[-1] = 0;
	return 1;
}

/* SHARDS, SHARDS/cluster-3, SHARDS/holdout and SHARDS/holdout/cluster-3 on a server; what has no manifest is a tar. */
static int open_url(struct samples *s, const char *path, struct err *e)
{
	char *url, *prefix;
	const char *host = strstr(path, "://") + 3;
	int there = 0;

	if (!*host || *host == '/')
		return err_set(e, ERR_NOINPUT, "%s: a URL without a server", path);
	url = mem_strdup(path);
	prefix = mem_strdup("");
	if (!names_archive(path)) {
		for (size_t n = strlen(url); url[n - 1] == '/'; n--)
			url[n - 1] = 0;
		while (cut_part(url, &prefix))
			;
		there = samples_is_shards(url, e);
	}
	if (there > 0)
		there = open_manifest(s, url, prefix, e);
	else if (!there)
		there = open_archive(s, path, e);
	mem_free(prefix);
	mem_free(url);
	return there;
}

static int open_path(struct samples *s, const char *path, struct err *e)
{
	struct entries files = {0};
	enum entry_kind kind;
	const char *ext;
	struct stat st;

	if (remote_is_url(path))
		return open_url(s, path, e);
	if (remote_is_command(path)) {
		unit_add(s, UNIT_TAR, path);
		return 0;
	}
	if (stat(path, &st))
		return err_errno(e, "%s", path);
	if (S_ISDIR(st.st_mode))
		return open_folder(s, path, e);
	if (latents_sniff(path)) {
		unit_add(s, UNIT_LATENTS, path);
		return 0;
	}
	if (idx_sniff(path)) {
		unit_add(s, UNIT_IDX, path);
		return 0;
	}
	if (mds_sniff(path)) {
		unit_add(s, UNIT_MDS, path);
		return 0;
	}
	if (entry_sniff(path, &kind, &ext, e))
		return -1;
	if (kind == ENTRY_TAR)
		return open_archive(s, path, e);
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
		return err_set(e, ERR_DATA, "stdin: not a tar, and its %lld bytes are too many for a list of paths", (long long)st.st_size);
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

int samples_is_shards(const char *source, struct err *e)
{
	char *manifest;
	int there;

	if (samples_is_stream(source) || (remote_is_url(source) && names_archive(source)))
		return 0;
	manifest = path_join(source, "MANIFEST.tsv");
	there = bytesource_exists(manifest, e);
	mem_free(manifest);
	return there;
}

int samples_is_stream(const char *source)
{
	return !strcmp(source, "-") || remote_is_command(source);
}

struct samples *samples_open(const char *const *sources, int n, const struct samples_options *o, struct err *e)
{
	struct samples *s = mem_zalloc(1, sizeof *s);
	struct str what = {0};
	char *shown;

	s->o = *o;
	s->feed.fd = -1;
	if (!s->o.max_member)
		s->o.max_member = (size_t)256 << 20;
	sha256_init(&s->digest);
	for (int i = 0; i < n; i++) {
		int rc = strcmp(sources[i], "-") ? open_path(s, sources[i], e) : open_stdin(s, e);

		shown = remote_shown(sources[i]);
		str_printf(&what, i ? ", %s" : "%s", strcmp(shown, "-") ? shown : "stdin");
		mem_free(shown);
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
