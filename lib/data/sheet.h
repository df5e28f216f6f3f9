/* A contact sheet: one row of pictures per cluster. */
#ifndef DDM_DATA_SHEET_H
#define DDM_DATA_SHEET_H

#include <stdint.h>

#include "core/err.h"
#include "data/samples.h"
#include "file/contactsheet.h"
#include "file/still.h"

struct sheet {
	int rows;
	struct contactsheet layout;
	struct picture picture; /* RGB, owned */
};

/* A white sheet of rows * columns pictures; cell: side of one picture in pixels. ERR_NOMEM. Release with sheet_release. */
int sheet_init(struct sheet *s, int rows, int columns, int cell, struct err *e);
void sheet_release(struct sheet *s);

/* Second pass over `samples` (which is rewound): draw `columns` pictures per cluster, chosen by the hashes of their keys, or fewer if the cluster
 * has fewer. key and cluster [n] as in the first pass. */
int sheet_fill(struct sheet *s, struct samples *samples, char *const *key, const int32_t *cluster, int64_t n, struct err *e);

#endif
