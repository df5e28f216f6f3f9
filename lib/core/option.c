/* Tables of options: their rows in order, the fields they fill, values from text. */
#include "core/option.h"

#include <assert.h>
#include <string.h>

#include "core/wordsuggest.h"
#include "core/mem.h"

const struct option option_builtin[] = {
    {.name = "--help", .letter = 'h', .help = "print this and exit"},
    {.name = "--version", .letter = 'V', .help = "print the version and how it was built, and exit"},
    {0},
};

int option_is_end(const struct option *o)
{
	return !o->name && !o->letter && !o->help && !o->key;
}

int option_is_group(const struct option *o)
{
	return !o->name && !o->letter && o->help;
}

struct collected {
	struct option_row *rows;
	int n;
	const char *groups[OPTION_MOST];
	int group_count;
};

static void note_group(struct collected *c, const char *group)
{
	for (int i = 0; i < c->group_count; i++)
		if (!strcmp(c->groups[i], group))
			return;
	if (c->group_count < OPTION_MOST)
		c->groups[c->group_count++] = group;
}

static void collect(struct collected *c, const struct option *table, void *request)
{
	const char *group = NULL;

	for (const struct option *o = table; o && !option_is_end(o); o++) {
		if (option_is_group(o)) {
			group = o->help;
			note_group(c, group);
		} else if ((o->name || o->letter) && c->n < OPTION_MOST) {
			c->rows[c->n++] = (struct option_row){o, request, group};
		}
	}
}

