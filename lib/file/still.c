/* Pictures of any format: recognising, limits, decoding, conversion to RGB. */
#include "file/still.h"

#include <string.h>

#include "core/mem.h"
#include "file/stillimpl.h"

int picture_alloc(struct picture *p, int width, int height, int channels, struct err *e)
{
	uint8_t *pixels = mem_try((size_t)width * height, channels, "a picture", e);

	if (!pixels)
		return -1;
	*p = (struct picture){width, height, channels, pixels};
	return 0;
}

void picture_release(struct picture *p)
{
	mem_free(p->pixels);
	*p = (struct picture){0};
}

/* Pillow's L24: 16-bit fixed point, rounded. */
static uint8_t luma(const uint8_t *rgb)
{
	return (uint8_t)((rgb[0] * 19595u + rgb[1] * 38470u + rgb[2] * 7471u + 0x8000u) >> 16);
}

void picture_grey(uint8_t *grey, const uint8_t *rgb, int64_t n)
{
	for (int64_t i = 0; i < n; i++)
		grey[i] = luma(rgb + 3 * i);
}

/* One row of n pixels from `have` to `want` channels. */
static void row_convert(uint8_t *dst, const uint8_t *src, size_t n, int have, int want)
{
	for (size_t i = 0; i < n; i++, src += have, dst += want) {
		if (want == 1 && have >= 3) {
			dst[0] = luma(src);
		} else if (want == 1) {
			dst[0] = src[0];
		} else {
			dst[0] = src[0];
			dst[1] = src[have >= 3 ? 1 : 0];
			dst[2] = src[have >= 3 ? 2 : 0];
		}
	}
}

/* Convert in place to `want` channels (1 or 3): alpha is dropped, grey is ITU-R 601 luma as in Pillow's convert("L"). ERR_NOMEM. */
static int picture_convert(struct picture *p, int want, struct err *e)
{
	struct picture to;

	if (p->channels == want)
		return 0;
	if (picture_alloc(&to, p->width, p->height, want, e))
		return -1;
	row_convert(to.pixels, p->pixels, (size_t)p->width * p->height, p->channels, want);
	picture_release(p);
	*p = to;
	return 0;
}

int still_check_size(const struct still_input *in, int64_t width, int64_t height, struct err *e)
{
	if (width < 1 || height < 1)
		return err_set(e, ERR_DATA, "%s: a picture of %lldx%lld pixels", in->name, (long long)width, (long long)height);
	if (width > INT32_MAX || height > INT32_MAX || width * height > in->limits.max_pixels)
		return err_set(e, ERR_DATA, "%s: %lldx%lld pixels, more than the limit of %lld", in->name, (long long)width, (long long)height,
		               (long long)in->limits.max_pixels);
	return 0;
}

int still_check_memory(const struct still_input *in, uint64_t bytes, struct err *e)
{
	if (bytes <= in->limits.max_memory)
		return 0;
	return err_set(e, ERR_DATA, "%s: decoding needs %llu MiB, more than the limit of %llu MiB", in->name, (unsigned long long)(bytes >> 20),
	               (unsigned long long)(in->limits.max_memory >> 20));
}

enum still_kind still_sniff(const void *data, size_t len)
{
	const uint8_t *p = data;

	if (len >= 3 && p[0] == 0xff && p[1] == 0xd8 && p[2] == 0xff)
		return STILL_JPEG;
	if (len >= 8 && !memcmp(p, "\x89PNG\r\n\x1a\n", 8))
		return STILL_PNG;
	if (len >= 16 && !memcmp(p, "RIFF", 4) && !memcmp(p + 8, "WEBPVP8", 7))
		return STILL_WEBP;
	return STILL_UNKNOWN;
}

static struct still_input input_make(const void *data, size_t len, const char *name, const struct still_limits *limits)
{
	struct still_input in = {.data = data, .len = len, .name = name ? name : "picture"};

	if (limits)
		in.limits = *limits;
	if (in.limits.max_pixels <= 0)
		in.limits.max_pixels = (int64_t)1 << 28;
	if (!in.limits.max_memory)
		in.limits.max_memory = (size_t)1 << 30;
	return in;
}

static int unknown(const struct still_input *in, struct err *e)
{
	if (!in->len)
		return err_set(e, ERR_DATA, "%s: empty", in->name);
	return err_set(e, ERR_DATA, "%s: not a JPEG, PNG or WebP picture", in->name);
}

int still_decode(struct picture *out, const void *data, size_t len, const char *name, int want, const struct still_limits *limits, struct err *e)
{
	struct still_input in = input_make(data, len, name, limits);
	struct still_meta meta = {0};
	struct picture p = {0};
	int rc;

	switch (still_sniff(data, len)) {
	case STILL_JPEG:
		rc = still_jpeg_decode(&p, &meta, &in, e);
		break;
	case STILL_PNG:
		rc = still_png_decode(&p, &meta, &in, e);
		break;
	case STILL_WEBP:
		rc = still_webp_decode(&p, &meta, &in, e);
		break;
	default:
		rc = unknown(&in, e);
	}
	if (!rc)
		rc = picture_convert(&p, want, e);
	if (!rc)
		rc = still_orient(&p, meta.exif_orientation ? meta.exif_orientation : meta.xmp_orientation, e);
	if (rc) {
		picture_release(&p);
		return -1;
	}
	*out = p;
	return 0;
}

int still_probe(struct still_facts *f, const void *data, size_t len, const char *name, struct err *e)
{
	struct still_input in = input_make(data, len, name, NULL);

	in.limits.max_pixels = INT64_MAX;
	*f = (struct still_facts){.kind = still_sniff(data, len), .bits = 8, .frames = 1};
	switch (f->kind) {
	case STILL_JPEG:
		return still_jpeg_probe(f, &in, e);
	case STILL_PNG:
		return still_png_probe(f, &in, e);
	case STILL_WEBP:
		return still_webp_probe(f, &in, e);
	default:
		return unknown(&in, e);
	}
}

int still_size(const void *data, size_t len, const char *name, int *width, int *height, struct err *e)
{
	struct still_input in = input_make(data, len, name, NULL);

	in.limits.max_pixels = INT64_MAX;
	switch (still_sniff(data, len)) {
	case STILL_JPEG:
		return still_jpeg_size(&in, width, height, e);
	case STILL_PNG:
		return still_png_size(&in, width, height, e);
	case STILL_WEBP:
		return still_webp_size(&in, width, height, e);
	default:
		return unknown(&in, e);
	}
}
