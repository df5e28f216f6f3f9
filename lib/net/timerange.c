/* Parses, reads and writes ranges of training times. */
#include "net/timerange.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "core/str.h"

/* The zeroed range if the two ends are 0 and 1. */
static struct time_range reduced(double from, double to)
{
	return from == 0 && to == 1 ? (struct time_range){0} : (struct time_range){from, to};
}

int time_range_parse(const char *text, struct time_range *r, struct err *e)
{
	const char *dots = strstr(text, "..");
	char from[64] = "";
	double a = 0, b = 0;

	/* On the stack, because the default of an option is parsed before a program can report that memory is lacking. */
	if (dots && dots - text < (ptrdiff_t)sizeof from)
		memcpy(from, text, (size_t)(dots - text));
	if (!dots || parse_f64(from, 0, 1, &a) || parse_f64(dots + 2, 0, 1, &b) || a >= b)
		return err_set(e, ERR_USAGE, "'%s' is not A..B with numbers 0 <= A < B <= 1", text);
	*r = reduced(a, b);
	return 0;
}

double time_range_end(struct time_range r)
{
	return r.to > 0 ? r.to : 1;
}

int time_range_holds(struct time_range r, double t)
{
	return t >= r.from && (t < time_range_end(r) || time_range_end(r) == 1);
}

int time_range_load(const json_t *o, struct time_range *r, const char *where, struct err *e)
{
	const json_t *v = json_object_get(o, "time_range"), *from = json_array_get(v, 0), *to = json_array_get(v, 1);

	*r = (struct time_range){0};
	if (!v)
		return 0;
	if (json_array_size(v) != 2 || !json_is_number(from) || !json_is_number(to) || json_number_value(from) < 0 || json_number_value(to) > 1 ||
	    !(json_number_value(from) < json_number_value(to)))
		return err_set(e, ERR_DATA, "%s: \"time_range\" is not [A, B] with numbers 0 <= A < B <= 1", where);
	*r = reduced(json_number_value(from), json_number_value(to));
	return 0;
}

json_t *time_range_json(struct time_range r)
{
	json_t *v = json_array();

	json_array_append_new(v, json_real(r.from));
	json_array_append_new(v, json_real(time_range_end(r)));
	return v;
}

const char *time_range_text(struct time_range r, char *buffer)
{
	char from[F64_TEXT], to[F64_TEXT];

	print_f64(from, r.from);
	print_f64(to, time_range_end(r));
	snprintf(buffer, TIME_RANGE_TEXT, "%s..%s", from, to);
	return buffer;
}

int time_range_option(void *field, const char *label, const char *text, struct err *e)
{
	return time_range_parse(text, field, e) ? err_prefix(e, "%s", label) : 0;
}

void time_range_stamp(struct stamp *s, const char *key, const void *field)
{
	const struct time_range *r = field;
	char text[TIME_RANGE_TEXT];

	if (r->to > 0)
		stamp_text(s, key, time_range_text(*r, text));
}
