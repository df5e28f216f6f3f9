/* Writes training logs as TensorBoard event files, a file for each attempt of a run.
 *
 * The bytes of a file follow from the lines of its attempt alone. So a later export finds what it needs to add by comparing bytes, also after an
 * export that was killed while it added some. A continued run repeats the steps after its checkpoint: the file of its attempt says so, and readers
 * drop these steps of the earlier attempt. */
#include <ctype.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/mem.h"
#include "file/claim.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "file/tfevents.h"
#include "inspect/exportlog.h"

enum { FILE_MOST = 1 << 30 };

/* Append the parts of a path, without those that lead out of a folder. */
static void put_path(struct str *s, const char *path)
{
	while (*path) {
		size_t n = strcspn(path, "/");

		if (n && !(n == 1 && path[0] == '.') && !(n == 2 && path[0] == '.' && path[1] == '.')) {
			str_puts(s, "/");
			str_add(s, path, n);
		}
		path += n + (path[n] == '/');
	}
}

/* DIR/RUN; caller frees with mem_free. */
static char *folder_of(const char *dir, const struct run *x)
{
	struct str s = {0};

	str_puts(&s, dir);
	put_path(&s, x->name);
	return s.p;
}

/* The file of attempt a. Readers take the files of a folder in the order of their names, which is that of the attempts. */
static char *file_of(const char *folder, const struct log_attempt *a)
{
	char *path = str_new("%s/events.out.tfevents.%06" PRId64 ".%s.%" PRId64, folder, a->number, *a->host ? a->host : "unknown", a->pid);

	for (char *c = path + strlen(folder) + 1; *c; c++)
		if (!isalnum((unsigned char)*c) && !strchr("._-", *c))
			*c = '_';
	return path;
}

/* Add the record of line i. Its "seconds" are the time axis. Members of objects get a slash, by which TensorBoard groups them. */
static void put_line(struct str *out, const struct loghistory *h, int64_t i, char *const *tag)
{
	const char **name = mem_alloc(((size_t)h->columns + 1) * sizeof *name);
	double *value = mem_alloc(((size_t)h->columns + 1) * sizeof *value), time = loghistory_time(h, i);
	int n = 0;

	for (int c = 0; c < h->columns; c++) {
		const struct log_column *column = &h->column[c];

		if (!strcmp(column->name, "seconds") || (isnan(column->v[i]) && strcmp(column->name, "loss") != 0))
			continue;
		name[n] = tag[c];
		value[n++] = column->v[i];
	}
	tfevents_numbers(out, isfinite(time) ? time : 0, h->step[i], name, value, n);
	mem_free(name);
	mem_free(value);
}

static char **tags_of(const struct loghistory *h)
{
	char **tag = mem_alloc(((size_t)h->columns + 1) * sizeof *tag);

	for (int c = 0; c < h->columns; c++) {
		char *dot;

		tag[c] = mem_strdup(h->column[c].name);
		dot = strchr(tag[c], '.');
		if (dot)
			*dot = '/';
	}
	return tag;
}

/* All of the file of attempt k (-1: the lines before the first start line). Returns the number of records of steps. */
static int64_t attempt_bytes(struct str *out, const struct loghistory *h, int k)
{
	const struct log_attempt none = {.time = 0}, *a = k < 0 ? &none : &h->attempt[k];
	char **tag = tags_of(h);
	int64_t n = 0;

	tfevents_begin(out, isfinite(a->time) ? a->time : 0, a->step ? a->step + 1 : 0);
	for (int64_t i = 0; i < h->n; i++)
		if (h->of[i] == k) {
			put_line(out, h, i, tag);
			n++;
		}
	for (int c = 0; c < h->columns; c++)
		mem_free(tag[c]);
	mem_free(tag);
	return n;
}

static int append(const char *path, const char *bytes, size_t n, struct err *e)
{
	int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);

	if (fd < 0)
		return err_errno(e, "%s", path);
	if (fd_write(fd, bytes, n) || fsync(fd)) {
		err_errno(e, "%s", path);
		close(fd);
		return -1;
	}
	return close(fd) ? err_errno(e, "%s", path) : 0;
}

/* Make the file at path hold these bytes. A reader may be in the middle of it, so bytes are added where that is enough. */
static int file_update(const char *path, const struct str *bytes, struct err *e)
{
	size_t len = 0, same;
	char *old = path_exists(path) ? file_load(path, FILE_MOST, &len, e) : NULL;
	int rc = 0;

	if (!old && path_exists(path))
		return -1;
	same = len < bytes->len ? len : bytes->len;
	if (same && !memcmp(old, bytes->p, same))
		rc = len < bytes->len ? append(path, bytes->p + len, bytes->len - len, e) : 0;
	else if (len && !tfevents_sniff(old, len))
		rc = err_set(e, ERR_EXISTS, "%s: exists and is no event file: remove it, or name another folder", path);
	else
		rc = commit_bytes(path, bytes->p, bytes->len, e);
	mem_free(old);
	return rc;
}

static int attempt_export(const char *folder, const struct loghistory *h, int k, struct err *e)
{
	static const struct log_attempt none = {.host = ""};
	struct str bytes = {0};
	char *path = file_of(folder, k < 0 ? &none : &h->attempt[k]);
	int64_t n = attempt_bytes(&bytes, h, k);
	int rc = 0;

	if (n && !claim_take((const char *const[]){path}, 1, e))
		rc = file_update(path, &bytes, e);
	else if (n)
		rc = -1;
	claim_drop((const char *const[]){path}, 1);
	str_release(&bytes);
	mem_free(path);
	return rc;
}

static int run_export(const char *folder, const struct run *x, struct err *e)
{
	if (!x->log->n)
		return 0;
	if (dir_make(folder, e))
		return -1;
	for (int k = -1; k < x->log->attempts; k++)
		if (attempt_export(folder, x->log, k, e))
			return -1;
	return 0;
}

int export_tensorboard(const char *dir, const struct runs *r, struct err *e)
{
	char **folder = mem_zalloc((size_t)r->n + 1, sizeof *folder);
	int rc = tfevents_available(e);

	for (int i = 0; i < r->n && !rc; i++) {
		folder[i] = folder_of(dir, &r->v[i]);
		for (int j = 0; j < i; j++)
			if (!strcmp(folder[i], folder[j]))
				rc = err_set(e, ERR_USAGE, "%s and %s would be written to the same folder, %s", r->v[j].dir, r->v[i].dir, folder[i]);
	}
	for (int i = 0; i < r->n && !rc; i++)
		rc = run_export(folder[i], &r->v[i], e);
	for (int i = 0; i < r->n; i++)
		mem_free(folder[i]);
	mem_free(folder);
	return rc;
}
