/* Writes the fields of a request that determine a result into a stamp, as declared in the option tables. */
#include "file/optionstamp.h"

#include <string.h>

#include "core/mem.h"

static const char *choice_at(const struct option *o, const void *field)
{
	int64_t v = option_integer(o, field);

	for (int i = 0; o->choices[i]; i++)
		if ((o->values ? o->values[i] : i) == v)
			return o->choices[i];
	return "?";
}

static void put_field(struct stamp *s, const char *key, const struct option *o, const void *field)
{
	const char *text;

	if (o->put) {
		o->put(s, key, field);
		return;
	}
	switch (o->type) {
	case OPTION_FLAG:
	case OPTION_OFF:
	case OPTION_INT:
		stamp_i64(s, key, option_integer(o, field));
		return;
	case OPTION_U64:
	case OPTION_SIZE:
		stamp_u64(s, key, *(const uint64_t *)field);
		return;
	case OPTION_REAL:
	case OPTION_DURATION:
		stamp_f64(s, key, *(const double *)field);
		return;
	case OPTION_CHOICE:
		stamp_text(s, key, choice_at(o, field));
		return;
	default:
		text = *(const char *const *)field;
		if (text)
			stamp_text(s, key, text);
	}
}

/* Whether the field has its default value. */
static int is_preset(const struct option *o, const void *field)
{
	char *bytes = mem_zalloc(o->size, 1);
	struct option at_start = *o;
	struct option table[2] = {{0}};
	int same;

	at_start.field = 0;
	table[0] = at_start;
	option_presets(table, bytes);
	same = !memcmp(bytes, field, o->size);
	mem_free(bytes);
	return same;
}

/* "recipe/draws" is "draws" in the object "recipe". */
static void put_key(struct stamp *s, const struct option *o, const void *field)
{
	const char *slash = strchr(o->key, '/');
	char *name = slash ? mem_strndup(o->key, (size_t)(slash - o->key)) : NULL;
	struct stamp *part = slash ? stamp_part(s, name) : NULL;

	put_field(part ? part : s, slash ? slash + 1 : o->key, o, field);
	stamp_free(part);
	mem_free(name);
}

static void put_row(struct stamp *s, const struct option *o, const void *request)
{
	const void *field = (const char *)request + o->field;

	if (o->counts && !o->counts(request))
		return;
	if (o->stamp == STAMP_ALWAYS || (o->stamp == STAMP_UNLESS_DEFAULT && !is_preset(o, field)))
		put_key(s, o, field);
}

static int is_ordered(const char *order, const char *key)
{
	size_t n = strlen(key);

	for (; *(order += strspn(order, " ")); order += strcspn(order, " "))
		if (strcspn(order, " ") == n && !strncmp(order, key, n))
			return 1;
	return 0;
}

void optionstamp_put(struct stamp *s, const struct option *const *tables, const void *request, const char *order)
{
	for (const char *key = order; *(key += strspn(key, " ")); key += strcspn(key, " "))
		for (int t = 0; tables[t]; t++)
			for (const struct option *o = tables[t]; !option_is_end(o); o++)
				if (o->key && strlen(o->key) == strcspn(key, " ") && !strncmp(o->key, key, strlen(o->key)))
					put_row(s, o, request);
	for (int t = 0; tables[t]; t++)
		for (const struct option *o = tables[t]; !option_is_end(o); o++)
			if (o->key && !is_ordered(order, o->key))
				put_row(s, o, request);
}
