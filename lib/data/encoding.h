/* Samples with the outputs of pretrained encoders: latents of their pictures, features of their captions.
 *
 *     KEY.npy       (C, H, W) the mean of the posterior as a diffusion model sees it: (z - shift) scale by config.json of the autoencoder
 *     KEY.std.npy   (C, H, W) its standard deviation, scale included; of AutoencoderKL
 *     KEY.flip.npy  KEY.flip.std.npy  the same of the mirrored picture, where it is asked for
 *     KEY.text.npy  (tokens, width) of KEY.txt; of T5 fewer rows, those of the text alone
 *
 * in 16-bit or 32-bit floats. Or the way back, KEY.png of KEY.npy. A picture is turned into the centre square of size x size or, where no
 * size is given, cut around its centre to the next multiples of what the autoencoder takes away; its pixels are x / 127.5 - 1. */
#ifndef DDM_DATA_ENCODING_H
#define DDM_DATA_ENCODING_H

#include "core/err.h"
#include "core/option.h"
#include "core/pool.h"
#include "core/str.h"
#include "data/samples.h"
#include "file/stamp.h"
#include "kernels/compact.h"
#include "kernels/device.h"

enum encoding_posterior {
	ENCODING_STD,    /* mean and standard deviation, where the autoencoder has one */
	ENCODING_MEAN,   /* the mean alone */
	ENCODING_SAMPLE, /* KEY.npy is one draw, keyed by (seed, key) */
	ENCODING_POSTERIORS
};

extern const char *const encoding_posteriors[ENCODING_POSTERIORS + 1]; /* "std", "mean", "sample"; NULL-terminated */
extern const char *const encoding_dtypes[];                            /* "f16", "f32": of `wide`; NULL-terminated */

struct encoding_options {
	const char *vae, *text; /* folders: net/autoencoder.h, data/textencoder.h; NULL: no latents, no texts */
	int64_t size;           /* of the centre square; 0: pictures as they are, cut */
	int posterior;          /* enum encoding_posterior; negative: not asked for, ENCODING_STD */
	uint64_t seed;          /* of ENCODING_SAMPLE */
	int wide;               /* floats of 32 bits; 0 or negative, not asked for: of 16 */
	int64_t tokens;         /* of a text; 0: data/textencoder.h */
	int64_t batch;          /* pictures or texts at a time; 0: 4 and 16. Results do not depend on it */
	int flip;               /* of the mirrored picture, too */
	int drop;               /* without the pictures themselves, of which there are latents */
	int decode;             /* the way back, by `vae`: KEY.png in the place of pictures and arrays; no text, size, posterior */
	enum compact_type bulk; /* of the encoders' matrices, a type of encoder_weights: net/runner.h */
	int map;                /* those of f32 stay in their files (COMPACT_VIEW). Results do not depend on it */
	struct device *device;  /* borrowed, as the pool */
	struct pool *pool;      /* as many threads decode pictures beside it */
};

/* The table that fills these options (core/option.h), and the defaults it gives. */
extern const struct option encoding_option_rows[];
struct encoding_options encoding_defaults(void);

struct encoding;

/* Errors of the two encoders; ERR_USAGE for a size that is no multiple of what the autoencoder takes away. Caller frees with
 * encoding_free. */
struct encoding *encoding_open(const struct encoding_options *o, struct err *e);
void encoding_free(struct encoding *x); /* NULL is allowed */

int encoding_reads_texts(const struct encoding *x);
/* "--weight-dtype" or "--map" where that was asked for and does nothing: an autoencoder alone, whose weights are floats on the CPU. Else NULL. */
const char *encoding_idle(const struct encoding_options *o);

/* What determines the members that are added: options that matter, the encoders' hashes as inputs "vae" and "text". */
void encoding_stamp(const struct encoding *x, struct stamp *s);

/* Adds the .npy of the features of the empty text: all rows that count. ERR_USAGE without a text encoder. */
int encoding_null_text(struct encoding *x, struct str *npy, struct err *e);

/* From here on encoding_next reads s, borrowed until encoding_free, of which nobody else may take samples meanwhile. */
void encoding_begin(struct encoding *x, struct samples *s);
/* As samples_next: a sample with its members, those of the names above replaced or added. Samples that have no picture where latents are
 * wanted, no .txt where texts are, or a bad one are handled as skip_bad says. The next samples are read and decoded while these are
 * encoded. */
int encoding_next(struct encoding *x, struct sample *out, struct err *e);

/* Where work may be gone on with: batches that were handed out, samples of them passed over that reading alone did not find bad, and texts cut.
 * Pictures and texts are batched from there on as they would have been. */
struct encoding_place {
	int64_t batches, bad, cut;
};

/* 1 and *p between two batches. */
int encoding_place(const struct encoding *x, struct encoding_place *p);
/* After encoding_begin: reads what was handed out up to there, and goes on after it. ERR_DATA where there are fewer samples. */
int encoding_go_on(struct encoding *x, const struct encoding_place *p, struct err *e);

int64_t encoding_cut(const struct encoding *x); /* texts so far that were longer than `tokens` */

/* A .npy of rank dimensions from floats, 32-bit or 16-bit; ERR_DATA naming `what` where a number is none, or too large for 16 bits. */
int encoding_array(struct str *npy, int wide, int rank, const int64_t *shape, const float *x, const char *what, struct err *e);

#endif
