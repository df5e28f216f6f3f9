/* Sets of features as statistics files (.npz), for evalset.c. */
#ifndef DDM_METRIC_EVALSTATS_H
#define DDM_METRIC_EVALSTATS_H

#include "core/err.h"
#include "metric/evalset.h"

enum source_kind { SOURCE_SAMPLES, SOURCE_NPY, SOURCE_NPZ };

/* By the first bytes of a regular file; anything else is samples, stdin and what cannot be read included. */
enum source_kind evalstats_sniff(const char *source);

/* mu and sigma are needed. A file without a recipe is another tool's: its features become "npy" and compare with vectors only. A
 * malformed one, shapes that do not fit each other, or values that are not finite: ERR_DATA. */
int evalstats_read(struct evalset *s, const char *path, struct err *e);

#endif
