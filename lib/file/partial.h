/* An output that can be resumed. What a killed or interrupted writer has written is kept, and the same command continues after it. ".NAME.part"
 * holds the bytes; ".NAME.part.json" holds how many of them are valid, their hash, and how far the work had come.
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
enum { PARTIAL_OTHER = 1, PARTIAL_DAMAGED }; /* why old bytes were dropped: their `same` differs; they were altered */

struct partial {
	struct outfile out;          /* write here */
	int64_t mark[PARTIAL_MARKS]; /* how far the work had come at the last partial_save; 0 at a start */
	json_t *facts;               /* whatever else is needed to go on: set it before partial_save; owned; NULL: nothing */
	int dropped;                 /* 0, or why old bytes could not be resumed from: PARTIAL_ */
	char *state, *same;          /* private, as all that follows; NULL: nothing is kept */
	int64_t from, hashed;
	struct XXH3_state_s *hash;
	double saved, cost;
};

/* `same` (copied) names everything that the bytes depend on; bytes left with another `same` are dropped. If it is NULL, or path is "-" or a
 * device, nothing is kept. The first `from` bytes may be rewritten later and are left out of the hash. Returns 1 if the work resumes, with the
 * file positioned after the valid bytes; 0 if it starts anew; -1 on error (ERR_EXISTS if another process is writing it). */
int partial_open(struct partial *p, const char *path, const char *same, int64_t from, struct err *e);

/* Record that all bytes so far are valid, with mark[PARTIAL_MARKS], whose first element is not 0. Most calls do nothing, so that saving takes at
 * most a twentieth of the time. */
int partial_save(struct partial *p, const int64_t *mark, struct err *e);

/* Whether a partial_save now would be done. */
int partial_is_due(const struct partial *p);

/* Drop the bytes and start anew, if the caller finds that it cannot resume. */
int partial_restart(struct partial *p, struct err *e);

/* 1 if the next process could resume, were this one to end now. */
int partial_is_kept(const struct partial *p);

/* outfile_commit. */
int partial_commit(struct partial *p, struct err *e);

/* Free everything. Without a commit the saved bytes stay if `keep`, else they are removed. */
void partial_close(struct partial *p, int keep);

/* Remove the files of a process that died right after its commit. */
void partial_tidy(const char *path);

#endif
