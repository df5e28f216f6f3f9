/* Applies rules from a parameter table's names to a file's tensors. */
#include "net/rename.h"

#include <ctype.h>
#include <string.h>

#include "core/mem.h"
#include "core/str.h"

struct captured {
	const char *number, *rest; /* of what '#' and '*' stood for */
	size_t digits;
};

static int matches(const char *pattern, const char *name, struct captured *c)
{
	memset(c, 0, sizeof *c);
	for (; *pattern; pattern++) {
		if (*pattern == '*') {
			c->rest = name;
			return 1;
		}
		if (*pattern == '#') {
			c->number = name;
			while (isdigit((unsigned char)name[c->digits]))
				c->digits++;
			if (!c->digits)
				return 0;
			name += c->digits;
		} else if (*pattern != *name++) {
			return 0;
		}
	}
	return !*name;
}

static void insert(const char *pattern, const struct captured *c, struct str *name)
{
	str_reset(name);
	for (; *pattern; pattern++) {
		if (*pattern == '#')
			str_add(name, c->number, c->digits);
		else if (*pattern == '*')
			str_puts(name, c->rest);
		else
			str_add(name, pattern, 1);
	}
}

int rename_apply(const char *from, const char *to, const char *name, struct str *out)
{
	struct captured c;

	if (!matches(from, name, &c))
		return 0;
	insert(to, &c, out);
	return 1;
}

static const struct st_tensor *find(const struct safetensors *s, const char *pattern, const struct captured *c, struct str *name)
{
	insert(pattern, c, name);
	return st_find(s, str_text(name));
}

/* Where a parameter lies: n tensors of the file, 0 where it is not there. */
struct source {
	int n;
	enum rename_how how;
	const struct st_tensor *t[3];
};

static struct source locate(const struct renames *r, const struct safetensors *s, const char *ours, struct str *name)
{
	struct source at = {.n = 1};
	struct captured c;

	for (int i = 0; r && i < r->n; i++)
		if (matches(r->v[i].ours, ours, &c)) {
			at.how = r->v[i].how;
			for (at.n = 0; at.n < 3 && r->v[i].theirs[at.n]; at.n++)
				if (!(at.t[at.n] = find(s, r->v[i].theirs[at.n], &c, name)))
					return at.n++, at;
			return at;
		}
	str_reset(name);
	str_puts(name, ours);
	at.t[0] = st_find(s, ours);
	return at;
}

const struct renames *renames_find(const struct renames *const *sets, int n, const struct safetensors *s)
{
	for (int i = 0; i < n; i++)
		if (st_find(s, sets[i]->sign))
			return sets[i];
	return NULL;
}

static int fits(const struct param *q, const struct source *at)
{
	const struct st_tensor *t = at->t[0];
	int64_t rows = 0;

	if (at->how == RENAME_FLAT)
		return st_count(t) == q->count;
	if (at->how == RENAME_TURNED)
		return t->rank == 2 && q->rank == 2 && t->shape[0] == q->shape[1] && t->shape[1] == q->shape[0];
	for (int i = 0; i < at->n; i++) {
		if (at->t[i]->rank != q->rank)
			return 0;
		for (int d = 1; d < q->rank; d++)
			if (at->t[i]->shape[d] != q->shape[d])
				return 0;
		if (at->t[i]->shape[0] > q->shape[0])
			return 0;
		rows += at->t[i]->shape[0];
	}
	return rows == q->shape[0];
}

static void put_shape(struct str *s, int rank, const int64_t *shape)
{
	str_puts(s, "[");
	for (int d = 0; d < rank; d++)
		str_printf(s, d ? ", %lld" : "%lld", (long long)shape[d]);
	str_puts(s, "]");
}

static int misfit(const char *where, const struct param *q, const struct source *at, struct err *e)
{
	struct str has = {0}, want = {0};
	int rc;

	put_shape(&has, at->t[0]->rank, at->t[0]->shape);
	put_shape(&want, q->rank, q->shape);
	rc = err_set(e, ERR_DATA, "%s: %s%s of shape %s is not %s of shape %s", where, at->t[0]->name, at->n > 1 ? " and what follows it" : "",
	             str_text(&has), q->name, str_text(&want));
	str_release(&has);
	str_release(&want);
	return rc;
}

