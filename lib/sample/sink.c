/* Writes samples to a tar, an array, one file or a folder. */
#include "sample/sink.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "core/mem.h"
#include "core/str.h"
#include "file/fileio.h"
#include "file/sums.h"

int sink_open(struct sink *s, enum sink_kind kind, const char *path, const char *stamp, const char *same, const int64_t shape[4], struct err *e)
{
	int on;

	*s = (struct sink){.kind = kind, .path = path};
	switch (kind) {
	case SINK_NOTHING:
		return 0;
	case SINK_FOLDER:
		return outdir_begin(&s->dir, path, e);
	case SINK_FILE:
		return partial_open(&s->part, path, NULL, 0, e);
	case SINK_NPZ:
		return partial_open(&s->part, path, NULL, 0, e) || npz_start(&s->npz, &s->part.out, "arr_0", NPY_U1, 4, shape, e) ? -1 : 0;
	default:
		on = partial_open(&s->part, path, same, 0, e);
		return on < 0 || tar_start(&s->tar, &s->part.out, on ? NULL : stamp, e) ? -1 : on;
	}
}

/* Write a file without syncing it: outdir_commit syncs it with the folder. */
static int put_file(const char *dir, const char *name, const void *data, size_t len, struct err *e)
{
	char *path = path_join(dir, name);
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666), rc = fd < 0 ? -1 : fd_write(fd, data, len);

	if (fd >= 0 && close(fd))
		rc = -1;
	if (rc)
		err_errno(e, "%s: write", path);
	mem_free(path);
	return rc;
}

static int folder_add(struct sink *s, const char *file, const void *data, size_t len, struct err *e)
{
	sums_add(&s->sums, file, data, len);
	return put_file(s->dir.tmp, file, data, len, e);
}

int sink_add(struct sink *s, const char *name, const char *ending, int main, const void *data, size_t len, struct err *e)
{
	char *file = s->kind == SINK_FILE ? str_new("%s.%s", s->path, ending) : str_new("%s.%s", name, ending);
	int rc = 0;

	if (s->kind == SINK_TAR)
		rc = tar_add(&s->tar, file, data, len, e);
	else if (s->kind == SINK_FOLDER)
		rc = folder_add(s, file, data, len, e);
	else if (s->kind == SINK_FILE && main)
		rc = outfile_write(&s->part.out, data, len, e);
	else if (s->kind == SINK_FILE && !strcmp(ending, "json"))
		rc = commit_bytes(file, data, len, e);
	mem_free(file);
	return rc;
}

int sink_rows(struct sink *s, const void *data, size_t bytes, struct err *e)
{
	return npz_add(&s->npz, data, bytes, e);
}

int sink_finish(struct sink *s, struct err *e)
{
	switch (s->kind) {
	case SINK_NOTHING:
		return 0;
	case SINK_FOLDER:
		return put_file(s->dir.tmp, SUMS_NAME, str_text(&s->sums), s->sums.len, e) ? -1 : outdir_commit(&s->dir, e);
	case SINK_NPZ:
		return npz_finish(&s->npz, e) || partial_commit(&s->part, e) ? -1 : 0;
	case SINK_FILE:
		return partial_commit(&s->part, e);
	default:
		return tar_finish(&s->tar, e) || partial_commit(&s->part, e) ? -1 : 0;
	}
}

void sink_close(struct sink *s, int keep)
{
	tar_release(&s->tar);
	partial_close(&s->part, keep);
	outdir_abort(&s->dir);
	str_release(&s->sums);
}
