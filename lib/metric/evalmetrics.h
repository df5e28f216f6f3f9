/* The metrics of an evaluation by name, and the conventions in which other packages compute those that have several. */
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
	METRICS
};

extern const char *const metric_names[METRICS + 1]; /* "kd" ..., NULL-terminated */

/* "fid,kid,pr" to a set of 1u << METRIC_FID ...; ERR_USAGE names what is not known. Blanks are allowed. */
int metrics_parse(unsigned *out, const char *list, struct err *e);

enum protocol {
	PROTOCOL_DDM,      /* KID: subsets by our own draws; IS: 10 groups; both in the order of contents, so that names and order of files play
	                    * no part */
	PROTOCOL_FIDELITY, /* torch-fidelity: as read, shuffled by RandomState(seed); IS 10 groups; KID 100 subsets of 1000 */
	PROTOCOL_ADM,      /* guided-diffusion: IS over groups of 5000 as read; KID is ours */
	PROTOCOL_CLEAN,    /* clean-fid: KID 100 subsets of 1000, as read, by numpy.random.seed(--seed); IS is ours */
	PROTOCOLS
};

extern const char *const protocol_names[PROTOCOLS + 1]; /* "ddm", "torch-fidelity", "adm", "clean-fid" */

#endif
