/* The share of a picture that text covers, by a detector of text such as PaddleOCR's (PP-OCR; Liao et al., "Real-time scene text detection with
 * differentiable binarization", 2020), given as an ONNX file (net/onnxnet.h). The detector makes a map of probabilities of the size of its input. */
#ifndef DDM_DATA_TEXTAREA_H
#define DDM_DATA_TEXTAREA_H

#include "core/err.h"
#include "file/still.h"
#include "kernels/device.h"

struct textarea;

/* Open the detector. The device is borrowed. ERR_DATA if the file is no network that makes a map of its
 * picture. Caller frees with textarea_free. */
struct textarea *textarea_open(const char *path, struct device *d, struct err *e);
void textarea_free(struct textarea *t); /* NULL is allowed */

/* *share, 0 to 1: the area of the boxes around text, over that of the picture, of 1 or 3 channels. The picture is resized so that its longer side is
 * 640 pixels, and each side a multiple of 32. Boxes are upright, and otherwise by the rule of PaddleOCR: regions where the probability is above .3
 * and .6 in the mean, with sides of at least 3 pixels, enlarged on each side by 1.5 times the region's area over the box's perimeter, because a
 * detector of this kind is trained to mark text without its margin. One
 * thread at a time. */
int textarea_score(struct textarea *t, double *share, const struct picture *p, struct err *e);

/* The same of a map of probabilities (h, w). */
double textarea_of_map(const float *map, int h, int w);

#endif
