/* A run of encoders, shared by its files: encodemodel.c finds out what the model is, encodetar.c and encodefeatures.c write the two kinds of output,
 * encodejob.c puts them together. */
#ifndef DDM_METRIC_ENCODEJOBIMPL_H
#define DDM_METRIC_ENCODEJOBIMPL_H

#include "data/encoding.h"
#include "file/partial.h"
#include "file/stamp.h"
#include "metric/encodejob.h"
#include "metric/extractor.h"

/* Folders of what the model holds, NULL where there is no such part. vision is an extractor's name. */
struct encode_model {
	char *vae, *text, *vision;
};

struct encodejob {
	struct encode_request o;
	struct encode_hooks hooks;
	struct encode_model model;
	struct device *device;
	struct encoding *encoding;   /* of a tar */
	struct extractor *extractor; /* of a table */
	struct partial partial;      /* the output */
	char digest[65];             /* of the samples; empty where they can be read only once */
	int64_t done, total;         /* total: samples that the pass before counted, or 0 */
};

/* Into w->model; ERR_DATA where it is no known encoder, or not the one that is asked for. */
int encodemodel_recognise(struct encodejob *w, struct err *e);
/* ERR_USAGE naming an option that says nothing of such a model. */
int encodemodel_check(const struct encodejob *w, struct err *e);

/* A line to the hooks. */
void encodejob_say(const struct encodejob *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Opens the output. What it goes on with must be of the same samples and request, and of the same bits: from this device, in such batches. 1: goes
 * on, 0: a start, -1. The first `from` bytes are written again at the end. */
int encodejob_open_output(struct encodejob *w, const struct stamp *stamp, int64_t from, struct err *e);
/* What was saved stays where the same request can go on: after a signal, and without the device. */
void encodejob_close_output(struct encodejob *w, const struct err *e);

int encodetar_null_text(const struct encodejob *w, struct err *e); /* where it is asked for */
int encodetar_write(struct encodejob *w, const struct stamp *stamp, struct samples *s, struct err *e);
/* Completes the stamp. */
int encodefeatures_write(struct encodejob *w, struct stamp *stamp, struct samples *s, struct err *e);

#endif
