/* Pictures from the numbers that networks make, and those numbers from pictures. */
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

#endif
