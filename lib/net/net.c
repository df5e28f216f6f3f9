/* The table of architectures, and what follows from their entries: config.json, presets, inputs, recordings. */
#include "net/net.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "core/jsonio.h"
#include "core/mem.h"
#include "core/meant.h"
#include "core/str.h"
#include "net/diffusers.h"
#include "net/netdef.h"

#define NET_ENTRY(name) &net_##name,
static const struct net_def *const defs[] = {NET_DEFS(NET_ENTRY)};

const struct net_def *net_def_at(int i)
{
	return i < NET_COUNT(defs) ? defs[i] : NULL;
}

const struct net_def *net_first(enum net_role role)
{
	int i = 0;

	while (defs[i]->role != role)
		i++;
	return defs[i];
}

const struct net_def *net_find(const char *name)
{
	for (int i = 0; i < NET_COUNT(defs); i++)
		if (!strcmp(defs[i]->name, name))
			return defs[i];
	return NULL;
}

const struct net_def *net_exact_of(enum net_role role)
{
	return role == NET_CLASSIFIER ? &net_exact_router : &net_exact;
}

const struct renames *net_names(const struct safetensors *s)
{
	const struct renames *found = NULL;

	for (int i = 0; i < NET_COUNT(defs) && !found; i++) {
		const struct renames *const *f = defs[i]->families;
		int n = 0;

		while (f && f[n])
			n++;
		found = renames_find(f, n, s);
	}
	return found;
}

/* ---- traits ---- */

enum net_role net_role(const struct net_config *c)
{
	return c->def->role;
}

int net_is_classifier(const struct net_config *c)
{
	return c->def->role == NET_CLASSIFIER;
}

int net_is_exact(const struct net_config *c)
{
	return !c->def->record;
}

/* NULL: the network of this configuration does not read it. */
static const struct net_reads *input_of(const struct net_config *c, enum net_input_kind input)
{
	for (int i = 0; i < c->def->ninputs; i++) {
		const struct net_reads *r = &c->def->inputs[i];

		if (r->input == input)
			return !r->when || *(const int64_t *)((const char *)c + r->when) != 0 ? r : NULL;
	}
	return NULL;
}

int net_reads(const struct net_config *c, enum net_input_kind input)
{
	return input_of(c, input) != NULL;
}

const char *net_name(const struct net_config *c)
{
	return c->def->name;
}

const char *net_title(const struct net_config *c)
{
	return c->def->title ? c->def->title : c->def->name;
}

int net_is_named(const struct net_config *c)
{
	return c->def != net_first(c->def->role);
}

int64_t net_elements(const struct net_config *c)
{
	return net_is_classifier(c) ? c->clusters : c->out_channels * c->size * c->size;
}

const char *net_prediction(const struct net_config *c)
{
	return c->def->prediction;
}

int64_t net_text_tokens(const struct net_config *c)
{
	return c->def->text_tokens;
}

const char *net_null_text(const struct net_config *c)
{
	return c->def->null_text;
}

int net_lower_case(const struct net_config *c)
{
	return c->def->lower_case;
}

/* ---- fields ---- */

static int64_t *whole(const struct net_config *c, const struct net_field *f)
{
	return (int64_t *)((char *)(uintptr_t)c + f->at);
}

static double *real(const struct net_config *c, const struct net_field *f)
{
	return (double *)((char *)(uintptr_t)c + f->at);
}

static size_t field_size(const struct net_field *f)
{
	return (f->type == NET_INTS ? NET_INTS_MOST : 1) * sizeof(int64_t);
}

void net_init(struct net_config *c, const struct net_def *def)
{
	memset(c, 0, sizeof *c);
	c->def = def;
	for (int i = 0; i < def->nfields; i++) {
		const struct net_field *f = &def->fields[i];

		if (f->type == NET_INT)
			*whole(c, f) = (int64_t)f->initial;
		else if (f->type == NET_REAL)
			*real(c, f) = f->initial;
	}
}

/* Field number i of those with a name, or NULL. */
static const struct net_field *shape_field(const struct net_def *def, int i)
{
	for (int k = 0; k < def->nfields; k++)
		if (def->fields[k].name && !i--)
			return &def->fields[k];
	return NULL;
}

static int ints_count(const int64_t *v)
{
	int n = 0;

	while (n < NET_INTS_MOST && v[n])
		n++;
	return n;
}

/* "64,128,128" */
static void list_text(const int64_t *v, char *out, size_t size)
{
	size_t len = 0;

	*out = 0;
	for (int i = 0; i < ints_count(v) && len < size; i++)
		len += (size_t)snprintf(out + len, size - len, i ? ",%lld" : "%lld", (long long)v[i]);
}

