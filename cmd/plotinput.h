/* For ddm-plot: its operands, [LABEL=]FILE, and the logs that a folder stands for. */
#ifndef DDM_CMD_PLOTINPUT_H
#define DDM_CMD_PLOTINPUT_H

#include <stdint.h>

#include "core/err.h"

/* What a folder stands for: nothing, the logs of the experts in it, or that of its router. */
enum plot_folder { FOLDER_NONE, FOLDER_EXPERTS, FOLDER_ROUTER };

struct input {
	char **path, **label; /* (n) owned */
	char (*hash)[65];     /* (n) */
	int n;
	int64_t absent; /* rows without a value */
};

/* A folder with a train.jsonl is that log; else the model's expert_K/train.jsonl, by number, or its router/train.jsonl. Release in any
 * case. */
int input_init(struct input *in, char **operand, int n, enum plot_folder folder, struct err *e);
void input_release(struct input *in);

#endif
