/* Outlines of font files (TrueType, OpenType, collections), rendered by FreeType: for pictures of glyphs. A build without FreeType has the same
 * functions, and font_open fails. */
#ifndef DDM_FILE_FONT_H
#define DDM_FILE_FONT_H

#include <stddef.h>
#include <stdint.h>

#include "core/err.h"

struct font;

int font_available(void); /* 1 if this build can render fonts */

/* Open face `face` of a font file in memory, which stays the caller's and valid until font_close; `name` is for messages. ERR_UNAVAILABLE if this
 * build has no FreeType; ERR_DATA: not a font, a damaged one, or one of bitmaps alone. Fonts opened twice may be used by two threads at a time. */
struct font *font_open(const void *data, size_t len, int face, const char *name, struct err *e);
void font_close(struct font *f); /* NULL is allowed */

int font_faces(const struct font *f);            /* faces in the file */
const char *font_name(const struct font *f);     /* family and style: "DejaVu Sans Bold". Borrowed */
const char *font_renderer(const struct font *f); /* the version that renders: "freetype 2.12.1". Borrowed */
int font_weight(const struct font *f);           /* as in CSS: 400 is regular, 700 bold; 0 if the font does not say */
int font_has(const struct font *f, uint32_t code_point);

/* Set *hash to that of a glyph's outline, wherever it lies: glyphs with the same hash give the same pictures. 0 if there is nothing to draw, as for
 * a blank, or if the glyph is damaged. ERR_NOMEM. */
int font_outline_hash(struct font *f, uint32_t code_point, uint64_t *hash, struct err *e);

/* Where a glyph lies in a picture. Positions are rounded to 1/64 pixel, so that a shift by whole pixels shifts the picture. */
struct font_pose {
	double em;      /* pixels of the em, the font's size */
	double x, y;    /* pixels from the left and from the top to the centre of the glyph's box before it is rotated */
	double degrees; /* rotation about that centre, anticlockwise */
};

/* coverage (side, side), rows from the top: the share of each pixel that the glyph covers, 0 to 255. What lies outside is cut. ERR_DATA if the font
 * has no such glyph. */
int font_render(struct font *f, uint32_t code_point, const struct font_pose *pose, uint8_t *coverage, int side, struct err *e);

#endif
