/* Reads, writes, compares and sets the fields of a network's configuration, which its definition lists; answers questions about its traits and
 * inputs. */
#include <stdio.h>
#include <string.h>

#include "core/jsonio.h"
#include "core/str.h"
#include "net/net.h"
#include "net/netdef.h"

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

/* The entry of an input, or NULL if the network of this configuration does not read it. */
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

int net_may_read(const struct net_config *c, enum net_input_kind input)
{
	for (int i = 0; i < c->def->ninputs; i++)
		if (c->def->inputs[i].input == input)
			return 1;
	return 0;
}

static struct tensor *input(struct tape *t, const struct net_config *c, const struct net_reads *r)
{
	int64_t shape[5] = {tape_capacity(t)};
	int rank = r->rank;

	for (int i = 0; i < r->rank; i++)
		shape[1 + i] = r->shape[i].number ? r->shape[i].number : *(const int64_t *)((const char *)c + r->shape[i].at);
	shape[1] += r->input == NET_IN_FIRST;
	if (r->input == NET_IN_X)
		rank = net_sample_shape(c, shape + 1);
	return tape_input(t, r->integers ? DT_I32 : tape_real(t), 1 + rank, shape, TAPE_BATCHED);
}

void net_inputs(struct tape *t, const struct net_config *c, struct net_input *in)
{
	for (int i = 0; i < NET_INPUTS; i++) {
		const struct net_reads *r = input_of(c, (enum net_input_kind)i);

		if (!in->v[i] && r)
			in->v[i] = input(t, c, r);
	}
}

int64_t net_first_elements(const struct net_config *c)
{
	return (1 + c->channels) * c->size * c->size;
}

void net_put_first(const struct net_config *c, const float *frame, float *out)
{
	int64_t plane = c->size * c->size;

	for (int64_t i = 0; i < plane; i++)
		out[i] = frame != NULL;
	for (int64_t i = 0; i < c->channels * plane; i++)
		out[plane + i] = frame ? frame[i] : 0;
}

int64_t net_read_channels(const struct net_config *c)
{
	return c->first_frame ? 2 * c->channels + 1 : c->channels;
}

const char *net_name(const struct net_config *c)
{
	return c->def->name;
}

const char *net_title(const struct net_config *c)
{
	return c->def->title ? c->def->title : c->def->name;
}

int64_t net_elements(const struct net_config *c)
{
	return net_is_classifier(c) ? c->clusters : c->out_channels * (net_sample_elements(c) / c->channels);
}

int64_t net_sample_elements(const struct net_config *c)
{
	return (c->frames ? c->frames : 1) * c->channels * c->size * c->size;
}

int net_sample_shape(const struct net_config *c, int64_t shape[4])
{
	int rank = 0;

	if (c->frames)
		shape[rank++] = c->frames;
	shape[rank++] = c->channels;
	shape[rank++] = c->size;
	shape[rank++] = c->size;
	return rank;
}

const char *net_sample_text(int64_t frames, int64_t channels, int64_t height, int64_t width, char text[NET_SAMPLE_TEXT])
{
	int n = frames ? snprintf(text, NET_SAMPLE_TEXT, "%lld frames of ", (long long)frames) : 0;

	snprintf(text + n, (size_t)(NET_SAMPLE_TEXT - n), "%lld x %lld x %lld", (long long)channels, (long long)height, (long long)width);
	return text;
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

const char *net_head(const struct net_config *c)
{
	return c->def->head;
}

int net_is_flow(const struct net_config *c)
{
	return c->def->diffusers && c->def->diffusers->flow;
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

static int ints_count(const int64_t *v)
{
	int n = 0;

	while (n < NET_INTS_MOST && v[n])
		n++;
	return n;
}

/* Write a list of numbers as text: "64,128,128". */
static void list_text(const int64_t *v, char *out, size_t size)
{
	size_t len = 0;

	*out = 0;
	for (int i = 0; i < ints_count(v) && len < size; i++)
		len += (size_t)snprintf(out + len, size - len, i ? ",%lld" : "%lld", (long long)v[i]);
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

/* The i-th field that has a name, or NULL. */
static const struct net_field *shape_field(const struct net_def *def, int i)
{
	for (int k = 0; k < def->nfields; k++)
		if (def->fields[k].name && !i--)
			return &def->fields[k];
	return NULL;
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
	err_set(e, ERR_USAGE, "a %s network takes no %s: its preset sets %s", net_name(c), name, str_text(&all));
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

/* ---- config.json ---- */

static int read_fixed(const json_t *o, const char *where, const struct net_field *f, struct err *e)
{
	int want = f->initial != 0, flag = want;

	if (jsonio_bool(o, f->key, 0, &flag, where, e))
		return -1;
	if (flag != want)
		return err_set(e, ERR_DATA, "%s: an expert %s %s is not supported", where, flag ? "with" : "without", f->key);
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

/* Whether the architecture's table lists the field at this offset. */
static int lists(const struct net_config *c, size_t at)
{
	for (int i = 0; i < c->def->nfields; i++)
		if (c->def->fields[i].at == at)
			return 1;
	return 0;
}

int net_has_dropout(const struct net_config *c)
{
	return lists(c, NET_AT(dropout));
}

int net_takes_clips(const struct net_config *c)
{
	return lists(c, NET_AT(frames));
}

const char *net_differs(const struct net_config *a, const struct net_config *b)
{
	if (a->def != b->def)
		return "model_type";
	for (int i = 0; i < a->def->nfields; i++) {
		const struct net_field *f = &a->def->fields[i];

		if (f->flags & NET_TRAINING)
			continue;
		if (f->type == NET_REAL ? *real(a, f) != *real(b, f) : f->type != NET_FIXED && memcmp(whole(a, f), whole(b, f), field_size(f)))
			return f->key;
	}
	return NULL;
}
