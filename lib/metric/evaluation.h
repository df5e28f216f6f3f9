/* Evaluates samples against a reference set of pictures, for ddm-eval-fid: turns a request into a line of JSON. */
#ifndef DDM_METRIC_EVALUATION_H
#define DDM_METRIC_EVALUATION_H

#include <jansson.h>
#include <stdint.h>

#include "core/clock.h"
#include "core/err.h"
#include "core/option.h"
#include "core/pool.h"
#include "kernels/device.h"

struct eval_seed {
	uint64_t value;
	int given; /* 0: value is the default: 0, or 2020 with the protocol torch-fidelity */
};

/* The request; ddm-eval-fid(1) describes each member. Strings are borrowed until evaluation_free. */
struct eval_request {
	const char *reference, *samples; /* sets for evalset_read (metric/evalread.h); one of the four may be "-", standard input */
	const char *heldout, *train;     /* two more, or NULL */

	const char *features; /* for extractor_open (metric/extractor.h) */
	int input;            /* index in netinput_names (metric/netinput.h); -1: the network's usual one */
	int weights;          /* enum compact_type: storage of the network's matrices, one of encoder_weights */
	int map;              /* 1: f32 matrices stay in their file, memory-mapped */

	const char *metrics;          /* a list for metrics_parse (metric/evalmetrics.h); NULL: the default metrics of the features */
	int protocol;                 /* enum protocol */
	int64_t size;                 /* resize the centre square to size x size; 0: no resizing */
	int filter;                   /* enum resize_filter for it */
	int axes, draws;              /* of the Frechet distance: see struct evalreport */
	int64_t subsets, subset_size; /* of the kernel distance; subsets 0: all pairs */
	struct eval_seed seed;
	const char *logits;    /* .npy of class logits for the metric is, or NULL */
	const char *captions;  /* .npy for clip; NULL: the samples' own captions if the features are clip:PATH */
	const char *aesthetic; /* weights of the predictor for aesthetic, or NULL */
	const char *lpips;     /* folder of LPIPS for lpips and diversity, or NULL */
	const char *i3d;       /* weights of I3D for fvd, or NULL */
	int groups;            /* enum perceptual_group (metric/perceptual.h) for diversity */

	int null_test;         /* of clips: alter clips of the reference to see what the metrics measure */
	int ignore_recipe;     /* compare sets although their recipes differ */
	int cache;             /* cache the features beside their set */
	const char *cache_dir; /* cache them in this folder instead, or NULL */
	const char *stats_out; /* .npz for the reference's statistics and features, or NULL */
	const char *out;       /* file for the line; "-": standard output; NULL: not written, see evaluation_line */
	int skip_bad;          /* skip unreadable pictures */
	int64_t max_errors;    /* ERR_SKIPPED if more were skipped; negative: no limit */
	const char *spool;     /* folder for the copy of standard input, or NULL */
};

/* The option table that fills a request (core/option.h), except the two sets; and the defaults. */
extern const struct option eval_options[];
struct eval_request eval_defaults(void);

struct eval_hooks {
	void (*warn)(void *arg, const char *line); /* skipped pictures, and warnings about the numbers; may be NULL */
	void *arg;
	struct progress progress; /* non-zero: stop with ERR_AGAIN */
};

struct evaluation;

/* Check the request and claim its outputs. *q and *hooks (may be NULL) are copied. ERR_USAGE if options contradict each other; ERR_EXISTS if another
 * process writes an output, or stats_out holds something else. NULL on failure. */
struct evaluation *evaluation_new(const struct eval_request *q, const struct eval_hooks *hooks, struct err *e);
int evaluation_needs_device(const struct evaluation *v); /* 1: a network will run, and evaluation_run needs a device */

/* Read the sets, compute the metrics and write the outputs, each of which appears whole or not at all. Call it once. pool and device are borrowed;
 * pool may be NULL (serial), device may be NULL if none is needed. ERR_USAGE: sets too small, or a metric lacks an input; ERR_DATA: a damaged source,
 * or sets that cannot be compared; ERR_EXISTS: `out` holds a different line; ERR_SKIPPED: see max_errors; ERR_AGAIN: the progress said stop. */
int evaluation_run(struct evaluation *v, struct pool *pool, struct device *device, struct err *e);

/* The metrics and the recipe, under the keys that ddm-eval-fid(1) lists ("kd-pix", "recipe"). Borrowed; complete after evaluation_run returned 0. */
const json_t *evaluation_line(const struct evaluation *v);

void evaluation_free(struct evaluation *v); /* NULL is allowed; call it before the device is freed */

#endif
