/* Reads tables between programs and checks their end mark. */
#include "file/tsv.h"

#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "core/hash.h"
#include "core/mem.h"
#include "core/str.h"
#include "file/fileio.h"
#include "file/tsvimpl.h"

static const char stamp_start[] = "#stamp ";
static const char end_start[] = "#end ";

/* Cut one line into exactly t->columns fields. */
int tsv_cut_row(const struct tsv *t, char *line, char **cell, int64_t number, struct err *e)
{
	int n = 0;

	for (char *s = line; s; n++) {
		char *tab = strchr(s, '\t');

		if (n < t->columns)
			cell[n] = s;
		if (tab)
			*tab++ = 0;
		s = tab;
	}
	if (n != t->columns)
		return err_set(e, ERR_DATA, "%s:%lld: %d fields where the header has %d", t->where, (long long)number, n, t->columns);
	return 0;
}

static int cut_header(struct tsv *t, char *line, struct err *e)
{
	int n = 1;

	if (line[0] != '#' || !line[1])
		return err_set(e, ERR_DATA, "%s:1: no '#' line with the names of the columns", t->where);
	for (const char *s = line; *s; s++)
		n += *s == '\t';
	if (n > COLUMNS_MAX)
		return err_set(e, ERR_DATA, "%s:1: %d columns, more than %d", t->where, n, COLUMNS_MAX);
	t->columns = n;
	t->names = mem_zalloc((size_t)n, sizeof *t->names);
	if (tsv_cut_row(t, line + 1, t->names, 1, e))
		return -1;
	for (int i = 0; i < n; i++)
		for (int j = 0; j <= i; j++)
			if (!*t->names[i] || (j < i && !strcmp(t->names[i], t->names[j])))
				return err_set(e, ERR_DATA, "%s:1: column name '%s' is empty or repeated", t->where, t->names[i]);
	return 0;
}

/* The last line: "#end ROWS HASH\n", where HASH covers everything before it. *end is where it starts. */
static int check_end(const struct tsv *t, const char *text, size_t len, size_t *end, int64_t lines, int64_t *rows, struct err *e)
{
	const char *last;
	char want[64];
	char *space, *copy;
	int rc = -1;

	if (!len || text[len - 1] != '\n')
		return err_set(e, ERR_DATA, "%s:%lld: the last line is cut short", t->where, (long long)lines + 1);
	last = memrchr(text, '\n', len - 1);
	last = last ? last + 1 : text;
	*end = (size_t)(last - text);
	if (strncmp(last, end_start, sizeof end_start - 1))
		return err_set(e, ERR_DATA, "%s:%lld: truncated: the last line is not '#end ...'", t->where, (long long)lines);
	copy = str_new("%.*s", (int)(len - *end - sizeof end_start), last + sizeof end_start - 1);
	space = strchr(copy, ' ');
	if (space)
		*space = 0;
	snprintf(want, sizeof want, "%016llx", (unsigned long long)hash64(text, *end));
	if (!space || parse_i64(copy, 0, INT64_MAX, rows))
		err_set(e, ERR_DATA, "%s:%lld: damaged '#end' line", t->where, (long long)lines);
	else if (strcmp(space + 1, want))
		err_set(e, ERR_DATA, "%s:%lld: altered: hash %s expected, %s found", t->where, (long long)lines, space + 1, want);
	else
		rc = 0;
	mem_free(copy);
	return rc;
}

static int64_t count_lines(const char *text, size_t len)
{
	int64_t n = 0;

	for (const char *s = text; (s = memchr(s, '\n', len - (size_t)(s - text))); s++)
		n++;
	return n;
}

static char *next_line(char **at)
{
	char *line = *at, *nl = strchr(line, '\n');

	*nl = 0;
	*at = nl + 1;
	return line;
}

