/* What the still decoders share. Private to lib/file/still*.c. */
#ifndef DDM_FILE_STILLIMPL_H
#define DDM_FILE_STILLIMPL_H

#include "file/still.h"

struct still_input {
	const uint8_t *data;
	size_t len;
	const char *name;
	struct still_limits limits; /* defaults filled in: no zeros */
};

/* Orientations from EXIF and XMP, 0 if absent. As in Pillow, XMP is used only if EXIF has none. */
struct still_meta {
	int exif_orientation, xmp_orientation;
};

/* Decode to 1 or 3 channels; the caller applies the orientation. Caller frees *out with picture_release. */
int still_jpeg_decode(struct picture *out, struct still_meta *meta, const struct still_input *in, struct err *e);
int still_png_decode(struct picture *out, struct still_meta *meta, const struct still_input *in, struct err *e);
int still_webp_decode(struct picture *out, struct still_meta *meta, const struct still_input *in, struct err *e);

int still_jpeg_size(const struct still_input *in, int *width, int *height, struct err *e);
int still_png_size(const struct still_input *in, int *width, int *height, struct err *e);
int still_webp_size(const struct still_input *in, int *width, int *height, struct err *e);

/* Fill everything but f->kind. */
int still_jpeg_probe(struct still_facts *f, const struct still_input *in, struct err *e);
int still_png_probe(struct still_facts *f, const struct still_input *in, struct err *e);
int still_webp_probe(struct still_facts *f, const struct still_input *in, struct err *e);

/* ERR_DATA for an empty picture or more than limits.max_pixels pixels. */
int still_check_size(const struct still_input *in, int64_t width, int64_t height, struct err *e);
/* ERR_DATA if a decoder needs more than limits.max_memory bytes. */
int still_check_memory(const struct still_input *in, uint64_t bytes, struct err *e);

/* Orientation 1..8 of a TIFF structure, with or without "Exif\0\0" in front; 0 if it is absent or cannot be read. */
int still_exif_orientation(const uint8_t *data, size_t len);
/* Orientation of an XMP packet (tiff:Orientation); 0 if absent. */
int still_xmp_orientation(const uint8_t *data, size_t len);

/* Rotate or mirror p in place by EXIF orientation `o` (2..8; no change for other values). ERR_NOMEM. */
int still_orient(struct picture *p, int o, struct err *e);

#endif
