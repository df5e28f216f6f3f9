/* TransNet V2 (Soucek and Lokoc, "TransNet V2: An effective deep network architecture for fast shot transition detection", 2020), which finds the
 * transitions between the shots of a video: cuts, dissolves, fades. It reads frames of 48 x 27 pixels, 100 at a time, and is sure of those in the
 * middle of them (data/shotnet.h). A convolution in space takes the frames as pictures, one in time is a linear layer on three frames, and batch
 * norms are folded into the latter when the weights are read. */
#ifndef DDM_NET_TRANSNET_H
#define DDM_NET_TRANSNET_H

#include <stdint.h>

#include "net/runner.h"

enum { TRANSNET_FRAMES = 100, TRANSNET_WIDTH = 48, TRANSNET_HEIGHT = 27, TRANSNET_BYTES = TRANSNET_WIDTH * TRANSNET_HEIGHT * 3 };

struct transnet;

/* Weights under the names of the PyTorch version (soCzech/TransNetV2, inference-pytorch: SDDCNN.0.DDCNN.0.Conv3D_1.layers.0.weight [32, 3, 1, 3, 3]
 * ..), from a file or folder (file/weightfile.h). The device is borrowed. ERR_DATA naming a tensor that is missing or does not fit. Caller frees with
 * transnet_free. */
struct transnet *transnet_open(const char *path, struct device *d, struct err *e);
void transnet_free(struct transnet *n); /* NULL is allowed */

/* The table of parameters, laid out, without a network. Free with params_release. */
void transnet_params(struct params *p);

/* frames: TRANSNET_FRAMES consecutive frames, each of (27, 48, 3) bytes of RGB. cut (TRANSNET_FRAMES): the probability that a transition is at the
 * frame, a cut at the last frame before it. within (TRANSNET_FRAMES), or NULL: that the frame lies within a transition. Errors of the device,
 * ERR_NOMEM. */
int transnet_run(struct transnet *n, float *cut, float *within, const uint8_t *const *frames, struct err *e);

#endif
