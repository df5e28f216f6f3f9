/* An assignment of samples to clusters, as a table whose rows stay in its file (file/tsvfile.h). */
#ifndef DDM_DATA_ASSIGNMENT_H
#define DDM_DATA_ASSIGNMENT_H

#include <jansson.h>
#include <stdint.h>

#include "core/err.h"
#include "file/tsvfile.h"

enum { ASSIGNMENT_CLUSTERS = 16 }; /* most clusters of a sample, those that occur again included */

/* Columns of an assignment, checked: key, cluster, and split ("train", "holdout") if there is one. */
struct assignment {
	struct tsvfile *table;
	int64_t rows;
	int key, cluster, split, also;  /* columns; split and also -1: there is none */
	struct assignment_row *current; /* private */
	int clusters;                   /* K: "k" of the stamp, else 1 + the largest */
	double holdout;                 /* held-out fraction: used without a split column, else compared with it; negative: the column decides */
	char features[64];              /* the features it was clustered by, from the stamp; empty if the stamp has none */
	char hash[65];                  /* SHA-256 of the file */
	char partition[65];             /* identifies the partition (data/partition.h); the file's hash if the stamp does not have it */
	json_t *extends;                /* the partitions that this one extends (core/extends.h); NULL: none */
	json_t *names;                  /* [clusters] names of the clusters (core/names.h); NULL: they have none */
};

/* Open a table of ddm-cluster, or of any other program (tsv_load_any). Its column "cluster" holds numbers from 0 in every row, or names in every
 * row. A split column decides what is held out; without one, assignment_get applies the fraction `holdout` to each key (hash_holdout), and with a
 * negative `holdout` all rows are training data. ERR_DATA if `holdout` is not negative and differs from the "holdout" of the table's stamp. If the
 * stamp has none, assignment_get compares the split column with `holdout`. A column "also" holds the further clusters of each sample, numbers with
 * blanks between, or "-" for none (assignment_further). All rows are checked. Memory is about 6 bytes a row; the file must not change meanwhile.
 * Release with assignment_release, after an error too. */
int assignment_load(struct assignment *a, const char *path, double holdout, struct err *e);
void assignment_release(struct assignment *a);

/* The functions below read rows, one thread at a time; those that follow the row read before are found fastest. What they return is borrowed until
 * another row is read.
 *
 * The row of a key, or -1. */
int64_t assignment_find(const struct assignment *a, const char *key);
/* The key of a row; NULL and ERR_DATA if the file was altered. */
const char *assignment_key(const struct assignment *a, int64_t row, struct err *e);
/* Cluster and split of a row (*held: 1 if it is held out). ERR_DATA if the column and the fraction disagree. */
int assignment_get(const struct assignment *a, int64_t row, int *cluster, int *held, struct err *e);
/* The further clusters of a row: returns their number, below ASSIGNMENT_CLUSTERS. A sample counts in each cluster as often as that occurs among its
 * cluster and these. */
int assignment_further(const struct assignment *a, int64_t row, const int32_t **further);

#endif
