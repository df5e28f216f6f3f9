/* Adds the outputs of pretrained encoders to samples: latents of their pictures and features of their captions.
 *
 *     KEY.npy       (C, H, W) mean of the posterior, as diffusion models use it: (z - shift) scale by config.json of the autoencoder
 *     KEY.std.npy   (C, H, W) its standard deviation, scale included; from AutoencoderKL only
 *     KEY.flip.npy  KEY.flip.std.npy  the same for the mirrored picture, on request
 *     KEY.text.npy  (tokens, width) features of KEY.txt; from T5 only the rows of the text, without padding
 *     KEY.pooled.npy  (width) with `pooled`: the pooled vector of KEY.txt, of CLIP
 *
 * in 16-bit or 32-bit floats. Or the reverse: KEY.png from KEY.npy. A clip, KEY.npy of bytes (F, C, H, W), becomes a latent (F', C, H, W) in
 * its place, and the reverse; the other arrays have four dimensions too. With a size, a picture is reduced to its centre square of size x size;
 * without one, it is cropped around its centre to multiples of the autoencoder's downsampling factor. Its pixels are x / 127.5 - 1. */
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
	ENCODING_STD,    /* mean, and standard deviation if the autoencoder has one */
	ENCODING_MEAN,   /* the mean alone */
	ENCODING_SAMPLE, /* KEY.npy is one draw, keyed by (seed, key) */
	ENCODING_POSTERIORS
};

extern const char *const encoding_posteriors[ENCODING_POSTERIORS + 1]; /* "std", "mean", "sample"; NULL-terminated */
extern const char *const encoding_dtypes[];                            /* "f16", "f32": the values of `wide`; NULL-terminated */

struct encoding_options {
	const char *vae, *text; /* folders: net/autoencoder.h, data/textencoder.h; NULL: no latents, no texts */
	int64_t size;           /* side of the centre square in pixels; 0: pictures keep their size and are cropped */
	int posterior;          /* enum encoding_posterior; negative: not requested, ENCODING_STD */
	uint64_t seed;          /* for ENCODING_SAMPLE */
	int wide;               /* 32-bit floats; 0, or negative (not requested): 16-bit */
	int pooled;             /* also keep the pooled vector of a text; ERR_USAGE for an encoder that has none (T5) */
	int64_t tokens;         /* tokens of a text; 0: the default of data/textencoder.h */
	int64_t batch;          /* pictures or texts at a time; 0: 4 and 16. Results do not depend on it */
	int flip;               /* encode the mirrored picture too */
	int drop;               /* leave out pictures that have latents */
	int tile;               /* code large pictures and clips in tiles (net/autoencoder.h) */
	int decode;             /* decode with `vae`: KEY.png replaces pictures and arrays; no text, size, posterior */
	enum compact_type bulk; /* storage type of the encoders' matrices, one of encoder_weights: net/runner.h */
	int map;                /* f32 matrices stay in their files (COMPACT_VIEW). Results do not depend on it */
	struct device *device;  /* borrowed, like the pool */
	struct pool *pool;      /* pictures are decoded by as many additional threads */
	int (*tell)(void *arg); /* called between two runs of the autoencoder; non-zero: stop with ERR_AGAIN. NULL: not called */
	void *tell_arg;
};

/* The option table that fills these options (core/option.h), and their defaults. */
extern const struct option encoding_option_rows[];
struct encoding_options encoding_defaults(void);

struct encoding;

/* Errors of the two encoders; ERR_USAGE for a size that is not a multiple of the autoencoder's downsampling factor. Caller frees with
 * encoding_free. */
struct encoding *encoding_open(const struct encoding_options *o, struct err *e);
void encoding_free(struct encoding *x); /* NULL is allowed */

int encoding_reads_texts(const struct encoding *x);
/* Returns "--weight-dtype" or "--map" if that was requested but has no effect: an autoencoder alone, whose weights are floats on the CPU. Else
 * NULL. */
const char *encoding_idle(const struct encoding_options *o);

/* Add to s everything that determines the added members: the options that matter, and the encoders' hashes as inputs "vae" and "text". */
void encoding_stamp(const struct encoding *x, struct stamp *s);

/* Whether it keeps pooled vectors. */
int encoding_pools_texts(const struct encoding *x);

/* Append to `npy` the features of the empty text as .npy: all rows that count; and to `pooled` its pooled vector, if the encoding keeps them.
 * ERR_USAGE without a text encoder. */
int encoding_null_text(struct encoding *x, struct str *npy, struct str *pooled, struct err *e);

/* Start reading s, which is borrowed until encoding_free. Nobody else may read samples from it until then. */
void encoding_begin(struct encoding *x, struct samples *s);
/* Like samples_next: a sample with its members, with the names above replaced or added. A sample that lacks a picture when latents are wanted, or
 * a .txt when texts are wanted, or that is bad, is handled as skip_bad says. The next samples are read and decoded while the present ones are
 * encoded. */
int encoding_next(struct encoding *x, struct sample *out, struct err *e);

/* A position from which an interrupted encoding can resume: the batches handed out, the samples of them that were skipped although reading alone
 * found nothing wrong, and the texts that were cut. After a resume, pictures and texts are grouped into the same batches. */
struct encoding_place {
	int64_t batches, bad, cut;
};

/* 1 and *p if the position is between two batches, else 0. */
int encoding_place(const struct encoding *x, struct encoding_place *p);
/* After encoding_begin: read past the samples up to that position and continue after it. ERR_DATA if there are fewer samples. */
int encoding_go_on(struct encoding *x, const struct encoding_place *p, struct err *e);

/* The same work on several ranks (comm/farm.h), in place of encoding_next alone. On rank 0, encoding_read describes the next batch: 1, 0 at the end,
 * -1. On any rank, encoding_compute encodes it; it needs no encoding_begin. On rank 0, encoding_take makes the results, in the order of the batches,
 * the samples that encoding_next hands out until it returns 0 for this batch. */
int encoding_read(struct encoding *x, struct str *order, struct err *e);
int encoding_compute(struct encoding *x, const struct str *order, struct str *result, struct err *e);
int encoding_take(struct encoding *x, const struct str *order, const struct str *result, struct err *e);

int64_t encoding_cut(const struct encoding *x); /* number of texts so far that were longer than `tokens` */

/* Append a .npy of rank dimensions made from floats, 32-bit (`wide`) or 16-bit. ERR_DATA naming `what` if a value is NaN or infinite, or (without
 * `wide`) too large for 16 bits. */
int encoding_array(struct str *npy, int wide, int rank, const int64_t *shape, const float *x, const char *what, struct err *e);

#endif
