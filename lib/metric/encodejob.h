/* Runs pretrained encoders on samples, as ddm-encode does it: latents and features of captions beside them in a tar, or a table of features of
 * pictures; and latents back into pictures. */
#ifndef DDM_METRIC_ENCODEJOB_H
#define DDM_METRIC_ENCODEJOB_H

#include <stdint.h>

#include "core/clock.h"
#include "core/err.h"
#include "core/option.h"
#include "data/encoding.h"
#include "kernels/device.h"

enum encode_as { ENCODE_AUTO, ENCODE_VAE, ENCODE_TEXT, ENCODE_VISION };

extern const char *const encode_parts[]; /* "auto", "vae", "text", "vision": of enum encode_as; NULL-terminated */

/* What is asked for: ddm-encode(1) describes each. Strings are borrowed until encodejob_free. */
struct encode_request {
	const char *model;                /* folder or name of the encoder */
	int as;                           /* enum encode_as: the part of it to take */
	int captions;                     /* a text encoder alone: captions need no pictures */
	struct encoding_options encoding; /* its encoders, device and pool are those of the model and of encodejob_run */

	const char *null_text; /* file for the features of the empty text, or NULL */
	int input;             /* into netinput_names (metric/netinput.h); -1: as is usual for the network */
	const char *keys;      /* file for the keys of the rows of features, or NULL */

	const char *const *source; /* samples (data/samples.h), borrowed */
	int sources;
	int skip_bad, nul;  /* pass over bad samples; paths on standard input end with NUL */
	int64_t max_errors; /* of bad samples; negative: no limit */
	const char *spool;  /* folder for temporary files, or NULL */
	const char *out;    /* tar, or .npy of features; "-": the tar on standard output */
};

/* The table that fills a request (core/option.h) but for its `encoding`, which encoding_option_rows fills; and the defaults of both: no model, no
 * samples, the tar to standard output. */
extern const struct option encode_options[];
struct encode_request encode_defaults(void);

/* What a long run tells, each NULL where nobody listens. */
struct encode_hooks {
	void (*say)(void *arg, const char *line);  /* facts worth a line */
	void (*warn)(void *arg, const char *line); /* samples that are skipped */
	void *arg;
	struct progress progress; /* non-zero: stop with ERR_AGAIN */
};

/* What was done. */
struct encode_report {
	int written;                   /* 0: nothing was done, the output stands there already or there was an error */
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
