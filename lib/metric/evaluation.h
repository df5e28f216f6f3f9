/* Evaluates samples against a reference set of pictures, as ddm-eval-fid does: from a request to a line of JSON. */
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
	int given; /* 0: the default, 0; with the protocol torch-fidelity 2020 */
};

/* What is asked for: ddm-eval-fid(1) describes each. Strings are borrowed until evaluation_free. */
struct eval_request {
	const char *reference, *samples; /* sets as evalset_read (metric/evalread.h) takes them; one of the four may be "-", standard input */
	const char *heldout, *train;     /* two more, or NULL */

	const char *features; /* as extractor_open (metric/extractor.h) takes it */
	int input;            /* into netinput_names (metric/netinput.h); -1: as is usual for the network */
	int weights;          /* enum compact_type of the network's matrices, of encoder_weights */
	int map;              /* those of f32 stay in their file */

	const char *metrics;          /* a list as metrics_parse (metric/evalmetrics.h) takes it; NULL: those that are usual for the features */
	int protocol;                 /* enum protocol */
	int64_t size;                 /* pictures become the centre square of size x size; 0: as they are */
	int filter;                   /* enum resize_filter of that */
	int axes, draws;              /* of the Frechet distance, as struct evalreport has them */
	int64_t subsets, subset_size; /* of the kernel distance; subsets 0: all pairs */
	struct eval_seed seed;
	const char *logits;    /* .npy for the metric is, or NULL */
	const char *captions;  /* .npy for clip; NULL: the samples' own captions, where the features are clip:PATH */
	const char *aesthetic; /* weights of the predictor for aesthetic, or NULL */
	const char *lpips;     /* folder of LPIPS for lpips and diversity, or NULL */
	int groups;            /* enum perceptual_group (metric/perceptual.h) for diversity */

	int ignore_recipe;     /* compare sets that were not made alike */
	int cache;             /* keep and reuse features beside their set */
	const char *cache_dir; /* the same in this folder, or NULL */
	const char *stats_out; /* .npz for the reference's statistics and features, or NULL */
	const char *out;       /* file for the line; "-": standard output; NULL: none, see evaluation_line */
	int skip_bad;          /* pass over unreadable pictures */
	int64_t max_errors;    /* ERR_SKIPPED when more were passed over; negative: no limit */
	const char *spool;     /* folder for the copy of standard input, or NULL */
};

/* The table that fills a request (core/option.h) but for the two sets; and its defaults. */
extern const struct option eval_options[];
struct eval_request eval_defaults(void);

struct eval_hooks {
	void (*warn)(void *arg, const char *line); /* pictures passed over, what numbers do not mean; NULL: not told */
	void *arg;
	struct progress progress; /* non-zero: stop with ERR_AGAIN */
};

struct evaluation;

/* Checks the request and claims its outputs. *q and *hooks (may be NULL) are copied. ERR_USAGE where the request contradicts itself; ERR_EXISTS
 * where another process writes an output, or stats_out holds something else. NULL on failure. */
struct evaluation *evaluation_new(const struct eval_request *q, const struct eval_hooks *hooks, struct err *e);
int evaluation_needs_device(const struct evaluation *v); /* 1: a network will run */

/* Reads the sets, computes the metrics and writes the outputs, each of which appears whole or not at all. pool and device are borrowed; pool may
 * be NULL (serial), device NULL where none is needed. ERR_USAGE: sets too small, or a metric without what it needs; ERR_DATA: a damaged source, sets
 * that cannot be compared; ERR_EXISTS: another line stands in `out`; ERR_SKIPPED: see max_errors; ERR_AGAIN: the progress said stop. Once only. */
int evaluation_run(struct evaluation *v, struct pool *pool, struct device *device, struct err *e);

/* The numbers and how they were made, by the keys that ddm-eval-fid(1) lists ("kd-pix", "recipe"). Borrowed; complete after evaluation_run returned
 * 0. */
const json_t *evaluation_line(const struct evaluation *v);

void evaluation_free(struct evaluation *v); /* NULL is allowed; before the device's */

#endif
