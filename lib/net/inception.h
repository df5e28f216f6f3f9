/* Inception-v3 for the Frechet distance: the network of 2015-12-05 as ported to PyTorch (pytorch-fid, torch-fidelity). It differs from torchvision's
 * in three points: average pooling excludes the padding, the last block has max pooling instead of average pooling, and there are 1008 classes. Batch
 * norms are folded into the convolutions when the weights are read. */
#ifndef DDM_NET_INCEPTION_H
#define DDM_NET_INCEPTION_H

#include "net/runner.h"

enum { INCEPTION_SIDE = 299, INCEPTION_FEATURES = 2048, INCEPTION_CLASSES = 1008, INCEPTION_SPATIAL = 17 * 17 * 7 };

struct inception;

/* Weights under torchvision's names (Conv2d_1a_3x3.conv.weight, .bn.weight ..; fc.weight [1008, 2048]) from a file or folder
 * (file/weightfile.h), for batches of up to `capacity`. bulk: as for runner_new. The device is borrowed. ERR_DATA naming a tensor that does not fit.
 * Caller frees with inception_free. */
struct inception *inception_open(const char *path, int64_t capacity, enum compact_type bulk, struct device *d, struct err *e);
void inception_free(struct inception *n);
double inception_flops(const struct inception *n); /* of all outputs of one picture */

/* Outputs for n pictures, in host memory; NULL: not computed. */
struct inception_result {
	float *features; /* (n, 2048): pool3, for FID, KID, precision and recall */
	float *logits;   /* (n, 1008): features fc.weight^T without the bias, for the inception score */
	float *spatial;  /* (n, 2023): the first 7 channels of Mixed_6d.branch1x1 after its ReLU, row by row, channels last, for sFID */
};

/* Run on x (count, 3, 299, 299) in [-1, 1] (metric/netinput.h prepares it). */
int inception_run(struct inception *n, int64_t count, const float *x, const struct inception_result *r, struct err *e);

/* Private to lib/net and tests: the recording, for pictures of any size from 75 on; outputs as in struct inception_result. */
runner_record inception_record;

#endif
