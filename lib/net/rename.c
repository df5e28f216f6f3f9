/* Finds a network's parameters in a weights file that uses other names, checks their shapes and reads them. */
#include "net/rename.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "core/str.h"

enum { NUMBERS = 4 };

/* The texts that '#' and '*' of a pattern matched. */
struct captured {
	const char *number[NUMBERS], *rest;
	size_t digits[NUMBERS], rest_len;
	int numbers;
};

static int matches(const char *pattern, const char *name, struct captured *c)
{
	memset(c, 0, sizeof *c);
	for (; *pattern; pattern++) {
		if (*pattern == '*') {
			size_t tail = strlen(pattern + 1), len = strlen(name);

			c->rest = name;
			c->rest_len = len - tail;
			return len >= tail && !strcmp(name + len - tail, pattern + 1);
		}
		if (*pattern == '#') {
			size_t digits = strspn(name, "0123456789");

			if (!digits || c->numbers == NUMBERS)
				return 0;
			c->number[c->numbers] = name;
			c->digits[c->numbers++] = digits;
			name += digits;
		} else if (*pattern != *name++) {
			return 0;
		}
	}
	return !*name;
}

static void insert(const struct renames *r, const char *pattern, const struct captured *c, struct str *name)
{
	int k = 0;

	str_reset(name);
	if (r && r->prefix)
		str_puts(name, r->prefix);
	for (; *pattern; pattern++) {
		if (*pattern == '#') {
			str_add(name, c->number[k], c->digits[k]);
			k++;
		} else if (*pattern == '~') {
			str_printf(name, "%lld", (long long)(r->first + r->step * strtoll(c->number[k++], NULL, 10)));
		} else if (*pattern == '*') {
			str_add(name, c->rest, c->rest_len);
		} else {
			str_add(name, pattern, 1);
		}
	}
}

int rename_apply(const char *from, const char *to, const char *name, struct str *out)
{
	struct captured c;

	if (!matches(from, name, &c))
		return 0;
	insert(NULL, to, &c, out);
	return 1;
}

static const struct st_tensor *find(const struct renames *r, const struct safetensors *s, const char *pattern, const struct captured *c,
                                    struct str *name)
{
	insert(r, pattern, c, name);
	return st_find(s, str_text(name));
}

/* The n tensors of a file that a parameter is read from. n is 0 if the rule says that the file does not hold it; a missing tensor is NULL. */
struct source {
	int n;
	enum rename_how how;
	const struct st_tensor *t[RENAME_SOURCES];
};

/* The number of tensors that a rule reads, without a last name after '!'. */
static int sources(const struct rename *rule)
{
	int n = 0;

	while (n < RENAME_SOURCES && rule->theirs[n] && *rule->theirs[n] != '!')
		n++;
	return n;
}

/* Whether the file holds the tensor that a rule names after '!'. */
static int excluded(const struct renames *r, const struct safetensors *s, const struct rename *rule, const struct captured *c, struct str *name)
{
	int n = sources(rule);

	return n < RENAME_SOURCES && rule->theirs[n] && find(r, s, rule->theirs[n] + 1, c, name);
}

static struct source locate(const struct renames *r, const struct safetensors *s, const char *ours, struct str *name)
{
	static const char itself[] = "*";
	struct source at = {.n = 1};
	struct captured c;

	for (int i = 0; r && i < r->n; i++)
		if (matches(r->v[i].ours, ours, &c) && !excluded(r, s, &r->v[i], &c, name)) {
			at.how = r->v[i].how;
			for (at.n = 0; at.n < sources(&r->v[i]); at.n++)
				if (!(at.t[at.n] = find(r, s, r->v[i].theirs[at.n], &c, name)))
					return at.n++, at;
			return at;
		}
	matches(itself, ours, &c);
	at.t[0] = find(r, s, itself, &c, name);
	return at;
}

/* The name without the family's prefix, or NULL if it does not begin with the prefix. */
static const char *within(const struct renames *r, const char *name)
{
	size_t n = r && r->prefix ? strlen(r->prefix) : 0;

	return !n || !strncmp(name, r->prefix, n) ? name + n : NULL;
}

