/* Marks of charts: clipped lines, markers, intervals, and labels that avoid each other. */
#ifndef DDM_PLOT_MARKS_H
#define DDM_PLOT_MARKS_H

#include "plot/scene.h"

struct plotbox {
	double x0, y0, x1, y1; /* pixels, y0 above y1 */
};

int plotbox_has(const struct plotbox *b, double x, double y); /* 1 if the point is in the box, give or take half a pixel */

int mark_dash(int style); /* the dash of lines of this style */
/* Draw the marker of a style, of radius about r, in the style's colour. */
void mark_draw(struct scene *s, int style, double x, double y, double r);
/* Draw a line through xy (n, 2) in pixels, interrupted at NaN and clipped to the box. At most four points are kept of each column of pixels: the
 * first, the lowest, the highest and the last, so that the size of the drawing is bounded. Overwrites xy. */
void mark_line(struct scene *s, const struct plotbox *b, double *xy, int n, struct scene_pen pen);
/* Draw an interval from low to high at x. An end that is not clipped gets a cross stroke. */
void mark_interval(struct scene *s, const struct plotbox *b, double x, double low, double high, struct scene_pen pen);

/* Places labels beside points so that they do not overlap. Release with naming_release. */
struct naming {
	struct scene *scene;
	const struct plotbox *box;
	struct naming_point *point;
	struct plotbox *taken;
	int n, blocks;
};

void naming_init(struct naming *m, struct scene *s, const struct plotbox *b); /* s and b are borrowed */
void naming_release(struct naming *m);
void naming_add(struct naming *m, double x, double y, int style, const char *text); /* text is borrowed and may be empty */
void naming_block(struct naming *m, double x0, double y0, double x1, double y1);    /* keeps labels out of this box */
/* Draw all labels. If there is no room for all of them, draws none and returns -1. */
int naming_draw(struct naming *m);

#endif