int tsv_parse_head(struct tsv *t, const char *text, size_t len, size_t *first, struct err *e)
{
	int64_t lines = count_lines(text, len), rows;
	const char *nul, *second;
	char *at, *line;
	size_t end;

	if (check_end(t, text, len, &end, lines, &rows, e))
		return -1;
	if ((nul = memchr(text, 0, len)))
		return err_set(e, ERR_DATA, "%s:%lld: a NUL byte", t->where, (long long)count_lines(text, (size_t)(nul - text)) + 1);
	if (rows != lines - 3)
		return err_set(e, ERR_DATA, "%s: %lld rows where '#end' says %lld", t->where, (long long)lines - 3, (long long)rows);
	second = (const char *)memchr(text, '\n', len) + 1;
	*first = (size_t)((const char *)memchr(second, '\n', len - (size_t)(second - text)) + 1 - text);
	t->head = at = mem_strndup(text, *first);
	if (cut_header(t, next_line(&at), e))
		return -1;
	line = next_line(&at);
	if (strncmp(line, stamp_start, sizeof stamp_start - 1))
		return err_set(e, ERR_DATA, "%s:2: no '#stamp' line", t->where);
	t->stamp = line + sizeof stamp_start - 1;
	/* A field takes at least one byte: refuse more fields than the text can hold before allocating. */
	if ((uint64_t)rows > len / (uint64_t)t->columns)
		return err_set(e, ERR_DATA, "%s: too short for %lld rows of %d fields", t->where, (long long)rows, t->columns);
	t->rows = rows;
	return 0;
}

/* t->text holds len bytes and a NUL. */
static int parse(struct tsv *t, size_t len, struct err *e)
{
	size_t first;
	char *at;

	if (tsv_parse_head(t, t->text, len, &first, e))
		return -1;
	at = t->text + first;
	t->cell = mem_try((size_t)t->rows * (size_t)t->columns, sizeof *t->cell, t->where, e);
	if (!t->cell)
		return -1;
	for (int64_t i = 0; i < t->rows; i++)
		if (tsv_cut_row(t, next_line(&at), t->cell + i * t->columns, i + 3, e))
			return -1;
	return 0;
}

struct tsv *tsv_begin(const char *text, size_t len, const char *name)
{
	struct tsv *t = mem_zalloc(1, sizeof *t);
	struct sha256 hash;

	sha256_init(&hash);
	sha256_add(&hash, text, len);
	sha256_end(&hash, t->sha256);
	t->where = mem_strdup(name);
	t->indexed = -1;
	return t;
}

/* Takes the text. */
static struct tsv *take(char *text, size_t len, const char *name, struct err *e)
{
	struct tsv *t = tsv_begin(text, len, name);

	t->text = text;
	if (parse(t, len, e)) {
		tsv_free(t);
		return NULL;
	}
	return t;
}

struct tsv *tsv_load(const char *path, struct err *e)
{
	size_t len;
	char *text = file_load(path, (size_t)1 << 36, &len, e);

	return text ? take(text, len, strcmp(path, "-") ? path : "standard input", e) : NULL;
}

/* Of ours the second line is the stamp, whatever else is wrong with it. */
int tsv_text_is_ours(const char *text, size_t len)
{
	const char *second = len && *text == '#' ? memchr(text, '\n', len) : NULL;

	return second && len - (size_t)(second + 1 - text) >= sizeof stamp_start - 1 && !memcmp(second + 1, stamp_start, sizeof stamp_start - 1);
}

static struct tsv *take_any(char *text, size_t len, const char *name, struct err *e)
{
	struct tsv *t;

	if (tsv_text_is_ours(text, len))
		return take(text, len, name, e);
	t = tsv_begin(text, len, name);
	t->text = text;
	if (!foreign_parse(t, len, e))
		return t;
	tsv_free(t);
	return NULL;
}

struct tsv *tsv_load_any(const char *path, struct err *e)
{
	size_t len;
	char *text = file_load(path, (size_t)1 << 36, &len, e);

