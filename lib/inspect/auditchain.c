/* Reads a hash chain and checks that nobody has changed, removed or moved a line of it. */
#include <inttypes.h>
#include <string.h>

#include "core/hash.h"
#include "core/jsonio.h"
#include "core/mem.h"
#include "file/fileio.h"
#include "inspect/auditimpl.h"
#include "train/chain.h"
#include "train/statehash.h"

static int bad_line(const struct chain_file *c, int i, const char *what, struct err *e)
{
	return err_set(e, ERR_DATA, "%s:%d: %s", c->path, i + 1, what);
}

static void hash_line(struct chain_line *l)
{
	struct sha256 s;

	sha256_init(&s);
	sha256_add(&s, l->text, l->len);
	sha256_end(&s, l->hash);
}

/* Members that a line must have. */
static int check_members(const struct chain_file *c, int i, struct err *e)
{
	struct chain_line *l = &c->v[i];
	const char *losses = NULL, *keys = NULL, *sum = NULL;
	int64_t format = 0, count;

	l->describes = json_object_get(l->o, "stamp") != NULL;
	if (jsonio_i64(l->o, "step", 1, 0, INT64_MAX, &l->step, c->path, e))
		return err_prefix(e, "line %d", i + 1);
	if (l->describes)
		return jsonio_i64(l->o, "format", 1, CHAIN_FORMAT, CHAIN_FORMAT, &format, c->path, e) ||
		               !json_is_object(json_object_get(l->o, "stamp")) || !json_is_array(json_object_get(l->o, "parameters"))
		           ? bad_line(c, i, "does not say what the run is", e)
		           : 0;
	if (jsonio_str(l->o, "losses", 1, &losses, c->path, e) || jsonio_str(l->o, "keys", 1, &keys, c->path, e) ||
	    jsonio_str(l->o, "loss_sum", 1, &sum, c->path, e) || jsonio_i64(l->o, "loss_count", 1, 0, INT64_MAX, &count, c->path, e) ||
	    !json_is_object(json_object_get(l->o, "hashes")))
		return bad_line(c, i, "a part of the state is missing", e);
	return 0;
}

/* Whether line i may follow the one before. */
static int check_order(const struct chain_file *c, int i, struct err *e)
{
	const struct chain_line *l = &c->v[i], *before = i ? l - 1 : NULL;
	const char *prev = json_string_value(json_object_get(l->o, "prev")), *want = before ? before->hash : chain_zero;
	const char *losses = json_string_value(json_object_get(l->o, "losses"));

	if (!prev || strcmp(prev, want))
		return before ? bad_line(c, i, "does not follow the line before it: its \"prev\" is not the hash of that line", e)
		              : bad_line(c, i, "is not the beginning of a chain: its \"prev\" is not 0", e);
	if (!before)
		return l->describes ? 0 : bad_line(c, i, "does not say what the run is", e);
	if (l->describes ? l->step != before->step : l->step < before->step)
		return bad_line(c, i, "its step is not after that of the line before", e);
	if (!l->describes && i > 1 && (l->step == before->step || strlen(losses) != (size_t)(l->step - before->step) * CHAIN_BRIEF))
		return bad_line(c, i, "it does not hold the loss of each step since the line before", e);
	return 0;
}

static int add_line(struct chain_file *c, const char *text, size_t len, struct err *e)
{
	struct chain_line *l;

	c->v = mem_resize(c->v, (size_t)c->n + 1, sizeof *c->v);
	l = &c->v[c->n];
	*l = (struct chain_line){.text = text, .len = len};
	l->o = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
	c->n++;
	hash_line(l);
	if (!json_is_object(l->o))
		return bad_line(c, c->n - 1, "not a JSON object", e);
	if (jsonio_check_seals(text, len, c->path, e))
		return err_prefix(e, "line %d", c->n);
	return check_members(c, c->n - 1, e) || check_order(c, c->n - 1, e) ? -1 : 0;
}

