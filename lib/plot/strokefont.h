/* Draws letters as strokes: the only font of PNG charts and of labels on sheets. It is ASCII and proportional. */
#ifndef DDM_PLOT_STROKEFONT_H
#define DDM_PLOT_STROKEFONT_H

#define STROKEFONT_EM 20. /* units per em; capitals are 14 high, x is 10, descenders reach -4 */

/* Call stroke(arg, xy, n) for every stroke of the text: n >= 2 points (x, y) in pixels. The first letter begins at `x` on the base line `y` (y grows
 * downwards); `size` is pixels per em. A character outside ASCII becomes a box. */
void strokefont_draw(const char *text, double x, double y, double size, void (*stroke)(void *arg, const double *xy, int n), void *arg);

/* The width of the text in pixels. Common sans-serif fonts of the same size are not wider. */
double strokefont_width(const char *text, double size);

#endif
