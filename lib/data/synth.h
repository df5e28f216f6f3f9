/* Laws of data whose optimal denoiser is known in closed form, and samples drawn from them: experts trained on such samples can be compared with the
 * optimum of the law itself, not only with that of their training set. And pictures of glyphs whose factors are known (data/glyphs.h). */
#ifndef DDM_DATA_SYNTH_H
#define DDM_DATA_SYNTH_H

#include <signal.h>

#include "core/clock.h"
#include "core/option.h"
#include "core/pool.h"
#include "data/glyphs.h"

enum synth_command {
	SYNTH_GAUSSIANS, /* make the law of a mixture of Gaussians */
	SYNTH_DRAW,      /* draw samples from a law */
	SYNTH_GLYPHS     /* draw pictures of glyphs */
};

/* What the class of a picture of a glyph is. */
enum synth_class { SYNTH_BY_GLYPH, SYNTH_BY_SCRIPT, SYNTH_BY_FONT };

enum { SYNTH_WEIGHTS = 1000 };

struct synth_request {
	const char *program; /* for the stamp */
	enum synth_command command;
	const char *law; /* SYNTH_DRAW: the folder of the law */
	const char *out; /* the folder of the law; the tar of the samples, "-": standard output */
	struct synth_shape {
		int64_t channels, size; /* of a sample: channels x size x size */
	} shape;
	int64_t components, rank;
	double separation, overlap, spectrum, noise, rms; /* as in struct gaussian_spec */
	struct synth_weights {
		int n; /* 0: equal */
		double v[SYNTH_WEIGHTS];
	} weights;
	uint64_t seed;
	int64_t count;      /* samples to draw */
	double holdout;     /* fraction of the samples that the table says is held out */
	const char *labels; /* the table of the true components; NULL: none */
	const char *rows;   /* the samples as an array too, .npy (count, elements); NULL: no */
	struct synth_glyphs {
		const char *const *fonts; /* (nfonts) font files */
		int nfonts;
		struct glyph_choice choice; /* empty: the letters of Latin */
		int side;                   /* pixels */
		struct glyph_law law;
		int classes; /* enum synth_class */
	} glyphs;
	const struct progress *progress;
};

/* The outcome, for a report. */
struct synth_report {
	int made; /* 0: the output existed already */
	int64_t samples, components, rank, channels, size;
	double deviation;  /* standard deviation of a component's first direction */
	double separation; /* distance of the means of two components */
	double noise;
	int64_t glyphs, characters, faces;   /* SYNTH_GLYPHS: in the law */
	int64_t missing, blank, repetitions; /* as in struct glyph_set */
};

/* The options that fill a request on a command line, and its defaults. */
extern const struct option synth_options[];
struct synth_request synth_defaults(void);

/* The command of this name. ERR_USAGE lists the commands. */
int synth_command_parse(enum synth_command *command, const char *name, struct err *e);

/* Make the output, unless it exists already and was made from the same request. ERR_AGAIN if *stop (may be NULL) became non-zero; ERR_EXISTS:
 * something else has the name; ERR_USAGE: no law is as requested; ERR_DATA, ERR_NOINPUT: the folder holds no law to draw from. */
int synth_run(const struct synth_request *r, struct pool *pool, volatile sig_atomic_t *stop, struct synth_report *report, struct err *e);

#endif