int net_shape(const struct net_config *c, int i, struct net_value *v)
{
	const struct net_field *f = shape_field(c->def, i);

	if (!f)
		return 0;
	*v = (struct net_value){.name = f->name, .whole = f->type == NET_INT};
	if (f->type == NET_INTS)
		list_text(whole(c, f), v->text, sizeof v->text);
	else if (v->whole)
		v->i = *whole(c, f);
	else
		v->f = *real(c, f);
	return 1;
}

int net_shape_set(struct net_config *c, const char *name, int64_t value, struct err *e)
{
	const struct net_field *f;
	struct str all = {0};

	for (int i = 0; (f = shape_field(c->def, i)); i++)
		if (f->type == NET_INT && !strcmp(f->name, name)) {
			*whole(c, f) = value;
			return 0;
		}
	for (int i = 0; (f = shape_field(c->def, i)); i++)
		str_printf(&all, "%s%s", i ? ", " : "", f->name);
	err_set(e, ERR_USAGE, "a network of type %s cannot be given %s: its preset sets %s", net_name(c), name, str_text(&all));
	str_release(&all);
	return -1;
}

void net_shape_copy(struct net_config *c, const struct net_config *from)
{
	const struct net_field *f;

	c->def = from->def;
	for (int i = 0; (f = shape_field(c->def, i)); i++)
		memcpy((char *)c + f->at, (const char *)from + f->at, field_size(f));
}

/* ---- presets ---- */

/* Architecture number i of those whose presets may be chosen in place of c's; NULL behind the last. */
static const struct net_def *candidate(const struct net_config *c, int i)
{
	if (net_is_classifier(c))
		return i ? NULL : c->def;
	for (int k = 0; k < NET_COUNT(defs); k++)
		if (defs[k]->presets && defs[k]->role == NET_EXPERT && !i--)
			return defs[k];
	return NULL;
}

/* "; did you mean dit-mini/4": the nearest name, with the tail that was asked for; nothing where none is near. */
static void suggest_preset(struct str *s, const char *name, const struct net_config *c)
{
	enum { MOST = 128 };
	size_t len = strcspn(name, "/");
	char *base = str_new("%.*s", (int)len, name);
	const char *words[MOST + 1] = {0}, *example[MOST], *near;
	const struct net_def *def;
	int n = 0;

	for (int d = 0; (def = candidate(c, d)); d++)
		for (int i = 0; def->presets->names[i]; i++) {
			assert(n < MOST);
			example[n] = def->presets->example;
			words[n++] = str_new("%s%s", def->prefix, def->presets->names[i]);
		}
	near = word_nearest(base, words);
	for (int i = 0; i < n; i++)
		if (near == words[i])
			str_printf(s, "; did you mean %s%s", near, name[len] && *example[i] && strcmp(near, base) ? name + len : example[i]);
	while (n)
		mem_free((char *)(uintptr_t)words[--n]);
	mem_free(base);
}

/* " dit-nano/P .. dit-xl/P, the same as paris- and pixart-, with a patch size P of ..": the presets of `first` and who shares them. */
static void list_shared(struct str *s, const struct net_config *c, const struct net_def *first)
{
	const struct net_presets *p = first->presets;
	const struct net_def *def;
	int same = 0;

	for (int i = 0; p->names[i]; i++)
		str_printf(s, " %s%s%s", first->prefix, p->names[i], p->tail);
	for (int d = 0; (def = candidate(c, d)); d++)
		if (def->presets == p && def != first)
			str_printf(s, "%s%s", same++ ? " and " : ", the same as ", def->prefix);
	str_printf(s, "%s%s", same && *p->note ? "," : "", p->note);
}

/* Whether an architecture before it has the same presets. */
static int listed_before(const struct net_config *c, int d)
{
	for (int i = 0; i < d; i++)
		if (candidate(c, i)->presets == candidate(c, d)->presets)
			return 1;
	return 0;
}

int net_preset(const char *name, struct net_config *c, struct err *e)
{
	struct str all = {0}, meant = {0};
	const struct net_def *def;

	for (int d = 0; (def = candidate(c, d)); d++) {
		struct net_config to = *c;
		size_t skip = strlen(def->prefix);

		to.def = def;
		if (!strncmp(name, def->prefix, skip) && def->presets->apply(&to, name + skip)) {
			*c = to;
			return 0;
		}
	}
	for (int d = 0; (def = candidate(c, d)); d++)
		if (!listed_before(c, d)) {
			str_puts(&all, d ? ";" : "");
			list_shared(&all, c, def);
		}
	suggest_preset(&meant, name, c);
	err_set(e, ERR_USAGE, "no network is called %s; there are%s%s", name, str_text(&all), str_text(&meant));
	str_release(&all);
	str_release(&meant);
	return -1;
}

