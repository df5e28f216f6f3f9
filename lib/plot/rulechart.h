/* Draws what the rules of ddm-select kept: for each rule, a histogram of the value that it compares. */
#ifndef DDM_PLOT_RULECHART_H
#define DDM_PLOT_RULECHART_H

#include "core/err.h"
#include "data/selection.h"
#include "plot/scene.h"

/* Draw into an empty scene. Pale bars count all samples, dark bars those that all rules keep; a dashed line marks the limit of the rule. A rule
 * without a number gets a line of text. */
void rulechart_draw(struct scene *s, const struct select_report *r);
/* The same as an SVG with a stamp, a line of JSON; "-" is standard output. */
int rulechart_write(const char *path, const struct select_report *r, const char *stamp, struct err *e);

#endif
