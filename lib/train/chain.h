/* The hash chain of a training, OUT/train/chain.jsonl: what the run was at its steps, so that ddm-audit can prove it later (inspect/audit.h).
 *
 * A line is an object. Its "prev" is the SHA-256 of the line before, without the newline, so that no earlier line can change unnoticed. The
 * lines hold nothing but what follows from the options, the data, the build and the processor: a run that is interrupted, or that shares its work
 * among other threads or ranks, writes the same bytes. ddm-formats(5) lists the members. */
#ifndef DDM_TRAIN_CHAIN_H
#define DDM_TRAIN_CHAIN_H

#include <jansson.h>
#include <stdint.h>

#include "core/err.h"
#include "core/str.h"

#define CHAIN_NAME "chain.jsonl"

enum {
	CHAIN_FORMAT = 1,
	CHAIN_BRIEF = 8,     /* hexadecimal digits of a step, or of a parameter: enough to find a difference that the full hashes prove */
	CHAIN_MOST = 1 << 30 /* bytes of a chain that is read */
};

/* A chain that is being written, and what its next line will say. */
struct chain {
	int fd;        /* -1: no chain is kept */
	char last[65]; /* hash of the last line */
	char keys[65]; /* of the keys of the samples since that line */
	double loss_sum;
	int64_t loss_count;
	struct str steps;     /* CHAIN_BRIEF digits for each step since that line */
	struct str unwritten; /* the last lines, which are not in the file because the disk was full */
};

/* The hash before the first line, and of no keys. */
extern const char chain_zero[65];

/* Begin a chain in place of any file at path. -1 if it cannot be written. */
int chain_create(struct chain *c, const char *path, struct err *e);
/* Go on from where chain_place said: later lines are cut off. 1 if the file is not there or has no such line; then *c is closed. */
int chain_reopen(struct chain *c, const char *path, const char *place, struct err *e);
void chain_close(struct chain *c);

/* Add a line; takes over o, to which "prev" and a seal are added. What was collected since the line before is then forgotten. chain_flush writes
 * it to the file. Returns the line, without newline, for the caller to free with mem_free. */
char *chain_add(struct chain *c, json_t *o);
/* Write the lines that are not in the file yet: all of them, or on failure none. They are kept then, for the next call to write. */
int chain_flush(struct chain *c, struct err *e);

/* Collect the n keys of a batch, in order; and the numbers of a finished step, of which loss and norm count only if they are finite. */
void chain_batch(struct chain *c, int64_t n, const char *(*key)(void *arg, int64_t i), void *arg);
void chain_step(struct chain *c, double loss, double norm, int finite);

/* Make the lines written so far durable: a checkpoint is about to refer to them. */
int chain_sync(struct chain *c, struct err *e);
/* Where the chain stands: one line of JSON, which a checkpoint holds. Caller frees with mem_free. */
char *chain_place(const struct chain *c);
/* The hash of the last line in such a text; "" if it is NULL or damaged. */
void chain_line_of(const char *place, char line[65]);

#endif