	return text ? take_any(text, len, strcmp(path, "-") ? path : "standard input", e) : NULL;
}

struct tsv *tsv_parse_any(const void *text, size_t len, const char *name, struct err *e)
{
	char *copy = mem_alloc(len + 1);

	memcpy(copy, text, len);
	copy[len] = 0;
	return take_any(copy, len, name, e);
}

struct tsv *tsv_parse(const void *text, size_t len, const char *name, struct err *e)
{
	char *copy = mem_alloc(len + 1);

	memcpy(copy, text, len);
	copy[len] = 0;
	return take(copy, len, name, e);
}

void tsv_free(struct tsv *t)
{
	if (!t)
		return;
	mem_free(t->where);
	mem_free(t->head);
	mem_free(t->text);
	mem_free(t->names);
	mem_free(t->cell);
	mem_free(t->slot);
	mem_free(t->line);
	mem_free(t);
}

int64_t tsv_line(const struct tsv *t, int64_t row)
{
	return t->line ? t->line[row] : row + 3;
}

int tsv_is_ours(const struct tsv *t)
{
	return !t->line;
}

const char *tsv_sha256(const struct tsv *t)
{
	return t->sha256;
}

int64_t tsv_rows(const struct tsv *t)
{
	return t->rows;
}

int tsv_columns(const struct tsv *t)
{
	return t->columns;
}

const char *tsv_name(const struct tsv *t, int column)
{
	return t->names[column];
}

const char *tsv_stamp(const struct tsv *t)
{
	return t->stamp;
}

int tsv_column(const struct tsv *t, const char *name)
{
	for (int i = 0; i < t->columns; i++)
		if (!strcmp(t->names[i], name))
			return i;
	return -1;
}

int tsv_need(const struct tsv *t, const char *name, struct err *e)
{
	int i = tsv_column(t, name);

	return i >= 0 ? i : err_set(e, ERR_DATA, "%s: no column '%s'", t->where, name);
}

const char *tsv_get(const struct tsv *t, int64_t row, int column)
{
	return t->cell[row * t->columns + column];
}

int tsv_i64(const struct tsv *t, int64_t row, int column, int64_t lo, int64_t hi, int64_t *out, struct err *e)
{
	if (!parse_i64(tsv_get(t, row, column), lo, hi, out))
		return 0;
	return err_set(e, ERR_DATA, "%s:%lld: %s '%.100s' is not an integer in %lld..%lld", t->where, (long long)tsv_line(t, row), t->names[column],
	               tsv_get(t, row, column), (long long)lo, (long long)hi);
}

int tsv_f64(const struct tsv *t, int64_t row, int column, double lo, double hi, double *out, struct err *e)
{
	if (!parse_f64(tsv_get(t, row, column), lo, hi, out))
		return 0;
	return err_set(e, ERR_DATA, "%s:%lld: %s '%.100s' is not a number in %g..%g", t->where, (long long)tsv_line(t, row), t->names[column],
	               tsv_get(t, row, column), lo, hi);
}

int tsv_index(struct tsv *t, int column, struct err *e)
{
	uint64_t size = 16;

	while (size < 2 * (uint64_t)t->rows)
		size *= 2;
	mem_free(t->slot);
	t->indexed = -1;
	t->slot = mem_try(size, sizeof *t->slot, t->where, e);
	if (!t->slot)
		return -1;
	t->mask = size - 1;
	for (int64_t i = 0; i < t->rows; i++) {
		const char *v = tsv_get(t, i, column);
		uint64_t h = hash64(v, strlen(v)) & t->mask;

		for (; t->slot[h]; h = (h + 1) & t->mask)
			if (!strcmp(tsv_get(t, t->slot[h] - 1, column), v))
				return err_set(e, ERR_DATA, "%s:%lld: %s '%.200s' is on line %lld already", t->where, (long long)tsv_line(t, i),
				               t->names[column], v, (long long)tsv_line(t, t->slot[h] - 1));
		t->slot[h] = i + 1;
	}
	t->indexed = column;
	return 0;
}

