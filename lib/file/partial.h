/* An output that may be gone on with: what a writer that was killed, or called off, had written is kept, and the same command
 * continues after it. Beside NAME lie ".NAME.part", the bytes, and ".NAME.part.json", how many of them count, their hash, and how
 * far the work had come.
 *
 *     struct partial p;
 *     int on = partial_open(&p, path, same, from, &e);          1: p.mark says where to go on
 *     ... outfile_write(&p.out, ...) ... partial_save(&p, mark, &e) ... partial_commit(&p, &e)
 *     partial_close(&p, keep);
 */
#ifndef DDM_FILE_PARTIAL_H
#define DDM_FILE_PARTIAL_H

#include <jansson.h>
#include <stdint.h>

#include "core/err.h"
#include "file/commit.h"

enum { PARTIAL_MARKS = 4 };
enum { PARTIAL_OTHER = 1, PARTIAL_DAMAGED }; /* of another `same`; or its bytes are not those that were saved */

struct partial {
	struct outfile out;          /* write here */
	int64_t mark[PARTIAL_MARKS]; /* how far the work had come at the last partial_save; 0 at a start */
	json_t *facts;               /* whatever else is needed to go on: set it before partial_save; owned; NULL: nothing */
	int dropped;                 /* there was something that could not be gone on with: one of PARTIAL_ */
	char *state, *same;          /* private, as all that follows; NULL: nothing is kept */
	int64_t from, hashed;
	struct XXH3_state_s *hash;
	double saved, cost;
};

/* `same` (a copy is taken) names all that the bytes depend on: what another work left is dropped. NULL, "-" and devices: nothing is
 * kept. The first `from` bytes may be written again later and do not count for the hash. 1 where the work goes on, the file at the
 * end of what counts; 0 at a start; -1, and ERR_EXISTS when another process is writing it. */
int partial_open(struct partial *p, const char *path, const char *same, int64_t from, struct err *e);

/* All bytes so far count, with mark[PARTIAL_MARKS], the first of which is not 0. Done now and then only, so that it takes a twentieth
 * of the time at most. */
int partial_save(struct partial *p, const int64_t *mark, struct err *e);

/* Whether a partial_save now would be done. */
int partial_is_due(const struct partial *p);

/* Drop what there is and begin anew: for who finds that he cannot go on after all. */
int partial_restart(struct partial *p, struct err *e);

/* 1 when a process that ends now leaves something to go on with. */
int partial_is_kept(const struct partial *p);

/* outfile_commit. */
int partial_commit(struct partial *p, struct err *e);

/* Frees everything. Without a commit: what was saved stays with `keep`, else it is removed. */
void partial_close(struct partial *p, int keep);

/* Remove what a process left that died between its commit and its tidying up. */
void partial_tidy(const char *path);

#endif
