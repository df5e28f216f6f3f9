/* The request of ddm-ingest (its options), the run that writes the tar, and the report of the run. */
#ifndef DDM_CMD_INGEST_RUN_H
#define DDM_CMD_INGEST_RUN_H

#include "cmd/ingest.h"
#include "core/clock.h"
#include "core/option.h"
#include "core/pool.h"
#include "file/stamp.h"

struct ingest_request {
	int64_t size; /* side of the square pictures; 0: not resized, or to a bucket */
	struct buckets buckets;
	int resize, dedup; /* indices into the choices of ingest_options */
	double fps;        /* frames per second taken from a video; 0: all */
	int64_t clips;     /* frames of a clip; 0: no clips */
	int64_t stride;    /* from the beginning of a clip to that of the next, in frames of clips; 0: as long as a clip */
	struct scene_rule scene;
	const char *transnet; /* weights for the detector SCENES_TRANSNET; else NULL */
	const char *features; /* the network whose embeddings `aesthetic` rates; NULL: none */
	const char *aesthetic;
	const char *text; /* a detector of text (data/textarea.h), for scores; else NULL */
	int crop;         /* index into the choices of --crop */
	int grey;         /* 1: clips of one channel */
	struct sound_options sound;
	int scores;
	int64_t frames; /* most frames of a video or an instance of a graph; 0: all of a video, 30 of an instance */
	struct job_share share;
	int64_t seeds, max; /* seeds: instances of a graph; max: samples in all, 0: no limit */
	uint64_t seed;      /* seed of the first instance */
	int classes, duplicates, skip_bad, nul_list, bare, quiet;
	int64_t max_errors; /* most skipped sources before ERR_SKIPPED; negative: no limit */
	double timeout;     /* seconds without a frame after which a decoder is killed; 0: never */
	uint64_t memory;    /* bytes for all pictures and decoders together; 0: no limit */
	int64_t max_pixels, threads;
	const char *out; /* path of the tar; "-": standard output */
};

/* The options that fill a request, and a request with their defaults. */
extern const struct option ingest_options[];
struct ingest_request ingest_defaults(void);

/* Check what no single option can: ERR_USAGE. */
int ingest_check(const struct ingest_request *r, struct err *e);
/* Most frames of an instance of a graph. */
int64_t ingest_graph_frames(const struct ingest_request *r);
/* The options of decoding that a request implies, without `budget`, `stop`, `nets` and `clip.net`, which ingest_run sets. */
struct work_options ingest_work(const struct ingest_request *r);

/* SHA-256 of the networks that are used; "": none. */
struct ingest_nets {
	char transnet[65], text[65], features[65], aesthetic[65];
};

/* The stamp of the tar. names: list of class names, or NULL; its reference is taken over. NULL if a source
 * needs the decoder and its versions cannot be asked. Caller frees with stamp_free. */
struct stamp *ingest_stamp(const struct ingest_request *r, const struct ingest_nets *nets, const struct job_list *l, json_t *names, struct err *e);

enum { INGEST_NAMED = 3 }; /* most pairs of identical pictures named in the report */

/* Counts for the summary. Zero-initialise; release with str_release(&identicals). */
struct ingest_report {
	int64_t samples, skipped; /* samples written; bad sources skipped */
	int64_t duplicates;       /* frames left out because they equal an earlier one */
	struct clip_tally shots;  /* of all videos and graphs */
	int64_t without;          /* videos and jobs of graphs that gave no clip */
	int64_t identical;        /* pictures with the same pixels as an earlier one */
	struct str identicals;    /* the keys of the first INGEST_NAMED pairs, "b = a, ..." */
};

/* Write the samples of all jobs and tars to r->out, or of those that belong to r->share, and leave the others out of *l. ERR_EXISTS: another file has
 * that name; ERR_DATA: a bad source without skip_bad, or no sample at all, unless no source belongs to r->share; ERR_AGAIN: interrupted. */
int ingest_run(const struct ingest_request *r, struct job_list *l, struct pool *pool, struct ingest_report *report, struct err *e);

#endif
