/* From what the experts make to pictures in files: decoding, encoding, and writing in order. */
#ifndef DDM_SAMPLE_OUTPUT_H
#define DDM_SAMPLE_OUTPUT_H

#include "core/pool.h"
#include "file/still.h"
#include "net/autoencoder.h"
#include "sample/sample.h"
#include "sample/sink.h"

struct output {
	enum sample_format format;
	int64_t channels, size;                 /* of what the experts make */
	int64_t picture_channels, picture_size; /* of pictures; 0 channels: none are made */
	int tile;
	struct pool *pool;
	struct autoencoder *vae; /* NULL: what is made is a picture */
	int64_t chunk;           /* pictures decoded at a time */
	float *decoded;          /* (chunk, picture_channels, picture_size, picture_size) */
	struct sink sink;
};

/* One sample: x is found by its place. */
struct output_item {
	char *name;         /* of its members, without an ending */
	char *stamp;        /* a line of JSON; both are freed with mem_free by output_write */
	const char *prompt; /* or NULL */
};

/* Endings of files of each enum sample_format, without the dot; NULL for an array. */
extern const char *const output_endings[];

/* The VAE of a folder, whose latents are as the channels and the size say; sets what pictures are. Before output_start. */
int output_vae(struct output *o, const char *dir, enum compact_type bulk, struct device *d, int64_t batch, struct err *e);
/* All files to be written, NULL where one is not: at most one may be standard output, and all others are claimed (file/claim.h). */
int output_claim(const char *const *path, size_t n, struct err *e);
/* n samples to come; the rest as sink_open. Once the size of a picture is known. */
int output_start(struct output *o, enum sink_kind kind, const char *path, const char *stamp, const char *same, int64_t n, struct err *e);
/* x (n, channels, size, size), which is used up: decoded, encoded, and written in order. put (may be NULL) is given every picture. */
int output_write(struct output *o, int64_t n, float *x, struct output_item *item, void (*put)(void *arg, int64_t i, const struct picture *p),
                 void *arg, struct err *e);
int output_finish(struct output *o, struct err *e); /* and commit */
void output_release(struct output *o, int keep);    /* as sink_close */

#endif
