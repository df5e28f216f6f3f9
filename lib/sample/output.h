/* Turns the experts' samples into pictures in files: decodes, encodes and writes them in order. */
#ifndef DDM_SAMPLE_OUTPUT_H
#define DDM_SAMPLE_OUTPUT_H

#include "core/pool.h"
#include "file/still.h"
#include "net/autoencoder.h"
#include "sample/sample.h"
#include "sample/sink.h"

struct output {
	enum sample_format format;
	int64_t channels, size, frames;                         /* of the experts' samples; frames 1: pictures */
	int64_t picture_channels, picture_size, picture_frames; /* of what is shown; 0 channels: nothing is */
	int tile;
	struct pool *pool;
	struct autoencoder *vae; /* NULL: the experts' samples are pictures */
	int64_t chunk;           /* samples decoded at a time */
	float *decoded;          /* (chunk, picture_frames, picture_channels, picture_size, picture_size) */
	struct sink sink;
};

/* The names and texts of one sample; item i belongs to row i of x. */
struct output_item {
	const char *name;   /* name of its files, without an ending */
	const char *stamp;  /* a line of JSON */
	const char *prompt; /* or NULL */
};

/* One finished sample. */
struct output_made {
	struct picture picture; /* of a clip: its frames in a row; empty for FORMAT_LATENT */
	uint8_t *data;          /* (len) its file in the output's format; NULL if no files are made */
	size_t len;
};

/* File ending of each enum sample_format, without the dot; NULL for an array. */
extern const char *const output_endings[];

/* Open the VAE in the folder `dir`, which must decode latents of o->channels, and set picture_channels, picture_size and picture_frames. Call before
 * output_start. */
int output_vae(struct output *o, const char *dir, enum compact_type bulk, struct device *d, int64_t batch, struct err *e);
/* Claim all files to be written (file/claim.h); path[i] may be NULL. At most one may be "-", standard output. */
int output_claim(const char *const *path, size_t n, struct err *e);
/* Open the output for n samples, as sink_open. Call when the size of a picture is known. */
int output_start(struct output *o, enum sink_kind kind, const char *path, const char *stamp, const char *same, int64_t n, struct err *e);
/* Decode and encode x (n, channels, size, size), of clips (n, frames, channels, size, size), which is overwritten, and call fn(arg, i, sample) for
 * each row in order; the sample is borrowed for the call. files: also make the bytes of the files. On another rank than the first the output need not
 * be started. */
typedef int output_made_fn(void *arg, int64_t i, const struct output_made *m, struct err *e);
int output_make(struct output *o, int64_t n, float *x, const struct output_item *item, int files, output_made_fn *fn, void *arg, struct err *e);
int output_makes_files(const struct output *o); /* whether the output takes files of single samples: no array, and not nothing */
/* Write the next sample. */
int output_put(struct output *o, const struct output_item *item, const struct output_made *m, struct err *e);
int output_finish(struct output *o, struct err *e); /* finish the file and put it in place */
void output_release(struct output *o, int keep);    /* free everything; `keep` as in sink_close */

#endif
