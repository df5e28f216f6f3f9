/* Rates pictures by a predictor of the ratings that people give (metric/aesthetic.h), for the score `aesthetic`. */
#ifndef DDM_CMD_INGEST_RATING_H
#define DDM_CMD_INGEST_RATING_H

#include "core/err.h"
#include "file/still.h"

struct rater;

/* features: the network whose embeddings are rated, a spec of extractor_open; predictor: a file of aesthetic_load. hash: their SHA-256. Errors of
 * both; ERR_DATA if the predictor was trained on embeddings of another length. Caller frees with rater_free. */
struct rater *rater_open(const char *features, const char *predictor, int threads, char hash[2][65], struct err *e);
void rater_free(struct rater *r); /* NULL is allowed */

/* *rating of a picture of 3 channels, about 1 to 10. ERR_DATA if its embedding is zero. Threads may call it at once; they wait for each other. */
int rater_rate(struct rater *r, double *rating, const struct picture *p, struct err *e);

#endif
