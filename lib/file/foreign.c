/* Reads TSV and CSV tables of other programs, such as spreadsheets, pandas and awk. */
#include <string.h>

#include "core/mem.h"
#include "core/str.h"
#include "file/tsvimpl.h"

/* The position of the reader. Fields are cut and unquoted in place, as they never get longer. */
struct cursor {
	char *at, *end;
	int64_t line;
	char separator;
};

static int64_t lines_before(const char *text, const char *end)
{
	int64_t n = 1;

	for (const char *s = text; s < end; s++)
		n += *s == '\n';
	return n;
}

/* Read a quoted field: "" stands for ", and newlines are allowed. Afterwards c->at points behind the closing quote. */
static int unquote(const struct tsv *t, struct cursor *c, char **field, int64_t column, struct err *e)
{
	char *to = ++c->at;
	int64_t from = c->line;

	*field = to;
	for (;;) {
		if (c->at == c->end)
			return err_set(e, ERR_DATA, "%s:%lld: column %lld: a quote is opened and never closed", t->where, (long long)from,
			               (long long)column);
		if (*c->at == '"' && c->at[1] != '"')
			break;
		c->line += *c->at == '\n';
		c->at += *c->at == '"';
		*to++ = *c->at++;
	}
	c->at++;
	if (c->at < c->end && *c->at != c->separator && *c->at != '\n' && strncmp(c->at, "\r\n", 2))
		return err_set(e, ERR_DATA, "%s:%lld: column %lld: text behind the closing quote", t->where, (long long)c->line, (long long)column);
	*to = 0;
	return 0;
}

/* The fields of one line, the first `most` of them into cell; their number, or -1. */
static int64_t cut_line(const struct tsv *t, struct cursor *c, char **cell, int64_t most, struct err *e)
{
	for (int64_t n = 0;; n++) {
		char *field = c->at, after;

		if (c->separator != '\t' && c->at < c->end && *c->at == '"') {
			if (unquote(t, c, &field, n + 1, e))
				return -1;
		} else {
			while (c->at < c->end && *c->at != c->separator && *c->at != '\n')
				c->at++;
		}
		after = c->at < c->end ? *c->at : '\n';
		if (after == '\r')
			*c->at++ = 0;
		else if (after == '\n' && c->at > field && c->at[-1] == '\r')
			c->at[-1] = 0;
		if (c->at < c->end)
			*c->at++ = 0;
		if (n < most)
			cell[n] = field;
		if (after == c->separator)
			continue;
		c->line++;
		return n + 1;
	}
}

static int is_blank(const struct cursor *c)
{
	return *c->at == '\n' || (c->end - c->at > 1 && !memcmp(c->at, "\r\n", 2));
}

/* Skip lines without a row; 0 at the end. */
static int next_row(struct cursor *c, int comments)
{
	while (c->at < c->end && (is_blank(c) || (comments && *c->at == '#'))) {
		char *nl = memchr(c->at, '\n', (size_t)(c->end - c->at));

		c->at = nl ? nl + 1 : c->end;
		c->line++;
	}
	return c->at < c->end;
}

/* The sign between the names of columns; 0: none. */
static char separator_of(const struct cursor *c)
{
	const char *nl = memchr(c->at, '\n', (size_t)(c->end - c->at));
	size_t len = (size_t)((nl ? nl : c->end) - c->at);

	return memchr(c->at, '\t', len) ? '\t' : memchr(c->at, ',', len) ? ',' : memchr(c->at, ';', len) ? ';' : 0;
}

static int cut_names(struct tsv *t, struct cursor *c, struct err *e)
{
	char *names[COLUMNS_MAX];
	int64_t n;

	if (!c->separator)
		return err_set(e, ERR_DATA, "%s:%lld: no line with the names of columns, separated by tabs or commas", t->where, (long long)c->line);
	n = cut_line(t, c, names, COLUMNS_MAX, e);
	if (n < 0)
		return -1;
	if (n > COLUMNS_MAX)
		return err_set(e, ERR_DATA, "%s:1: %lld columns, more than %d", t->where, (long long)n, COLUMNS_MAX);
	for (int64_t i = 0; i < n; i++)
		for (int64_t j = 0; j < i; j++)
			if (*names[i] && !strcmp(names[i], names[j]))
				return err_set(e, ERR_DATA, "%s:1: the column name '%s' is there twice", t->where, names[i]);
	t->columns = (int)n;
	t->names = mem_zalloc((size_t)n, sizeof *t->names);
	memcpy(t->names, names, (size_t)n * sizeof *names);
	return 0;
}

