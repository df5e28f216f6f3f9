/* Builds, compares and prints stamps. */
#include "file/stamp.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/hash.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "core/version.h"
#include "file/commit.h"
#include "file/fileio.h"

struct stamp {
	json_t *root;
};

static const char data_hash[] = "data-xxh3"; /* member of a sidecar */

struct stamp *stamp_new(const char *program)
{
	struct stamp *s = mem_alloc(sizeof *s);

	s->root = json_object();
	stamp_text(s, "program", program);
	stamp_text(s, "version", DDM_VERSION);
	return s;
}

void stamp_free(struct stamp *s)
{
	if (!s)
		return;
	json_decref(s->root);
	mem_free(s);
}

void stamp_text(struct stamp *s, const char *key, const char *value)
{
	json_object_set_new(s->root, key, jsonio_text(value));
}

void stamp_i64(struct stamp *s, const char *key, int64_t value)
{
	json_object_set_new(s->root, key, json_integer(value));
}

void stamp_u64(struct stamp *s, const char *key, uint64_t value)
{
	char *text;

	if (value <= INT64_MAX) {
		stamp_i64(s, key, (int64_t)value);
		return;
	}
	text = str_new("%llu", (unsigned long long)value);
	stamp_text(s, key, text);
	mem_free(text);
}

void stamp_f64(struct stamp *s, const char *key, double value)
{
	json_object_set_new(s->root, key, jsonio_real(value));
}

void stamp_json(struct stamp *s, const char *key, json_t *value)
{
	json_object_set_new(s->root, key, value);
}

struct stamp *stamp_part(struct stamp *s, const char *key)
{
	struct stamp *part = mem_alloc(sizeof *part);

	if (!json_object_get(s->root, key))
		json_object_set_new(s->root, key, json_object());
	part->root = json_incref(json_object_get(s->root, key));
	return part;
}

void stamp_input(struct stamp *s, const char *role, const char *hash)
{
	struct stamp *inputs = stamp_part(s, "inputs");

	stamp_text(inputs, role, hash);
	stamp_free(inputs);
}

const json_t *stamp_root(const struct stamp *s)
{
	return s->root;
}

char *stamp_line(const struct stamp *s)
{
	return jsonio_line(s->root);
}

void stamp_hash(const json_t *root, char hex[65])
{
	char *text = json_dumps(root, JSON_COMPACT | JSON_SORT_KEYS | JSON_REAL_PRECISION(17));
	struct sha256 h;

	sha256_init(&h);
	sha256_add(&h, text ? text : "", text ? strlen(text) : 0);
	sha256_end(&h, hex);
	free(text);
}

static int write_sidecar(const json_t *o, const char *path, struct err *e)
{
	char *name = str_new("%s.json", path);
	int rc = commit_json(name, o, e);

	mem_free(name);
	return rc;
}

int stamp_sidecar(const struct stamp *s, const char *path, struct err *e)
{
	return write_sidecar(s->root, path, e);
}

int stamp_sidecar_of(const struct stamp *s, const char *path, uint64_t hash, struct err *e)
{
	json_t *o = json_copy(s->root);
	char hex[17];
	int rc;

	snprintf(hex, sizeof hex, "%016llx", (unsigned long long)hash);
	json_object_set_new(o, data_hash, json_string(hex));
	rc = write_sidecar(o, path, e);
	json_decref(o);
	return rc;
}

int stamp_write(const struct stamp *s, const char *path, const void *data, size_t len, struct err *e)
{
	struct stat st;
	int is_file = strcmp(path, "-") && (stat(path, &st) || S_ISREG(st.st_mode));

	return is_file && stamp_sidecar_of(s, path, hash64(data, len), e) ? -1 : commit_bytes(path, data, len, e);
}

int stamp_sidecar_seals(const char *path)
{
	char *side = str_new("%s.json", path);
	json_t *o = path_exists(side) ? jsonio_load(side, NULL) : NULL;
	int yes = json_object_get(o, data_hash) != NULL;

	json_decref(o);
	mem_free(side);
	return yes;
}

int stamp_sidecar_check(const char *path, const void *data, size_t len, struct err *e)
{
	char *side = str_new("%s.json", path), hex[17];
	json_t *o = path_exists(side) ? jsonio_load(side, NULL) : NULL;
	const char *want = json_string_value(json_object_get(o, data_hash));
	int rc = 0;

	if (want)
		snprintf(hex, sizeof hex, "%016llx", (unsigned long long)hash64(data, len));
	if (want && strcmp(want, hex))
		rc = err_set(e, ERR_DATA, "%s: altered since it was written, or %s belongs to another file: its %s is %.20s, not %s", path, side,
		             data_hash, want, hex);
	json_decref(o);
	mem_free(side);
	return rc;
}

static char *value_text(const json_t *v)
{
	char *raw, *copy;

	if (!v)
		return mem_strdup("(none)");
	raw = json_dumps(v, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(9));
	copy = mem_strdup(raw ? raw : "?");
	free(raw);
	return copy;
}

enum { LONG_VALUE = 120 };

/* For a message: a list whose text is long becomes its number of values. Takes `text`. */
static char *brief(char *text, const json_t *v)
{
	if (!json_is_array(v) || strlen(text) <= LONG_VALUE)
		return text;
	mem_free(text);
	return str_new("(%d values)", (int)json_array_size(v));
}

/* The seal of a sidecar or a result is not part of what determines it. */
static int is_seal(const char *prefix, const char *key)
{
	return !*prefix && (!strcmp(key, "seal") || !strcmp(key, data_hash));
}

/* Numbers are compared as printed, because a stamp that was read back has nine digits. */
static int compare(const json_t *mine, const json_t *old, const char *prefix, struct str *what)
{
	const char *key;
	json_t *v;
	int n = 0;

	json_object_foreach ((json_t *)(uintptr_t)mine, key, v) {
		const json_t *w = json_object_get(old, key);
		char *a, *b;

		if (is_seal(prefix, key))
			continue;
		if (json_is_object(v) && json_is_object(w)) {
			char *deeper = str_new("%s%s.", prefix, key);

			n += compare(v, w, deeper, what);
			mem_free(deeper);
			continue;
		}
		a = value_text(w);
		b = value_text(v);
		if (strcmp(a, b)) {
			a = brief(a, w);
			b = brief(b, v);
			str_printf(what, "%s%s%s: %s -> %s", what->len ? ", " : "", prefix, key, a, b);
			n++;
		}
		mem_free(a);
		mem_free(b);
	}
	json_object_foreach ((json_t *)(uintptr_t)old, key, v) {
		char *a;

		if (json_object_get(mine, key) || is_seal(prefix, key))
			continue;
		a = brief(value_text(v), v);
		str_printf(what, "%s%s%s: %s -> (none)", what->len ? ", " : "", prefix, key, a);
		mem_free(a);
		n++;
	}
	return n;
}

static int differs(const json_t *now, const char *line, struct str *what)
{
	json_t *old = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
	int n = -1;

	if (json_is_object(old) && json_is_object(now))
		n = compare(now, old, "", what);
	json_decref(old);
	return n;
}

int stamp_differs(const struct stamp *s, const char *line, struct str *what)
{
	return differs(s->root, line, what);
}

int stamp_line_differs(const char *now, const char *line, struct str *what)
{
	json_t *o = json_loads(now, JSON_REJECT_DUPLICATES, NULL);
	int n = differs(o, line, what);

	json_decref(o);
	return n;
}
