/* Writes the text of charts: the title, labels shortened to fit, notes on the chart itself. */
#ifndef DDM_PLOT_CHARTTEXT_H
#define DDM_PLOT_CHARTTEXT_H

#include "plot/scene.h"

#define CHARTTEXT_SIZE 12.5                          /* pixels per em, of all text but titles */
enum { CHARTTEXT_MARGIN = 14, CHARTTEXT_LINE = 19 }; /* pixels: margin around the drawing; distance of lines */

/* Write the title at the top, as large as fits between `left` and the right margin. Returns the y below it, in pixels. */
double charttext_title(struct scene *s, const char *title, double left);

/* Write a text. If it is wider than `room` pixels it is cut and ends with "...". */
void charttext_label(struct scene *s, double x, double y, enum scene_anchor anchor, int colour, const char *text, double room);

/* Write a text on the chart itself, on a background that covers the grid. */
void charttext_note(struct scene *s, double x, double y, enum scene_anchor anchor, const char *text);

#endif