static int has_sign(const struct renames *r, const struct safetensors *s)
{
	struct str name = {0};
	int found;

	str_printf(&name, "%s%s", r->prefix ? r->prefix : "", r->sign ? r->sign : "");
	found = !r->sign || st_find(s, str_text(&name));
	str_release(&name);
	return found;
}

const struct renames *renames_find(const struct renames *const *sets, int n, const struct safetensors *s)
{
	for (int i = 0; i < n; i++)
		if (has_sign(sets[i], s))
			return sets[i];
	return NULL;
}

void renames_shape(const struct param *q, int64_t *shape)
{
	memcpy(shape, q->shape, (size_t)q->rank * sizeof *shape);
	if (q->flags & PARAM_CONV) {
		shape[1] = q->shape[3];
		shape[2] = q->shape[1];
		shape[3] = q->shape[2];
	}
	if (q->flags & PARAM_CONV3D) {
		static const int order[5] = {1, 4, 0, 2, 3};

		for (int d = 0; d < 5; d++)
			shape[d] = q->shape[order[d]];
	}
}

static int has_shape(const struct st_tensor *t, int rank, const int64_t *shape)
{
	return t->rank == rank && !memcmp(t->shape, shape, (size_t)rank * sizeof *shape);
}

static int pointwise(const struct st_tensor *t, const int64_t *shape)
{
	return has_shape(t, 2, shape) || has_shape(t, 4, (int64_t[]){shape[0], shape[1], 1, 1}) ||
	       has_shape(t, 5, (int64_t[]){shape[0], shape[1], 1, 1, 1});
}

/* Whether the tensors, stacked along dimension 0, have this shape. */
static int stacked(const struct param *q, const int64_t *shape, const struct source *at)
{
	int64_t rows = 0;

	for (int i = 0; i < at->n; i++) {
		int64_t part[ARRAY_RANK];

		memcpy(part, shape, (size_t)q->rank * sizeof *part);
		part[0] = at->t[i]->rank ? at->t[i]->shape[0] : 0;
		if (!has_shape(at->t[i], q->rank, part) || part[0] > shape[0])
			return 0;
		rows += part[0];
	}
	return rows == shape[0];
}

static int fits(const struct param *q, const struct source *at)
{
	int64_t shape[ARRAY_RANK];
	int good = 1;

	renames_shape(q, shape);
	switch (at->how) {
	case RENAME_FLAT:
		return st_count(at->t[0]) == q->count;
	case RENAME_TRANSPOSED:
		return q->rank == 2 && has_shape(at->t[0], 2, (int64_t[]){shape[1], shape[0]});
	case RENAME_CONV_TRANSPOSED:
		return q->rank == 4 && has_shape(at->t[0], 4, (int64_t[]){q->shape[3], q->shape[0], q->shape[1], q->shape[2]});
	case RENAME_POINTWISE:
	case RENAME_ROOT:
		return q->rank == 2 && pointwise(at->t[0], shape);
	case RENAME_FOLDED:
		for (int i = 0; i < 4; i++)
			good &= has_shape(at->t[i], 1, shape);
		return good && (q->rank == 1 || has_shape(at->t[4], q->rank, shape));
	case RENAME_SWAPPED:
		return at->n == 1 && shape[0] % 2 == 0 && has_shape(at->t[0], q->rank, shape);
	case RENAME_SAME:
		break;
	}
	return stacked(q, shape, at);
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
	int64_t shape[ARRAY_RANK];
	int rc;

	renames_shape(q, shape);
	put_shape(&has, at->t[0]->rank, at->t[0]->shape);
	put_shape(&want, q->rank, shape);
	rc = err_set(e, ERR_DATA, "%s: %s%s of shape %s is not %s of shape %s", where, at->t[0]->name, at->n > 1 ? " and what follows it" : "",
	             str_text(&has), q->name, str_text(&want));
	str_release(&has);
	str_release(&want);
	return rc;
}

/* Find and check the tensors of one parameter, and mark them as used. */
static int match_one(const struct renames *r, const struct safetensors *s, const char *where, const struct param *q, char *used, struct str *name,
                     struct err *e)
{
	struct source at = locate(r, s, q->name, name);
	int64_t shape[ARRAY_RANK];

