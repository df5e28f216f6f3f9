/* The captions of samples, their .txt members, in CLIP's space. */
#ifndef DDM_METRIC_CAPTIONS_H
#define DDM_METRIC_CAPTIONS_H

#include <stdint.h>

#include "core/err.h"
#include "kernels/device.h"
#include "metric/evalset.h"

/* out (n, width): a row for each sample of `source` in the order it is read, by the text tower in `clip` (data/textencoder.h). hash: of that tower
 * and its tokenizer, 65 bytes. cut: captions that were longer than it reads. ERR_DATA: a sample without a caption, a tower without a projection;
 * ERR_USAGE: `source` is standard input. Caller frees *out with mem_free. */
int captions_embed(float **out, int64_t *n, int *width, int64_t *cut, char hash[65], const char *clip, const char *source,
                   const struct evalset_options *o, struct device *d, struct err *e);

#endif
