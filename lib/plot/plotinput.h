/* Resolves the sources of a chart: [LABEL=]FILE, or a model folder, which stands for the logs in it. */
#ifndef DDM_PLOT_PLOTINPUT_H
#define DDM_PLOT_PLOTINPUT_H

#include "core/err.h"

/* What a folder stands for: nothing, the logs of its experts, or the log of its router. */
enum plot_folder { FOLDER_NONE, FOLDER_EXPERTS, FOLDER_ROUTER };

/* A zeroed input is empty. */
struct plot_input {
	char **path, **label; /* (n) owned */
	char (*hash)[65];     /* (n) SHA-256 of each file, filled by the reader of the files */
	int n;
};

/* Resolve n sources. A folder with a train.jsonl stands for that log; otherwise for the model's expert_K/train.jsonl in the order of K, or its
 * router/train.jsonl. A source without a label gets a distinct one from its path. ERR_USAGE: a source names no file; ERR_NOINPUT: a folder has no
 * log. Call plot_input_release in any case. */
int plot_input_init(struct plot_input *in, const char *const *source, int n, enum plot_folder folder, struct err *e);
void plot_input_release(struct plot_input *in);

#endif