	renames_shape(q, shape);
	if (at.n == 1 && !at.t[0] && !r)
		return st_need(s, q->name, q->rank, shape, e) ? 0 : -1;
	for (int i = 0; i < at.n; i++) {
		if (!at.t[i])
			return err_set(e, ERR_DATA, "%s: holds no %s", where, str_text(name));
		if (!st_need(s, at.t[i]->name, -1, NULL, e))
			return -1;
	}
	if (at.n == 1 && at.how == RENAME_SAME && !st_need(s, at.t[0]->name, q->rank, shape, e))
		return -1;
	if (at.n && !fits(q, &at))
		return misfit(where, q, &at, e);
	for (int i = 0; i < at.n; i++)
		used[at.t[i] - st_get(s, 0)] = 1;
	return 0;
}

/* Check that copies equal their originals, and mark them as used. */
static int match_copies(const struct renames *r, const struct safetensors *s, const char *where, char *used, struct str *name, struct err *e)
{
	for (const struct rename_copy *k = r->copies; k && k->copy; k++)
		for (int i = 0; i < st_tensors(s); i++) {
			const struct st_tensor *t = st_get(s, i), *of;
			struct captured c;

			if (!matches(k->copy, t->name, &c))
				continue;
			of = find(r, s, k->original, &c, name);
			if (!of || of->type != t->type || st_count(of) != st_count(t) ||
			    memcmp(of->data, t->data, (size_t)st_count(t) * st_type_size(t->type)))
				return err_set(e, ERR_DATA, "%s: %s is not the same as %s", where, t->name, str_text(name));
			used[i] = 1;
		}
	return 0;
}

/* Whether any pattern of the list matches. The list ends with NULL; it may be NULL. */
static int any_matches(const char *const *list, const char *name)
{
	struct captured c;

	while (list && *list && !matches(*list, name, &c))
		list++;
	return list && *list;
}

/* Whether the file may hold a tensor that no parameter is read from. */
static int not_needed(const struct renames *r, const struct st_tensor *t)
{
	const char *name = within(r, t->name);

	if (!r)
		return 0;
	if (r->own)
		return !t->rank || !name || !any_matches(r->own, name);
	return name && any_matches(r->spare, name);
}

