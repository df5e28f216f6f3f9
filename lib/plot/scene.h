/* A drawing: lines, filled areas and text, in pixels from the upper left corner. scene_svg writes it as SVG, scene_picture as pixels. */
#ifndef DDM_PLOT_SCENE_H
#define DDM_PLOT_SCENE_H

#include "core/err.h"
#include "core/str.h"
#include "file/still.h"

/* Colours by purpose. The colours of series are distinct for every kind of colour vision and have a contrast of at least 3 to 1 with the paper;
 * markers and dashes distinguish the series too. */
enum scene_colour { SCENE_PAPER, SCENE_INK, SCENE_SOFT, SCENE_GRID, SCENE_SERIES, SCENE_COLOURS = SCENE_SERIES + 8 };

uint32_t scene_rgb(int colour); /* 0xrrggbb */

enum scene_anchor { SCENE_START, SCENE_MIDDLE, SCENE_END };
enum { SCENE_DASHES = 6 }; /* 0 is a solid line */

struct scene_pen {
	int colour;     /* enum scene_colour; of a series SCENE_SERIES + 0..7 */
	double width;   /* pixels; 0: fill */
	double opacity; /* 0..1 */
	int dash;       /* 0..SCENE_DASHES-1 */
};

struct scene_item {
	struct scene_pen pen;
	double *xy; /* (n, 2); for a text its position */
	int n;
	char *text;  /* NULL: the item is a line or an area */
	double size; /* of a text: pixels per em */
	enum scene_anchor anchor;
	int bold;
};

/* A scene that is zeroed except for width and height is an empty drawing. Release with scene_release. */
struct scene {
	double width, height;
	char *title, *about; /* what the drawing is and what it shows, for screen readers; owned */
	struct scene_item *item;
	int n;
};

void scene_release(struct scene *s);
void scene_name(struct scene *s, const char *title, const char *about); /* copies; scene_svg writes invalid UTF-8 as '?' */

/* Add an item. Coordinates must be finite and are copied. Lines need n >= 2 points and areas n >= 3; fewer draw nothing. */
void scene_line(struct scene *s, const double *xy, int n, struct scene_pen pen);
void scene_area(struct scene *s, const double *xy, int n, int colour, double opacity);
/* Add a text, which is copied; y is its base line and x the point that `anchor` aligns; size is pixels per em. */
void scene_text(struct scene *s, double x, double y, double size, enum scene_anchor anchor, int colour, int bold, const char *text);
/* A line of two points; a filled rectangle. */
void scene_segment(struct scene *s, double x0, double y0, double x1, double y1, struct scene_pen pen);
void scene_box(struct scene *s, double x0, double y0, double x1, double y1, int colour, double opacity);

/* The lengths of a dash pattern in pixels, alternately drawn and left out. Returns their number; 0: a solid line. */
int scene_dash(int dash, const double **lengths);

/* Append an SVG element. `id`: letters that no other drawing in the same document uses. With `stamp`, a line of JSON, it is a complete file with the
 * stamp as metadata. With stamp NULL it is part of a page: it takes the size of its container and has no background. Items have the class lN (lines)
 * or fN (areas and text), N being their colour, by which a page may replace colours. */
void scene_svg(struct str *out, const struct scene *s, const char *id, const char *stamp);

/* Draw as RGB pixels, `scale` pixels to one of the drawing, anti-aliased. Caller frees p with picture_release. ERR_USAGE for more than 2^26 pixels,
 * ERR_NOMEM. */
int scene_picture(struct picture *p, const struct scene *s, double scale, struct err *e);

/* Append text for XML and HTML: & < > " are escaped, invalid UTF-8 and characters that XML forbids become '?'. */
void scene_escape(struct str *out, const char *text);

#endif
