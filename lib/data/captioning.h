/* Gives samples captions, for ddm-caption: from a column of theirs, or from a command that looks at them. */
#ifndef DDM_DATA_CAPTIONING_H
#define DDM_DATA_CAPTIONING_H

#include <stdint.h>

#include "core/clock.h"
#include "core/err.h"
#include "core/option.h"
#include "file/commit.h"

struct captioning;

struct caption_request {
	const char *const *sources; /* (nsources) as for samples_open */
	int nsources;
	const char *command; /* one of these two: a command, which `run` runs; or a column (data/samplecolumns.h) */
	const char *column;
	struct option_list with; /* tables whose columns are joined by key */
	int missing;             /* only samples without a caption get one */
	const char *out;         /* a tar; "-": standard output */
	int skip_bad, nul_list;  /* this and the next two as in struct samples_options */
	int64_t max_errors;
	const char *spool;
	const struct progress *progress; /* may be NULL */

	/* Runs request.command: writes its input by captioning_feed, and gives each line of its output to captioning_take. Needed for a command. */
	int (*run)(void *arg, const struct caption_request *r, struct captioning *w, struct err *e);
	void (*bad)(void *arg, const char *why); /* reports a skipped sample; may be NULL */
	void *arg;
};

/* The option table that fills a request (core/option.h), and the defaults. */
extern const struct option caption_options[];
struct caption_request caption_defaults(void);

struct caption_report {
	int there;                        /* 1: the output was there already; the numbers are 0 */
	int64_t samples, skipped;         /* written; damaged */
	int64_t captioned, kept, without; /* got a caption; keep the one they had; have none */
};

/* Make the tar: the samples in their order with all members, the captions as .txt. ERR_USAGE: not one of command and column, or no sample has the
 * column; ERR_DATA: a damaged sample or table, or lines of the command that cannot be captions; ERR_EXISTS: the output exists and came from another
 * request; ERR_SKIPPED: more than max_errors samples were skipped; ERR_AGAIN: `progress` said stop. */
int caption_make(const struct caption_request *r, struct caption_report *report, struct err *e);

/* For `run`: write the samples that want a caption as a tar. */
int captioning_feed(struct captioning *w, struct outfile *to, struct err *e);
/* The same, in this or one other thread: take the caption of the next of these samples, n bytes; none if n is 0. ERR_DATA: one too many. */
int captioning_take(struct captioning *w, const char *text, size_t n, struct err *e);

#endif
