/* Runs the command of ddm-caption. */
#ifndef DDM_CMD_CAPTIONCOMMAND_H
#define DDM_CMD_CAPTIONCOMMAND_H

#include "data/captioning.h"

/* The hook `run` of a caption request: /bin/sh runs the command, which reads the tar on standard input and writes lines to standard output; its
 * standard error is that of the program. Both go on at the same time, so that the command may write as it reads or after it. ERR_FAIL: the command
 * failed or was killed; ERR_DATA: its lines; ERR_UNAVAILABLE: it cannot be started. */
int captioncommand_run(void *arg, const struct caption_request *r, struct captioning *w, struct err *e);

#endif