/* ---- checks ---- */

void net_micro(const struct net_config *c, int64_t n, float *out)
{
	for (int64_t i = 0; i < n; i++) {
		out[NET_MICRO * i] = out[NET_MICRO * i + 1] = (float)(8 * c->size);
		out[NET_MICRO * i + 2] = 1;
	}
}

static int check_text(const struct net_config *c, struct err *e)
{
	if (!net_reads(c, NET_IN_TEXT))
		return 0;
	if (c->text_tokens < 1 || c->text_tokens > 65536 || c->text_width < 1 || c->text_width > 65536)
		return err_set(e, ERR_USAGE, "a text of %lld tokens of width %lld is out of range", (long long)c->text_tokens,
		               (long long)c->text_width);
	if (c->classes)
		return err_set(e, ERR_USAGE, "a network that reads texts has no classes here, and %lld were asked for", (long long)c->classes);
	return 0;
}

int net_check(const struct net_config *c, struct err *e)
{
	if (c->channels < 1 || c->channels > 4096 || c->size < 1 || c->size > 65536)
		return err_set(e, ERR_USAGE, "a network for %lld channels of %lld x %lld is out of range", (long long)c->channels,
		               (long long)c->size, (long long)c->size);
	if (c->def->check && c->def->check(c, e))
		return -1;
	if (c->classes < 0 || c->classes > 10000000 || !(c->class_dropout >= 0 && c->class_dropout < 1))
		return err_set(e, ERR_USAGE, "%lld classes with dropout %g are out of range", (long long)c->classes,
		               c->class_dropout);
	if (net_is_classifier(c) && (c->clusters < 1 || c->clusters > 100000))
		return err_set(e, ERR_USAGE, "a router for %lld clusters is out of range", (long long)c->clusters);
	if (!net_is_classifier(c) && c->out_channels != c->channels && c->out_channels != 2 * c->channels)
		return err_set(e, ERR_USAGE, "%lld output channels for %lld input channels", (long long)c->out_channels,
		               (long long)c->channels);
	return check_text(c, e);
}

int net_check_noise(const struct net_config *c, struct err *e)
{
	return c->def->check_noise ? c->def->check_noise(c, e) : 0;
}

/* ---- config.json ---- */

static int read_fixed(const json_t *o, const char *where, const struct net_field *f, struct err *e)
{
	int want = f->initial != 0, flag = want;

	if (jsonio_bool(o, f->key, 0, &flag, where, e))
		return -1;
	if (flag != want)
		return err_set(e, ERR_DATA, "%s: an expert %s %s is not known here", where, flag ? "with" : "without", f->key);
	return 0;
}

static int read_ints(const json_t *o, const char *where, const char *key, const struct net_field *f, int64_t *v, struct err *e)
{
	const json_t *list = json_object_get(o, key);
	size_t n = json_array_size(list);

	if (!list && !(f->flags & NET_REQUIRED))
		return 0;
	if (n < 1 || n > NET_INTS_MOST)
		return err_set(e, ERR_DATA, "%s: \"%s\" is not a list of 1 to %d integers", where, key, NET_INTS_MOST);
	memset(v, 0, field_size(f));
	for (size_t i = 0; i < n; i++) {
		v[i] = json_integer_value(json_array_get(list, i));
		if ((double)v[i] < f->lo || (double)v[i] > f->hi || v[i] < 1)
			return err_set(e, ERR_DATA, "%s: \"%s\"[%zu] is not an integer in %g..%g", where, key, i, f->lo, f->hi);
	}
	return 0;
}

static int read_field(const json_t *o, const char *where, struct net_config *c, const struct net_field *f, struct err *e)
{
	const char *key = f->alias && !json_object_get(o, f->key) && json_object_get(o, f->alias) ? f->alias : f->key;
	int required = f->flags & NET_REQUIRED;

	if (f->type == NET_FIXED)
		return read_fixed(o, where, f, e);
	if (f->type == NET_INTS)
		return read_ints(o, where, key, f, whole(c, f), e);
	if (f->type == NET_REAL)
		return jsonio_f64(o, key, required, f->lo, f->hi, real(c, f), where, e);
	return jsonio_i64(o, key, required, (int64_t)f->lo, (int64_t)f->hi, whole(c, f), where, e);
}

int net_read_fields(const json_t *o, const char *where, struct net_config *c, struct err *e)
{
	for (int i = 0; i < c->def->nfields; i++)
		if (read_field(o, where, c, &c->def->fields[i], e))
			return -1;
	return c->def->read ? c->def->read(o, where, c, e) : 0;
}

