/* Recognises JSON files: logs, configurations, reports. */
#include "inspect/jsonfacts.h"

#include <string.h>

#include "core/jsonio.h"
#include "inspect/modelfacts.h"
#include "train/trainlog.h"

static const size_t WHOLE_MOST = (size_t)64 << 20;

static json_t *parse(const void *text, size_t len)
{
	json_t *v = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);

	if (json_is_object(v))
		return v;
	json_decref(v);
	return NULL;
}

static int is_log(const json_t *v)
{
	const char *event = json_string_value(json_object_get(v, "event"));

	return (event && !strcmp(event, "start")) || (json_object_get(v, "step") && json_object_get(v, "loss"));
}

/* The whole file is one object. */
static int object_facts(json_t *o, json_t *v, const struct facts_source *s, const struct facts_options *f, const char **kind, struct err *e)
{
	const char *program = json_string_value(json_object_get(v, "program"));
	json_t *values;

	if (json_object_get(v, "model_type")) {
		*kind = "config";
		return facts_config(o, v, s->name, e);
	}
	if (json_is_object(json_object_get(v, "weight_map")) && s->path) {
		*kind = "index";
		return facts_weights(o, s->path, f, e);
	}
	*kind = program && !strcmp(program, "ddm-eval-fid") ? "evaluation" : program || json_object_get(v, "stamp") ? "report" : "json";
	values = json_copy(v);
	json_object_del(values, "seal");
	if (json_is_object(json_object_get(v, "stamp"))) {
		json_object_set(o, "stamp", json_object_get(v, "stamp"));
		json_object_del(values, "stamp");
	}
	json_object_set_new(o, "values", values);
	return 0;
}

/* One object a line; only the last is shown. With check every line is parsed. */
static int lines_facts(json_t *o, const struct facts_source *s, const struct facts_options *f, struct err *e)
{
	const char *text = (const char *)s->data, *end = text + s->len, *last = text;
	int64_t n = 0;
	json_t *v;

	for (const char *line = text, *next; line < end; line = next) {
		const char *nl = memchr(line, '\n', (size_t)(end - line));

		next = nl ? nl + 1 : end;
		if (line == nl)
			continue;
		n++;
		last = line;
		if (!f->check)
			continue;
		v = parse(line, (size_t)((nl ? nl : end) - line));
		if (!v)
			return err_set(e, ERR_DATA, "%s: object %lld is damaged", s->name, (long long)n);
		json_decref(v);
	}
	json_object_set_new(o, "lines", json_integer(n));
	v = parse(last, (size_t)(end - last));
	if (!v)
		return err_set(e, ERR_DATA, "%s: the last line is not a JSON object", s->name);
	json_object_set_new(o, "last", v);
	return 0;
}

int facts_json(json_t *o, const struct facts_source *s, const struct facts_options *f, const char **kind, struct err *e)
{
	const char *text = (const char *)s->data, *nl = memchr(text, '\n', s->len);
	json_t *first = parse(text, nl ? (size_t)(nl - text) : s->len), *whole;
	json_error_t why;
	int rc;

	*kind = "json";
	if (f->check && jsonio_check_seals(text, s->len, s->name, e)) {
		json_decref(first);
		return -1;
	}
	if (first && is_log(first)) {
		*kind = "log";
		json_decref(first);
		return trainlog_read(o, text, s->len, s->name, f->check, e);
	}
	whole = s->len <= WHOLE_MOST ? parse(text, s->len) : NULL;
	if (whole) {
		rc = object_facts(o, whole, s, f, kind, e);
	} else if (first) {
		*kind = "lines";
		rc = lines_facts(o, s, f, e);
	} else {
		whole = json_loadb(text, s->len <= WHOLE_MOST ? s->len : 0, JSON_REJECT_DUPLICATES, &why);
		rc = err_set(e, ERR_DATA, "%s:%d: damaged JSON: %s", s->name, why.line, whole ? "not an object" : why.text);
	}
	json_decref(first);
	json_decref(whole);
	return rc;
}
