/* Writes the sections of the page about one run of share/recipes/ddm.mk. A section leaves out what it has no files for. */
#ifndef DDM_CMD_RUNPAGE_H
#define DDM_CMD_RUNPAGE_H

#include "cmd/page.h"
#include "file/manifest.h"
#include "file/tsv.h"
#include "plot/chart.h"

struct runpage {
	struct page page;
	const char *dir, *partition; /* folder of the run; folder of its shards and clusters. Borrowed */
	char **tables;               /* (ntables) paths of report.tsv: of this run, then of runs with other seeds */
	int ntables;
	struct tsv *report;       /* content of tables[0] */
	const char *compare;      /* path of a table of ddm-compare over several seeds, or NULL */
	struct manifest manifest; /* rows NULL: the run has no shards */
	struct runlog *log;       /* (logs) */
	int logs;
	int model;            /* 1: dir is a model's folder, and its logs are all that is shown */
	const char *settings; /* text of the Makefile that made the run, or NULL */
};

/* A log of training, DIR/GROUP/NAME/train.jsonl. */
struct runlog {
	char *path, *group, *name;                       /* group and name such as "model" and "expert_0" */
	double parameters, steps, batch, samples, gflop; /* from the last start line; gflop per picture, forward and backward */
	int router;                                      /* 1: a router */
};

/* Find and read the files of dir (n), which are the run and runs with other seeds; partition NULL: dir[0]. If dir[0] has no report.tsv but logs of
 * experts, it is read as a model's folder (n must be 1). Release with runpage_release, also after failure. */
int runpage_open(struct runpage *r, char *const *dir, int n, const char *partition, struct err *e);
void runpage_release(struct runpage *r);

/* For a model's folder: the introduction, in place of runpage_summary. */
void runpage_model(struct runpage *r);
/* The name of a log's network on the page. Caller frees with mem_free. */
char *runpage_log_name(const struct runpage *r, const struct runlog *l);
/* The number of experts in a group. A network that is alone in its group (the monolith) is named after the group. */
int runpage_experts(const struct runpage *r, const char *group);
/* Draw c at the size of the page's charts, and add it with the caption. */
int runpage_chart(struct runpage *r, struct chart *c, const char *caption, struct err *e);

/* The sections, in the order of the page. */
int runpage_summary(struct runpage *r, struct err *e);
int runpage_results(struct runpage *r, struct err *e);
int runpage_pictures(struct runpage *r, struct err *e);
int runpage_training(struct runpage *r, struct err *e);
int runpage_routing(struct runpage *r, struct err *e);
int runpage_data(struct runpage *r, struct err *e);
int runpage_again(struct runpage *r, struct err *e);

#endif
