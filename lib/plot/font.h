/* Labels in pictures: a fixed font of 5x7 pixels, drawn for this purpose; tails of small letters stay within the 7 rows. */
#ifndef DDM_PLOT_FONT_H
#define DDM_PLOT_FONT_H

#include <stdint.h>

#include "file/still.h"

enum { FONT_WIDTH = 6, FONT_HEIGHT = 7 }; /* advance and height in pixels */

/* Draws ASCII text with its upper left corner at (x, y); what lies outside the picture is cut off. Characters without a
 * glyph become a question mark. */
void font_draw(struct picture *p, int x, int y, const char *text, uint8_t r, uint8_t g, uint8_t b);

#endif
