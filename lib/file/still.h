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

/* Room for width * height * channels bytes, not cleared; ERR_NOMEM. */
int picture_alloc(struct picture *p, int width, int height, int channels, struct err *e);
void picture_release(struct picture *p);
/* Exchange for a picture of `want` channels (1 or 3): alpha is dropped, grey = ITU-R 601 luma as Pillow's convert("L"). */
int picture_convert(struct picture *p, int want, struct err *e);

struct still_limits {
	int64_t max_pixels; /* width * height; 0: 2^28 */
	size_t max_memory;  /* of a decoder; 0: 1 GiB */
};

enum still_kind { STILL_UNKNOWN, STILL_JPEG, STILL_PNG, STILL_WEBP };

enum still_kind still_sniff(const void *data, size_t len);

/* Decode by magic number. The result is what Pillow's
 *   ImageOps.exif_transpose(Image.open(f)).convert("RGB")
 * gives (want = 3), or convert("L") for want = 1; an alpha channel is dropped as Pillow's convert does; 16-bit and palette
 * pictures, CMYK and YCCK JPEGs as Pillow. The first frame of an animation. A truncated or damaged file is an error
 * (ERR_DATA), never a partly grey picture. `name` is used in messages. limits may be NULL. */
int still_decode(struct picture *out, const void *data, size_t len, const char *name, int want, const struct still_limits *limits, struct err *e);

/* The declared size before orientation, from the header alone. */
int still_size(const void *data, size_t len, const char *name, int *width, int *height, struct err *e);

/* What a picture is, from its header and the chunks beside the pixels, which are neither decoded nor checked. */
struct still_facts {
	enum still_kind kind;
	int width, height; /* as stored */
	int orientation;   /* EXIF's, 2..8: to be turned; else 0 or 1 */
	int bits;          /* of a channel, or of an index into a palette */
	const char *mode;  /* "grey", "grey alpha", "palette", "rgb", "rgba", "ycbcr", "cmyk", .. */
	int gradual;       /* interlaced, or progressive */
	int frames;        /* of an animated WebP; else 1 */
};

int still_probe(struct still_facts *f, const void *data, size_t len, const char *name, struct err *e);

/* The text of the first chunk tEXt, or iTXt as still_encode_png writes it, with that keyword; NULL where there is none. Caller
 * frees with mem_free. */
char *still_png_text(const void *data, size_t len, const char *key);

struct still_text {
	const char *key, *value; /* PNG tEXt/iTXt chunk: key is Latin-1 1..79 bytes, value UTF-8 */
};

/* PNG into *out (mem_free it), no time chunk, fixed compression settings: the same pixels give the same bytes with the same
 * zlib. */
int still_encode_png(const struct picture *p, const struct still_text *texts, int ntexts, uint8_t **out, size_t *len, struct err *e);

/* Lossless WebP into *out (mem_free it); grey becomes RGB. */
int still_encode_webp(const struct picture *p, uint8_t **out, size_t *len, struct err *e);

/* JPEG of 1 or 3 channels into *out (mem_free it), colours at full resolution, quality 1..100. */
int still_encode_jpeg(const struct picture *p, int quality, uint8_t **out, size_t *len, struct err *e);

#endif
