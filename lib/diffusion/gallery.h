/* Pictures from the numbers networks make, and contact sheets of them. */
#ifndef DDM_DIFFUSION_GALLERY_H
#define DDM_DIFFUSION_GALLERY_H

#include <stdint.h>

#include "core/err.h"
#include "file/still.h"

/* x (channels, height, width) in [-1, 1] -> round((x + 1) 127.5), clamped, interleaved; channels 1 or 3. A value that is not
 * finite is ERR_FAIL naming `what`. Release with picture_release. */
int gallery_picture(struct picture *p, const float *x, int64_t channels, int64_t height, int64_t width, const char *what, struct err *e);
/* The other way: out (channels, height, width) = pixel / 127.5 - 1, mirrored left to right on demand. */
void gallery_numbers(float *out, const struct picture *p, int mirrored);

/* A sheet for n pictures of size x size in `columns` columns (0: the least that makes it no taller than wide), black, with a
 * gap of two pixels between them. Release with picture_release. */
int gallery_sheet(struct picture *sheet, int64_t n, int64_t columns, int64_t channels, int64_t size, struct err *e);
/* Copy picture i (of the sheet's channels) to its place. `columns` and size as given to gallery_sheet. */
void gallery_put(struct picture *sheet, int64_t i, int64_t n, int64_t columns, const struct picture *p);

#endif
