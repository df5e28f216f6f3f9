/* The parts of a page about one run of share/recipes/ddm.mk. Each adds its section, or nothing where its files are not there. */
#ifndef DDM_CMD_RUNPAGE_H
#define DDM_CMD_RUNPAGE_H

#include "cmd/page.h"
#include "file/manifest.h"
#include "file/tsv.h"

struct runpage {
	struct page page;
	const char *dir, *partition; /* where shards and clusters lie */
	char **tables;               /* (ntables) report.tsv of this run, then of others like it */
	int ntables;
	struct tsv *report;       /* the first */
	const char *compare;      /* table of ddm-compare over all of them and more, or NULL */
	struct manifest manifest; /* rows NULL: none */
	struct runlog *log;       /* (logs) */
	int logs;
	int model;            /* dir is that of a model, with logs and nothing else */
	const char *settings; /* text of a Makefile, or NULL */
};

/* A log of training, DIR/GROUP/NAME/train.jsonl. */
struct runlog {
	char *path, *group, *name;                       /* "model", "expert_0" */
	double parameters, steps, batch, samples, gflop; /* of its last start; gflop of one picture, forward and backward */
	int router;
};

/* Finds and reads what there is; partition NULL: dir[0]. Without a report.tsv, dir may be a model's folder. */
int runpage_open(struct runpage *r, char *const *dir, int n, const char *partition, struct err *e);
void runpage_release(struct runpage *r);

void runpage_model(struct runpage *r); /* in place of the summary */
/* What the page calls the network of a log. Caller frees with mem_free. */
char *runpage_log_name(const struct runpage *r, const struct runlog *l);

int runpage_summary(struct runpage *r, struct err *e);
int runpage_results(struct runpage *r, struct err *e);
int runpage_pictures(struct runpage *r, struct err *e);
int runpage_training(struct runpage *r, struct err *e);
int runpage_routing(struct runpage *r, struct err *e);
int runpage_data(struct runpage *r, struct err *e);
int runpage_again(struct runpage *r, struct err *e);

#endif
