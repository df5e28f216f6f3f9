/* Counts the sources and the licences that samples name in their facts: the members "source" and "license" (or "licence") of KEY.json. */
#ifndef DDM_DATA_PROVENANCE_H
#define DDM_DATA_PROVENANCE_H

#include <jansson.h>
#include <stddef.h>

/* The counts are JSON, as stamps of shards hold them under "provenance": {"licence": {"CC0-1.0": [3, 0, 5]}, "source": {..}}, a count for each
 * cluster. At most PROVENANCE_NAMES names are counted apart; the samples of further names are added up in "other_licence" and "other_source". A
 * fact that no sample has is left out. */
enum { PROVENANCE_NAMES = 1000 };

/* Add n (which may be negative, for a sample that was added before) to the counts of what the facts name, in one of k clusters. facts: the bytes
 * of the member. Facts that are not a JSON object, and names longer than 200 bytes, are ignored. */
void provenance_add(json_t *counts, const void *facts, size_t len, int cluster, int k, int n);

/* The counts of one cluster, or with a negative number the sums over all: {"licence": {"CC0-1.0": 3}, ..}, without those that are 0. NULL: none.
 * Caller json_decref()s. counts may be NULL. */
json_t *provenance_of(const json_t *counts, int cluster);

/* Add to `counts`, as provenance_of returns them, those of other samples. */
void provenance_join(json_t *counts, const json_t *more);

#endif
