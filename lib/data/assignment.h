/* An assignment of samples to clusters, as a table (file/tsv.h). */
#ifndef DDM_DATA_ASSIGNMENT_H
#define DDM_DATA_ASSIGNMENT_H

#include <jansson.h>
#include <stdint.h>

#include "core/err.h"
#include "file/tsv.h"

/* Columns of an assignment, checked: key, cluster, and split ("train", "holdout") if there is one. */
struct assignment {
	struct tsv *table;
	int key, cluster, split; /* columns; split -1 */
	int32_t *number;         /* [rows] of the cluster */
	int clusters;            /* K: "k" of the stamp, else 1 + the largest */
	double holdout;          /* where there is no column, or to check it with; negative: take the column's word */
	char features[64];       /* what it was clustered by, of the stamp; empty when that does not say */
	char hash[65];           /* SHA-256 of the file */
	char partition[65];      /* what tells the partition from others (data/partition.h); the hash where the stamp does not say */
	json_t *names;           /* [clusters] of the clusters (core/names.h); NULL: they have none */
};

/* A table of ddm-cluster, or of any program (tsv_load_any), in which the column cluster holds numbers from 0 or names throughout.
 * A negative `holdout` leaves the split to the column; without a column everything is training data. ERR_DATA when the
 * fraction differs from the one in the table's stamp, or from the column of a table that has none. */
int assignment_load(struct assignment *a, const char *path, double holdout, struct err *e);
void assignment_release(struct assignment *a);

/* Cluster and split of a row. ERR_DATA when the column and the fraction disagree. */
int assignment_get(const struct assignment *a, int64_t row, int *cluster, int *held, struct err *e);

#endif
