/* Converts between network tensors in [-1, 1] and 8-bit pictures. */
#ifndef DDM_DIFFUSION_GALLERY_H
#define DDM_DIFFUSION_GALLERY_H

#include <stdint.h>

#include "core/err.h"
#include "file/still.h"

/* *p = round((x + 1) 127.5), clamped to 0 .. 255 and interleaved, for x (channels, height, width); channels 1 or 3. A non-finite value is
 * ERR_FAIL naming `what`. Release with picture_release. */
int gallery_picture(struct picture *p, const float *x, int64_t channels, int64_t height, int64_t width, const char *what, struct err *e);
/* The inverse: out (channels, height, width) = pixel / 127.5 - 1; `mirrored` flips it left to right. */
void gallery_numbers(float *out, const struct picture *p, int mirrored);

#endif
