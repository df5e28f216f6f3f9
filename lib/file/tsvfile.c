/* Reads rows of tables that stay in their files. */
#include "file/tsvfile.h"

#include <string.h>
#include <sys/stat.h>

#include "core/hash.h"
#include "core/mem.h"
#include "file/fileio.h"
#include "file/tsvimpl.h"

enum { STEP = 32, FIRST_LINE = 3 };

/* Of every STEP-th row it is noted where it lies. The index is a hash table with linear probing of 32-bit entries: the number of a row plus 1, and,
 * in the bits above, some of the bits of the hash of its value, so that few rows are compared in vain. */
struct tsvfile {
	struct tsv *head;
	struct filemap map;
	char *memory; /* without a map */
	const char *text;
	size_t len;
	struct foreign foreign; /* of another program's table: its first row */
	size_t *at;             /* [rows / STEP + 1] offset of row STEP i */
	int64_t *line;          /* the same, its line; NULL in a table of ours */
	uint32_t *slot;         /* [slots] */
	uint64_t slots;
	int bits, column; /* bits of an entry that hold the row; the indexed column */
};

static int altered(const struct tsvfile *t, struct err *e)
{
	return err_set(e, ERR_DATA, "%s: altered while it was read", t->head->where);
}

/* Move behind the row at *at, without reading it. -1 if there is none. */
static int row_skip(const struct tsvfile *t, size_t *at, int64_t *line)
{
	struct foreign f = t->foreign;
	const char *nl;

	if (*at >= t->len)
		return -1;
	if (t->line) {
		f.at = *at;
		f.line = *line;
		if (!foreign_find(t->text, t->len, &f))
			return -1;
		foreign_skip(t->text, t->len, &f);
		*at = f.at;
		*line = f.line;
		return 0;
	}
	nl = memchr(t->text + *at, '\n', t->len - *at);
	*at = nl ? (size_t)(nl + 1 - t->text) : t->len;
	++*line;
	return 0;
}

/* Read the row at r->next: 1, 0 at the end of another program's table, -1. */
static int row_take(const struct tsvfile *t, struct tsvfile_row *r, struct err *e)
{
	struct foreign f = t->foreign;
	const char *nl;

	if (!r->cell)
		r->cell = mem_zalloc((size_t)t->head->columns, sizeof *r->cell);
	if (t->line) {
		f.at = r->next;
		f.line = r->next_line;
		if (!foreign_find(t->text, t->len, &f))
			return 0;
		r->line = f.line;
		if (foreign_row(t->head, t->text, t->len, &f, &r->text, r->cell, e))
			return -1;
		r->next = f.at;
		r->next_line = f.line;
		return 1;
	}
	nl = r->next < t->len ? memchr(t->text + r->next, '\n', t->len - r->next) : NULL;
	if (!nl)
		return altered(t, e);
	str_reset(&r->text);
	str_add(&r->text, t->text + r->next, (size_t)(nl - t->text) - r->next);
	r->line = r->next_line++;
	r->next = (size_t)(nl + 1 - t->text);
	return tsv_cut_row(t->head, r->text.p, r->cell, r->line, e) ? -1 : 1;
}

int tsvfile_read(const struct tsvfile *t, int64_t row, struct tsvfile_row *r, struct err *e)
{
	int rc;

	if (!r->next || r->row + 1 != row) {
		r->next = t->at[row / STEP];
		r->next_line = t->line ? t->line[row / STEP] : FIRST_LINE + row / STEP * STEP;
		for (int64_t before = row % STEP; before; before--)
			if (row_skip(t, &r->next, &r->next_line)) {
				r->next = 0;
				return altered(t, e);
			}
	}
	rc = row_take(t, r, e);
	r->row = row;
	if (rc <= 0)
		r->next = 0;
	return rc < 0 ? -1 : rc ? 0 : altered(t, e);
}

void tsvfile_row_release(struct tsvfile_row *r)
{
	mem_free(r->cell);
	str_release(&r->text);
	*r = (struct tsvfile_row){0};
}

int tsvfile_i64(const struct tsvfile *t, const struct tsvfile_row *r, int column, int64_t lo, int64_t hi, int64_t *out, struct err *e)
{
	if (!parse_i64(r->cell[column], lo, hi, out))
		return 0;
	return err_set(e, ERR_DATA, "%s:%lld: %s '%.100s' is not an integer in %lld..%lld", t->head->where, (long long)r->line,
	               t->head->names[column], r->cell[column], (long long)lo, (long long)hi);
}

static void note_place(struct tsvfile *t, int64_t row, size_t at, int64_t line)
{
	int64_t i = row / STEP;

	if (row % STEP)
		return;
	/* Twice as much at each power of two: a table of another program does not say how many rows it has. */
	if (!(i & (i - 1))) {
		t->at = mem_resize(t->at, (size_t)(i ? 2 * i : 1), sizeof *t->at);
		if (t->line)
			t->line = mem_resize(t->line, (size_t)(i ? 2 * i : 1), sizeof *t->line);
	}
	t->at[i] = at;
	if (t->line)
		t->line[i] = line;
}

