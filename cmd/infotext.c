/* Prints facts about files as text. */
#include "cmd/infotext.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cmd/clean.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/str.h"

/* Columns: INDENT, NAME_WIDTH, LINE; most items, characters or table columns shown: ROWS, TEXT_MOST, COLUMNS_MOST, HASH_SHOWN. */
enum { INDENT = 2, NAME_WIDTH = 16, LINE = 110, ROWS = 40, TEXT_MOST = 200, COLUMNS_MOST = 24, HASH_SHOWN = 16 };

static int wide; /* 1: nothing is shortened (--full) */

static int is_hash(const char *text)
{
	return strlen(text) == 64 && strspn(text, "0123456789abcdef") == 64;
}

static int ends(const char *key, const char *end)
{
	return str_ends(key, end);
}

/* Append text from a file, escaped for the terminal and shortened. */
static void add_clean(struct str *s, const char *raw)
{
	size_t room = 4 * strlen(raw) + 1, most, n;
	char *text = clean_output(mem_alloc(room), room, raw);

	most = is_hash(text) && !wide ? HASH_SHOWN : wide ? strlen(text) : TEXT_MOST;
	n = strnlen(text, most);
	str_add(s, text, n);
	/* Do not cut a UTF-8 sequence. */
	while (n == most && text[n] && ((unsigned char)text[n] & 0xc0) == 0x80 && s->len && (unsigned char)s->p[s->len - 1] >= 0x80)
		s->p[--s->len] = 0, n--;
	if (n == most && text[n] && !is_hash(text))
		str_puts(s, "...");
	mem_free(text);
}

