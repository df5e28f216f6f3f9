/* Marks of charts: clipped lines, markers, intervals, and labels that avoid each other. */
#ifndef DDM_PLOT_MARKS_H
#define DDM_PLOT_MARKS_H

#include "plot/scene.h"

struct plotbox {
	double x0, y0, x1, y1; /* pixels, y0 above y1 */
};

int plotbox_has(const struct plotbox *b, double x, double y);

int mark_dash(int style); /* of the lines of a style */
/* The marker of a style, of about radius r, in the style's colour. */
void mark_draw(struct scene *s, int style, double x, double y, double r);
/* A line through (n, 2) pixels, broken where they are NaN, cut to the box. At most four points are kept of each column of pixels,
 * the first, the lowest, the highest and the last, so that the drawing is bounded. xy is changed. */
void mark_line(struct scene *s, const struct plotbox *b, double *xy, int n, struct scene_pen pen);
/* From low to high at x, with end strokes where it is not cut. */
void mark_interval(struct scene *s, const struct plotbox *b, double x, double low, double high, struct scene_pen pen);

/* Labels beside points. */
struct naming {
	struct scene *scene;
	const struct plotbox *box;
	struct naming_point *point;
	struct plotbox *taken;
	int n, blocks;
};

void naming_init(struct naming *m, struct scene *s, const struct plotbox *b);
void naming_release(struct naming *m);
void naming_add(struct naming *m, double x, double y, int style, const char *text); /* text is borrowed, may be empty */
void naming_block(struct naming *m, double x0, double y0, double x1, double y1);    /* no label there */
/* Draws all labels, or none and returns -1 when there is no room for all of them. */
int naming_draw(struct naming *m);

#endif
