/* Keeps the finished part of an output, so that the same command continues after it. */
#include "file/partial.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "core/clock.h"
#include "core/hash.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/str.h"
#include "file/fileio.h"

enum { RARELY = 20 };

/* Update the hash with the bytes up to `end`. */
static int hash_up_to(struct partial *p, int64_t end, struct err *e)
{
	char buf[65536];

	while (p->hashed < end) {
		size_t n = end - p->hashed < (int64_t)sizeof buf ? (size_t)(end - p->hashed) : sizeof buf;

		if (fd_pread(fileno(p->out.file), buf, n, p->hashed) != (ssize_t)n)
			return err_errno(e, "%s: cannot read what was written", p->out.path);
		XXH3_64bits_update(p->hash, buf, n);
		p->hashed += (int64_t)n;
	}
	return 0;
}

static char *hash_text(const struct partial *p)
{
	return str_new("%016llx", (unsigned long long)XXH3_64bits_digest(p->hash));
}

static int read_marks(const json_t *o, int64_t *mark)
{
	const json_t *v = json_object_get(o, "mark");

	for (size_t i = 0; i < PARTIAL_MARKS; i++) {
		const json_t *m = json_array_get(v, i);

		mark[i] = json_integer_value(m);
		if (!json_is_integer(m) || mark[i] < 0)
			return -1;
	}
	return 0;
}

/* 1 if the saved state belongs to this work and matches the saved bytes. */
static int take_up(struct partial *p)
{
	struct err ignored = {0};
	json_t *o = path_exists(p->state) ? jsonio_load(p->state, &ignored) : NULL;
	const char *same = json_string_value(json_object_get(o, "same")), *hash = json_string_value(json_object_get(o, "hash"));
	int64_t bytes = json_integer_value(json_object_get(o, "bytes"));
	struct stat st;
	char *now;
	int ok = same && hash && !strcmp(same, p->same) && !read_marks(o, p->mark) && bytes >= p->from && !fstat(fileno(p->out.file), &st) &&
	         bytes <= st.st_size && !hash_up_to(p, bytes, &ignored);

	if (o)
		p->dropped = same && !strcmp(same, p->same) ? PARTIAL_DAMAGED : PARTIAL_OTHER;
	if (ok) {
		now = hash_text(p);
		ok = !strcmp(now, hash) && !ftruncate(fileno(p->out.file), bytes) && !fseeko(p->out.file, bytes, SEEK_SET);
		mem_free(now);
	}
	if (ok) {
		p->facts = json_incref(json_object_get(o, "facts"));
		p->dropped = 0;
	}
	json_decref(o);
	return ok;
}

int partial_restart(struct partial *p, struct err *e)
{
	memset(p->mark, 0, sizeof p->mark);
	json_decref(p->facts);
	p->facts = NULL;
	if (p->hash)
		XXH3_64bits_reset(p->hash);
	p->hashed = p->from;
	if (fflush(p->out.file) || ftruncate(fileno(p->out.file), 0) || fseeko(p->out.file, 0, SEEK_SET))
		return err_errno(e, "%s", p->out.path);
	return 0;
}

int partial_open(struct partial *p, const char *path, const char *same, int64_t from, struct err *e)
{
	int kept;

	*p = (struct partial){.from = from, .hashed = from, .saved = clock_seconds()};
	if (!same)
		return outfile_open(&p->out, path, e);
	if (outfile_open_part(&p->out, path, &kept, e))
		return -1;
	if (!kept)
		return 0;
	p->state = str_new("%s.json", p->out.tmp);
	p->same = mem_strdup(same);
	p->hash = hash64_state();
	if (take_up(p))
		return 1;
	if (!partial_restart(p, e))
		return 0;
	partial_close(p, 0);
	return -1;
}

static int write_state(struct partial *p, int64_t bytes, struct err *e)
{
	char *hash = hash_text(p), *line;
	json_t *o = json_pack("{s:o, s:I, s:s, s:[]}", "same", jsonio_text(p->same), "bytes", (json_int_t)bytes, "hash", hash, "mark");
	int rc;

	for (int i = 0; i < PARTIAL_MARKS; i++)
		json_array_append_new(json_object_get(o, "mark"), json_integer(p->mark[i]));
	if (p->facts)
		json_object_set(o, "facts", p->facts);
	line = jsonio_line(o);
	rc = commit_bytes(p->state, line, strlen(line), e);
	json_decref(o);
	mem_free(line);
	mem_free(hash);
	return rc;
}

int partial_is_due(const struct partial *p)
{
	return p->state && clock_seconds() - p->saved >= RARELY * p->cost;
}

/* The bytes reach the disk before the state that declares them valid. */
int partial_save(struct partial *p, const int64_t *mark, struct err *e)
{
	double now = clock_seconds();
	off_t bytes;

	if (!partial_is_due(p))
		return 0;
	memcpy(p->mark, mark, sizeof p->mark);
	if (fflush(p->out.file) || fdatasync(fileno(p->out.file)) || (bytes = ftello(p->out.file)) < 0)
		return err_errno(e, "%s: write", p->out.path);
	if (hash_up_to(p, bytes, e) || write_state(p, bytes, e))
		return -1;
	p->saved = clock_seconds();
	p->cost = p->saved - now;
	return 0;
}

int partial_is_kept(const struct partial *p)
{
	return p->state && p->mark[0];
}

int partial_commit(struct partial *p, struct err *e)
{
	int rc = outfile_commit(&p->out, e);

	if (p->state)
		unlink(p->state);
	return rc;
}

void partial_close(struct partial *p, int keep)
{
	if (p->out.file && keep && partial_is_kept(p)) {
		outfile_leave(&p->out);
	} else {
		if (p->out.file && p->state)
			unlink(p->state);
		outfile_abort(&p->out);
	}
	if (p->hash)
		XXH3_freeState(p->hash);
	mem_free(p->state);
	mem_free(p->same);
	json_decref(p->facts);
	*p = (struct partial){0};
}

void partial_tidy(const char *path)
{
	const char *slash = strrchr(path, '/');
	size_t dir = slash ? (size_t)(slash + 1 - path) : 0;
	char *part = str_new("%.*s.%s.part", (int)dir, path, path + dir), *state = str_new("%s.json", part);

	if (!path_exists(part))
		unlink(state);
	mem_free(part);
	mem_free(state);
}
