/* LPIPS v0.1, the learned perceptual distance (Zhang et al. 2018): squared differences of a classifier's features, which are normalised at each
 * position, weighted by channel. */
#ifndef DDM_NET_LPIPS_H
#define DDM_NET_LPIPS_H

#include "net/runner.h"

enum lpips_trunk { LPIPS_ALEX, LPIPS_VGG, LPIPS_SQUEEZE };

extern const char *const lpips_trunk_names[]; /* "alex vgg squeeze", NULL-terminated */

struct lpips;

/* trunk: weights (file/weightfile.h) of torchvision's alexnet, vgg16 or squeezenet1_1 (features.0.weight ..; other tensors are ignored), or the same
 * under the names of the lpips package (net.slice1.0.weight ..). heads: weights lin0.model.1.weight ..; may be the same file. For batches of up to
 * `capacity` pictures. The device is borrowed. Caller frees with lpips_free. */
struct lpips *lpips_open(enum lpips_trunk kind, const char *trunk, const char *heads, int64_t capacity, struct device *d, struct err *e);
/* Open a folder with the files trunk and heads, each .safetensors, .pth or .pt. The kind follows from the heads. hash: SHA-256 of the weights. */
struct lpips *lpips_folder(const char *dir, int64_t capacity, char hash[65], struct device *d, struct err *e);
void lpips_free(struct lpips *n);
enum lpips_trunk lpips_kind(const struct lpips *n);

/* distance[i] between a[i] and b[i]; a and b are (count, 3, h, w) in [-1, 1] in host memory, h and w at least LPIPS_LEAST. */
enum { LPIPS_LEAST = 64 };
int lpips_run(struct lpips *n, int64_t count, const float *a, const float *b, int64_t h, int64_t w, float *distance, struct err *e);

/* The distance is the squared Euclidean distance of two vectors. lpips_width: their length; -1 if memory is short for pictures of this size.
 * lpips_vectors: the vectors (count, lpips_width) of x (count, 3, h, w). */
int64_t lpips_width(struct lpips *n, int64_t h, int64_t w, struct err *e);
int lpips_vectors(struct lpips *n, int64_t count, const float *x, int64_t h, int64_t w, float *vectors, struct err *e);

#endif
