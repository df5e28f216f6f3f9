/* Text of charts: the title, labels shortened to fit, notes on the chart itself. */
#ifndef DDM_PLOT_CHARTTEXT_H
#define DDM_PLOT_CHARTTEXT_H

#include "plot/scene.h"

#define CHARTTEXT_SIZE 12.5                          /* pixels to the em of all but titles */
enum { CHARTTEXT_MARGIN = 14, CHARTTEXT_LINE = 19 }; /* pixels: to the edge of the drawing, from line to line */

/* The title at the top, as large as it fits between `left` and the margin on the right. Returns the place below it, y in pixels. */
double charttext_title(struct scene *s, const char *title, double left);

/* Text that is cut, with dots, where it would be wider than `room` pixels. */
void charttext_label(struct scene *s, double x, double y, enum scene_anchor anchor, int colour, const char *text, double room);

/* Text on the chart itself: the grid does not run through it. */
void charttext_note(struct scene *s, double x, double y, enum scene_anchor anchor, const char *text);

#endif
