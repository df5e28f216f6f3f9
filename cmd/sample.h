/* Parts of ddm-sample: what is asked for in words, what the experts read of it, and what becomes of their numbers. */
#ifndef DDM_CMD_SAMPLE_H
#define DDM_CMD_SAMPLE_H

#include "cmd/sample_sink.h"
#include "core/pool.h"
#include "diffusion/mixture.h"
#include "file/commit.h"
#include "file/still.h"
#include "net/autoencoder.h"

/* ---- reference items ---- */

/* Of --route oracle and --class labels: the clusters of a table's items, without those held out. */
struct reference {
	int64_t n;
	int32_t *cluster; /* (n) */
	char hash[65];
};

int reference_load(struct reference *l, const char *path, struct err *e); /* ERR_DATA without a column 'cluster' or without items */
int32_t reference_cluster(const struct reference *l, int64_t i, uint64_t seed); /* of picture i */
void reference_release(struct reference *l);

/* ---- prompts ---- */

struct prompt {
	char *text;     /* UTF-8 */
	char *negative; /* NULL: that of all */
	uint64_t seed;
	int seeded;     /* has a seed of its own */
};

struct prompts {
	struct prompt *v;
	int64_t n;
};

/* One prompt a line ("-": standard input); or, where the first byte is '{', one JSON object a line with "prompt" and, if wanted, "negative"
 * (or "negative_prompt") and "seed"; other keys are left alone. An empty line is the empty prompt. No line at all, no UTF-8, other
 * types: ERR_DATA naming the line. Added to *p; prompts_release, after failure too. */
int prompts_load(struct prompts *p, const char *path, struct err *e);
void prompts_add(struct prompts *p, const char *text);
void prompts_hash(const struct prompts *p, char hex[65]); /* of what they say, in order */
void prompts_release(struct prompts *p);

/* ---- features of texts ---- */

struct text_request {
	const struct prompts *prompts;     /* may be empty where `features` is given */
	const char *negative;              /* what guidance leads away from */
	const char *encoder;               /* folder of a text encoder (data/textencoder.h); NULL: not needed */
	const char *features, *away;       /* of the prompts, of one text; data/textarray.h; or NULL */
	int64_t tokens, width;             /* that the experts read */
	int masked, guided;                /* the experts are told the padding; guidance wants a second text */
	int lower;                         /* prompts are put in lower case before they are encoded */
	enum compact_type bulk;            /* of the encoder's matrices */
	struct device *device;
};

struct text_source;

/* Opens the encoder or the files; nothing is encoded yet. Borrows *q. Features of another width or of more tokens than the experts read:
 * ERR_DATA. Caller frees with text_free. */
struct text_source *text_open(const struct text_request *q, struct err *e);
void text_free(struct text_source *t);
int64_t text_count(const struct text_source *t); /* texts that pictures are made of */
/* What the features depend on, beside the prompts, into a stamp. */
struct stamp;
void text_stamp(const struct text_source *t, struct stamp *s);
/* Encode all there is to encode, and free the encoder. *cut: texts longer than the encoder reads. */
int text_encode(struct text_source *t, int64_t *cut, struct err *e);
/* For n pictures of these prompts: the rows of texts, and the texts, which stay until the next call; away only with guidance. */
int text_batch(struct text_source *t, int64_t n, const int64_t *prompt, int32_t *text, int32_t *away, struct texts *texts, struct err *e);

/* ---- what was done ---- */

struct sample_summary {
	int64_t count, steps, evaluations, bytes; /* pictures; bytes of weights in memory */
	const char *route, *solver, *weights;
	double seconds;
	struct device *device;
	const struct mixture *mixture;
	const struct mixture_stats *stats;
	const int64_t *assigned; /* (k) pictures whose heaviest expert at the end is k */
	const struct pager *pager; /* of experts that take turns, or NULL */
	int quiet;                 /* no line for a human */
};

/* Whether the numbers of a run may replace what stands under their names: only such numbers (file/standing.h). */
int sample_views(const char *report_path, const char *log_path, const char *timing_path, struct err *e);
/* A line for a human, and JSON at the paths that are not NULL; of them timing alone tells the seconds. */
int sample_report(const struct sample_summary *s, const char *report_path, const char *timing_path, struct err *e);

/* A line of JSON about picture `index`: the experts' weights w (steps, k). */
int sample_log(struct outfile *f, int64_t index, const double *w, int64_t steps, int k, struct err *e);

/* ---- output ---- */

enum sample_format { FORMAT_PNG, FORMAT_WEBP, FORMAT_NPZ, FORMAT_LATENT, FORMAT_JPG };

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

/* The VAE of a folder, whose latents are as the channels and the size say; sets what pictures are. Before output_start. */
int output_vae(struct output *o, const char *dir, enum compact_type bulk, struct device *d, int64_t batch, struct err *e);
/* All files the command is to write, NULL where it is not: one may be standard output, and all others are claimed (file/claim.h). */
int output_claim(const char *const *path, size_t n, struct err *e);
/* n samples to come; the rest as sink_open. Once the size of a picture is known. */
int output_start(struct output *o, enum sink_kind kind, const char *path, const char *stamp, const char *same, int64_t n, struct err *e);
/* x (n, channels, size, size), which is used up: decoded, encoded, and written in order. put (may be NULL) is given every picture. */
int output_write(struct output *o, int64_t n, float *x, struct output_item *item, void (*put)(void *arg, int64_t i, const struct picture *p),
                 void *arg, struct err *e);
int output_finish(struct output *o, struct err *e); /* and commit */
void output_release(struct output *o, int keep);    /* as sink_close */

#endif