static int parse_ours(const json_t *o, const char *where, struct net_config *c, struct err *e)
{
	const char *type = NULL;
	const struct net_def *def;
	struct str all = {0};

	if (jsonio_str(o, "model_type", 1, &type, where, e))
		return -1;
	if (!(def = net_find(type))) {
		for (int i = 0; i < NET_COUNT(defs) && defs[i]->record; i++)
			str_printf(&all, "%s%s", i ? ", " : "", defs[i]->name);
		err_set(e, ERR_DATA, "%s: model_type \"%s\" is not one this program knows (%s)", where, type, str_text(&all));
		str_release(&all);
		return -1;
	}
	net_init(c, def);
	return net_read_fields(o, where, c, e);
}

int net_from_json(const json_t *o, const char *where, struct net_config *c, struct err *e)
{
	memset(c, 0, sizeof *c);
	if (diffusers_config(o) ? diffusers_parse(o, where, c, e) : parse_ours(o, where, c, e))
		return -1;
	if (!net_is_classifier(c) && !c->out_channels)
		c->out_channels = c->channels;
	if (net_check(c, e)) {
		if (e)
			e->code = ERR_DATA;
		return err_prefix(e, "%s", where);
	}
	return 0;
}

static int is_written(const struct net_config *c, const struct net_field *f)
{
	if (f->flags & NET_UNWRITTEN)
		return 0;
	if (f->flags & (NET_REQUIRED | NET_ALWAYS) || f->type == NET_FIXED)
		return 1;
	if (f->flags & NET_DROPOUT)
		return c->classes || (net_reads(c, NET_IN_TEXT) && c->class_dropout > 0);
	return f->type == NET_REAL ? *real(c, f) > 0 : *whole(c, f) != 0;
}

static json_t *field_json(const struct net_config *c, const struct net_field *f)
{
	const int64_t *v = whole(c, f);
	json_t *list;

	if (f->type == NET_FIXED)
		return json_boolean(f->initial != 0);
	if (f->type == NET_REAL)
		return json_real(*real(c, f));
	if (f->type == NET_INT)
		return json_integer(*v);
	list = json_array();
	for (int i = 0; i < ints_count(v); i++)
		json_array_append_new(list, json_integer(v[i]));
	return list;
}

void net_to_json(const struct net_config *c, json_t *o)
{
	json_object_set_new(o, "model_type", json_string(c->def->name));
	for (int i = 0; i < c->def->nfields; i++) {
		const struct net_field *f = &c->def->fields[i];

		if (is_written(c, f))
			json_object_set_new(o, f->key, field_json(c, f));
	}
	if (c->def->write)
		c->def->write(c, o);
}

const char *net_differs(const struct net_config *a, const struct net_config *b)
{
	if (a->def != b->def)
		return "model_type";
	for (int i = 0; i < a->def->nfields; i++) {
		const struct net_field *f = &a->def->fields[i];

		if (f->type == NET_REAL ? *real(a, f) != *real(b, f) : f->type != NET_FIXED && memcmp(whole(a, f), whole(b, f), field_size(f)))
			return f->key;
	}
	return NULL;
}

/* ---- recording ---- */

static struct tensor *input(struct tape *t, const struct net_config *c, const struct net_reads *r)
{
	int64_t shape[4] = {tape_capacity(t)};

	for (int i = 0; i < r->rank; i++)
		shape[1 + i] = r->shape[i].number ? r->shape[i].number : *(const int64_t *)((const char *)c + r->shape[i].at);
	return tape_input(t, r->integers ? DT_I32 : tape_real(t), 1 + r->rank, shape, TAPE_BATCHED);
}

void net_inputs(struct tape *t, const struct net_config *c, struct net_input *in)
{
	for (int i = 0; i < NET_INPUTS; i++) {
		const struct net_reads *r = input_of(c, (enum net_input_kind)i);

		if (!in->v[i] && r)
			in->v[i] = input(t, c, r);
	}
}

struct tensor *net_record(struct tape *t, struct params *p, const struct net_config *c, const struct net_input *in)
{
	return c->def->record(t, p, c, in);
}

static struct tape *record_one(const struct net_config *c, struct params *p)
{
	struct tape *t = tape_new(DT_F32, 1);
	struct net_input in = {0};

	net_inputs(t, c, &in);
	net_record(t, p, c, &in);
	params_layout(p);
	return t;
}

double net_measure(const struct net_config *c, struct params *p)
{
	struct tape *t = record_one(c, p);
	double flops = tape_flops(t, 1, 0, tape_mark(t));

	tape_free(t);
	return flops;
}

void net_params(const struct net_config *c, struct params *p)
{
	net_measure(c, p);
}

double net_flops(const struct net_config *c)
{
	struct params p = {0};
	double flops = net_measure(c, &p);

	params_release(&p);
	return flops;
}
