/* Reads columns of samples: each name is resolved once, to the sample itself, a table, or the .json. */
#include "data/samplecolumns.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/names.h"
#include "core/str.h"
#include "core/wordsuggest.h"
#include "data/keyset.h"
#include "file/npy.h"
#include "file/tsv.h"

enum { LISTED = 60, NESTED = 16 }; /* most names of .json in a message; depth of nested members */

enum own_column { OWN_KEY, OWN_CLASS, OWN_WIDTH, OWN_HEIGHT, OWN_FRAMES, OWN_CHANNELS, OWN_COLUMNS, NOT_OWN = -1 };

static const char *const own_names[] = {"key", "class", "width", "height", "frames", "channels", NULL};

struct column {
	const char *name;
	int own;                 /* enum own_column */
	const struct tsv *table; /* NULL: of the .json, if `own` is NOT_OWN */
	int field;               /* column of the table */
	int64_t found, joined;   /* samples that had it; samples that have a row in its table */
	char digits[F64_TEXT];   /* the text of a number */
};

struct samplecolumns {
	struct column *v;
	int n;
	struct tsv **table;
	int *key; /* [tables] column of the keys */
	int tables;
	int reads_json, reads_shape; /* whether a column needs them */
	json_t *json;                /* of the present sample */
	struct keyset seen;          /* names of members of .json */
	char *listed[LISTED];
	int nlisted;
};

static int own_of(const char *name)
{
	for (int i = 0; own_names[i]; i++)
		if (!strcmp(own_names[i], name))
			return i;
	return NOT_OWN;
}

static int open_tables(struct samplecolumns *c, const char *const *table, int tables, struct err *e)
{
	c->table = mem_zalloc((size_t)tables + 1, sizeof *c->table);
	c->key = mem_zalloc((size_t)tables + 1, sizeof *c->key);
	for (; c->tables < tables; c->tables++) {
		struct tsv *t = c->table[c->tables] = tsv_load_any(table[c->tables], e);

		if (!t)
			return -1;
		c->key[c->tables] = tsv_need(t, "key", e);
		if (c->key[c->tables] < 0 || tsv_index(t, c->key[c->tables], e)) {
			c->tables++;
			return err_prefix(e, "--with %s", table[c->tables - 1]);
		}
	}
	return 0;
}

static int resolve(struct samplecolumns *c, struct column *v, struct err *e)
{
	v->own = own_of(v->name);
	for (int i = 0; i < c->tables; i++) {
		int field = tsv_column(c->table[i], v->name);

		if (field < 0 || v->own >= 0)
			continue;
		if (v->table)
			return err_set(e, ERR_USAGE, "column '%s' is in two tables of --with: rename it in one of them", v->name);
		v->table = c->table[i];
		v->field = field;
	}
	c->reads_json |= v->own < 0 && !v->table;
	c->reads_shape |= v->own >= OWN_WIDTH;
	return 0;
}

struct samplecolumns *samplecolumns_open(const char *const *name, int n, const char *const *table, int tables, struct err *e)
{
	struct samplecolumns *c = mem_zalloc(1, sizeof *c);
	int rc = open_tables(c, table, tables, e);

	c->v = mem_zalloc((size_t)n + 1, sizeof *c->v);
	for (; c->n < n && !rc; c->n++) {
		c->v[c->n].name = name[c->n];
		rc = resolve(c, &c->v[c->n], e);
	}
	if (!rc)
		return c;
	samplecolumns_free(c);
	return NULL;
}

void samplecolumns_free(struct samplecolumns *c)
{
	if (!c)
		return;
	for (int i = 0; i < c->tables; i++)
		tsv_free(c->table[i]);
	for (int i = 0; i < c->nlisted; i++)
		mem_free(c->listed[i]);
	json_decref(c->json);
	keyset_release(&c->seen);
	mem_free(c->table);
	mem_free(c->key);
	mem_free(c->v);
	mem_free(c);
}

/* ---- the sample itself ---- */

struct shape {
	int64_t of[OWN_COLUMNS]; /* -1: none */
};