/* Read every row once. */
static int take_rows(struct tsvfile *t, size_t first, struct err *e)
{
	struct tsvfile_row r = {.next = first, .next_line = t->line ? t->foreign.line : FIRST_LINE};
	int64_t n = 0;
	int rc = 1;

	for (; (t->line || n < t->head->rows) && rc > 0; n += rc > 0) {
		size_t at = r.next;
		int64_t line = r.next_line;

		rc = row_take(t, &r, e);
		if (rc > 0)
			note_place(t, n, at, line);
	}
	t->head->rows = n;
	tsvfile_row_release(&r);
	return rc < 0 ? -1 : 0;
}

static int load(struct tsvfile *t, const char *path, struct err *e)
{
	struct stat st;
	int mapped = strcmp(path, "-") && !stat(path, &st) && S_ISREG(st.st_mode);

	if (mapped && filemap_open(&t->map, path, e))
		return -1;
	if (!mapped && !(t->memory = file_load(path, (size_t)1 << 36, &t->len, e)))
		return -1;
	t->text = mapped ? (const char *)t->map.data : t->memory;
	t->len = mapped ? t->map.len : t->len;
	return 0;
}

struct tsvfile *tsvfile_open(const char *path, struct err *e)
{
	struct tsvfile *t = mem_zalloc(1, sizeof *t);
	size_t first = 0;
	int rc = load(t, path, e);

	t->column = -1;
	if (!rc) {
		t->head = tsv_begin(t->text, t->len, strcmp(path, "-") ? path : "standard input");
		if (tsv_text_is_ours(t->text, t->len)) {
			rc = tsv_parse_head(t->head, t->text, t->len, &first, e);
		} else if (!(rc = foreign_head(t->head, t->text, t->len, &t->foreign, e))) {
			t->line = mem_zalloc(1, sizeof *t->line);
			first = t->foreign.at;
		}
	}
	if (rc || take_rows(t, first, e)) {
		tsvfile_free(t);
		return NULL;
	}
	return t;
}

void tsvfile_free(struct tsvfile *t)
{
	if (!t)
		return;
	tsv_free(t->head);
	filemap_close(&t->map);
	mem_free(t->memory);
	mem_free(t->at);
	mem_free(t->line);
	mem_free(t->slot);
	mem_free(t);
}

const struct tsv *tsvfile_head(const struct tsvfile *t)
{
	return t->head;
}

/* The entry of a value without its row, and the slot where its search begins: from other bits of the hash. */
static uint32_t entry_of(const struct tsvfile *t, const char *value, uint64_t *slot)
{
	uint64_t h = hash64(value, strlen(value));

	*slot = (uint64_t)((unsigned __int128)h * t->slots >> 64);
	return (uint32_t)h << t->bits;
}

static uint64_t slot_after(const struct tsvfile *t, uint64_t slot)
{
	return slot + 1 < t->slots ? slot + 1 : 0;
}

/* Read the row in a slot if it holds the value; 0 if it does not. */
static int slot_holds(const struct tsvfile *t, uint64_t slot, uint32_t entry, const char *value, struct tsvfile_row *r)
{
	uint32_t low = ((uint32_t)1 << t->bits) - 1, v = t->slot[slot];

	return (v & ~low) == entry && !tsvfile_read(t, (int64_t)(v & low) - 1, r, NULL) && !strcmp(r->cell[t->column], value);
}

static int index_fill(struct tsvfile *t, struct err *e)
{
	struct tsvfile_row r = {0}, other = {0};
	int rc = 0;

	for (int64_t i = 0; i < t->head->rows && !rc && !(rc = tsvfile_read(t, i, &r, e)); i++) {
		const char *value = r.cell[t->column];
		uint64_t slot;
		uint32_t entry = entry_of(t, value, &slot);

		for (; t->slot[slot] && !rc; slot = slot_after(t, slot))
			if (slot_holds(t, slot, entry, value, &other))
				rc = err_set(e, ERR_DATA, "%s:%lld: %s '%.200s' is on line %lld already", t->head->where, (long long)r.line,
				             t->head->names[t->column], value, (long long)other.line);
		t->slot[slot] = entry | (uint32_t)(i + 1);
	}
	tsvfile_row_release(&r);
	tsvfile_row_release(&other);
	return rc;
}

int tsvfile_index(struct tsvfile *t, int column, struct err *e)
{
	uint64_t rows = (uint64_t)t->head->rows;

	if (rows >= UINT32_MAX / 2)
		return err_set(e, ERR_DATA, "%s: %llu rows, more than an index takes", t->head->where, (unsigned long long)rows);
	mem_free(t->slot);
	t->slots = rows + rows / 4 + 16;
	t->slot = mem_try(t->slots, sizeof *t->slot, t->head->where, e);
	if (!t->slot)
		return -1;
	for (t->bits = 1; rows >> t->bits;)
		t->bits++;
	t->column = column;
	return index_fill(t, e);
}

int64_t tsvfile_find(const struct tsvfile *t, const char *value, struct tsvfile_row *r)
{
	uint64_t slot;
	uint32_t entry;

	if (t->column < 0)
		return -1;
	/* Most samples come in the order of their table. */
	if (r->next && r->row + 1 < t->head->rows && !tsvfile_read(t, r->row + 1, r, NULL) && !strcmp(r->cell[t->column], value))
		return r->row;
	entry = entry_of(t, value, &slot);
	for (; t->slot[slot]; slot = slot_after(t, slot))
		if (slot_holds(t, slot, entry, value, r))
			return r->row;
	return -1;
}