int64_t tsv_lookup(const struct tsv *t, const char *value)
{
	if (t->indexed < 0)
		return -1;
	for (uint64_t h = hash64(value, strlen(value)) & t->mask; t->slot[h]; h = (h + 1) & t->mask)
		if (!strcmp(tsv_get(t, t->slot[h] - 1, t->indexed), value))
			return t->slot[h] - 1;
	return -1;
}

struct tsv_writer {
	struct outfile out;
	XXH3_state_t *hash;
	struct str row;
	struct err e; /* the first error */
	int columns, filled;
	int64_t rows;
};

static int row_flush(struct tsv_writer *w)
{
	if (w->e.code)
		return -1;
	XXH3_64bits_update(w->hash, w->row.p, w->row.len);
	return outfile_write(&w->out, w->row.p, w->row.len, &w->e);
}

struct tsv_writer *tsv_create(const char *path, const char *const *names, int n, const struct stamp *s, struct err *e)
{
	struct tsv_writer *w = mem_zalloc(1, sizeof *w);
	char *line = s ? stamp_line(s) : NULL;

	w->columns = n;
	w->hash = hash64_state();
	for (int i = 0; i < n; i++)
		str_printf(&w->row, "%c%s", i ? '\t' : '#', names[i]);
	str_printf(&w->row, "\n%s%s\n", stamp_start, line ? line : "{}");
	mem_free(line);
	if (outfile_open(&w->out, path, &w->e) || row_flush(w)) {
		err_set(e, w->e.code, "%s", w->e.msg);
		tsv_abort(w);
		return NULL;
	}
	str_reset(&w->row);
	return w;
}

void tsv_put(struct tsv_writer *w, const char *text)
{
	const char *bad = strpbrk(text, "\t\n");

	if (bad)
		err_set(&w->e, ERR_DATA, "%s: row %lld: '%.200s' holds a %s", w->out.path, (long long)w->rows + 1, text,
		        *bad == '\t' ? "tab" : "newline");
	if (w->filled++)
		str_puts(&w->row, "\t");
	str_puts(&w->row, text);
}

void tsv_put_i64(struct tsv_writer *w, int64_t v)
{
	char text[32];

	snprintf(text, sizeof text, "%lld", (long long)v);
	tsv_put(w, text);
}

void tsv_put_f64(struct tsv_writer *w, double v)
{
	char text[40];

	snprintf(text, sizeof text, "%.9g", v);
	tsv_put(w, text);
}

int tsv_row(struct tsv_writer *w, struct err *e)
{
	if (w->filled != w->columns)
		err_set(&w->e, ERR_INTERNAL, "%s: row %lld has %d fields of %d", w->out.path, (long long)w->rows + 1, w->filled, w->columns);
	str_puts(&w->row, "\n");
	row_flush(w);
	str_reset(&w->row);
	w->filled = 0;
	w->rows++;
	return w->e.code ? err_set(e, w->e.code, "%s", w->e.msg) : 0;
}

int tsv_commit(struct tsv_writer *w, struct err *e)
{
	int rc;

	if (w->filled)
		err_set(&w->e, ERR_INTERNAL, "%s: an unfinished row", w->out.path);
	str_reset(&w->row);
	str_printf(&w->row, "%s%lld %016llx\n", end_start, (long long)w->rows, (unsigned long long)XXH3_64bits_digest(w->hash));
	row_flush(w);
	rc = w->e.code || outfile_commit(&w->out, &w->e) ? err_set(e, w->e.code, "%s", w->e.msg) : 0;
	tsv_abort(w);
	return rc;
}

void tsv_abort(struct tsv_writer *w)
{
	if (!w)
		return;
	outfile_abort(&w->out);
	XXH3_freeState(w->hash);
	str_release(&w->row);
	mem_free(w);
}
