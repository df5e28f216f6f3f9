/* Encodes animated WebP. */
#include "file/animation.h"

#include <math.h>
#include <string.h>
#include <webp/encode.h>
#include <webp/mux.h>

#include "core/mem.h"

struct animation {
	WebPAnimEncoder *encoder;
	int width, height;
	double fps;
	int64_t frames;
};

/* Milliseconds from the start to frame i. */
static int time_of(const struct animation *a, int64_t i)
{
	return (int)llround((double)i * 1000 / a->fps);
}

struct animation *animation_new(int width, int height, double fps, struct err *e)
{
	struct animation *a;
	WebPAnimEncoderOptions o;

	if (width > WEBP_MAX_DIMENSION || height > WEBP_MAX_DIMENSION) {
		err_set(e, ERR_USAGE, "an animation of %d x %d pixels: WebP has at most %d a side", width, height, WEBP_MAX_DIMENSION);
		return NULL;
	}
	a = mem_zalloc(1, sizeof *a);
	*a = (struct animation){.width = width, .height = height, .fps = fps};
	if (WebPAnimEncoderOptionsInit(&o))
		a->encoder = WebPAnimEncoderNew(width, height, &o);
	if (a->encoder)
		return a;
	err_set(e, ERR_NOMEM, "an animation of %d x %d pixels: out of memory", width, height);
	animation_free(a);
	return NULL;
}

/* Copy a frame to a picture of libwebp, whose pixels are 0xAARRGGBB. */
static void put_pixels(WebPPicture *w, const struct picture *p)
{
	int grey = p->channels == 1;

	for (int y = 0; y < p->height; y++)
		for (int x = 0; x < p->width; x++) {
			const uint8_t *c = p->pixels + ((size_t)y * (size_t)p->width + (size_t)x) * (size_t)p->channels;

			w->argb[(size_t)y * (size_t)w->argb_stride + (size_t)x] =
			    0xff000000u | (uint32_t)c[0] << 16 | (uint32_t)c[grey ? 0 : 1] << 8 | c[grey ? 0 : 2];
		}
}

int animation_add(struct animation *a, const struct picture *frame, struct err *e)
{
	WebPConfig c;
	WebPPicture w;
	int ok = WebPConfigInit(&c) && WebPConfigLosslessPreset(&c, 6) && WebPPictureInit(&w);

	if (ok) {
		c.exact = 1;
		w.use_argb = 1;
		w.width = a->width;
		w.height = a->height;
		ok = WebPPictureAlloc(&w);
		if (ok)
			put_pixels(&w, frame);
		ok = ok && WebPAnimEncoderAdd(a->encoder, &w, time_of(a, a->frames++), &c);
		WebPPictureFree(&w);
	}
	return ok ? 0
	          : err_set(e, ERR_FAIL, "frame %lld of an animation: libwebp cannot encode it: %s", (long long)a->frames,
	                    WebPAnimEncoderGetError(a->encoder));
}

int animation_end(struct animation *a, uint8_t **out, size_t *len, struct err *e)
{
	WebPData d;
	int rc = -1;

	WebPDataInit(&d);
	if (!WebPAnimEncoderAdd(a->encoder, NULL, time_of(a, a->frames), NULL) || !WebPAnimEncoderAssemble(a->encoder, &d)) {
		err_set(e, ERR_FAIL, "an animation: libwebp cannot encode it: %s", WebPAnimEncoderGetError(a->encoder));
	} else if ((*out = mem_try(d.size, 1, "an animation", e))) {
		memcpy(*out, d.bytes, d.size);
		*len = d.size;
		rc = 0;
	}
	WebPDataClear(&d);
	return rc;
}

void animation_free(struct animation *a)
{
	if (!a)
		return;
	WebPAnimEncoderDelete(a->encoder);
	mem_free(a);
}
