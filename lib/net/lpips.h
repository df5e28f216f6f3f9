/* LPIPS v0.1, the learned perceptual distance (Zhang et al. 2018): features of a classifier's convolutions, normalised at each
 * position, their squared differences weighted by channel. */
#ifndef DDM_NET_LPIPS_H
#define DDM_NET_LPIPS_H

#include "net/runner.h"

enum lpips_trunk { LPIPS_ALEX, LPIPS_VGG, LPIPS_SQUEEZE };

extern const char *const lpips_trunk_names[]; /* "alex vgg squeeze", NULL-terminated */

struct lpips;

/* trunk: a file (file/weightfile.h) of torchvision's alexnet, vgg16 or squeezenet1_1 (features.0.weight ..; what else it holds is not
 * needed), or of the names lpips gives them (net.slice1.0.weight ..). heads: lin0.model.1.weight .., which may be the same file. For batches of up
 * to `capacity` pictures. The device is borrowed. */
struct lpips *lpips_open(enum lpips_trunk kind, const char *trunk, const char *heads, int64_t capacity, struct device *d, struct err *e);
/* A folder with both as trunk and heads, each .safetensors, .pth or .pt; the heads say which kind it is. hash: SHA-256 of the weights. */
struct lpips *lpips_folder(const char *dir, int64_t capacity, char hash[65], struct device *d, struct err *e);
void lpips_free(struct lpips *n);
enum lpips_trunk lpips_kind(const struct lpips *n);

/* distance[i] of a[i] and b[i], both (n, 3, h, w) in [-1, 1]; h and w are at least LPIPS_LEAST. */
enum { LPIPS_LEAST = 64 };
int lpips_run(struct lpips *n, int64_t count, const float *a, const float *b, int64_t h, int64_t w, float *distance, struct err *e);

/* The distance is a squared difference of vectors: those of x (count, 3, h, w) as vectors (count, lpips_width). lpips_width: -1 where there
 * is no memory for pictures of this size. */
int64_t lpips_width(struct lpips *n, int64_t h, int64_t w, struct err *e);
int lpips_vectors(struct lpips *n, int64_t count, const float *x, int64_t h, int64_t w, float *vectors, struct err *e);

int64_t lpips_parameters(const struct lpips *n); /* of trunk and heads */

#endif
