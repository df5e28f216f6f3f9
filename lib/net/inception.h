/* Inception-v3 of the Frechet distance: the network of 2015-12-05 in its PyTorch port (pytorch-fid, torch-fidelity), which is
 * torchvision's but for averages that leave the padding out, a largest value instead of an average in the last block, and 1008 classes.
 * Batch norms are folded into the convolutions when weights are read. */
#ifndef DDM_NET_INCEPTION_H
#define DDM_NET_INCEPTION_H

#include "net/runner.h"

enum { INCEPTION_SIDE = 299, INCEPTION_FEATURES = 2048, INCEPTION_CLASSES = 1008, INCEPTION_SPATIAL = 17 * 17 * 7 };

struct inception;

/* Weights under torchvision's names (Conv2d_1a_3x3.conv.weight, .bn.weight ..; fc.weight [1008, 2048]) from a file or folder
 * (file/weightfile.h). For batches of up to `capacity`. The device is borrowed. */
struct inception *inception_open(const char *path, int64_t capacity, enum compact_type bulk, struct device *d, struct err *e);
void inception_free(struct inception *n);

/* What is wanted of n pictures x (n, 3, 299, 299) in [-1, 1] (metric/netinput.h makes them); NULL: not wanted. */
struct inception_result {
	float *features; /* (n, 2048): pool3, for FID, KID, precision and recall */
	float *logits;   /* (n, 1008): features fc.weight^T without the bias, for the inception score */
	float *spatial;  /* (n, 2023): the first 7 channels of Mixed_6d.branch1x1 after its ReLU, row by row, channels last, for sFID */
};

int inception_run(struct inception *n, int64_t count, const float *x, const struct inception_result *r, struct err *e);
int64_t inception_parameters(const struct inception *n); /* scalars that are held, batch norms folded */

/* Inside, and for tests: records for pictures of any size of 75 or more; outputs as in struct inception_result. */
runner_record inception_record;

#endif