static int match_rest(const struct renames *r, const struct safetensors *s, const char *where, const char *used, struct err *e)
{
	for (int i = 0; i < st_tensors(s); i++)
		if (!used[i] && !not_needed(r, st_get(s, i)))
			return err_set(e, ERR_DATA, "%s: holds %s, which this network does not have", where, st_get(s, i)->name);
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

static void transpose(float *out, const float *in, int64_t rows, int64_t columns)
{
	for (int64_t i = 0; i < rows; i++)
		for (int64_t j = 0; j < columns; j++)
			out[i * columns + j] = in[j * rows + i];
}

void renames_taps_last(float *out, const float *in, int64_t o, int64_t channels, int64_t taps)
{
	for (int64_t i = 0; i < o; i++)
		transpose(out + i * channels * taps, in + i * channels * taps, taps, channels);
}

static void read_transposed(float *out, const struct param *q, const struct st_tensor *t)
{
	float *copy = mem_zalloc((size_t)q->count, sizeof *copy);

	st_to_f32(copy, t);
	transpose(out, copy, q->shape[0], q->shape[1]);
	mem_free(copy);
}

static void read_conv(float *out, const struct param *q, const struct st_tensor *t)
{
	int64_t taps = q->shape[1] * q->shape[2];
	float *copy = taps == 1 ? out : mem_zalloc((size_t)q->count, sizeof *copy);

	st_to_f32(copy, t);
	if (copy == out)
		return;
	renames_taps_last(out, copy, q->shape[0], q->shape[3], taps);
	mem_free(copy);
}

/* From [O, C, kt, taps] to [kt, O, taps, C]. */
static void read_conv3d(float *out, const struct param *q, const struct st_tensor *t)
{
	int64_t frames = q->shape[0], o = q->shape[1], taps = q->shape[2] * q->shape[3], channels = q->shape[4];
	float *in = mem_alloc((size_t)q->count * sizeof *in);

	st_to_f32(in, t);
	for (int64_t f = 0; f < frames; f++)
		for (int64_t i = 0; i < o; i++)
			for (int64_t k = 0; k < taps; k++)
				for (int64_t c = 0; c < channels; c++)
					*out++ = in[((i * channels + c) * frames + f) * taps + k];
	mem_free(in);
}

/* Fold a batch norm into its convolution: (w x - mean) weight / sqrt(var + eps) + bias = (scale w) x + shift. A parameter of rank 1 is the bias. */
static void read_folded(const struct renames *r, float *out, const struct param *q, const struct source *at)
{
	int64_t channels = q->shape[0], each = q->count / channels;
	float *v = mem_zalloc((size_t)(4 * channels), sizeof *v), *weight = v, *bias = v + channels, *mean = v + 2 * channels,
	      *var = v + 3 * channels;

	for (int i = 0; i < 4; i++)
		st_to_f32(v + i * channels, at->t[i]);
	if (q->rank > 1)
		read_conv(out, q, at->t[4]);
	for (int64_t c = 0; c < channels; c++) {
		double scale = (double)weight[c] / sqrt((double)var[c] + r->eps), shift = (double)bias[c] - (double)mean[c] * scale;

		for (int64_t i = c * each; i < (c + 1) * each; i++)
			out[i] = q->rank > 1 ? (float)((double)out[i] * scale) : (float)shift;
	}
	mem_free(v);
}

/* From [C, O, kh, kw] to [O, kh, kw, C], with the order of the taps reversed. */
static void read_conv_transposed(float *out, const struct param *q, const struct st_tensor *t)
{
	int64_t o = q->shape[0], taps = q->shape[1] * q->shape[2], channels = q->shape[3];
	float *in = mem_alloc((size_t)q->count * sizeof *in);

	st_to_f32(in, t);
	for (int64_t i = 0; i < o; i++)
		for (int64_t k = 0; k < taps; k++)
			for (int64_t c = 0; c < channels; c++)
				out[(i * taps + k) * channels + c] = in[(c * o + i) * taps + taps - 1 - k];
	mem_free(in);
}

static void read_swapped(float *out, const struct param *q, const struct st_tensor *t)
{
	size_t half = (size_t)q->count / 2 * sizeof *out;
	float *copy = mem_alloc(2 * half);

	st_to_f32(copy, t);
	memcpy(out, (const char *)copy + half, half);
	memcpy((char *)out + half, copy, half);
	mem_free(copy);
}

void renames_read(const struct renames *r, const struct safetensors *s, const struct param *q, float *out)
{
	struct str name = {0};
	struct source at = locate(r, s, q->name, &name);
	float *first = out;

	str_release(&name);
	if (!at.n)
		param_init(q, 0, out);
	else if (at.how == RENAME_TRANSPOSED)
		read_transposed(out, q, at.t[0]);
	else if (at.how == RENAME_CONV_TRANSPOSED)
		read_conv_transposed(out, q, at.t[0]);
	else if (at.how == RENAME_SWAPPED)
		read_swapped(out, q, at.t[0]);
	else if (at.how == RENAME_FOLDED)
		read_folded(r, out, q, &at);
	else if (q->flags & PARAM_CONV)
		read_conv(out, q, at.t[0]);
	else if (q->flags & PARAM_CONV3D)
		read_conv3d(out, q, at.t[0]);
	else
		for (int i = 0; i < at.n; out += st_count(at.t[i++]))
			st_to_f32(out, at.t[i]);
	for (int64_t i = 0; at.how == RENAME_ROOT && i < q->count; i++)
		first[i] = (float)sqrt((double)first[i] / (double)q->shape[1]);
}

const float *renames_view(const struct renames *r, const struct safetensors *s, const struct param *q)
{
	struct str name = {0};
	struct source at = locate(r, s, q->name, &name);
	const struct st_tensor *t = at.n == 1 && at.how == RENAME_SAME && !(q->flags & (PARAM_CONV | PARAM_CONV3D)) ? at.t[0] : NULL;

	str_release(&name);
	return t && t->type == ST_F32 && (uintptr_t)t->data % sizeof(float) == 0 ? t->data : NULL;
}
