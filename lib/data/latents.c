/* Reads latents in safetensors, one file or many. */
#include "data/latents.h"

#include <string.h>

#include "core/mem.h"
#include "file/fileio.h"
#include "file/npy.h"
#include "file/safetensors.h"

struct latents {
	struct safetensors *s;
	char *stem; /* the file's name up to its first dot */
	const struct st_tensor *plain, *flip, *label;
};

int latents_sniff(const char *path)
{
	struct safetensors *s = str_ends(path, ".safetensors") ? st_open(path, NULL) : NULL;
	const struct st_tensor *t = s ? st_find(s, "latents") : NULL;
	int found = t && t->rank == 4;

	st_free(s);
	return found;
}

int latents_list(const char *dir, char ***paths, size_t *n, struct err *e)
{
	char **names;
	size_t all;

	*n = 0;
	if (dir_list(dir, &names, &all, e))
		return -1;
	*paths = mem_zalloc(all, sizeof(char *));
	for (size_t i = 0; i < all; i++) {
		char *path = path_join(dir, names[i]);

		if (latents_sniff(path))
			(*paths)[(*n)++] = path;
		else
			mem_free(path);
	}
	names_free(names, all);
	return 0;
}

static int same_shape(const struct st_tensor *a, const struct st_tensor *b)
{
	return a->rank == b->rank && !memcmp(a->shape, b->shape, (size_t)a->rank * sizeof *a->shape);
}

static int is_integer(enum st_type t)
{
	return t != ST_BOOL && !st_type_is_float(t);
}

struct latents *latents_open(const char *path, struct err *e)
{
	struct latents *l = mem_zalloc(1, sizeof *l);
	const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;

	l->stem = mem_strndup(base, strcspn(base, "."));
	l->s = st_open(path, e);
	l->plain = l->s ? st_need(l->s, "latents", -1, NULL, e) : NULL;
	if (!l->plain) {
		latents_free(l);
		return NULL;
	}
	l->flip = st_find(l->s, "latents_flip");
	l->label = st_find(l->s, "labels");
	if (l->plain->rank != 4 || st_count(l->plain) / (l->plain->shape[0] ? l->plain->shape[0] : 1) > INT32_MAX)
		err_set(e, ERR_DATA, "%s: \"latents\" is not (n, C, H, W)", path);
	else if (l->flip && (!same_shape(l->flip, l->plain) || l->flip->type != l->plain->type))
		err_set(e, ERR_DATA, "%s: \"latents_flip\" must have the shape and type of \"latents\"", path);
	else if (l->label && (l->label->rank != 1 || l->label->shape[0] != l->plain->shape[0] || !is_integer(l->label->type)))
		err_set(e, ERR_DATA, "%s: \"labels\" is not one number for each of \"latents\"", path);
	else
		return l;
	latents_free(l);
	return NULL;
}

void latents_free(struct latents *l)
{
	if (!l)
		return;
	st_free(l->s);
	mem_free(l->stem);
	mem_free(l);
}

int64_t latents_count(const struct latents *l)
{
	return l->plain->shape[0];
}

void latents_key(const struct latents *l, int64_t i, struct str *key)
{
	str_reset(key);
	str_printf(key, "%s/%06lld", l->stem, (long long)i);
}

/* The n elements of a tensor from index `at` on, as a tensor of rank 1. */
static struct st_tensor part(const struct st_tensor *t, int64_t at, int64_t n)
{
	return (struct st_tensor){.type = t->type, .rank = 1, .shape = {n}, .data = (const char *)t->data + (size_t)at * st_type_size(t->type)};
}

int latents_array(const struct latents *l, int64_t i, int flip, struct str *out)
{
	const struct st_tensor *t = flip ? l->flip : l->plain;
	int64_t n = t ? st_count(t) / t->shape[0] : 0;
	struct st_tensor x;
	float *v;

	if (!t)
		return 0;
	x = part(t, i * n, n);
	if (t->type == ST_F16) {
		npy_encode(out, NPY_F2, 3, t->shape + 1, x.data);
		return 1;
	}
	v = mem_alloc((size_t)n * sizeof *v);
	st_to_f32(v, &x);
	npy_encode(out, NPY_F4, 3, t->shape + 1, v);
	mem_free(v);
	return 1;
}

int32_t latents_label(const struct latents *l, int64_t i)
{
	struct st_tensor x;
	uint64_t v = 0;

	if (!l->label)
		return -1;
	x = part(l->label, i, 1);
	st_copy(&v, &x);
	return v < INT32_MAX ? (int32_t)v : -1;
}
