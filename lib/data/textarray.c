/* Reads features of texts from .npy and .npz. */
#include "data/textarray.h"

#include <string.h>

#include "core/mem.h"

static const struct npy *find(const struct npz *z, const char *const *names)
{
	const struct npy *a = NULL;

	for (; !a && *names; names++)
		a = npz_find(z, *names);
	return a;
}

/* Without the axis `i`. */
static void drop_axis(struct npy *a, int i)
{
	memmove(a->shape + i, a->shape + i + 1, (size_t)(a->rank - i - 1) * sizeof *a->shape);
	a->rank--;
}

static int take_features(struct textarray *t, const char *name, struct err *e)
{
	static const char *const names[] = {"caption_feature", "caption_features", "prompt_embeds", NULL};
	const struct npy *a = find(t->npz, names);
	int numbers = a && (a->type == NPY_F2 || a->type == NPY_F4 || a->type == NPY_F8);

	if (!a)
		return err_set(e, ERR_DATA, "%s: contains no text features (caption_feature, prompt_embeds)", name);
	t->a = *a;
	if (t->a.rank == 4 && t->a.shape[1] == 1)
		drop_axis(&t->a, 1);
	if (t->a.rank == 2) {
		memmove(t->a.shape + 1, t->a.shape, 2 * sizeof *t->a.shape);
		t->a.shape[0] = 1;
		t->a.rank = 3;
	}
	if (!numbers || t->a.rank != 3 || t->a.fortran || npy_count(&t->a) < 1)
		return err_set(e, ERR_DATA, "%s: the features must be floating-point numbers of shape (n, tokens, width) in row-major order", name);
	return 0;
}

/* The number of leading ones in a row of a mask; -1 if there is none, or another value than 0 follows. */
static int32_t count_ones(const int64_t *mask, int64_t tokens)
{
	int64_t n = 0;

	while (n < tokens && mask[n] == 1)
		n++;
	for (int64_t i = n; i < tokens; i++)
		if (mask[i])
			return -1;
	return n ? (int32_t)n : -1;
}

static int take_mask(struct textarray *t, const char *name, struct err *e)
{
	static const char *const names[] = {"attention_mask", "prompt_attention_mask", NULL};
	const struct npy *found = find(t->npz, names);
	int64_t n = t->a.shape[0], tokens = t->a.shape[1], *mask;
	struct npy m;
	int rc = 0;

	if (!found)
		return 0;
	m = *found;
	while (m.rank > 2 && m.shape[1] == 1)
		drop_axis(&m, 1);
	if (npy_count(&m) != n * tokens || tokens > INT32_MAX || m.rank < 1 || m.rank > 2 || m.shape[m.rank - 1] != tokens)
		return err_set(e, ERR_DATA, "%s: the mask does not have the shape of its %lld texts of %lld tokens", name, (long long)n,
		               (long long)tokens);
	mask = mem_try((size_t)(n * tokens), sizeof *mask, "mask of texts", e);
	if (!mask)
		return -1;
	t->length = mem_alloc((size_t)n * sizeof *t->length);
	rc = npy_to_i64(mask, &m, name, e);
	for (int64_t i = 0; i < n && !rc; i++)
		if ((t->length[i] = count_ones(mask + i * tokens, tokens)) < 0)
			rc = err_set(e, ERR_DATA, "%s: the mask of text %lld must be ones for its first tokens and zeros after them", name,
			             (long long)i);
	mem_free(mask);
	return rc;
}

static int take_pooled(struct textarray *t, const char *name, struct err *e)
{
	const struct npy *found = npz_find(t->npz, "pooled_prompt_embeds");

	if (!found)
		return 0;
	t->pooled = *found;
	if (t->pooled.rank == 1) {
		t->pooled.rank = 2;
		t->pooled.shape[1] = t->pooled.shape[0];
		t->pooled.shape[0] = 1;
	}
	if ((t->pooled.type == NPY_F2 || t->pooled.type == NPY_F4 || t->pooled.type == NPY_F8) && t->pooled.rank == 2 && !t->pooled.fortran &&
	    t->pooled.shape[0] == t->a.shape[0] && t->pooled.shape[1] > 0)
		return 0;
	return err_set(e, ERR_DATA,
	               "%s: pooled_prompt_embeds must be floating-point numbers of shape (%lld, width) in row-major order, as there are %lld texts",
	               name, (long long)t->a.shape[0], (long long)t->a.shape[0]);
}

static int is_zip(const void *bytes, size_t len)
{
	return len >= 4 && !memcmp(bytes, "PK\3\4", 4);
}

/* Takes z. */
static int take(struct textarray *t, struct npz *z, const char *name, struct err *e)
{
	t->npz = z;
	return !z || take_features(t, name, e) || take_mask(t, name, e) || take_pooled(t, name, e) ? -1 : 0;
}

int textarray_load(struct textarray *t, const char *path, struct err *e)
{
	struct filemap m;
	int zip;

	*t = (struct textarray){0};
	if (!strcmp(path, "-"))
		return npy_load(&t->a, path, e);
	if (filemap_open(&m, path, e))
		return -1;
	zip = is_zip(m.data, m.len);
	filemap_close(&m);
	return zip ? take(t, npz_load(path, e), path, e) : npy_load(&t->a, path, e);
}

int textarray_parse(struct textarray *t, const void *bytes, size_t len, const char *name, struct err *e)
{
	*t = (struct textarray){0};
	return is_zip(bytes, len) ? take(t, npz_parse(bytes, len, name, e), name, e) : npy_parse(&t->a, bytes, len, name, e);
}

void textarray_release(struct textarray *t)
{
	if (!t->npz)
		npy_release(&t->a);
	npz_free(t->npz);
	mem_free(t->length);
	*t = (struct textarray){0};
}
