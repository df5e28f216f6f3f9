/* The names of the metrics, and the protocols that other packages use for KID and IS. */
#ifndef DDM_METRIC_EVALMETRICS_H
#define DDM_METRIC_EVALMETRICS_H

#include "core/err.h"

enum metric {
	METRIC_KD,
	METRIC_FD,
	METRIC_MEMORISED,
	METRIC_FID,
	METRIC_SFID,
	METRIC_IS,
	METRIC_KID,
	METRIC_PR,
	METRIC_DC,
	METRIC_CMMD,
	METRIC_VENDI,
	METRIC_AUTHENTICITY,
	METRIC_CLIP,
	METRIC_AESTHETIC,
	METRIC_LPIPS,
	METRIC_DIVERSITY,
	METRIC_CONTENT, /* from here on: of clips */
	METRIC_MOTION,
	METRIC_FLICKER,
	METRIC_WARP,
	METRIC_FVD,
	METRICS
};

enum { METRICS_OF_CLIPS = 1u << METRIC_CONTENT | 1u << METRIC_MOTION | 1u << METRIC_FLICKER | 1u << METRIC_WARP | 1u << METRIC_FVD };

enum { METRICS_OF_BOTH = 1u << METRIC_MEMORISED | 1u << METRIC_CLIP }; /* of clips as well as of pictures */

extern const char *const metric_names[METRICS + 1]; /* "kd" ..., NULL-terminated */

/* Parse a list like "fid,kid,pr" into a set of bits 1u << METRIC_FID ...; blanks are allowed. ERR_USAGE names an unknown or missing metric. */
int metrics_parse(unsigned *out, const char *list, struct err *e);

enum protocol {
	PROTOCOL_DDM,      /* KID: subsets by our own draws; IS: 10 groups. Samples are in the order of their contents, so file names and
	                    * file order have no effect */
	PROTOCOL_FIDELITY, /* torch-fidelity: reading order, shuffled by RandomState(seed); IS 10 groups; KID 100 subsets of 1000 */
	PROTOCOL_ADM,      /* guided-diffusion: IS over groups of 5000 in reading order; KID as "ddm" */
	PROTOCOL_CLEAN,    /* clean-fid: KID 100 subsets of 1000, reading order, numpy.random.seed(--seed); IS as "ddm" */
	PROTOCOLS
};

extern const char *const protocol_names[PROTOCOLS + 1]; /* "ddm", "torch-fidelity", "adm", "clean-fid" */

#endif
