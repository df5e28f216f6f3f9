/* Clusters samples by metadata instead of features: the class, the folder, a fact, or a column of a table. */
#ifndef DDM_CLUSTER_GROUPING_H
#define DDM_CLUSTER_GROUPING_H

#include <jansson.h>
#include <stdint.h>

#include "core/err.h"
#include "data/samples.h"

struct grouping;

/* by: "class", "folder" (of the key), or the name of an entry of the samples' facts (.json member). With table, a TSV or CSV with a column
 * key (tsv_load_any), by is a column of that. Caller frees with grouping_free. */
struct grouping *grouping_open(const char *by, const char *table, struct err *e);
void grouping_free(struct grouping *g);
const char *grouping_table_hash(const struct grouping *g); /* NULL without a table */

/* For struct featureset_options: the value that the sample is grouped by. ERR_DATA if the sample has none, or one that cannot name a class. */
char *grouping_value(void *g, const struct sample *x, struct err *e);

/* Numbers the values of n samples: in the order of the numbers where all are, else bytewise. *names, a new reference, gets the names of the
 * clusters: the values, or BY_VALUE where a value is a number or "all", which options understand otherwise (core/names.h); of classes, their
 * names, where class_names (may be NULL) has them. */
int grouping_number(const struct grouping *g, char *const *value, int64_t n, const json_t *class_names, int32_t *cluster, json_t **names,
                    struct err *e);

#endif
