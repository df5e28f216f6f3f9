/* Still pictures: decoding as Pillow does (libjpeg-turbo, libpng, libwebp, bit for bit), encoding of PNG,
 * WebP and JPEG. */
#ifndef DDM_FILE_STILL_H
#define DDM_FILE_STILL_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

/* 8-bit interleaved pixels, rows top to bottom without padding: (height, width, channels). */
struct picture {
	int width, height, channels; /* 1 grey, 3 RGB, 4 RGBA */
	uint8_t *pixels;             /* owned; picture_release frees */
};

/* Allocate uninitialised pixels. ERR_NOMEM, with *p unchanged. Free with picture_release. */
int picture_alloc(struct picture *p, int width, int height, int channels, struct err *e);
void picture_release(struct picture *p);

/* grey (n): the luma of rgb (n, 3), as Pillow's convert("L"). */
void picture_grey(uint8_t *grey, const uint8_t *rgb, int64_t n);

struct still_limits {
	int64_t max_pixels; /* width * height; 0: 2^28 */
	size_t max_memory;  /* bytes that a decoder may use; 0: 1 GiB */
};

enum still_kind { STILL_UNKNOWN, STILL_JPEG, STILL_PNG, STILL_WEBP };

/* The kind by the magic number, STILL_UNKNOWN for any other data. */
enum still_kind still_sniff(const void *data, size_t len);

/* Decode; the magic number selects the decoder. The result equals Pillow's
 *   ImageOps.exif_transpose(Image.open(f)).convert("RGB")
 * for want = 3, or convert("L") for want = 1, also for 16-bit and palette pictures, CMYK and YCCK JPEGs, and pictures with alpha, which is
 * dropped. An animation yields its first frame. A truncated or damaged file, or one over the limits, is ERR_DATA. `name` is used in messages.
 * limits may be NULL. Caller frees *out with picture_release. */
int still_decode(struct picture *out, const void *data, size_t len, const char *name, int want, const struct still_limits *limits, struct err *e);

/* Read the size from the header, before orientation is applied. ERR_DATA for an unknown kind or a damaged header. */
int still_size(const void *data, size_t len, const char *name, int *width, int *height, struct err *e);

/* Facts from a picture's header and metadata chunks. The pixels are neither decoded nor checked. */
struct still_facts {
	enum still_kind kind;
	int width, height; /* as stored */
	int orientation;   /* EXIF orientation; 2..8: to be rotated or mirrored; 0 or 1: upright */
	int bits;          /* bits of a channel, or of a palette index */
	const char *mode;  /* "grey", "grey alpha", "palette", "rgb", "rgba", "ycbcr", "cmyk", .. */
	int gradual;       /* interlaced, or progressive */
	int frames;        /* frames of an animated WebP; else 1 */
};

/* Fill *f. ERR_DATA for an unknown kind or a damaged header. */
int still_probe(struct still_facts *f, const void *data, size_t len, const char *name, struct err *e);

/* The text of the first tEXt chunk, or uncompressed iTXt chunk as still_encode_png writes it, with the keyword `key`. NULL if there is none.
 * Caller frees with mem_free. */
char *still_png_text(const void *data, size_t len, const char *key);

struct still_text {
	const char *key, *value; /* a PNG tEXt or iTXt chunk: key is 1..79 bytes of Latin-1, value is UTF-8 */
};

/* Encode a PNG into *out; caller frees it with mem_free. It has no time chunk and fixed compression settings, so the same pixels and texts give
 * the same bytes with the same zlib. */
int still_encode_png(const struct picture *p, const struct still_text *texts, int ntexts, uint8_t **out, size_t *len, struct err *e);

/* Encode a lossless WebP into *out; caller frees it with mem_free. Grey is stored as RGB. */
int still_encode_webp(const struct picture *p, uint8_t **out, size_t *len, struct err *e);

/* Encode a JPEG of 1 or 3 channels into *out; caller frees it with mem_free. No chroma subsampling; quality is 1..100. */
int still_encode_jpeg(const struct picture *p, int quality, uint8_t **out, size_t *len, struct err *e);

#endif
