/* Reads the features of texts for datasets. */
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/shortfloat.h"
#include "data/dataset.h"
#include "data/textarray.h"
#include "file/npy.h"

enum { SIZE_LIMIT = 1 << 16 };

static float *floats(const struct npy *a, const char *name, struct err *e)
{
	float *v = mem_try((size_t)npy_count(a), sizeof *v, name, e);

	if (v)
		npy_to_f32(v, a);
	return v;
}

static uint16_t *halves(const struct npy *a, const char *name, struct err *e)
{
	size_t n = (size_t)npy_count(a);
	uint16_t *out = mem_try(n, sizeof *out, name, e);
	float *v;

	if (!out)
		return NULL;
	if (a->type == NPY_F2 && !a->fortran && !a->swapped) {
		memcpy(out, a->data, n * sizeof *out);
		return out;
	}
	v = floats(a, name, e);
	for (size_t i = 0; v && i < n; i++) {
		out[i] = f32_to_f16(v[i]);
		if (isfinite(v[i]) && (out[i] & 0x7c00) == 0x7c00) {
			err_set(e, ERR_DATA, "%s: a text feature of %g does not fit into float16", name, (double)v[i]);
			mem_free(v);
			v = NULL;
		}
	}
	if (!v) {
		mem_free(out);
		return NULL;
	}
	mem_free(v);
	return out;
}

uint16_t *dataset_text(const void *npy, size_t len, const char *name, int64_t most, int64_t *rows, int64_t *width, struct err *e)
{
	uint16_t *out = NULL;
	struct textarray t;
	struct npy a;

	if (textarray_parse(&t, npy, len, name, e)) {
		textarray_release(&t);
		return NULL;
	}
	a = t.a;
	if (a.rank == 3 && a.shape[0] == 1) {
		memmove(a.shape, a.shape + 1, 2 * sizeof *a.shape);
		a.rank = 2;
	}
	if (t.length && a.rank == 2)
		a.shape[0] = *t.length;
	if (a.rank != 2 || (a.type != NPY_F2 && a.type != NPY_F4 && a.type != NPY_F8))
		err_set(e, ERR_DATA, "%s: the features of a text must be floating-point numbers of shape (tokens, width)", name);
	else if (a.shape[0] < 1 || a.shape[0] > SIZE_LIMIT || a.shape[1] < 1 || a.shape[1] > SIZE_LIMIT)
		err_set(e, ERR_DATA, "%s: the features of a text have an impossible size", name);
	else if (most && a.shape[0] > most)
		err_set(e, ERR_DATA, "%s: the text has %lld tokens, more than the limit of %lld", name, (long long)a.shape[0], (long long)most);
	else
		out = halves(&a, name, e);
	*rows = a.shape[0];
	*width = a.shape[1];
	textarray_release(&t);
	return out;
}
