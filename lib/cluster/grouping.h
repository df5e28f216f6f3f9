/* Groups samples by metadata instead of features: the class, the folder, a fact, or a column of a table. */
#ifndef DDM_CLUSTER_GROUPING_H
#define DDM_CLUSTER_GROUPING_H

#include <jansson.h>
#include <stdint.h>

#include "core/err.h"
#include "data/samples.h"

struct grouping;

/* by: "class", "folder" (of the key), or the name of an entry of the samples' facts (.json member). With `table`, a TSV or CSV that has a column key
 * (tsv_load_any), `by` is a column of that table. NULL and *e if the table or a column is missing. Caller frees with grouping_free. */
struct grouping *grouping_open(const char *by, const char *table, struct err *e);
void grouping_free(struct grouping *g);                    /* NULL is allowed */
const char *grouping_table_hash(const struct grouping *g); /* NULL without a table */

/* For featureset_options.value: the value by which the sample is grouped, in new memory. NULL and ERR_DATA if the sample has none, or one that cannot
 * name a class. */
char *grouping_value(void *g, const struct sample *x, struct err *e);

/* Number the distinct values of n samples from 0: in numeric order if all are integers, else in bytewise order. cluster [n] receives the numbers.
 * *names, a new reference, receives the names of the clusters: of classes, their names in class_names (may be NULL); otherwise the values, or
 * BY_VALUE for a value that options would misread, a number or "all" (core/names.h). ERR_DATA if there are more than KMEANS_MOST values. */
int grouping_number(const struct grouping *g, char *const *value, int64_t n, const json_t *class_names, int32_t *cluster, json_t **names,
                    struct err *e);

#endif