static int array_shape(struct shape *s, const struct sample *x, const struct sample_member *m, int has_picture, struct err *e)
{
	struct npy a;

	if (npy_parse_head(&a, m->data, m->len, m->len, x->key, e))
		return err_prefix(e, "%s", x->origin);
	if (a.rank == 3 || a.rank == 4) {
		const int64_t *last = a.shape + a.rank - 3;

		s->of[OWN_FRAMES] = a.rank == 4 ? a.shape[0] : 1;
		s->of[OWN_CHANNELS] = last[0];
		if (!has_picture) {
			s->of[OWN_HEIGHT] = last[1];
			s->of[OWN_WIDTH] = last[2];
		}
	}
	npy_release(&a);
	return 0;
}

static int read_shape(struct shape *s, const struct sample *x, struct err *e)
{
	const struct sample_member *picture = sample_picture(x), *array = sample_find(x, "npy");
	struct still_facts f;

	for (int i = 0; i < OWN_COLUMNS; i++)
		s->of[i] = -1;
	if (picture) {
		int lies;

		if (still_probe(&f, picture->data, picture->len, x->key, e))
			return err_prefix(e, "%s", x->origin);
		lies = f.orientation >= 5; /* EXIF: to be turned by 90 degrees */
		s->of[OWN_WIDTH] = lies ? f.height : f.width;
		s->of[OWN_HEIGHT] = lies ? f.width : f.height;
		s->of[OWN_FRAMES] = 1;
	}
	return array ? array_shape(s, x, array, picture != NULL, e) : 0;
}

static void set_number(struct column *v, struct condition_value *out, double number)
{
	print_f64(v->digits, number);
	*out = (struct condition_value){.there = 1, .is_number = 1, .number = number, .text = v->digits};
}

static int own_value(struct column *v, const struct sample *x, const struct shape *s, const json_t *class_names, struct condition_value *out,
                     struct err *e)
{
	int32_t label;

	if (v->own == OWN_KEY) {
		*out = (struct condition_value){.there = 1, .text = x->key};
		out->is_number = !parse_f64(x->key, -INFINITY, INFINITY, &out->number);
		return 0;
	}
	if (v->own != OWN_CLASS) {
		if (s->of[v->own] >= 0)
			set_number(v, out, (double)s->of[v->own]);
		return 0;
	}
	if (sample_class(x, &label, e))
		return -1;
	if (label >= 0) {
		const char *name = names_get(class_names, label);

		set_number(v, out, label);
		out->text = name ? name : out->text;
	}
	return 0;
}

/* ---- tables ---- */

static void table_value(struct column *v, const char *key, struct condition_value *out)
{
	int64_t row = tsv_lookup(v->table, key);
	const char *text = row < 0 ? "" : tsv_get(v->table, row, v->field);
	static const char *const none[] = {"", "-", "nan", "NaN", "-nan", "inf", "-inf", "+inf", "Inf", "-Inf", "Infinity", "-Infinity"};

	v->joined += row >= 0;
	for (size_t i = 0; i < sizeof none / sizeof *none; i++)
		if (!strcmp(text, none[i]))
			return;
	*out = (struct condition_value){.there = 1, .text = text};
	out->is_number = !parse_f64(text, -INFINITY, INFINITY, &out->number);
}

/* ---- .json ---- */

/* Remember the names of members, for a message that lists them. */
static void list_names(struct samplecolumns *c, json_t *o, const char *prefix, int depth)
{
	const char *name;
	json_t *value;

	json_object_foreach (o, name, value) {
		char *full;

		if (c->nlisted == LISTED)
			return;
		full = str_new("%s%s%s", prefix, *prefix ? "." : "", name);
		if (json_is_object(value) && depth < NESTED)
			list_names(c, value, full, depth + 1);
		else if (!json_is_array(value) && !json_is_null(value) && strlen(full) < 100 && c->nlisted < LISTED && !keyset_add(&c->seen, full))
			c->listed[c->nlisted++] = mem_strdup(full);
		mem_free(full);
	}
}

static int read_json(struct samplecolumns *c, const struct sample *x, struct err *e)
{
	const struct sample_member *m = sample_find(x, "json");
	json_error_t why;

	json_decref(c->json);
	c->json = NULL;
	if (!c->reads_json || !m)
		return 0;
	c->json = json_loadb(m->data, m->len, JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL, &why);
	if (!c->json)
		return err_set(e, ERR_DATA, "%s: the .json of \"%s\", line %d: %s", x->origin, x->key, why.line, why.text);
	if (!json_is_object(c->json))
		return err_set(e, ERR_DATA, "%s: the .json of \"%s\" is not an object", x->origin, x->key);
	return 0;
}

