/* Turns network outputs into 8-bit pictures, and pictures into inputs. */
#include "diffusion/gallery.h"

#include <assert.h>
#include <math.h>

int gallery_picture(struct picture *p, const float *x, int64_t channels, int64_t height, int64_t width, const char *what, struct err *e)
{
	int64_t n = height * width;

	assert(channels == 1 || channels == 3);
	if (picture_alloc(p, (int)width, (int)height, (int)channels, e))
		return -1;
	for (int64_t c = 0; c < channels; c++)
		for (int64_t i = 0; i < n; i++) {
			double v = floor((x[c * n + i] + 1.) * 127.5 + .5);

			if (!isfinite(v)) {
				picture_release(p);
				return err_set(e, ERR_FAIL, "%s: not finite", what);
			}
			p->pixels[i * channels + c] = (uint8_t)fmin(fmax(v, 0), 255);
		}
	return 0;
}

void gallery_numbers(float *out, const struct picture *p, int mirrored)
{
	int64_t w = p->width, area = w * p->height, channels = p->channels;

	for (int64_t c = 0; c < channels; c++)
		for (int64_t i = 0; i < area; i++) {
			int64_t from = mirrored ? i + w - 1 - 2 * (i % w) : i;

			out[c * area + i] = (float)p->pixels[from * channels + c] / 127.5f - 1;
		}
}
