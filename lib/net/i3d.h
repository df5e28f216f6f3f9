/* I3D (Carreira and Zisserman, "Quo Vadis, Action Recognition?", 2017) for the Frechet video distance: Inception inflated to three dimensions,
 * trained on Kinetics-400, with the padding of TensorFlow. A convolution in time and space is a sum of convolutions in space, one for each step in
 * time, so the network consists of the ops of pictures. Batch norms are folded into the convolutions when the weights are read. */
#ifndef DDM_NET_I3D_H
#define DDM_NET_I3D_H

#include "net/runner.h"

enum { I3D_FRAMES = 16, I3D_SIDE = 224, I3D_CLASSES = 400 };

struct i3d;

/* Weights under the names of pytorch-i3d (Conv3d_1a_7x7.conv3d.weight [64, 3, 7, 7, 7], .bn.weight ..; logits.conv3d.weight [400, 1024, 1, 1, 1])
 * from a file or folder (file/weightfile.h). eps is added to the variances of batch norms: 1e-5 in cd-fvd, 1e-3 in pytorch-i3d. The device is
 * borrowed. ERR_DATA naming a tensor that is missing or does not fit. Caller frees with i3d_free. */
struct i3d *i3d_open(const char *path, double eps, struct device *d, struct err *e);
void i3d_free(struct i3d *n); /* NULL is allowed */

/* out (count, 400): the class logits, averaged over time, of x (count, 16, 224, 224, 3) in [-1, 1]. Errors of the device. */
int i3d_run(struct i3d *n, int64_t count, float *out, const float *x, struct err *e);

#endif
