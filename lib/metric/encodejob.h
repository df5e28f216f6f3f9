/* Runs pretrained encoders on samples, for ddm-encode. The output is a tar of the samples with latents and caption features added, or a table of
 * features of the pictures. The reverse decodes latents to pictures. */
#ifndef DDM_METRIC_ENCODEJOB_H
#define DDM_METRIC_ENCODEJOB_H

#include <stdint.h>

#include "comm/comm.h"
#include "core/clock.h"
#include "core/err.h"
#include "core/jobshare.h"
#include "core/option.h"
#include "data/encoding.h"
#include "kernels/device.h"

enum encode_as { ENCODE_AUTO, ENCODE_VAE, ENCODE_TEXT, ENCODE_VISION };

extern const char *const encode_parts[]; /* "auto", "vae", "text", "vision": the names of enum encode_as; NULL-terminated */

/* The request; ddm-encode(1) describes each member. Strings are borrowed until encodejob_free. */
struct encode_request {
	const char *model;                /* folder or name of the encoder */
	int as;                           /* enum encode_as: which encoder of the model to run */
	int captions;                     /* samples may be captions without pictures; needs a text encoder alone */
	struct encoding_options encoding; /* vae, text, device and pool are set by the job */

	const char *null_text;   /* file for the features of the empty text, or NULL */
	const char *null_pooled; /* file for its pooled vector, or NULL; needs encoding.pooled */
	int input;               /* index in netinput_names (metric/netinput.h); -1: the network's usual one */
	const char *keys;        /* file for the keys of the feature rows, one a line; or NULL */

	const char *const *source; /* samples (data/samples.h), borrowed */
	int sources;
	struct job_share share; /* encode the samples of this job alone */
	int skip_bad, nul;      /* skip bad samples; paths on standard input end with NUL */
	int64_t max_errors;     /* most bad samples before ERR_SKIPPED; negative: no limit */
	const char *spool;      /* folder for temporary files, or NULL */
	const char *out;        /* tar, or .npy of features; "-": the tar on standard output */
	struct comm *comm;      /* ranks that share the samples, each with the same request; NULL: this process alone. Borrowed */
};

/* The option table that fills a request (core/option.h), except its `encoding`, which encoding_option_rows fills; and the defaults of both: no model,
 * no samples, the tar to standard output. */
extern const struct option encode_options[];
struct encode_request encode_defaults(void);

/* Callbacks of a run; each may be NULL. */
struct encode_hooks {
	void (*say)(void *arg, const char *line);  /* information about the run */
	void (*warn)(void *arg, const char *line); /* a skipped sample and the reason */
	void *arg;
	struct progress progress; /* non-zero: stop with ERR_AGAIN */
};

/* The result of a run. */
struct encode_report {
	int written;                   /* 0: the output existed already, or an error occurred */
	int64_t samples, skipped, cut; /* cut: captions longer than the encoder reads */
};

struct encodejob;

/* Recognise the model's encoders, check the request against them and claim the outputs. *q and *hooks (NULL is allowed) are copied. ERR_USAGE if the
 * request has an option that this model cannot serve; ERR_DATA for an unknown model. NULL on failure. */
struct encodejob *encodejob_new(const struct encode_request *q, const struct encode_hooks *hooks, struct err *e);
int encodejob_makes_features(const struct encodejob *w); /* 1: the output is a table of features; 0: a tar */

/* Encode all samples into the output, which appears whole or not at all. An existing output of the same samples and request is left alone. After
 * ERR_AGAIN and ERR_UNAVAILABLE the finished part is kept, and the same request resumes from it. The device is borrowed and must have a pool.
 * ERR_SKIPPED if more than max_errors samples were bad; the output is complete without them.
 *
 * With a comm, rank 0 does what is said here, and the others encode samples for it until it is done; they call no hook, read no samples, and claim
 * and write nothing. ERR_EXISTS if the ranks were given other options or models, or are of another build; ERR_UNAVAILABLE names a rank that is
 * lost. */
int encodejob_run(struct encodejob *w, struct device *device, struct encode_report *report, struct err *e);
void encodejob_free(struct encodejob *w); /* NULL is allowed; call it before the device is freed */

#endif