static int same_group(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

int option_rows(const struct program *p, struct option_row rows[OPTION_MOST])
{
	struct option_row found[OPTION_MOST];
	struct collected c = {.rows = found};
	int n = 0;

	for (const struct option_table *t = p->tables; t && t->options; t++)
		collect(&c, t->options, t->request);
	collect(&c, p->options, NULL);
	for (int g = -1; g < c.group_count; g++)
		for (int i = 0; i < c.n; i++)
			if (same_group(found[i].group, g < 0 ? NULL : c.groups[g]))
				rows[n++] = found[i];
	for (const struct option *o = option_builtin; !option_is_end(o) && n < OPTION_MOST; o++)
		rows[n++] = (struct option_row){o, NULL, c.group_count ? "Help" : NULL};
	return n;
}

void *option_field(const struct option *o, void *request)
{
	return o->value ? o->value : (char *)request + o->field;
}

const char *option_label(const struct option *o, char buf[3])
{
	if (o->name)
		return o->name;
	buf[0] = '-';
	buf[1] = o->letter;
	buf[2] = 0;
	return buf;
}

/* Integers are fields of 4 or 8 bytes. A variable of a program has the usual size of its type. */
static void put_integer(const struct option *o, void *field, int64_t v)
{
	size_t usual = o->type == OPTION_INT ? sizeof(int64_t) : sizeof(int), size = o->value ? usual : o->size;
	int narrow = (int)v;

	assert(size == sizeof v || size == sizeof narrow);
	memcpy(field, size == sizeof v ? (const void *)&v : &narrow, size);
}

static int set_int(const struct option *o, void *field, const char *label, const char *text, struct err *e)
{
	int64_t lo = INT64_MIN, hi = INT64_MAX, v;

	if (o->lo != 0 || o->hi != 0) {
		lo = o->lo <= -0x1p63 ? INT64_MIN : (int64_t)o->lo;
		hi = o->hi >= 0x1p63 ? INT64_MAX : (int64_t)o->hi;
	}
	if (!parse_i64(text, lo, hi, &v)) {
		put_integer(o, field, v);
		return 0;
	}
	if (lo == INT64_MIN && hi == INT64_MAX)
		return err_set(e, ERR_USAGE, "%s: '%s' is not an integer", label, text);
	if (hi == INT64_MAX)
		return err_set(e, ERR_USAGE, "%s: '%s' is not an integer of at least %lld", label, text, (long long)lo);
	return err_set(e, ERR_USAGE, "%s: '%s' is not an integer from %lld to %lld", label, text, (long long)lo, (long long)hi);
}

static int set_real(const struct option *o, void *field, const char *label, const char *text, struct err *e)
{
	int limited = o->lo != 0 || o->hi != 0;

	if (!parse_f64(text, limited ? o->lo : -__DBL_MAX__, limited ? o->hi : __DBL_MAX__, field))
		return 0;
	if (!limited)
		return err_set(e, ERR_USAGE, "%s: '%s' is not a number", label, text);
	if (o->hi >= 1e300)
		return err_set(e, ERR_USAGE, "%s: '%s' is not a number of at least %g", label, text, o->lo);
	return err_set(e, ERR_USAGE, "%s: '%s' is not a number from %g to %g", label, text, o->lo, o->hi);
}

static int set_duration(const struct option *o, double *field, const char *label, const char *text, struct err *e)
{
	double v;

	if (parse_duration(text, &v))
		return err_set(e, ERR_USAGE, "%s: '%s' is not a time such as 90, 15m or 2h", label, text);
	if (o->hi && (v < o->lo || v > o->hi))
		return err_set(e, ERR_USAGE, "%s: '%s' is not a time from %.10g to %.10g seconds", label, text, o->lo, o->hi);
	*field = v;
	return 0;
}

int option_choice(const char *label, const char *text, const char *const *choices, struct err *e)
{
	struct str s = {0};
	char hint[WORD_SUGGESTION];

	for (int i = 0; choices[i]; i++)
		if (!strcmp(choices[i], text))
			return i;
	for (int i = 0; choices[i]; i++)
		str_printf(&s, "%s%s", i ? ", " : "", choices[i]);
	err_set(e, ERR_USAGE, "%s%s'%s' is not one of %s%s", label ? label : "", label ? ": " : "", text, str_text(&s),
	        word_suggest(hint, text, choices));
	str_release(&s);
	return -1;
}

static int set_choice(const struct option *o, void *field, const char *label, const char *text, struct err *e)
{
	int i = option_choice(label, text, o->choices, e);

	if (i >= 0)
		put_integer(o, field, o->values ? o->values[i] : i);
	return i < 0 ? -1 : 0;
}

static void list_append(struct option_list *list, const char *text)
{
	list->v = mem_resize(list->v, (size_t)list->n + 1, sizeof *list->v);
	list->v[list->n++] = text;
}

int64_t option_integer(const struct option *o, const void *field)
{
	return o->size == sizeof(int64_t) ? *(const int64_t *)field : *(const int *)field;
}

static int is_choice(const struct option *o, int64_t v)
{
	for (int i = 0; o->choices[i]; i++)
		if ((o->values ? o->values[i] : i) == v)
			return 1;
	return 0;
}

int option_check_request(const struct option *table, const void *request, const void *defaults, struct err *e)
{
	char buf[3];

	for (const struct option *o = table; !option_is_end(o); o++) {
		const void *field = (const char *)request + o->field;
		int limited = o->lo != 0 || o->hi != 0;
		double v;

		if (o->value || !o->size || !memcmp(field, (const char *)defaults + o->field, o->size))
			continue;
		if (o->type == OPTION_CHOICE && !is_choice(o, option_integer(o, field)))
			return err_set(e, ERR_USAGE, "%s: %lld is not the number of a choice", option_label(o, buf),
			               (long long)option_integer(o, field));
		if ((o->type != OPTION_INT && o->type != OPTION_REAL) || !limited)
			continue;
		v = o->type == OPTION_INT ? (double)option_integer(o, field) : *(const double *)field;
		if (!(v >= o->lo && v <= o->hi))
			return err_set(e, ERR_USAGE, "%s: %.10g is not from %.10g to %.10g", option_label(o, buf), v, o->lo, o->hi);
	}
	return 0;
}

int option_set(const struct option *o, void *request, const char *text, struct err *e)
{
	char buf[3];
	const char *label = option_label(o, buf);
	void *field = option_field(o, request);

	switch (o->type) {
	case OPTION_FLAG:
	case OPTION_OFF:
		put_integer(o, field, o->type == OPTION_FLAG);
		return 0;
	case OPTION_INT:
		return set_int(o, field, label, text, e);
	case OPTION_REAL:
		return set_real(o, field, label, text, e);
	case OPTION_CHOICE:
		return set_choice(o, field, label, text, e);
	case OPTION_PARSED:
		return o->parse(field, label, text, e);
	case OPTION_TEXT:
		*(const char **)field = text;
		return 0;
	case OPTION_LIST:
		list_append(field, text);
		return 0;
	case OPTION_U64:
		if (!parse_u64(text, field))
			return 0;
		return err_set(e, ERR_USAGE, "%s: '%s' is not an integer from 0 to 2^64 - 1", label, text);
	case OPTION_DURATION:
		return set_duration(o, field, label, text, e);
	case OPTION_SIZE:
		if (!parse_size(text, field))
			return 0;
		return err_set(e, ERR_USAGE, "%s: '%s' is not a size such as 512, 64K or 3G", label, text);
	}
	return err_set(e, ERR_INTERNAL, "%s: option of unknown type", label);
}

/* Flags have no text; "1" is the preset of a flag that is set. For OPTION_OFF a preset of "1" means that the feature is on by default. */
void option_presets(const struct option *table, void *request)
{
	struct err e = {0};
	int failed;

	for (const struct option *o = table; o && !option_is_end(o); o++) {
		if (option_is_group(o) || !o->preset)
			continue;
		if (o->type == OPTION_FLAG || o->type == OPTION_OFF)
			put_integer(o, option_field(o, request), *o->preset == '1');
		else if ((failed = option_set(o, request, o->preset, &e)))
			assert(!failed);
	}
}
