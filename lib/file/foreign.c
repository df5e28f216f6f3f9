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
	return *c->at == '\n' || !strncmp(c->at, "\r\n", 2);
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

static int cut_names(struct tsv *t, struct cursor *c, struct err *e)
{
	char *names[COLUMNS_MAX], *nl = memchr(c->at, '\n', (size_t)(c->end - c->at));
	size_t len = (size_t)((nl ? nl : c->end) - c->at);
	int64_t n;

	c->separator = memchr(c->at, '\t', len) ? '\t' : memchr(c->at, ',', len) ? ',' : memchr(c->at, ';', len) ? ';' : 0;
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

int foreign_parse(struct tsv *t, size_t len, struct err *e)
{
	static const char mark[] = "\xef\xbb\xbf"; /* UTF-8 byte order mark, as spreadsheets write it */
	struct cursor c = {.at = t->text, .end = t->text + len, .line = 1};
	const char *nul = memchr(t->text, 0, len);
	int64_t room = 0;
	int comments;

	t->stamp = "{}";
	t->line = mem_zalloc(1, sizeof *t->line);
	if (nul)
		return err_set(e, ERR_DATA, "%s:%lld: a NUL byte: not a table of text", t->where, (long long)lines_before(t->text, nul));
	if (!strncmp(c.at, mark, sizeof mark - 1))
		c.at += sizeof mark - 1;
	if (!next_row(&c, 0))
		return err_set(e, ERR_DATA, "%s: empty: a line with the names of columns was expected", t->where);
	comments = *c.at == '#';
	c.at += comments;
	while (comments && *c.at == ' ')
		c.at++;
	if (cut_names(t, &c, e))
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
