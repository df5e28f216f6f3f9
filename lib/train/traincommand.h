/* The command that trains a network again: the inverse of the stamp of a training. */
#ifndef DDM_TRAIN_TRAINCOMMAND_H
#define DDM_TRAIN_TRAINCOMMAND_H

#include <jansson.h>

#include "core/err.h"
#include "core/str.h"

/* The files and folders of the new run. A stamp holds hashes, not paths. NULL: unknown. */
struct traincommand_paths {
	const char *shards, *out;
	const char *init; /* --init-weights */
	const char *from; /* --pretrained, or --from of a router */
	const char *experts;
	const char *pictures; /* --pictures */
};

/* The words of the command, a list of strings that begins with the program, for the run with this stamp ("training" in config.json). Every option
 * that determines the result is given, defaults too. Where a path is unknown, its word names what is missing, in capital letters. Caller
 * json_decref()s. NULL and ERR_DATA for a stamp that is not of a training. */
json_t *traincommand_words(const json_t *stamp, const struct traincommand_paths *paths, struct err *e);

/* Compare the run of a command with the stamp: the number of differences besides the version and the samples of one input, "shards" or "pictures",
 * which are appended to *what as by stamp_differs. A run that was extended counts as one that was begun with its last length. Reads the shards and
 * the files that the command names; -1 if that fails. */
int traincommand_differs(const json_t *words, const json_t *stamp, const char *input, struct str *what, struct err *e);

#endif
