/* A table of training items and their clusters, for --route oracle and --class labels. */
#ifndef DDM_SAMPLE_REFERENCE_H
#define DDM_SAMPLE_REFERENCE_H

#include <stdint.h>

#include "core/err.h"

struct reference {
	int64_t n;        /* items, not counting held-out ones */
	int32_t *cluster; /* (n) */
	char hash[65];    /* SHA-256 of the table */
};

/* Read the table. ERR_DATA if it has no column 'cluster' or no items. Release with reference_release, after failure too. */
int reference_load(struct reference *l, const char *path, struct err *e);
int32_t reference_cluster(const struct reference *l, int64_t i, uint64_t seed); /* cluster of the item for picture i */
void reference_release(struct reference *l);

#endif
