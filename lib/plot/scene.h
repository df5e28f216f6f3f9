/* A drawing: lines, filled areas and text, in pixels from the upper left corner. Written as SVG (scene_svg) or drawn as pixels
 * (scene_picture). */
#ifndef DDM_PLOT_SCENE_H
#define DDM_PLOT_SCENE_H

#include "core/err.h"
#include "core/str.h"
#include "file/still.h"

/* Colours by what they are for. Those of the series differ for every kind of colour vision and have a contrast of at least 3 to 1
 * with the paper; whoever cannot tell them apart has markers and dashes. */
enum scene_colour { SCENE_PAPER, SCENE_INK, SCENE_SOFT, SCENE_GRID, SCENE_SERIES, SCENE_COLOURS = SCENE_SERIES + 8 };

uint32_t scene_rgb(int colour); /* 0xrrggbb */

enum scene_anchor { SCENE_START, SCENE_MIDDLE, SCENE_END };
enum { SCENE_DASHES = 6 }; /* 0 is a whole line */

struct scene_pen {
	int colour;     /* enum scene_colour + series */
	double width;   /* pixels; 0: fill */
	double opacity; /* 0..1 */
	int dash;       /* 0..SCENE_DASHES-1 */
};

struct scene_item {
	struct scene_pen pen;
	double *xy; /* (n, 2); of a text its place */
	int n;
	char *text;  /* NULL: a line or an area */
	double size; /* of a text: pixels to the em */
	enum scene_anchor anchor;
	int bold;
};

/* Zero-initialised but for width and height is an empty drawing. */
struct scene {
	double width, height;
	char *title, *about; /* for readers that do not see: what it is, what it shows; owned */
	struct scene_item *item;
	int n;
};

void scene_release(struct scene *s);
void scene_name(struct scene *s, const char *title, const char *about); /* copies; bytes that are no UTF-8 become '?' */

/* Coordinates are copied, and must be finite. n >= 2 for lines, >= 3 for areas; fewer draw nothing. */
void scene_line(struct scene *s, const double *xy, int n, struct scene_pen pen);
void scene_area(struct scene *s, const double *xy, int n, int colour, double opacity);
void scene_text(struct scene *s, double x, double y, double size, enum scene_anchor anchor, int colour, int bold, const char *text);
void scene_segment(struct scene *s, double x0, double y0, double x1, double y1, struct scene_pen pen);
void scene_box(struct scene *s, double x0, double y0, double x1, double y1, int colour, double opacity);

/* Lengths of a dash pattern in pixels, drawn and left out in turn; returns how many (0: a whole line). */
int scene_dash(int dash, const double **lengths);

/* An SVG element. `id`: letters that no other drawing of the same document uses. Within a page (`stamp` NULL) it has the size of
 * its place, no background, and classes c0, c1... by which the page may choose other colours; as a file of its own it carries
 * `stamp`, a line of JSON, as metadata. */
void scene_svg(struct str *out, const struct scene *s, const char *id, const char *stamp);

/* RGB pixels, `scale` to one of the drawing; anti-aliased. ERR_USAGE for more than 2^26 pixels, ERR_NOMEM. */
int scene_picture(struct picture *p, const struct scene *s, double scale, struct err *e);

/* Text for XML and HTML: & < > " escaped, what is neither UTF-8 nor allowed in XML as '?'. */
void scene_escape(struct str *out, const char *text);

#endif