/* Move to the names of columns. The text is not altered. */
static int find_names(struct tsv *t, struct cursor *c, int *comments, struct err *e)
{
	static const char mark[] = "\xef\xbb\xbf"; /* UTF-8 byte order mark, as spreadsheets write it */
	size_t len = (size_t)(c->end - c->at);
	const char *nul = memchr(c->at, 0, len);

	t->stamp = "{}";
	t->line = mem_zalloc(1, sizeof *t->line);
	if (nul)
		return err_set(e, ERR_DATA, "%s:%lld: a NUL byte: not a table of text", t->where, (long long)lines_before(c->at, nul));
	if (len >= sizeof mark - 1 && !memcmp(c->at, mark, sizeof mark - 1))
		c->at += sizeof mark - 1;
	if (!next_row(c, 0))
		return err_set(e, ERR_DATA, "%s: empty: a line with the names of columns was expected", t->where);
	*comments = *c->at == '#';
	c->at += *comments;
	while (*comments && c->at < c->end && *c->at == ' ')
		c->at++;
	c->separator = separator_of(c);
	return 0;
}

int foreign_parse(struct tsv *t, size_t len, struct err *e)
{
	struct cursor c = {.at = t->text, .end = t->text + len, .line = 1};
	int64_t room = 0;
	int comments;

	if (find_names(t, &c, &comments, e) || cut_names(t, &c, e))
		return -1;
	while (next_row(&c, comments)) {
		int64_t line = c.line, n;

		if (t->rows == room) {
			room = 2 * room + 256;
			t->cell = mem_resize(t->cell, (size_t)room * (size_t)t->columns, sizeof *t->cell);
			t->line = mem_resize(t->line, (size_t)room, sizeof *t->line);
		}
		n = cut_line(t, &c, t->cell + t->rows * t->columns, t->columns, e);
		if (n < 0)
			return -1;
		if (n != t->columns)
			return err_set(e, ERR_DATA, "%s:%lld: %lld fields where the first line names %d columns", t->where, (long long)line,
			               (long long)n, t->columns);
		t->line[t->rows++] = line;
	}
	return 0;
}

/* The end of the row at `at`, behind its newline: as cut_line finds it. */
static const char *row_end(const char *at, const char *end, char separator)
{
	for (int begins = 1; at < end; at++) {
		if (begins && separator != '\t' && *at == '"') {
			for (at++; at < end && !(*at == '"' && (at + 1 == end || at[1] != '"')); at++)
				at += *at == '"';
			if (at >= end)
				break;
		} else if (*at == '\n') {
			return at + 1;
		}
		begins = *at == separator;
	}
	return end;
}

/* A cursor that moves, but does not cut. */
static struct cursor look(const char *text, size_t len, const struct foreign *f)
{
	char *p = (char *)(uintptr_t)text;

	return (struct cursor){.at = p + f->at, .end = p + len, .line = f->line, .separator = f->separator};
}

static struct cursor copy_row(struct str *copy, const char *text, size_t len, struct foreign *f)
{
	const char *end = row_end(text + f->at, text + len, f->separator);

	str_reset(copy);
	str_add(copy, text + f->at, (size_t)(end - text) - f->at);
	f->at = (size_t)(end - text);
	return (struct cursor){.at = copy->p, .end = copy->p + copy->len, .line = f->line, .separator = f->separator};
}

int foreign_head(struct tsv *t, const char *text, size_t len, struct foreign *f, struct err *e)
{
	struct str copy = {0};
	struct cursor c;
	int rc;

	*f = (struct foreign){.line = 1};
	c = look(text, len, f);
	if (find_names(t, &c, &f->comments, e))
		return -1;
	f->at = (size_t)(c.at - text);
	f->line = c.line;
	f->separator = c.separator;
	c = copy_row(&copy, text, len, f);
	rc = cut_names(t, &c, e);
	t->head = copy.p;
	f->line = c.line;
	return rc;
}

int foreign_find(const char *text, size_t len, struct foreign *f)
{
	struct cursor c = look(text, len, f);
	int there = next_row(&c, f->comments);

	f->at = (size_t)(c.at - text);
	f->line = c.line;
	return there;
}

int foreign_row(const struct tsv *t, const char *text, size_t len, struct foreign *f, struct str *copy, char **cell, struct err *e)
{
	int64_t line = f->line, n;
	struct cursor c = copy_row(copy, text, len, f);

	n = cut_line(t, &c, cell, t->columns, e);
	f->line = c.line;
	if (n >= 0 && n != t->columns)
		return err_set(e, ERR_DATA, "%s:%lld: %lld fields where the first line names %d columns", t->where, (long long)line, (long long)n,
		               t->columns);
	return n < 0 ? -1 : 0;
}

void foreign_skip(const char *text, size_t len, struct foreign *f)
{
	const char *end = row_end(text + f->at, text + len, f->separator);

	f->line += lines_before(text + f->at, end) - 1;
	f->line += end == text + len && (end == text + f->at || end[-1] != '\n');
	f->at = (size_t)(end - text);
}
