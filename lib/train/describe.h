/* What any file or folder of the toolkit is and holds. */
#ifndef DDM_TRAIN_DESCRIBE_H
#define DDM_TRAIN_DESCRIBE_H

#include "file/facts.h"

/* o["kind"], o["bytes"] of a file, and the members that the reader of its kind adds (file/facts.h, data/samplefacts.h,
 * train/modelfacts.h, train/jsonfacts.h). path: a file, a folder, a pipe, "-" for standard input. On failure what was found before
 * stays in o. */
int describe_path(json_t *o, const char *path, const struct facts_options *f, struct err *e);

#endif
