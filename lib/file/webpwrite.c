/* Encodes WebP by libwebp. */
#include <string.h>
#include <webp/encode.h>

#include "core/mem.h"
#include "file/still.h"

/* libwebp's own memory is not ours to give on. */
int still_encode_webp(const struct picture *p, uint8_t **out, size_t *len, struct err *e)
{
	struct picture rgb = {p->width, p->height, 3, NULL};
	const uint8_t *pixels = p->pixels;
	size_t area = (size_t)p->width * (size_t)p->height;
	uint8_t *bytes = NULL;

	*out = NULL;
	if (p->width > WEBP_MAX_DIMENSION || p->height > WEBP_MAX_DIMENSION)
		return err_set(e, ERR_USAGE, "%d x %d is more than a WebP holds, %d a side", p->width, p->height, WEBP_MAX_DIMENSION);
	if (p->channels == 1) {
		if (picture_alloc(&rgb, p->width, p->height, 3, e))
			return -1;
		for (size_t i = 0; i < area; i++)
			memset(rgb.pixels + 3 * i, p->pixels[i], 3);
		pixels = rgb.pixels;
	}
	if (p->channels == 4)
		*len = WebPEncodeLosslessRGBA(pixels, p->width, p->height, 4 * p->width, &bytes);
	else
		*len = WebPEncodeLosslessRGB(pixels, p->width, p->height, 3 * p->width, &bytes);
	picture_release(&rgb);
	if (!*len)
		return err_set(e, ERR_NOMEM, "cannot encode a WebP of %d x %d", p->width, p->height);
	*out = mem_try(*len, 1, "a WebP", e);
	if (*out)
		memcpy(*out, bytes, *len);
	WebPFree(bytes);
	return *out ? 0 : -1;
}
