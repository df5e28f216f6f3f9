/* Writes the pictures of ddm-synth glyphs. */
#ifndef DDM_DATA_SYNTHGLYPHS_H
#define DDM_DATA_SYNTHGLYPHS_H

#include "data/synth.h"

/* Draw the pictures of a request into its tar, with class and factors beside each. Errors as of synth_run and glyph_set_open. */
int synth_glyphs_draw(const struct synth_request *r, struct pool *pool, volatile sig_atomic_t *stop, struct synth_report *report, struct err *e);

#endif
