/* Resampling that gives the bits Pillow's Image.resize gives, since published metrics and datasets rest on it: every row
 * first, then every column, as all releases up to 12 do. (13 goes columns first for some shapes; its last bits differ there.) */
#ifndef DDM_FILE_RESIZE_H
#define DDM_FILE_RESIZE_H

#include "core/err.h"
#include "file/still.h"

enum resize_filter { RESIZE_BOX, RESIZE_BILINEAR, RESIZE_HAMMING, RESIZE_BICUBIC, RESIZE_LANCZOS };

/* "box bilinear hamming bicubic lanczos", NULL-terminated, in the order of enum resize_filter. */
extern const char *const resize_filter_names[];

/* im.resize((width, height), filter) of Pillow's modes L and RGB. out is new (picture_release) and may not be in. RGBA is
 * not premultiplied here as Pillow does it: drop the alpha first. ERR_NOMEM. */
int picture_resize(struct picture *out, const struct picture *in, int width, int height, enum resize_filter filter, struct err *e);

/* The same in mode F: in is (h, w), out (height, width), both of one channel and owned by the caller. Sums in double. */
int plane_resize(float *out, int width, int height, const float *in, int w, int h, enum resize_filter filter, struct err *e);

/* im.reduce((fx, fy)) of modes L and RGB: means over whole cells, the last ones smaller. fx, fy >= 1. */
int picture_reduce(struct picture *out, const struct picture *in, int fx, int fy, struct err *e);

/* The largest centred rectangle with the ratio width : height, its sides rounded to pixels, resized to width x height. */
int picture_cover(struct picture *out, const struct picture *in, int width, int height, enum resize_filter filter, struct err *e);

/* The largest centred square, x = (w - s) / 2 and y = (h - s) / 2 rounded down, resized to size x size. */
int picture_square(struct picture *out, const struct picture *in, int size, enum resize_filter filter, struct err *e);

/* Centre crop of guided-diffusion (Dhariwal and Nichol 2021, image_datasets.py center_crop_arr), which ImageNet experiments
 * share: halve by box while the shorter side is at least twice `size`, bicubic to shorter side = size, centre crop. */
int picture_square_adm(struct picture *out, const struct picture *in, int size, struct err *e);

#endif
