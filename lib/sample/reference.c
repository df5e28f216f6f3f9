/* Reads the table of training items and their clusters. */
#include <string.h>

#include "sample/reference.h"
#include "core/mem.h"
#include "core/rng.h"
#include "file/tsv.h"

int reference_load(struct reference *l, const char *path, struct err *e)
{
	struct tsv *t = tsv_load(path, e);
	int column, split, rc = -1;

	if (!t || (column = tsv_need(t, "cluster", e)) < 0)
		goto out;
	memcpy(l->hash, tsv_sha256(t), sizeof l->hash);
	split = tsv_column(t, "split");
	l->cluster = mem_zalloc((size_t)tsv_rows(t) + 1, sizeof *l->cluster);
	for (int64_t i = 0; i < tsv_rows(t); i++) {
		int64_t k;

		if (tsv_i64(t, i, column, 0, INT32_MAX, &k, e))
			goto out;
		if (split < 0 || strcmp(tsv_get(t, i, split), "holdout"))
			l->cluster[l->n++] = (int32_t)k;
	}
	rc = l->n ? 0 : err_set(e, ERR_DATA, "%s: contains no items", path);
out:
	tsv_free(t);
	return rc;
}

/* Picture i uses item rng_permute(i). Items are sorted by key, so without the permutation the first pictures would all use the first sources. */
int32_t reference_cluster(const struct reference *l, int64_t i, uint64_t seed)
{
	return l->cluster[rng_permute((uint64_t)(i % l->n), (uint64_t)l->n, seed, RNG_ROUTE, (uint64_t)(i / l->n))];
}

void reference_release(struct reference *l)
{
	mem_free(l->cluster);
	memset(l, 0, sizeof *l);
}
