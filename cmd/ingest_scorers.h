/* The networks that score pictures: a detector of text (data/textarea.h), and a predictor of the ratings that people give (metric/aesthetic.h). */
#ifndef DDM_CMD_INGEST_SCORERS_H
#define DDM_CMD_INGEST_SCORERS_H

#include <jansson.h>

#include "cmd/ingest_run.h"
#include "core/err.h"
#include "file/still.h"

struct scorers;

/* Open those that the request names, on a device of their own, and put the SHA-256 of each into *nets. Errors of textarea_open, extractor_open and
 * aesthetic_load; ERR_DATA if the predictor is for embeddings of another length. Caller frees with scorers_free. */
struct scorers *scorers_open(const struct ingest_request *r, struct ingest_nets *nets, struct err *e);
void scorers_free(struct scorers *s); /* NULL is allowed */

/* Put the scores `text` and `aesthetic` of a picture of 3 channels into an object; s may be NULL: no scores. ERR_DATA if a network does not take the
 * picture or makes no finite numbers of it. Threads may call it at once; they wait for each other. */
int scorers_put(struct scorers *s, json_t *facts, const struct picture *p, struct err *e);

#endif
