/* Times ways to compute the same, and reads, adds to and writes a tuning file (kernels/tuning.h). */
#include "kernels/tuning.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/str.h"
#include "file/commit.h"
#include "file/fileio.h"
#include "kernels/cublaslt.h"

enum { FILE_LIMIT = 16 << 20, ROUNDS = 5, RUNS = 4 };

static double time_of(const struct cublaslt_host *h, int stream, int (*run)(void *arg, int i), void *arg, int which)
{
	int failed = 0;
	double seconds;

	h->start(h->arg, stream);
	for (int i = 0; i < RUNS && !failed; i++)
		failed = run(arg, which);
	seconds = h->stop(h->arg, stream);
	return !failed && seconds >= 0 ? seconds / RUNS : INFINITY;
}

/* The ways take turns, so that changes of the clock rate affect all alike; the first round is a warm-up. */
int tuning_race(const struct cublaslt_host *h, int stream, int (*run)(void *arg, int i), void *arg, int n, double *seconds)
{
	int best = 0;

	for (int i = 0; i < n; i++)
		seconds[i] = INFINITY;
	for (int round = 0; round <= ROUNDS; round++)
		for (int i = 0; i < n; i++) {
			double s = time_of(h, stream, run, arg, i);

			if (round && s < seconds[i])
				seconds[i] = s;
		}
	for (int i = 1; i < n; i++)
		if (seconds[i] < seconds[best])
			best = i;
	return isfinite(seconds[best]) ? best : -1;
}

int64_t tuning_nanoseconds(double seconds)
{
	return seconds < 1e3 ? (int64_t)llround(seconds * 1e9) : 0;
}

void tuning_init(struct tuning *t, const char *gpu, const char *library, size_t version)
{
	t->gpu = mem_strdup(gpu);
	t->library = str_new("%s %zu", library, version);
}

void tuning_release(struct tuning *t)
{
	mem_free(t->gpu);
	mem_free(t->library);
	mem_free(t->path);
	mem_free(t->rows);
}

static size_t row_length(const struct tuning *t)
{
	return (size_t)(t->keys + t->words + t->numbers);
}

static int64_t *row_find(const struct tuning *t, const int64_t *key)
{
	for (size_t i = 0; i < t->n; i++)
		if (!memcmp(t->rows + i * row_length(t), key, (size_t)t->keys * sizeof *key))
			return t->rows + i * row_length(t);
	return NULL;
}

const int64_t *tuning_find(const struct tuning *t, const int64_t *key)
{
	const int64_t *row = row_find(t, key);

	return row ? row + t->keys : NULL;
}

/* Store a choice, in place of an earlier one for the same key. */
static void row_put(struct tuning *t, const int64_t *key, const int64_t *value)
{
	int64_t *row = row_find(t, key);

	if (!row) {
		t->rows = mem_resize(t->rows, (t->n + 1) * row_length(t), sizeof *t->rows);
		row = t->rows + t->n++ * row_length(t);
		memcpy(row, key, (size_t)t->keys * sizeof *row);
	}
	memcpy(row + t->keys, value, (size_t)(t->words + t->numbers) * sizeof *row);
}

/* What ends number i of a line: a column ends with a tab, the line with a newline. */
static char end_of(const struct tuning *t, int i)
{
	int after = i + 1;

	return after == t->keys + t->words + t->numbers ? '\n' : after == t->keys || after == t->keys + t->words ? '\t' : ',';
}

static int is_word(const struct tuning *t, int i)
{
	return i >= t->keys && i < t->keys + t->words;
}

static void put_head(const struct tuning *t, struct str *s)
{
	str_printf(s, "%s\t%s\t%s\n", t->format, t->gpu, t->library);
}

static int save(const struct tuning *t, struct err *e)
{
	struct str s = {0};
	int rc;

	put_head(t, &s);
	for (size_t r = 0; r < t->n; r++)
		for (int i = 0; i < (int)row_length(t); i++) {
			int64_t v = t->rows[r * row_length(t) + (size_t)i];

			if (is_word(t, i))
				str_printf(&s, "%016" PRIx64 "%c", (uint64_t)v, end_of(t, i));
			else
				str_printf(&s, "%" PRId64 "%c", v, end_of(t, i));
		}
	rc = commit_bytes(t->path, str_text(&s), s.len, e);
	str_release(&s);
	return rc;
}

/* Parse a line. Returns the start of the next line, or NULL if the line is malformed. */
static const char *read_line(const struct tuning *t, const char *p, int64_t *row)
{
	for (int i = 0; i < (int)row_length(t); i++) {
		char *end;

		row[i] = is_word(t, i) ? (int64_t)strtoull(p, &end, 16) : strtoll(p, &end, 10);
		if (end == p || *end != end_of(t, i))
			return NULL;
		p = end + 1;
	}
	return t->valid && !t->valid(row + t->keys) ? NULL : p;
}

/* Add the file's choices whose keys are not known yet. A damaged file, or one of another GPU or library, has none. */
static void read_file(struct tuning *t)
{
	struct str head = {0};
	int64_t *found = NULL;
	size_t len = 0, n = 0, row = row_length(t);
	char *text = file_load(t->path, FILE_LIMIT, &len, NULL);
	const char *p = NULL;

	put_head(t, &head);
	if (text && len >= head.len && !memcmp(text, head.p, head.len))
		p = text + head.len;
	for (; p && p < text + len; n++) {
		found = mem_resize(found, (n + 1) * row, sizeof *found);
		p = read_line(t, p, found + n * row);
	}
	for (size_t i = 0; p && i < n; i++)
		if (!row_find(t, found + i * row))
			row_put(t, found + i * row, found + i * row + t->keys);
	mem_free(found);
	str_release(&head);
	mem_free(text);
}

size_t tuning_open(struct tuning *t, const char *path)
{
	mem_free(t->path);
	t->path = mem_strdup(path);
	t->n = 0;
	read_file(t);
	return t->n;
}

size_t tuning_open_in(struct tuning *t, const char *dir)
{
	char *name = str_new("%s %s", t->gpu, t->library), *path;
	size_t n;

	for (char *p = name; *p; p++)
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-", *p))
			*p = '-';
	path = path_join(dir, name);
	n = tuning_open(t, path);
	mem_free(path);
	mem_free(name);
	return n;
}

const int64_t *tuning_begin(struct tuning *t, const int64_t *key)
{
	const char *slash = strrchr(t->path, '/');
	char *dir = slash ? str_new("%.*s", (int)(slash - t->path), t->path) : mem_strdup(".");

	t->lock = (struct runlock){.fd = -1};
	runlock_take(&t->lock, dir, NULL);
	mem_free(dir);
	read_file(t);
	return tuning_find(t, key);
}

int tuning_end(struct tuning *t, const int64_t *key, const int64_t *value, struct err *e)
{
	int rc;

	if (value)
		row_put(t, key, value);
	rc = save(t, e);
	runlock_drop(&t->lock);
	return rc;
}
