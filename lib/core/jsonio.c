/* Reads and writes JSON through jansson, with errors that name the file and the key. */
#include "core/jsonio.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/openread.h"
#include "core/seal.h"
#include "core/str.h"

enum {
	LIMIT = 64 << 20,
	TAIL = 8 /* a seal is followed by a quote, a newline and a brace */
};

static json_t *load(const char *path, size_t flags, struct err *e)
{
	FILE *f = strcmp(path, "-") ? open_stream(path, e) : stdin;
	struct str text = {0};
	json_t *root = NULL;
	json_error_t je;
	char buf[65536];
	size_t n;

	if (!f)
		return NULL;
	while (text.len <= LIMIT && (n = fread(buf, 1, sizeof buf, f)) > 0)
		str_add(&text, buf, n);
	if (ferror(f))
		err_errno(e, "%s: read", path);
	else if (text.len > LIMIT)
		err_set(e, ERR_DATA, "%s: larger than %d bytes, the limit for JSON files", path, LIMIT);
	else if (!(root = json_loadb(str_text(&text), text.len, JSON_REJECT_DUPLICATES | flags, &je)))
		err_set(e, ERR_DATA, "%s:%d: %s", path, je.line, je.text);
	else if (!json_is_object(root)) {
		err_set(e, ERR_DATA, "%s: not a JSON object", path);
		json_decref(root);
		root = NULL;
	}
	if (root && jsonio_check_seals(text.p, text.len, path, e)) {
		json_decref(root);
		root = NULL;
	}
	if (f != stdin)
		fclose(f);
	str_release(&text);
	return root;
}

json_t *jsonio_load(const char *path, struct err *e)
{
	return load(path, 0, e);
}

json_t *jsonio_load_real(const char *path, struct err *e)
{
	return load(path, JSON_DECODE_INT_AS_REAL, e);
}

static const json_t *member(const json_t *o, const char *key, int required, const char *where, int *rc, struct err *e)
{
	const json_t *v = json_object_get(o, key);

	*rc = 0;
	if (v && !json_is_null(v))
		return v;
	if (required)
		*rc = err_set(e, ERR_DATA, "%s: no \"%s\"", where, key);
	return NULL;
}

int jsonio_i64(const json_t *o, const char *key, int required, int64_t lo, int64_t hi, int64_t *out, const char *where, struct err *e)
{
	int rc;
	const json_t *v = member(o, key, required, where, &rc, e);

	if (!v)
		return rc;
	if (!json_is_integer(v) || json_integer_value(v) < lo || json_integer_value(v) > hi)
		return err_set(e, ERR_DATA, "%s: \"%s\" is not an integer in %lld..%lld", where, key, (long long)lo, (long long)hi);
	*out = json_integer_value(v);
	return 0;
}

int jsonio_f64(const json_t *o, const char *key, int required, double lo, double hi, double *out, const char *where, struct err *e)
{
	int rc;
	const json_t *v = member(o, key, required, where, &rc, e);

	if (!v)
		return rc;
	if (!json_is_number(v) || json_number_value(v) < lo || json_number_value(v) > hi)
		return err_set(e, ERR_DATA, "%s: \"%s\" is not a number in %g..%g", where, key, lo, hi);
	*out = json_number_value(v);
	return 0;
}

int jsonio_bool(const json_t *o, const char *key, int required, int *out, const char *where, struct err *e)
{
	int rc;
	const json_t *v = member(o, key, required, where, &rc, e);

	if (!v)
		return rc;
	if (!json_is_boolean(v))
		return err_set(e, ERR_DATA, "%s: \"%s\" is neither true nor false", where, key);
	*out = json_is_true(v);
	return 0;
}

int jsonio_str(const json_t *o, const char *key, int required, const char **out, const char *where, struct err *e)
{
	int rc;
	const json_t *v = member(o, key, required, where, &rc, e);

	if (!v)
		return rc;
	if (!json_is_string(v))
		return err_set(e, ERR_DATA, "%s: \"%s\" is not a string", where, key);
	*out = json_string_value(v);
	return 0;
}

static char *dump(const json_t *o, size_t flags, const char *end)
{
	char *raw = json_dumps(o, flags | JSON_REAL_PRECISION(9)), *text;

	text = str_new("%s%s", raw ? raw : "null", end);
	free(raw);
	return text;
}

char *jsonio_line(const json_t *o)
{
	return dump(o, JSON_COMPACT, "");
}

static char *dump_sealed(const json_t *o, size_t flags, const char *end)
{
	json_t *all = json_copy((json_t *)(uintptr_t)o);
	char *text;
	size_t len;

	json_object_del(all, "seal");
	json_object_set_new(all, "seal", json_string(SEAL_BLANK));
	text = dump(all, flags, end);
	len = strlen(text) - strlen(end);
	seal_put(text, len, (size_t)seal_find_last(text, len, TAIL));
	json_decref(all);
	return text;
}

char *jsonio_sealed_line(const json_t *o)
{
	return dump_sealed(o, JSON_COMPACT, "");
}

char *jsonio_pretty(const json_t *o)
{
	return dump_sealed(o, JSON_INDENT(2), "\n");
}

/* The offset behind the object that begins at `at`; len if it is not closed. */
static size_t object_end(const char *text, size_t len, size_t at)
{
	int depth = 0, quoted = 0;

	for (; at < len; at++) {
		char c = text[at];

		if (quoted && c == '\\')
			at++;
		else if (c == '"')
			quoted = !quoted;
		else if (!quoted && c == '{')
			depth++;
		else if (!quoted && c == '}' && !--depth)
			return at + 1;
	}
	return len;
}

/* 1 if the seal at `at` is the object's last member: only a quote, blanks and the closing brace follow. */
static int is_last(const char *text, size_t len, int64_t at)
{
	size_t i = (size_t)at + SEAL_BYTES;

	if (at < 0 || i >= len || text[i++] != '"')
		return 0;
	while (i < len && strchr(" \t\r\n", text[i] ? text[i] : 'x'))
		i++;
	return i + 1 == len && text[i] == '}';
}

int jsonio_check_seals(const char *text, size_t len, const char *name, struct err *e)
{
	for (size_t at = 0, end; at < len; at = end) {
		int64_t seal;

		end = at + 1;
		if (text[at] != '{')
			continue;
		end = object_end(text, len, at);
		seal = seal_find_last(text + at, end - at, TAIL);
		if (is_last(text + at, end - at, seal) && !seal_holds(text + at, end - at, (size_t)seal))
			return seal_broken(name, e);
	}
	return 0;
}

/* jansson refuses text that is not UTF-8, but options and file names may hold any bytes. */
json_t *jsonio_text(const char *text)
{
	json_t *v = json_string(text);
	char *ascii;

	if (v)
		return v;
	ascii = mem_strdup(text);
	for (char *c = ascii; *c; c++)
		if ((unsigned char)*c >= 128)
			*c = '?';
	v = json_string(ascii);
	mem_free(ascii);
	return v;
}

json_t *jsonio_real(double v)
{
	return isfinite(v) ? json_real(v) : json_null();
}
