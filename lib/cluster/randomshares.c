/* Computes the cluster shares of a random partition. */
#include "cluster/randomshares.h"

#include <string.h>

#include "core/mem.h"
#include "data/assignment.h"

static int shares_like(const char *like, int64_t k_wanted, int *k, double **share, char hash[65], struct err *e)
{
	struct assignment a;
	int64_t total = 0;
	int rc = assignment_load(&a, like, -1, e), cluster, held;

	if (!rc)
		*share = mem_zalloc((size_t)a.clusters, sizeof **share);
	*k = 0;
	for (int64_t i = 0; !rc && i < tsv_rows(a.table) && !(rc = assignment_get(&a, i, &cluster, &held, e)); i++) {
		if (held)
			continue;
		*k = cluster >= *k ? cluster + 1 : *k;
		(*share)[cluster]++;
		total++;
	}
	for (int c = 0; c < *k; c++)
		(*share)[c] /= (double)total;
	if (!rc) {
		memcpy(hash, a.hash, sizeof a.hash);
		if (!total || (k_wanted && k_wanted != *k))
			rc = err_set(e, ERR_USAGE, "%s: %d clusters have training samples, expected %lld", like, *k, (long long)k_wanted);
	}
	assignment_release(&a);
	return rc;
}

int random_shares(const char *like, int64_t k_wanted, int *k, double **share, char hash[65], struct err *e)
{
	if (like)
		return shares_like(like, k_wanted, k, share, hash, e);
	*k = (int)k_wanted;
	*share = mem_zalloc((size_t)k_wanted, sizeof **share);
	for (int c = 0; c < *k; c++)
		(*share)[c] = 1. / *k;
	return 0;
}
