/* Computes the cluster shares of a random partition, and draws the further clusters of a sample. */
#include "cluster/randomshares.h"

#include <string.h>

#include "cluster/points.h"
#include "core/hash.h"
#include "core/mem.h"
#include "core/rng.h"
#include "data/assignment.h"

static int shares_like(const char *like, int64_t k_wanted, int places, int *k, double **share, char hash[65], struct err *e)
{
	struct assignment a;
	const int32_t *further;
	int64_t total = 0;
	int rc = assignment_load(&a, like, -1, e), cluster, held;

	if (!rc)
		*share = mem_zalloc((size_t)a.clusters, sizeof **share);
	*k = 0;
	for (int64_t i = 0; !rc && i < a.rows && !(rc = assignment_get(&a, i, &cluster, &held, e)); i++) {
		if (held)
			continue;
		*k = cluster >= *k ? cluster + 1 : *k;
		(*share)[cluster]++;
		total++;
		for (int f = places ? assignment_further(&a, i, &further) - 1 : -1; f >= 0; f--) {
			*k = further[f] >= *k ? further[f] + 1 : *k;
			(*share)[further[f]]++;
			total++;
		}
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

int random_shares(const char *like, int64_t k_wanted, int places, int *k, double **share, char hash[65], struct err *e)
{
	if (like)
		return shares_like(like, k_wanted, places, k, share, hash, e);
	*k = (int)k_wanted;
	*share = mem_zalloc((size_t)k_wanted, sizeof **share);
	for (int c = 0; c < *k; c++)
		(*share)[c] = 1. / *k;
	return 0;
}

/* The position in `order` of the cluster whose part of the circle holds `at`; parts are as long as the shares, which sum to `round`. */
static int part_at(double at, double round, const double *share, const int32_t *order, int k)
{
	double run = 0;
	int last = 0;

	at = at >= round ? at - round : at;
	for (int i = 0; i < k; i++) {
		run += share[order[i]];
		if (at < run)
			return i;
		last = share[order[i]] > 0 ? i : last;
	}
	return last; /* rounding */
}

static int is_among(int32_t c, int32_t own, const int32_t *further, int n)
{
	int found = c == own;

	for (int i = 0; i < n; i++)
		found |= further[i] == c;
	return found;
}

/* Systematic sampling (Madow 1949): the clusters lie in a random order around a circle, in parts as long as their shares. The first place is at a
 * random point of the own cluster's part, and so at a random point of the circle; the others follow at equal distances. So each of them is at a
 * random point too, and two are in one part only if that is longer than the distance. */
void random_further(int32_t *further, const char *key, int32_t own, const double *share, int k, int most, uint64_t seed, int32_t *order)
{
	uint64_t id = hash64(key, strlen(key)) >> 20;
	double at = 0, round = 0;

	for (int i = 0; i < k; i++) {
		int j = (int)rng_below((uint64_t)i + 1, seed, RNG_CLUSTER, STEP_PLACES, id, (uint32_t)i + 1);

		order[i] = order[j];
		order[j] = i;
		round += share[i];
	}
	for (int i = 0; order[i] != own; i++)
		at += share[order[i]];
	at += rng_uniform(seed, RNG_CLUSTER, STEP_PLACES, id, 0) * share[own];
	for (int n = 0; n < most - 1; n++) {
		int part = part_at(at + round * (n + 1) / most, round, share, order, k);

		/* Only rounding puts two places into a part that is not longer than their distance: then the next part is meant. */
		for (int i = 0; i < k && (share[order[part]] <= 0 ||
		                          (share[order[part]] * most <= round * (1 + 1e-9) && is_among(order[part], own, further, n)));
		     i++)
			part = (part + 1) % k;
		further[n] = order[part];
	}
}
