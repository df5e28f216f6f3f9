/* Computes the metrics of sets of clips, and the tests of those metrics on altered clips. */
#ifndef DDM_METRIC_EVALCLIPREPORT_H
#define DDM_METRIC_EVALCLIPREPORT_H

#include "core/err.h"
#include "file/stamp.h"
#include "metric/evalclips.h"
#include "metric/evalreport.h"

/* The clips of the sets of a report, in the same order of rows. */
struct clipreport {
	const struct evalreport *r;
	const struct evalclips *reference, *samples, *heldout, *train; /* the last two: NULL if those of r are */
	int null_test;                                                 /* 1: the reference was read with evalclips_options.alter */
};

/* Add to st, with NAME the name of the features, for the metrics
 *   content  content-NAME content-NAME-se                     samples to the reference, in single frames
 *   motion   motion-flow motion-flow-se                       the same, in movement
 *   flicker  flicker flicker-se flicker-reference             means over the clips of a set
 *   warp     warp-error warp-error-se warp-error-reference    the same
 *   fvd      fvd-i3d                                          Frechet distance of logits of I3D, covariances over n
 *   clip     clip-score-NAME clip-score-NAME-se               of the samples and their captions, over all frames
 *   memorised  memorised memorised-of memorised-floor         as of pictures, by thumbnails of four frames
 * with -floor, and with a held-out set -heldout and -heldout-floor, as evalreport_fill. A null test adds, for what = content-NAME (without slow)
 * and motion-flow,
 *   WHAT-shuffled, -reversed, -frozen, -slow; -se, -p of each how much the distance between two parts of the reference grows when the clips of
 *                                                             one part are altered (enum altered)
 *   null-clips                                                the number of those clips
 * motion-flow and its floors are left out, with a note that says why, unless shuffling and freezing move it (p at most .005); so is content-NAME if
 * altering moves it by more than 4 standard errors. ERR_USAGE for sets too small for the distances. */
int clipreport_fill(struct stamp *st, const struct clipreport *c, json_t *notes, struct err *e);

#endif
