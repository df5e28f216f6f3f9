/* What the parts of an audit share (inspect/audit.h). Private to lib/inspect. */
#ifndef DDM_INSPECT_AUDITIMPL_H
#define DDM_INSPECT_AUDITIMPL_H

#include <jansson.h>

#include "inspect/audit.h"

/* A line of a chain. */
struct chain_line {
	const char *text; /* `len` bytes, without the newline */
	size_t len;
	char hash[65];
	json_t *o;
	int64_t step;
	int describes; /* 1: it says what the run is; 0: a state */
};

struct chain_file {
	char *path, *text;
	struct chain_line *v;
	int n, torn; /* torn: bytes of an unfinished line follow, as a killed or running trainer leaves them */
};

struct audit {
	const struct audit_options *o;
	struct chain_file chain;
	struct err *e; /* the first reason why the run is not proven */
};

/* Read a chain and check that it is one: each line whole, in order, with the hash of the line before. ERR_DATA names the line. Release in any
 * case. */
int chain_file_load(struct chain_file *c, const char *path, struct err *e);
void chain_file_release(struct chain_file *c);
/* The line that says what the run is at line i; the line of this hash, or -1; the state after `step`, or -1. */
const json_t *chain_file_run(const struct chain_file *c, int i);
int chain_file_find(const struct chain_file *c, const char *hash);
int chain_file_state(const struct chain_file *c, int64_t step);
/* The stamp in such a line, as text. Caller frees with mem_free. */
char *chain_stamp(const json_t *run);
/* The parameters in the arena of a file: their names, borrowed from `run`. Caller frees *names with mem_free. */
int chain_names(const json_t *run, const char *file, const char ***names);
/* Whether a file of the run is what a state says; ERR_DATA names the first parameter that differs. `as`: the name under which the state has it. */
int chain_check_file(const json_t *run, const json_t *state, const char *as, const char *path, struct err *e);
/* The first parameter whose brief hashes in two such objects differ, and in *count their number; NULL: none. */
const char *chain_first_differing(const json_t *run, const char *file, const json_t *a, const json_t *b, int *count);

/* Tell the result of a check; a failure is the reason e. */
void audit_tell(struct audit *a, const char *check, const char *result, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
int audit_replay(struct audit *a, struct err *e);

#endif
