/* A convolutional network that is given as an ONNX graph (file/onnx.h): one picture in, one out. Networks of the toolkit's own have a file each; this
 * is for small published ones, such as detectors, that come in this form alone.
 *
 * Operators: Conv (of one group, or of one channel a group), ConvTranspose (whose stride is its size), BatchNormalization, Add, Sub, Mul, Div (by a
 * constant), Clip, Relu, Sigmoid, Tanh, HardSigmoid, HardSwish, GlobalAveragePool, ReduceMean (over height and width), MaxPool, Resize and Upsample
 * (nearest neighbour, by a power of two), Concat (of channels), Reshape (of a constant), Identity. Constants are single numbers or one number a
 * channel. */
#ifndef DDM_NET_ONNXNET_H
#define DDM_NET_ONNXNET_H

#include <stdint.h>

#include "net/runner.h"

struct onnxnet;

/* Read the graph and its weights, and check it at one size: pictures of 64 x 64 pixels and `channels` channels. The device is borrowed. ERR_DATA
 * naming what the graph has that is not among the above. Caller frees with onnxnet_free. */
struct onnxnet *onnxnet_open(const char *path, int64_t channels, struct device *d, struct err *e);
void onnxnet_free(struct onnxnet *n); /* NULL is allowed */

/* Prepare for pictures of h x w pixels, which holds until the next call. out: height, width and channels of what comes out. ERR_DATA if the graph
 * cannot take this size, ERR_NOMEM. */
int onnxnet_plan(struct onnxnet *n, int64_t h, int64_t w, int64_t out[3], struct err *e);

/* x (h, w, channels), y (out[0], out[1], out[2]). Errors of the device. */
int onnxnet_run(struct onnxnet *n, const float *x, float *y, struct err *e);

#endif
