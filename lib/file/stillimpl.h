/* What the still decoders share. Private to lib/file/still*.c. */
#ifndef DDM_FILE_STILLIMPL_H
#define DDM_FILE_STILLIMPL_H

#include "file/still.h"

struct still_input {
	const uint8_t *data;
	size_t len;
	const char *name;
	struct still_limits limits; /* both set */
};

/* EXIF and XMP found on the way; orientation is 0 while unknown. Pillow's order: EXIF first, XMP where EXIF has none. */
struct still_meta {
	int exif_orientation, xmp_orientation;
};

/* Each decoder gives 1 or 3 channels, not yet turned upright. */
int still_jpeg_decode(struct picture *out, struct still_meta *meta, const struct still_input *in, struct err *e);
int still_png_decode(struct picture *out, struct still_meta *meta, const struct still_input *in, struct err *e);
int still_webp_decode(struct picture *out, struct still_meta *meta, const struct still_input *in, struct err *e);

int still_jpeg_size(const struct still_input *in, int *width, int *height, struct err *e);
int still_png_size(const struct still_input *in, int *width, int *height, struct err *e);
int still_webp_size(const struct still_input *in, int *width, int *height, struct err *e);

/* Everything but the kind. */
int still_jpeg_probe(struct still_facts *f, const struct still_input *in, struct err *e);
int still_png_probe(struct still_facts *f, const struct still_input *in, struct err *e);
int still_webp_probe(struct still_facts *f, const struct still_input *in, struct err *e);

/* ERR_DATA where width * height passes limits.max_pixels; ERR_NOMEM where a decoder would need more than limits.max_memory. */
int still_check_size(const struct still_input *in, int64_t width, int64_t height, struct err *e);
int still_check_memory(const struct still_input *in, uint64_t bytes, struct err *e);

/* Orientation 1..8 of a TIFF structure, with or without "Exif\0\0" in front; 0 where there is none or it cannot be read. */
int still_exif_orientation(const uint8_t *data, size_t len);
/* Orientation of an XMP packet (tiff:Orientation); 0 where there is none. */
int still_xmp_orientation(const uint8_t *data, size_t len);

/* Exchange p for its picture as EXIF orientation `o` (2..8; anything else: nothing to do) wants it seen. */
int still_orient(struct picture *p, int o, struct err *e);

#endif
