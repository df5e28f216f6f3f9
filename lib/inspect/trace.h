/* The trace of one training step: a hash of every array that a node of the tape reads or writes, in the order of the nodes, and of every parameter
 * after the step. Two machines each write one (ddm-audit --trace); comparing them names the first node that computes something else.
 *
 * The file is text, a record a line, fields separated by tabs:
 *     ddm-trace  1  STEP
 *     node       OP  IN  ..  OUT  ..     for each array: in|out NAME SHAPE HASH, separated by spaces; NAME is that of a parameter, or -
 *     after      ARENA  PARAMETER  HASH  eight digits, as the chain has them */
#ifndef DDM_INSPECT_TRACE_H
#define DDM_INSPECT_TRACE_H

#include <jansson.h>
#include <stdint.h>

#include "core/err.h"
#include "core/str.h"
#include "tape/tape.h"

/* A trace that is being made. Zeroed, then trace_begin; release with str_release(&t->text). */
struct trace {
	struct str text;
	int nodes;
};

void trace_begin(struct trace *t, int64_t step);
/* Before and after a node runs, as tape_watch calls it. */
void trace_node(struct trace *t, const struct tape_event *v);
/* After the step: the hashes of a line of the chain; run: the line that says what the run is. */
void trace_after(struct trace *t, const json_t *run, const json_t *line);

/* What two traces have in common, or the first thing that differs, as a sentence in *what. 0: nothing differs; 1: something; -1: a file is no trace,
 * or the traces are of different steps. */
int trace_compare(const char *a, const char *b, struct str *what, struct err *e);

#endif
