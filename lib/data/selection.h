/* Selects samples by a condition on their columns, for ddm-select. */
#ifndef DDM_DATA_SELECTION_H
#define DDM_DATA_SELECTION_H

#include <stdint.h>

#include "core/binning.h"
#include "core/clock.h"
#include "core/err.h"
#include "core/option.h"

struct condition;
struct select_report;

struct select_request {
	const char *condition;      /* data/condition.h */
	const char *const *sources; /* (nsources) as for samples_open */
	int nsources;
	struct option_list with;    /* tables whose columns are joined by key (data/samplecolumns.h) */
	int table, list;            /* write a table of key and columns, or the keys, in place of a tar */
	const char *columns;        /* NULL, or further columns of the table, with commas between */
	const char *out;            /* "-": standard output */
	const char *report, *chart; /* a JSON file; the file that `draw` writes; NULL: none */
	int skip_bad, nul_list;     /* this and the next two as in struct samples_options */
	int64_t max_errors;
	const char *spool;
	const struct progress *progress; /* may be NULL */

	/* Writes the chart with this stamp, a line of JSON; needed if `chart` is not NULL. */
	int (*draw)(void *arg, const struct select_report *report, const char *stamp, struct err *e);
	void (*bad)(void *arg, const char *why); /* reports a skipped sample; may be NULL */
	void *arg;
};

/* The option table that fills a request (core/option.h), and the defaults. */
extern const struct option select_options[];
struct select_request select_defaults(void);

/* What a rule, a part of the condition that && joins at the top, did. */
struct select_rule {
	const char *text;
	int64_t alone;        /* samples for which it is false */
	int64_t in_order;     /* those of them for which all earlier rules are true */
	int64_t only;         /* those of them for which all other rules are true */
	int64_t undefined;    /* comparisons with a result that is not finite */
	const char *measured; /* the value that the bins count; NULL: the rule has none */
	int has_limit;        /* the rule compares it with `limit` */
	double limit;
	struct binning bins; /* kind 1: of kept samples; kind 0: of the others */
};

struct select_column {
	const char *name;
	int64_t lacking; /* samples in which a comparison needed it and found no value, or no number */
};

/* The result. Free with select_report_release. */
struct select_report {
	int made;   /* 1: every output is written; 0: they were there already, or an error occurred */
	int there;  /* 1: they were there already */
	int judged; /* 1: all samples were read, and the numbers below are of all of them */
	int64_t samples, kept, skipped;
	struct select_rule *rule;     /* [rules] */
	struct select_column *column; /* [columns] */
	int rules, columns;
	struct condition *condition; /* private: owns the texts */
};

/* Select the samples and write the outputs. The samples keep their order and their members. One sample at a time is in memory. ERR_USAGE: the
 * condition is malformed, or needs a column that no sample has; ERR_DATA: a sample or a table is damaged, or no sample is left for a tar (the report
 * and the chart are written); ERR_EXISTS: an output exists and came from another request; ERR_SKIPPED: more than max_errors samples were skipped, but
 * all outputs are complete without them; ERR_AGAIN: `progress` said stop. Call select_report_release in any case. */
int select_make(const struct select_request *r, struct select_report *report, struct err *e);
void select_report_release(struct select_report *report);

#endif
