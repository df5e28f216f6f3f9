/* The state of an encoding job, shared by its files: encodemodel.c recognises the model, encodetar.c and encodefeatures.c write the two kinds of
 * output, encodejob.c runs them. */
#ifndef DDM_METRIC_ENCODEJOBIMPL_H
#define DDM_METRIC_ENCODEJOBIMPL_H

#include "comm/farm.h"
#include "data/encoding.h"
#include "file/partial.h"
#include "file/stamp.h"
#include "metric/encodejob.h"
#include "metric/extractor.h"

/* The folders of the model's encoders, NULL if it lacks one. vision is a name for extractor_open. */
struct encode_model {
	char *vae, *text, *vision;
};

struct encodejob {
	struct encode_request o;
	struct encode_hooks hooks;
	struct encode_model model;
	struct device *device;
	struct encoding *encoding;   /* for a tar output; else NULL */
	struct extractor *extractor; /* for a table output; else NULL */
	struct partial partial;      /* the output */
	char digest[65];             /* of the samples' contents; empty if a source can be read only once (standard input) */
	int64_t done, total;         /* samples written so far, and their number from a first pass over the sources, 0: unknown */
	struct farm *farm;           /* of several ranks, with its work; NULL: this process alone */
	struct farm_work work;
	void *output; /* rank 0: what the file that takes the results has of them */
};

/* Fill w->model. ERR_DATA if the model is no known encoder, or lacks the encoder that w->o.as names. */
int encodemodel_recognise(struct encodejob *w, struct err *e);
/* Check the request against the model: ERR_USAGE names an option that has no meaning for this model. */
int encodemodel_check(const struct encodejob *w, struct err *e);

/* Open the output. It resumes an unfinished output only if that has the same samples and request, and the same device and, on a GPU, the same batch
 * size, which determine the bits. Returns 1 if it resumes, 0 if it starts anew, -1 on error. The first `from` bytes are written again at the end. */
int encodejob_open_output(struct encodejob *w, const struct stamp *stamp, int64_t from, struct err *e);
/* Close the output. The finished part is kept if the same request can resume: after ERR_AGAIN and ERR_UNAVAILABLE. */
void encodejob_close_output(struct encodejob *w, const struct err *e);

/* Fill the calls of w->work that all ranks make. */
void encodetar_join(struct encodejob *w);
void encodefeatures_join(struct encodejob *w);
int encodejob_waits(void *arg, struct err *e); /* farm_work.wait; arg is the job */

int encodetar_null_text(const struct encodejob *w, struct err *e); /* writes the features of the empty text if requested */
int encodetar_write(struct encodejob *w, const struct stamp *stamp, struct samples *s, struct err *e);
/* Also adds the number of samples and the hash of their keys to the stamp. */
int encodefeatures_write(struct encodejob *w, struct stamp *stamp, struct samples *s, struct err *e);

#endif