static void add_bytes(struct str *s, double bytes)
{
	static const char *const unit[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
	int u = 0;

	for (; bytes >= 1024 && u < 5; u++)
		bytes /= 1024;
	if (u)
		str_printf(s, "%.*f %s", bytes < 10 ? 2 : bytes < 100 ? 1 : 0, bytes, unit[u]);
	else
		str_printf(s, "%.0f bytes", bytes);
}

static void add_seconds(struct str *s, double v)
{
	int64_t t = v < 1e12 ? (int64_t)(v + .5) : 0;

	if (t >= 86400)
		str_printf(s, "%" PRId64 "d %" PRId64 "h", t / 86400, t % 86400 / 3600);
	else if (t >= 3600)
		str_printf(s, "%" PRId64 "h %" PRId64 "m", t / 3600, t % 3600 / 60);
	else if (t >= 60)
		str_printf(s, "%" PRId64 "m %" PRId64 "s", t / 60, t % 60);
	else
		str_printf(s, "%" PRId64 "s", t);
}

/* Whether a list of numbers with this name is a shape. */
static int is_shape(const char *key)
{
	static const char *const names[] = {"shape", "picture", "upright", "size", "smallest", "largest"};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (!strcmp(key, names[i]))
			return 1;
	return 0;
}

static void add_value(struct str *s, const char *key, const json_t *v);

static void add_list(struct str *s, const char *key, const json_t *list)
{
	size_t n = json_array_size(list), most = wide ? n : ROWS;

	for (size_t i = 0; i < n && i < most; i++) {
		if (i)
			str_puts(s, is_shape(key) ? " x " : ", ");
		add_value(s, "", json_array_get(list, i));
	}
	if (n > most)
		str_printf(s, ", ... %zu in all", n);
	if (!n)
		str_puts(s, is_shape(key) ? "one number" : "none");
}

/* Append the members of an object: "name value, name value". */
static void add_members(struct str *s, const json_t *o)
{
	const char *key;
	json_t *v;
	size_t n = 0;

	json_object_foreach ((json_t *)(uintptr_t)o, key, v) {
		if (n++)
			str_puts(s, ", ");
		if (n > ROWS && !wide) {
			str_printf(s, "... %zu in all", json_object_size(o));
			return;
		}
		add_clean(s, key);
		str_puts(s, " ");
		add_value(s, key, v);
	}
}

static void add_value(struct str *s, const char *key, const json_t *v)
{
	switch (json_typeof(v)) {
	case JSON_STRING:
		add_clean(s, json_string_value(v));
		break;
	case JSON_INTEGER:
		if (!strcmp(key, "bytes") || ends(key, "_bytes"))
			add_bytes(s, (double)json_integer_value(v));
		else
			str_printf(s, "%" JSON_INTEGER_FORMAT, json_integer_value(v));
		break;
	case JSON_REAL:
		if (!strcmp(key, "share"))
			str_printf(s, "%.1f%%", 100 * json_real_value(v));
		else if (!strcmp(key, "eta_s"))
			add_seconds(s, json_real_value(v));
		else
			str_printf(s, "%.4g", json_real_value(v));
		break;
	case JSON_ARRAY:
		add_list(s, key, v);
		break;
	case JSON_OBJECT:
		add_members(s, v);
		break;
	case JSON_TRUE:
		str_puts(s, "yes");
		break;
	case JSON_FALSE:
		str_puts(s, "no");
		break;
	case JSON_NULL:
		str_puts(s, "-");
	}
}

/* Columns of text on a terminal, counting one for each UTF-8 sequence. */
static int columns(const char *text)
{
	int n = 0;

	for (; *text; text++)
		n += ((unsigned char)*text & 0xc0) != 0x80;
	return n;
}

static void put_padded(const char *text, int width, int right)
{
	int pad = width - columns(text);

	pad = pad > 0 ? pad : 0;
	printf("%*s%s%*s", right ? pad : 0, "", text, right ? 0 : pad, "");
}

/* Print the name of a fact with blanks for underscores: "gflop per image". */
static void put_name(const char *key, int indent)
{
	struct str s = {0};

	add_clean(&s, key);
	for (char *c = s.p; c && *c; c++)
		*c = *c == '_' ? ' ' : *c;
	printf("%*s", indent, "");
	put_padded(str_text(&s), NAME_WIDTH - 1, 0);
	putchar(' ');
	str_release(&s);
}

/* Print a value. Long lines are broken after commas, and later lines are indented like the first. */
static void put_wrapped(const char *text, int indent)
{
	for (int column = indent; *text;) {
		const char *comma = strstr(text, ", ");
		int n = comma ? (int)(comma - text) + 1 : (int)strlen(text);

		if (column > indent && column + 1 + n > LINE) {
			printf("\n%*s", indent, "");
			column = indent;
		} else if (column > indent) {
			putchar(' ');
			column++;
		}
		printf("%.*s", n, text);
		column += n;
		text += n + !!comma;
	}
	putchar('\n');
}

static void put_fact(const char *key, const json_t *v, int indent)
{
	struct str s = {0};

	add_value(&s, key, v);
	put_name(key, indent);
	put_wrapped(str_text(&s), indent + NAME_WIDTH);
	str_release(&s);
}

static int is_table(const json_t *v)
{
	return json_array_size(v) && json_is_object(json_array_get(v, 0));
}

/* The columns of a table. */
struct table {
	const char *key[COLUMNS_MOST];
	int width[COLUMNS_MOST], right[COLUMNS_MOST], n; /* right: 1 if the column is aligned right */
};

/* Set s to the text of a cell. */
static void cell(struct str *s, const json_t *row, const char *key)
{
	const json_t *v = json_object_get(row, key);

	str_reset(s);
	if (v)
		add_value(s, key, v);
	else
		str_puts(s, "-");
}

/* Find the columns of a table, which are the keys of its rows, and their widths. */
static void measure(struct table *t, const json_t *list, size_t rows)
{
	struct str s = {0};

	for (size_t i = 0; i < rows; i++) {
		const json_t *row = json_array_get(list, i);
		const char *key;
		json_t *v;

		json_object_foreach ((json_t *)(uintptr_t)row, key, v) {
			int c = 0;

			while (c < t->n && strcmp(t->key[c], key))
				c++;
			if (c == COLUMNS_MOST)
				continue;
			if (c == t->n) {
				t->key[t->n] = key;
				t->width[t->n] = columns(key);
				t->right[t->n++] = json_is_number(v);
			}
			cell(&s, row, key);
			t->width[c] = columns(str_text(&s)) > t->width[c] ? columns(str_text(&s)) : t->width[c];
		}
	}
	str_release(&s);
}

static void put_table(const char *key, const json_t *list, int indent)
{
	size_t n = json_array_size(list), rows = wide || n <= ROWS ? n : ROWS;
	struct table t = {0};
	struct str s = {0};

	measure(&t, list, rows);
	put_name(key, indent);
	printf("%zu\n", n);
	for (size_t i = 0; i <= rows; i++) {
		printf("%*s", indent + INDENT, "");
		for (int c = 0; c < t.n; c++) {
			str_reset(&s);
			if (!i) {
				add_clean(&s, t.key[c]);
				for (char *p = s.p; p && *p; p++)
					*p = *p == '_' ? ' ' : *p;
			} else {
				cell(&s, json_array_get(list, i - 1), t.key[c]);
			}
			if (c)
				printf("  ");
			if (c + 1 < t.n || t.right[c])
				put_padded(str_text(&s), t.width[c], t.right[c]);
			else
				printf("%s", str_text(&s));
		}
		putchar('\n');
	}
	if (rows < n)
		printf("%*s... %zu more: --full\n", indent + INDENT, "", n - rows);
	str_release(&s);
}

/* Print the program, options and inputs that made a file, but for the names of classes and the provenance if the facts have them. */
static void put_stamp(const json_t *stamp, const json_t *facts, int indent)
{
	const json_t *inputs = json_object_get(stamp, "inputs");
	json_t *options = json_copy((json_t *)(uintptr_t)stamp), *v;
	struct str s = {0};
	const char *key;

	add_value(&s, "program", json_object_get(stamp, "program") ? json_object_get(stamp, "program") : json_null());
	if (json_object_get(stamp, "version")) {
		str_puts(&s, " ");
		add_value(&s, "version", json_object_get(stamp, "version"));
	}
	put_name("made by", indent);
	printf("%s\n", str_text(&s));
	json_object_del(options, "program");
	json_object_del(options, "version");
	json_object_del(options, "inputs");
	if (json_object_get(facts, "class_names"))
		json_object_del(options, "class_names");
	if (json_object_get(facts, "provenance"))
		json_object_del(options, "provenance");
	if (json_object_size(options))
		put_fact("with", options, indent);
	if (json_is_object(inputs)) {
		json_object_foreach ((json_t *)(uintptr_t)inputs, key, v) {
			str_reset(&s);
			add_value(&s, key, v);
			str_puts(&s, "  ");
			add_clean(&s, key);
			put_name("from", indent);
			printf("%s\n", str_text(&s));
		}
	}
	json_decref(options);
	str_release(&s);
}

/* Print an object on one line, or if that is too long, on one line for each member. */
static void put_object(const char *key, const json_t *o, int indent)
{
	struct str s = {0};
	const char *name;
	json_t *v;

	add_members(&s, o);
	if (s.len + NAME_WIDTH + (size_t)indent <= LINE) {
		put_fact(key, o, indent);
	} else {
		put_name(key, indent);
		putchar('\n');
		json_object_foreach ((json_t *)(uintptr_t)o, name, v)
			put_fact(name, v, indent + INDENT);
	}
	str_release(&s);
}

void info_print(const json_t *facts, int full)
{
	struct str s = {0};
	const char *key;
	json_t *v;

	wide = full;
	add_clean(&s, json_string_value(json_object_get(facts, "file")));
	str_puts(&s, ": ");
	str_puts(&s, json_string_value(json_object_get(facts, "kind")));
	if (json_object_get(facts, "bytes")) {
		str_puts(&s, ", ");
		add_value(&s, "bytes", json_object_get(facts, "bytes"));
	}
	printf("%s\n", str_text(&s));
	json_object_foreach ((json_t *)(uintptr_t)facts, key, v) {
		if (!strcmp(key, "file") || !strcmp(key, "kind") || !strcmp(key, "bytes") || !strcmp(key, "error") || !strcmp(key, "exit"))
			continue;
		if (!strcmp(key, "stamp") && json_is_object(v))
			continue;
		if (is_table(v))
			put_table(key, v, INDENT);
		else if (json_is_object(v))
			put_object(key, v, INDENT);
		else
			put_fact(key, v, INDENT);
	}
	if (json_is_object(json_object_get(facts, "stamp")))
		put_stamp(json_object_get(facts, "stamp"), facts, INDENT);
	str_release(&s);
}