/* Marks the tensors it finds. */
static int match_one(const struct renames *r, const struct safetensors *s, const char *where, const struct param *q, char *used,
                     struct str *name, struct err *e)
{
	struct source at = locate(r, s, q->name, name);

	if (at.n == 1 && !at.t[0] && !r)
		return st_need(s, q->name, q->rank, q->shape, e) ? 0 : -1;
	for (int i = 0; i < at.n; i++) {
		if (!at.t[i])
			return err_set(e, ERR_DATA, "%s: holds no %s", where, str_text(name));
		if (!st_need(s, at.t[i]->name, -1, NULL, e))
			return -1;
	}
	if (at.n == 1 && at.how == RENAME_SAME && !st_need(s, at.t[0]->name, q->rank, q->shape, e))
		return -1;
	if (at.n && !fits(q, &at))
		return misfit(where, q, &at, e);
	for (int i = 0; i < at.n; i++)
		used[at.t[i] - st_get(s, 0)] = 1;
	return 0;
}

static int match_copies(const struct renames *r, const struct safetensors *s, const char *where, char *used, struct str *name,
                        struct err *e)
{
	for (const struct rename_copy *k = r->copies; k && k->copy; k++)
		for (int i = 0; i < st_tensors(s); i++) {
			const struct st_tensor *t = st_get(s, i), *of;
			struct captured c;

			if (!matches(k->copy, t->name, &c))
				continue;
			of = find(s, k->original, &c, name);
			if (!of || of->type != t->type || st_count(of) != st_count(t) ||
			    memcmp(of->data, t->data, (size_t)st_count(t) * st_type_size(t->type)))
				return err_set(e, ERR_DATA, "%s: %s is not the same as %s", where, t->name, str_text(name));
			used[i] = 1;
		}
	return 0;
}

static int match_rest(const struct renames *r, const struct safetensors *s, const char *where, const char *used, struct err *e)
{
	for (int i = 0; i < st_tensors(s); i++) {
		const char *const *spare = r ? r->spare : NULL;
		struct captured c;

		if (used[i])
			continue;
		while (spare && *spare && !matches(*spare, st_get(s, i)->name, &c))
			spare++;
		if (!spare || !*spare)
			return err_set(e, ERR_DATA, "%s: holds %s, which this network does not have", where, st_get(s, i)->name);
	}
	return 0;
}

int renames_match(const struct renames *r, const struct safetensors *s, const char *where, const struct params *p, struct err *e)
{
	char *used = mem_zalloc((size_t)st_tensors(s) + 1, 1);
	struct str name = {0};
	int rc = 0;

	for (int i = 0; !rc && i < p->n; i++)
		rc = match_one(r, s, where, &p->v[i], used, &name, e);
	if (!rc && r)
		rc = match_copies(r, s, where, used, &name, e);
	if (!rc)
		rc = match_rest(r, s, where, used, e);
	str_release(&name);
	mem_free(used);
	return rc;
}

static void turn(float *out, const float *in, int64_t rows, int64_t columns)
{
	for (int64_t i = 0; i < rows; i++)
		for (int64_t j = 0; j < columns; j++)
			out[i * columns + j] = in[j * rows + i];
}

void renames_read(const struct renames *r, const struct safetensors *s, const struct param *q, float *out)
{
	struct str name = {0};
	struct source at = locate(r, s, q->name, &name);

	str_release(&name);
	if (!at.n) {
		param_init(q, 0, out);
	} else if (at.how == RENAME_TURNED) {
		float *copy = mem_zalloc((size_t)q->count, sizeof *copy);

		st_to_f32(copy, at.t[0]);
		turn(out, copy, q->shape[0], q->shape[1]);
		mem_free(copy);
	} else {
		for (int i = 0; i < at.n; out += st_count(at.t[i++]))
			st_to_f32(out, at.t[i]);
	}
}

const struct st_tensor *renames_tensor(const struct renames *r, const struct safetensors *s, const char *ours)
{
	struct str name = {0};
	struct source at = locate(r, s, ours, &name);

	str_release(&name);
	return at.n ? at.t[0] : NULL;
}
