/* From the jobs of ddm-ingest to its tar: what the options say, the run, and what became of it. */
#ifndef DDM_CMD_INGEST_RUN_H
#define DDM_CMD_INGEST_RUN_H

#include "cmd/ingest.h"
#include "core/clock.h"
#include "core/option.h"
#include "core/pool.h"
#include "file/stamp.h"

struct ingest_request {
	int64_t size;       /* side of the pictures; 0: as they are */
	int resize, dedup;  /* numbers in the lists of ingest_options */
	double fps;         /* frames a second of a video; 0: all */
	int64_t frames;     /* most of a video or of an instance of a graph; 0: all, ingest_graph_frames */
	int64_t seeds, max; /* instances of a graph; samples in all, 0: no limit */
	uint64_t seed;      /* of the first instance */
	int classes, duplicates, skip_bad, nul_list, bare, quiet;
	int64_t max_errors; /* negative: no limit */
	double timeout;     /* seconds; 0: never */
	uint64_t memory;    /* bytes; 0: no limit */
	int64_t max_pixels, threads;
	const char *out; /* "-": standard output */
};

/* The options that fill a request, and its defaults. */
extern const struct option ingest_options[];
struct ingest_request ingest_defaults(void);

/* Frames of an instance of a graph. */
int64_t ingest_graph_frames(const struct ingest_request *r);
/* The options of decoding; the run sets `budget` and `stop`. */
struct work_options ingest_work(const struct ingest_request *r);

/* Caller frees with stamp_free. names: of the classes, or NULL; takes the reference. */
struct stamp *ingest_stamp(const struct ingest_request *r, const struct job_list *l, json_t *names);

enum { INGEST_NAMED = 3 }; /* identical pictures that are named */

/* Counts for the summary. Zero-initialise; release with str_release(&identicals). */
struct ingest_report {
	int64_t samples, skipped;
	int64_t duplicates;    /* frames equal to an earlier one, which are left out */
	int64_t identical;     /* pictures with the pixels of an earlier one */
	struct str identicals; /* the first INGEST_NAMED, "b = a, ..." */
};

/* Writes the samples of all jobs and tars to r->out. ERR_EXISTS: something else stands under the name; ERR_DATA: a bad source without skip_bad,
 * no sample at all; ERR_AGAIN: interrupted. */
int ingest_run(const struct ingest_request *r, const struct job_list *l, struct pool *pool, struct ingest_report *report, struct err *e);

#endif