int chain_file_load(struct chain_file *c, const char *path, struct err *e)
{
	size_t len;
	const char *line, *end, *stop;

	*c = (struct chain_file){.path = mem_strdup(path)};
	if (!(c->text = file_load(path, CHAIN_MOST, &len, e)))
		return -1;
	end = c->text + len;
	for (line = c->text; line < end && (stop = memchr(line, '\n', (size_t)(end - line))); line = stop + 1)
		if (add_line(c, line, (size_t)(stop - line), e))
			return -1;
	c->torn = line < end;
	return c->n > 1 ? 0 : err_set(e, ERR_DATA, "%s: the chain is cut off: it holds no state", path);
}

void chain_file_release(struct chain_file *c)
{
	for (int i = 0; i < c->n; i++)
		json_decref(c->v[i].o);
	mem_free(c->v);
	mem_free(c->text);
	mem_free(c->path);
	*c = (struct chain_file){0};
}

const json_t *chain_file_run(const struct chain_file *c, int i)
{
	while (!c->v[i].describes)
		i--;
	return c->v[i].o;
}

int chain_file_find(const struct chain_file *c, const char *hash)
{
	for (int i = 0; i < c->n; i++)
		if (!strcmp(c->v[i].hash, hash))
			return i;
	return -1;
}

int chain_file_state(const struct chain_file *c, int64_t step)
{
	for (int i = 0; i < c->n; i++)
		if (c->v[i].step == step && !c->v[i].describes)
			return i;
	return -1;
}

char *chain_stamp(const json_t *run)
{
	return jsonio_line(json_object_get(run, "stamp"));
}

static int is_frozen(const json_t *run, const json_t *name)
{
	const json_t *frozen = json_object_get(run, "frozen");

	for (size_t i = 0; i < json_array_size(frozen); i++)
		if (json_equal(json_array_get(frozen, i), name))
			return 1;
	return 0;
}

/* Moments exist of trained parameters alone. */
static int has_frozen(const char *file)
{
	return !strcmp(file, "weights.safetensors") || !strcmp(file, "ema.safetensors") || !strcmp(file, "best.safetensors");
}

int chain_names(const json_t *run, const char *file, const char ***names)
{
	const json_t *all = json_object_get(run, "parameters");
	int n = 0;

	*names = mem_zalloc(json_array_size(all), sizeof **names);
	for (size_t i = 0; i < json_array_size(all); i++) {
		const json_t *name = json_array_get(all, i);

		if (json_is_string(name) && (has_frozen(file) || !is_frozen(run, name)))
			(*names)[n++] = json_string_value(name);
	}
	return n;
}

const char *chain_first_differing(const json_t *run, const char *file, const json_t *a, const json_t *b, int *count)
{
	const char *x = json_string_value(json_object_get(a, "parameters")), *y = json_string_value(json_object_get(b, "parameters")), *first = NULL;
	const char **names;
	int n = chain_names(run, file, &names);

	*count = 0;
	if (x && y && strlen(x) == (size_t)n * CHAIN_BRIEF && strlen(x) == strlen(y))
		for (int i = 0; i < n; i++)
			if (strncmp(x + i * CHAIN_BRIEF, y + i * CHAIN_BRIEF, CHAIN_BRIEF)) {
				first = first ? first : names[i];
				++*count;
			}
	mem_free(names);
	return first;
}

int chain_check_file(const json_t *run, const json_t *state, const char *as, const char *path, struct err *e)
{
	const json_t *want = json_object_get(json_object_get(state, "hashes"), as);
	const char **names, *first;
	int n = chain_names(run, as, &names), count, rc = 0;
	json_t *is = file_hashes(path, names, n, e);

	if (!is)
		rc = -1;
	else if (!json_equal(json_object_get(is, "sha256"), json_object_get(want, "sha256"))) {
		first = chain_first_differing(run, as, want, is, &count);
		rc = err_set(e, ERR_DATA, "%s: is not what the chain says of step %" PRId64 ": %s%s%s", path,
		             (int64_t)json_integer_value(json_object_get(state, "step")), first ? first : "its hash",
		             first && count > 1 ? " and others" : "", first && count > 1 ? " differ" : " differs");
	}
	mem_free(names);
	json_decref(is);
	return rc;
}
