/* Embeds the captions of samples (their .txt members) with CLIP's text encoder. */
#ifndef DDM_METRIC_CAPTIONS_H
#define DDM_METRIC_CAPTIONS_H

#include <stdint.h>

#include "core/err.h"
#include "kernels/device.h"
#include "metric/evalset.h"

/* Embed the caption of every sample of `source`, in reading order, with the text encoder in the folder `clip` (data/textencoder.h): *out is (n,
 * width). hash [65] receives the SHA-256 of the encoder and its tokenizer; *cut counts the captions longer than the encoder's limit, which were
 * truncated. ERR_DATA: a sample has no caption, or the encoder has no projection; ERR_USAGE: `source` is standard input; ERR_AGAIN: o->progress said
 * stop. Caller frees *out with mem_free. */
int captions_embed(float **out, int64_t *n, int *width, int64_t *cut, char hash[65], const char *clip, const char *source,
                   const struct evalset_options *o, struct device *d, struct err *e);

#endif
