/* The output of a command as an input: "pipe:COMMAND", the convention of WebDataset. */
#ifndef DDM_FILE_COMMAND_H
#define DDM_FILE_COMMAND_H

#include <stddef.h>
#include <sys/types.h>

#include "core/err.h"

/* Start "/bin/sh -c TEXT" in a process group of its own, whose number becomes *pid. It reads from the descriptor `in` (-1: nothing) and writes to
 * `out`; signals have their defaults. Returns 0, or an errno. */
int command_spawn(pid_t *pid, const char *text, int in, int out);

struct command;

/* Start "/bin/sh -c COMMAND". `path` is "pipe:COMMAND". Standard input of the command is empty, and its standard error that of this process. It
 * has a process group of its own, which command_close ends. ERR_UNAVAILABLE if no process can be started. Free with command_close. */
struct command *command_open(const char *path, struct err *e);

/* Read n bytes of its standard output; *got is smaller only at the end. At the end the command must have exited with status 0: otherwise ERR_IO,
 * which names the command and the status. ERR_AGAIN after a signal (core/interrupt.h). */
int command_read(struct command *c, void *p, size_t n, size_t *got, struct err *e);

/* Free c. A command that still runs is sent SIGTERM, and SIGKILL two seconds later. NULL is allowed. */
void command_close(struct command *c);

#endif
