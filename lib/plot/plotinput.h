/* The sources of a chart: [LABEL=]FILE, or a model folder, which stands for its logs. */
#ifndef DDM_PLOT_PLOTINPUT_H
#define DDM_PLOT_PLOTINPUT_H

#include "core/err.h"

/* What a folder stands for: nothing, the logs of the experts in it, or that of its router. */
enum plot_folder { FOLDER_NONE, FOLDER_EXPERTS, FOLDER_ROUTER };

/* Zero-initialised is no input. */
struct plot_input {
	char **path, **label; /* (n) owned */
	char (*hash)[65];     /* (n) for who reads the files to fill */
	int n;
};

/* A folder with a train.jsonl is that log; else the model's expert_K/train.jsonl, by number, or its router/train.jsonl. A source without a label
 * gets one that tells it from the others. ERR_USAGE: a source names no file; ERR_NOINPUT: no log in a folder. Release in any case. */
int plot_input_init(struct plot_input *in, const char *const *source, int n, enum plot_folder folder, struct err *e);
void plot_input_release(struct plot_input *in);

#endif
