/* Letters as strokes, the one font of charts as PNG and of labels on sheets: ASCII, proportional, drawn for this purpose. */
#ifndef DDM_PLOT_STROKEFONT_H
#define DDM_PLOT_STROKEFONT_H

#define STROKEFONT_EM 20. /* units of the em square; capitals are 14 high, x is 10, descenders reach -4 */

/* Calls stroke(arg, xy, n) for every stroke of the text: n >= 2 points (x, y) in pixels, the first letter beginning at `x` on the
 * base line `y` (downwards positive), `size` pixels to the em. A character outside of ASCII is one box. */
void strokefont_draw(const char *text, double x, double y, double size, void (*stroke)(void *arg, const double *xy, int n), void *arg);

/* Advance of the text in pixels. Common sans-serif fonts of the same size need no more. */
double strokefont_width(const char *text, double size);

#endif
