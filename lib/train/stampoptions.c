/* Reads the options of a training back from its stamp. */
#include <math.h>
#include <string.h>

#include "core/jsonio.h"
#include "core/mem.h"
#include "core/str.h"
#include "train/run.h"

/* A real number, with all its digits: `exact` has those that the stamp's nine do not give back. */
static double real_of(const json_t *stamp, const json_t *exact, const char *key)
{
	const char *text = json_string_value(json_object_get(exact, key));
	double v = json_number_value(json_object_get(stamp, key));

	if (text)
		parse_f64(text, -INFINITY, INFINITY, &v);
	return v;
}

static int set_choice(const struct option *o, void *field, const char *name)
{
	for (int i = 0; name && o->choices[i]; i++)
		if (!strcmp(o->choices[i], name)) {
			int64_t v = o->values ? o->values[i] : i;

			if (o->size == sizeof(int64_t))
				*(int64_t *)field = v;
			else
				*(int *)field = (int)v;
			return 0;
		}
	return -1;
}

/* A field that is stamped as it is. -1: the value is none of the option's. */
static int set_field(const struct option *o, void *field, const json_t *v, double real)
{
	switch (o->type) {
	case OPTION_FLAG:
	case OPTION_OFF:
	case OPTION_INT:
		if (!json_is_integer(v))
			return -1;
		if (o->size == sizeof(int64_t))
			*(int64_t *)field = json_integer_value(v);
		else
			*(int *)field = (int)json_integer_value(v);
		return 0;
	case OPTION_U64:
		if (json_is_string(v))
			return parse_u64(json_string_value(v), field);
		*(uint64_t *)field = (uint64_t)json_integer_value(v);
		return json_is_integer(v) ? 0 : -1;
	case OPTION_REAL:
		*(double *)field = real;
		return json_is_number(v) ? 0 : -1;
	case OPTION_CHOICE:
		return set_choice(o, field, json_string_value(v));
	case OPTION_TEXT:
		*(const char **)field = json_string_value(v);
		return json_is_string(v) ? 0 : -1;
	default:
		return -1;
	}
}

char *stamped_text(const json_t *stamp, const json_t *exact, const char *key)
{
	/* "time":"logit-normal", "time_mean":0, "time_std":1 */
	static const struct {
		const char *key, *numbers[2];
	} spread[] = {{"path", {"sigma_data"}}, {"weighting", {"weighting_number"}}, {"time", {"time_mean", "time_std"}}};
	const json_t *v = json_object_get(stamp, key);
	struct str text = {0};
	char number[F64_TEXT], *copy;

	if (json_is_integer(v))
		return str_new("%lld", (long long)json_integer_value(v));
	if (json_is_real(v)) {
		print_f64(number, real_of(stamp, exact, key));
		return mem_strdup(number);
	}
	if (!json_is_string(v))
		return NULL;
	str_puts(&text, json_string_value(v));
	for (size_t i = 0; i < sizeof spread / sizeof *spread; i++)
		for (int j = 0; j < 2 && !strcmp(spread[i].key, key) && spread[i].numbers[j]; j++)
			if (json_object_get(stamp, spread[i].numbers[j])) {
				print_f64(number, real_of(stamp, exact, spread[i].numbers[j]));
				str_printf(&text, "%c%s", j ? ',' : ':', number);
			}
	copy = mem_strdup(str_text(&text));
	str_release(&text);
	return copy;
}

/* A row of OPTION_PARSED. */
static int set_parsed(const struct option *o, void *request, const json_t *stamp, const json_t *exact, struct err *e)
{
	char *text = stamped_text(stamp, exact, o->key);
	int rc = text ? o->parse((char *)request + o->field, o->key, text, e) : 0;

	mem_free(text);
	return rc;
}

static int set_table(const struct option *table, struct train_options *o, const json_t *stamp, const json_t *exact, struct err *e)
{
	for (const struct option *row = table; !option_is_end(row); row++) {
		const json_t *v = row->key ? json_object_get(stamp, row->key) : NULL;

		if (!row->key)
			continue;
		if (row->type == OPTION_PARSED) {
			if (set_parsed(row, o, stamp, exact, e))
				return -1;
		} else if (v && set_field(row, (char *)o + row->field, v, real_of(stamp, exact, row->key))) {
			return err_set(e, ERR_DATA, "the stamp's \"%s\" is no value of an option", row->key);
		}
	}
	return 0;
}

int train_options_of(struct train_options *o, const json_t *stamp, const json_t *exact, const struct net_config *net, struct err *e)
{
	int classifier = net_is_classifier(net);

	*o = train_defaults(classifier ? NET_CLASSIFIER : NET_EXPERT);
	net_init(&o->net, net->def);
	net_shape_copy(&o->net, net);
	o->optimizer = OPTIMIZER_ADAMW; /* these two are left out of the stamp where they are the first of their choices */
	o->precision = PRECISION_F32;
	if (set_table(train_common_options, o, stamp, exact, e) || set_table(train_expert_options, o, stamp, exact, e) ||
	    (classifier && set_table(train_router_options, o, stamp, exact, e))) {
		if (e)
			e->code = ERR_DATA;
		return -1;
	}
	if (json_object_get(stamp, "steps"))
		o->epochs = 0;
	if (o->optimizer == OPTIMIZER_SCHEDULE_FREE)
		o->ema_half_life = 0;
	if (!classifier) /* their validation changes nothing, and the stamp does not hold it */
		o->validate_samples = 0;
	else if (!json_object_get(stamp, "validate_samples"))
		o->keep_best = 0, o->validate_samples = o->calibrate ? o->validate_samples : 0;
	o->program = json_string_value(json_object_get(stamp, "program"));
	return o->program ? 0 : err_set(e, ERR_DATA, "the stamp names no program");
}