/* The member that `name` names: one of that whole name, or, at any of its dots, a member of a member. */
static json_t *find_member(const json_t *o, const char *name, int depth)
{
	json_t *found = json_object_get(o, name);

	for (const char *dot = strchr(name, '.'); dot && !found && depth < NESTED; dot = strchr(dot + 1, '.')) {
		char *outer = mem_strndup(name, (size_t)(dot - name));

		found = json_object_get(o, outer);
		found = found ? find_member(found, dot + 1, depth + 1) : NULL;
		mem_free(outer);
	}
	return found;
}

static void json_value(struct column *v, const json_t *root, struct condition_value *out)
{
	const json_t *x = root ? find_member(root, v->name, 0) : NULL;

	if (json_is_number(x))
		set_number(v, out, json_number_value(x));
	if (json_is_boolean(x)) {
		set_number(v, out, json_is_true(x));
		out->text = json_is_true(x) ? "true" : "false";
	}
	if (json_is_string(x)) {
		*out = (struct condition_value){.there = 1, .text = json_string_value(x)};
		out->is_number = !parse_f64(out->text, -INFINITY, INFINITY, &out->number);
	}
}

int samplecolumns_read(struct samplecolumns *c, const struct sample *s, const json_t *class_names, struct condition_value *value, struct err *e)
{
	struct shape shape;
	int lacking = 0;

	if ((c->reads_shape && read_shape(&shape, s, e)) || read_json(c, s, e))
		return -1;
	for (int i = 0; i < c->n; i++) {
		struct column *v = &c->v[i];

		value[i] = (struct condition_value){0};
		if (v->own >= 0 && own_value(v, s, &shape, class_names, &value[i], e))
			return -1;
		if (v->table)
			table_value(v, s->key, &value[i]);
		else if (v->own < 0)
			json_value(v, c->json, &value[i]);
	}
	for (int i = 0; i < c->n; i++) {
		c->v[i].found += value[i].there;
		lacking |= !value[i].there;
	}
	if (lacking && c->json)
		list_names(c, c->json, "", 0);
	return 0;
}

int64_t samplecolumns_found(const struct samplecolumns *c, int i)
{
	return c->v[i].found;
}

int samplecolumns_unknown(const struct samplecolumns *c, int i, struct err *e)
{
	struct str list = {0};
	const char **words = mem_zalloc((size_t)(LISTED + OWN_COLUMNS) + 1, sizeof *words);
	const struct column *v = &c->v[i];
	char near[WORD_SUGGESTION];
	int n = 0;

	if (v->table && !v->joined) {
		mem_free(words);
		return err_set(e, ERR_USAGE, "column '%.100s': no key of its table is that of a sample; the table's first one is '%.200s'", v->name,
		               tsv_rows(v->table) ? tsv_get(v->table, 0, tsv_column(v->table, "key")) : "");
	}
	for (int k = 0; own_names[k]; k++)
		str_printf(&list, "%s%s", list.len ? ", " : "", words[n++] = own_names[k]);
	for (int t = 0; t < c->tables; t++)
		for (int k = 0; k < tsv_columns(c->table[t]); k++)
			if (k != c->key[t])
				str_printf(&list, ", %s", tsv_name(c->table[t], k));
	for (int k = 0; k < c->nlisted; k++)
		str_printf(&list, ", %s", words[n++] = c->listed[k]);
	word_suggest(near, v->name, words);
	err_set(e, ERR_USAGE, "no sample has a column '%.100s'%s; there are: %.600s%s", v->name, near, str_text(&list),
	        list.len > 600 || c->nlisted == LISTED ? ", ..." : "");
	mem_free(words);
	str_release(&list);
	return -1;
}

int samplecolumns_tables(const struct samplecolumns *c)
{
	return c->tables;
}

const char *samplecolumns_table_sha256(const struct samplecolumns *c, int i)
{
	return tsv_sha256(c->table[i]);
}
