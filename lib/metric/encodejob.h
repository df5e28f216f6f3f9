/* Runs pretrained encoders on samples, as ddm-encode does it: latents and features of captions beside them in a tar, or a table of features of
 * pictures; and latents back into pictures. */
#ifndef DDM_METRIC_ENCODEJOB_H
#define DDM_METRIC_ENCODEJOB_H

#include <stdint.h>

#include "core/clock.h"
#include "core/err.h"
#include "kernels/device.h"

enum encode_as { ENCODE_AUTO, ENCODE_VAE, ENCODE_TEXT, ENCODE_VISION };

extern const char *const encode_parts[];  /* "auto", "vae", "text", "vision": of enum encode_as; NULL-terminated */
extern const char *const encode_dtypes[]; /* "f16", "f32"; NULL-terminated */

/* What is asked for: ddm-encode(1) describes each. Strings are borrowed until encodejob_free. */
struct encode_request {
	const char *model;   /* folder or name of the encoder */
	int as;              /* enum encode_as: the part of it to take */
	int decode;          /* turn latents into pictures */
	int captions;        /* a text encoder alone: captions need no pictures */

	int64_t size;        /* of the centre square; 0: pictures as they are */
	int posterior;       /* enum encoding_posterior (data/encoding.h); -1: ENCODING_STD */
	uint64_t seed;       /* of ENCODING_SAMPLE */
	int seeded;          /* the seed was chosen: an error where no latents are made */
	int flip, drop;      /* also latents of the mirrored picture; leave out pictures that became latents */

	int64_t tokens;      /* longest text; 0: the encoder's */
	const char *null_text; /* file for the features of the empty text, or NULL */
	int dtype;           /* into encode_dtypes; -1: f16 */
	int input;           /* into netinput_names (metric/netinput.h); -1: as is usual for the network */
	const char *keys;    /* file for the keys of the rows of features, or NULL */

	int64_t batch;       /* pictures or texts at a time; 0: 4 and 16 */
	int weights;         /* into encoder_weights (kernels/compact.h) */

	const char *const *source; /* samples (data/samples.h), borrowed */
	int sources;
	int skip_bad, nul;   /* pass over bad samples; paths on standard input end with NUL */
	int64_t max_errors;  /* of bad samples; negative: no limit */
	const char *spool;   /* folder for temporary files, or NULL */
	const char *out;     /* tar, or .npy of features; "-": the tar on standard output */
};

struct encode_request encode_defaults(void); /* no model, no samples, the tar to standard output */

/* What a long run tells, each NULL where nobody listens. */
struct encode_hooks {
	void (*say)(void *arg, const char *line);  /* facts worth a line */
	void (*warn)(void *arg, const char *line); /* samples that are skipped */
	void *arg;
	struct progress progress; /* non-zero: stop with ERR_AGAIN */
};

/* What was done. */
struct encode_report {
	int written;                 /* 0: nothing was done, the output stands there already or there was an error */
	int64_t samples, skipped, cut; /* cut: captions longer than the encoder reads */
};

struct encodejob;

/* Recognises the model's parts, checks the request against them and claims the outputs. *q and *hooks are copied. ERR_USAGE where the request
 * asks for something that such a model does not do; ERR_DATA for an unknown model. NULL on failure. */
struct encodejob *encodejob_new(const struct encode_request *q, const struct encode_hooks *hooks, struct err *e);
int encodejob_makes_features(const struct encodejob *w); /* a table, not a tar */

/* Encodes all samples into the output, which appears whole or not at all; one of the same samples and request is left alone. What was written
 * is kept for the same request after ERR_AGAIN and ERR_UNAVAILABLE. The device is borrowed, and has a pool. ERR_SKIPPED where more samples were
 * bad than max_errors; then the output is there nevertheless. */
int encodejob_run(struct encodejob *w, struct device *device, struct encode_report *report, struct err *e);
void encodejob_free(struct encodejob *w); /* NULL is allowed; before the device's */

#endif
