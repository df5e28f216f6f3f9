/* Follows a sample back to its sources: the networks that drew it, their trainings, shards, assignment and pictures, as far as hashes lead. */
#ifndef DDM_INSPECT_TRAIL_H
#define DDM_INSPECT_TRAIL_H

#include <jansson.h>
#include <stdint.h>

#include "core/err.h"

enum { TRAIL_WHOLE = -1 };

/* Follow `file`: an output of ddm-sample (a picture, a tar, a contact sheet, an array, or its report), a picture of a tar by its `index`, or with
 * TRAIL_WHOLE all of it. A stamp holds hashes, not paths, so what they belong to is looked for among `place` (n): models, SHARDS folders, tables of
 * assignments, samples, and logs of ddm-sample. Adds to o:
 *   trail   a list of {"step", "hash", "found", "made_by", "detail"}, from the sample to its sources; the last four where known
 *   ends    a list of sentences: where the trail ends, and why
 *   experts a list of what each expert contributed to a single picture (inspect/contribution.h), with "cluster", "cluster_name", and the counts
 *           "licence" and "source" of the samples it was trained on, where known. Only if a log of ddm-sample among `place` has the picture
 *   stamp   of the sample; a report has none
 * ERR_DATA if the file is damaged or has no stamp of ddm-sample, ERR_USAGE if the tar has no such picture. */
int trail_follow(json_t *o, const char *file, int64_t index, const char *const *place, int n, struct err *e);

#endif
