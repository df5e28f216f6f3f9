/* Compares two sets of samples, or two assignments of samples to clusters, by the keys of the samples. */
#ifndef DDM_INSPECT_SAMPLEDIFF_H
#define DDM_INSPECT_SAMPLEDIFF_H

#include <jansson.h>
#include <stdint.h>

#include "core/err.h"

/* Compare `a` with `b`. Each is a SHARDS folder, an assignment table (data/assignment.h) or any samples (data/samples.h). Adds to o:
 *   same added removed            numbers of keys: with no difference, only in b, only in a
 *   moved                         keys in another cluster or split; only if both sides say where their samples are
 *   changed                       keys whose members differ; only if both sides hold samples
 *   added_keys removed_keys changed_keys    lists of these keys in bytewise order, left out if empty
 *   moved_keys                    the same, a list of {"key", "from", "to"}
 * Shards keep a hash of every sample, so samples with equal hashes are not read. *differ: the number of keys with a difference.
 * ERR_DATA for a damaged side, or one that is neither samples nor a table. */
int samplediff(json_t *o, const char *a, const char *b, int64_t *differ, struct err *e);

#endif
